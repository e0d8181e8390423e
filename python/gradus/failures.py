# SPDX-License-Identifier: Apache-2.0
"""What is said of an exception: the lines of the program's own that led to it, and its message.

The status of a job has room for the last TOLD_BYTES of it. Where all of it is more, frames of libraries go first and the middle of a
long message next, and all of it is printed, so that it is in the worker's log."""

import os
import sys
import sysconfig
import traceback
from typing import Iterable

from gradus.errors import Error

TOLD_BYTES = 600  #: of the worker, which keeps as many whole lines from the end
PATH_BYTES, NAME_BYTES, SOURCE_BYTES = 120, 50, 90  # of the frame that has to fit beside the message
PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
LIBRARIES = tuple(os.path.join(path, "") for path in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
INSTALLED = f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}"


def reason(exception: BaseException, most: int = TOLD_BYTES) -> str:
    """An exception with its traceback, without the frames of this package, and without lines that only underline.

    Its last `most` bytes have the innermost frame of the program's own, if there is one, and the message."""
    said = traceback.TracebackException(type(exception), exception, exception.__traceback__)
    without_package(said)
    whole = plain(said.format())
    message = plain(said.format_exception_only())
    if isinstance(exception, Error) and whole == message:
        whole = message = str(exception)
    own = [frame for frame in said.stack if is_own(frame)]
    if size(whole) <= most or (not own and size(message) <= most):
        return whole
    if sys.stderr is not None:
        print(whole, file=sys.stderr, flush=True)
    last = plain(traceback.StackSummary.from_list([shortened(own[-1])]).format()) if own else ""
    message = without_middle(message, most - size(last) - 1)
    frames = plain(traceback.StackSummary.from_list(own[:-1]).format()) if own[:-1] else ""
    head = "Traceback (most recent call last):" if own else ""
    return "\n".join(part for part in (head, frames, last, message) if part)


def without_package(said: traceback.TracebackException) -> None:
    """In the exceptions that it came of, too. Where the package itself failed, the line that did it stays."""
    while True:
        stack = said.stack
        kept = [frame for frame in stack if not in_package(frame)]
        ours = said.exc_type is not None and issubclass(said.exc_type, Error)
        if stack and not ours and in_package(stack[-1]):
            kept.append(stack[-1])
        said.stack = traceback.StackSummary.from_list(kept)
        cause = said.__cause__ or (None if said.__suppress_context__ else said.__context__)
        if cause is None:
            return
        said = cause


def in_package(frame: traceback.FrameSummary) -> bool:
    return os.path.abspath(frame.filename).startswith(PACKAGE)


def is_own(frame: traceback.FrameSummary) -> bool:
    """Whether the program's author wrote it: no module of Python, nor one that is installed."""
    if frame.filename.startswith("<"):  # typed, or made by a library
        return frame.filename in ("<stdin>", "<string>") or bool(frame.line)
    path = os.path.abspath(frame.filename)
    return not path.startswith((PACKAGE, *LIBRARIES)) and not any(part in path for part in INSTALLED)


def shortened(frame: traceback.FrameSummary) -> traceback.FrameSummary:
    """The end of its path, and the beginning of the rest."""
    path, line = frame.filename.encode("utf-8", "replace"), frame.line or ""
    return traceback.FrameSummary("…" + path[-PATH_BYTES:].decode("utf-8", "ignore") if len(path) > PATH_BYTES else frame.filename,
                                  frame.lineno, beginning(frame.name, NAME_BYTES), lookup_line=False, line=beginning(line, SOURCE_BYTES))


def plain(parts: Iterable[str]) -> str:
    lines = "".join(parts).splitlines()
    return "\n".join(line for line in lines if line.strip("~^ ") or not line).rstrip()


def beginning(text: str, most: int) -> str:
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= most else raw[:most].decode("utf-8", "ignore") + "…"


def without_middle(text: str, most: int) -> str:
    """At most so many bytes: its beginning, and less of its end."""
    if size(text) <= most:
        return text
    raw = text.encode("utf-8", "replace")
    room = most - size(" … ")
    end = room // 3
    return raw[:room - end].decode("utf-8", "ignore") + " … " + raw[len(raw) - end:].decode("utf-8", "ignore")


def size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
