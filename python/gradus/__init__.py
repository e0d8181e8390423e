# SPDX-License-Identifier: Apache-2.0
"""Gradus from Python: models of your own (Worker, gradus.torch) and the client of a cluster (Client).

A worker program computes losses and gradients beside a Gradus worker; `gradus.torch` does it for PyTorch, `gradus.Worker` for
whatever you can compute with NumPy. `gradus.Client` submits jobs and watches them, with the command `gradus`. Both need Gradus
to be installed: its library libgradus.so.1, or its commands."""

from gradus.client import Client, CommandError
from gradus.errors import (Error, LostError, MemoryExhaustedError, NoWorkerError, UseError,
                           VersionError)
from gradus.worker import (EVALUATION, GRADIENT, JOB, JOB_END, KEYS, Field, Job, Work, Worker,
                           started_by_worker)

__version__ = "0.1.0"
__all__ = ["Client", "CommandError", "EVALUATION", "Error", "Field", "GRADIENT", "JOB", "JOB_END", "Job", "KEYS",
           "LostError", "MemoryExhaustedError", "NoWorkerError", "UseError", "VersionError", "Work", "Worker",
           "started_by_worker"]
