# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between a program and its worker."""


class Error(Exception):
    """Of everything here."""


class UseError(Error):
    """A call that was not to be made now, or with such arguments; the message says which."""


class NoWorkerError(Error):
    """This process was not started by a worker, or Gradus is not installed where it is looked for."""


class VersionError(Error):
    """The worker, or the library, is of another version."""


class MemoryExhaustedError(Error):
    """The system has no such memory."""


class LostError(Error):
    """The worker is gone without a word, in the middle of a job."""
