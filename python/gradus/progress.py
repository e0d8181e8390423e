# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a job that is followed: in a terminal one line that changes, in a notebook an output that changes, and
anywhere else (a file, a pipe) a line for each change of state and each evaluation."""

import shutil
import sys
from typing import Any, Dict, List, Mapping, Optional, TextIO

Status = Mapping[str, Any]


def metrics_text(metrics: Optional[Mapping[str, float]]) -> str:
    """"loss 0.1755  accuracy 0.9550"."""
    return "  ".join(f"{name} {value:.4f}" for name, value in (metrics or {}).items())


def duration(seconds: float) -> str:
    """"1.8 s", "4 min 03 s", "2 h 15 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds) // 60
    return f"{minutes} min {round(seconds) % 60:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def now_parts(now: Status) -> List[str]:
    """What is so at this moment, the most important part first."""
    parts = [f"{now.get('job', '')}  {now['state']}".strip()]
    if now.get("reason") or now.get("activity"):
        parts.append(" ".join(str(now.get("reason") or now.get("activity")).split()))
    if now.get("steps_total"):
        parts.append(f"epoch {now.get('epochs', 0):.2f}/{now.get('epochs_total', 0):g}")
        parts.append(f"step {now['steps']}/{now['steps_total']}")
    train = metrics_text((now.get("metrics") or {}).get("train"))
    if train:
        parts.append(train)
    if now.get("examples_per_second"):
        parts.append(f"{now['examples_per_second']:,.0f} examples/s")
    if now.get("eta_seconds"):
        parts.append(f"{duration(now['eta_seconds'])} left")
    return parts


def fitting(parts: List[str], columns: int) -> str:
    """As many of the parts as fit into a line; the first one is cut where even that does not."""
    text = parts[0]
    for part in parts[1:]:
        if len(text) + 2 + len(part) <= columns:
            text += "  " + part
    return text if len(text) <= columns else text[: max(0, columns - 1)] + "…"


def evaluation_text(evaluation: Mapping[str, Any]) -> str:
    """"epoch 1.00  step 469  train  loss 0.3671  test  loss 0.1755"."""
    parts = [f"epoch {evaluation['epoch']:.2f}  step {evaluation['step']}"]
    parts += [f"{part}  {metrics_text(evaluation[part])}" for part in ("train", "test") if evaluation.get(part)]
    return "  ".join(parts)


class Lines:
    """For files and pipes, and what all kinds have in common."""

    def __init__(self, out: TextIO):
        self.out, self.evaluations, self.state = out, 0, ""

    def show(self, now: Status) -> None:
        """What has changed since the last call."""
        evaluations = list(now.get("evaluations") or [])
        if len(evaluations) < self.evaluations:  # it went back to a checkpoint: these are made again
            self.evaluations = len(evaluations)
        fresh, self.evaluations = evaluations[self.evaluations:], len(evaluations)
        self.update(now, [evaluation_text(e) for e in fresh])
        self.state = now["state"]

    def update(self, now: Status, lines: List[str]) -> None:
        """Lines that stay, and what is so now."""
        for line in lines:
            print(line, file=self.out)
        if now["state"] != self.state:
            print("  ".join(now_parts(now)), file=self.out)
        self.out.flush()

    def close(self) -> None:
        """No more will come."""


class Terminal(Lines):
    """One line that is written over; evaluations stay above it."""

    def update(self, now: Status, lines: List[str]) -> None:
        columns = shutil.get_terminal_size().columns - 1
        for line in lines:
            self.out.write(f"\r\x1b[K{line}\n")
        self.out.write(f"\r\x1b[K{fitting(now_parts(now), columns)}")
        self.out.flush()

    def close(self) -> None:
        self.out.write("\n")
        self.out.flush()


class Notebook(Lines):
    """An output of a cell, as text, that is written again whenever something changes."""

    def __init__(self, out: TextIO):
        super().__init__(out)
        self.lines: List[str] = []
        self.handle: Any = None

    def update(self, now: Status, lines: List[str]) -> None:
        from IPython.display import display

        self.lines += lines
        bundle: Dict[str, str] = {"text/plain": "\n".join(self.lines + ["  ".join(now_parts(now))])}
        if self.handle is None:
            self.handle = display(bundle, raw=True, display_id=True)
        else:
            self.handle.update(bundle, raw=True)


def in_notebook() -> bool:
    """Whether the process is the kernel of a notebook: of IPython in a terminal it is not."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def for_place(out: Optional[TextIO] = None) -> Lines:
    """What fits where this process writes; out: there, else standard error."""
    if out is None and in_notebook():
        return Notebook(sys.stderr)
    out = out or sys.stderr
    return Terminal(out) if out.isatty() else Lines(out)
