# SPDX-License-Identifier: Apache-2.0
"""The client of a cluster: the command `gradus`, with its JSON, as Python functions.

    client = gradus.Client("master:7000")
    job = client.submit("job.yaml", {"training.epochs": 3})
    for now in client.watch(job):
        print(now["state"], now["steps"])
    client.export(job, "model.safetensors")

It does what the command does, with its certificates, tokens and environment (GRADUS_MASTER, GRADUS_TLS_CERT, ...)."""

import json
import os
import shutil
import subprocess
import time
from typing import Any, Dict, Iterator, List, Mapping, Optional, TextIO, Tuple, Union

from gradus import messages, progress
from gradus.errors import Error, NoWorkerError
from gradus.library import find_command

Values = Mapping[str, Any]
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
UNREACHABLE = 4  # the exit code
LOST_SECONDS = 15  # as `gradus watch`: without a word from the master for so long, a client that watches gives up


class CommandError(Error):
    """The command refused. str() is its message; `code` its exit code (1 failed, 2 wrong arguments or job file, 4 the master
    cannot be reached, 5 not found), `errors` its list of objects: file, line, column, key, message."""

    def __init__(self, message: str, code: int, errors: List[Dict[str, Any]]):
        super().__init__(message)
        self.code, self.errors = code, errors


class Client:
    """A cluster. master: host:port, else as the command finds it; state_dir: of a master of this machine, also one that runs
    no more; arguments: flags of every command (["--tls-cert", ...]); command: gradus, its path or a name on PATH, else
    from GRADUS_BIN or PATH. Errors: NoWorkerError there is no such command."""

    def __init__(self, master: Optional[str] = None, *, state_dir: Optional[str] = None, arguments: Optional[List[str]] = None,
                 command: Optional[str] = None, timeout: Optional[float] = None):
        path = shutil.which(command) if command else find_command("gradus")
        if path is None:
            raise NoWorkerError(f"{command}: no such command" if command else
                                "there is no command gradus in GRADUS_BIN or on PATH")
        self.command, self.timeout = path, timeout
        self.arguments = list(arguments or [])
        if master is not None:
            self.arguments.append(f"--master={master}")
        if state_dir is not None:
            self.arguments.append(f"--state-dir={state_dir}")

    def run(self, name: str, *arguments: str, stdin: Optional[str] = None) -> Any:
        """Run a command with --json; returns what it prints, as it is. Errors: CommandError."""
        done = subprocess.run([self.command, name, "--json", *self.arguments, *arguments], input=stdin, capture_output=True,
                              text=True, timeout=self.timeout, **({} if stdin is not None else {"stdin": subprocess.DEVNULL}))
        try:
            result = json.loads(done.stdout) if done.stdout.strip() else None
        except ValueError:
            result = None
        if done.returncode != 0:
            raise failure(name, done.returncode, result, done.stderr)
        return result

    def submit(self, job: Union[str, "os.PathLike[str]", Values], sets: Optional[Values] = None, *,
               request_id: Optional[str] = None) -> str:
        """Send a job: the path of a job file or a dictionary with the same keys. sets: {"training.epochs": 3} over it.
        Of all submissions with one request_id the master makes one job. Returns its id."""
        arguments = [part for item in settings(sets or {}) for part in ("--set", item)]
        if request_id is not None:
            arguments.append(f"--request-id={request_id}")
        if isinstance(job, Mapping):  # JSON is YAML
            result = self.run("submit", *arguments, "-", stdin=json.dumps(job))
        else:
            result = self.run("submit", *arguments, os.fspath(job))
        return str(result["job"])

    def status(self, job: str) -> Dict[str, Any]:
        """All that is known of a job: state, reason, steps, metrics, nodes, ...: the fields of `Job` of jobs.proto, with `job`,
        `steps`, `epochs` and `metrics` for id, step, epoch, and train and test."""
        return messages.job(self.run("status", job))

    def list(self, limit: int = 100) -> List[Dict[str, Any]]:
        """Jobs, the newest first, each with its `master` or `state_dir`."""
        return [messages.job(job) for job in self.run("list", f"--limit={limit}")["jobs"]]

    def watch(self, job: str, interval: float = 0.5) -> Iterator[Dict[str, Any]]:
        """The job's status whenever its state, steps or evaluations have changed, until it has ended: the last one is its
        end, whatever that is. A master that is away is asked again for 15 s, unless it was never there."""
        last: Optional[Tuple[Any, ...]] = None
        lost: Optional[float] = None  # when it was asked first of what it has not answered since
        while True:
            asked = time.monotonic()
            try:
                now = self.status(job)
            except CommandError as e:
                lost = asked if lost is None else lost
                if e.code != UNREACHABLE or last is None or time.monotonic() - lost >= LOST_SECONDS:
                    raise
                time.sleep(interval)
                continue
            lost = None
            seen = (now["state"], now.get("steps"), now.get("activity"), json.dumps(now.get("metrics")))
            if seen != last:
                last = seen
                yield now
            if now["state"].upper() in ENDED:
                return
            time.sleep(interval)

    def wait(self, job: str, interval: float = 0.5) -> Dict[str, Any]:
        """The job's status at its end. Errors: CommandError it did not succeed."""
        now = {}
        for now in self.watch(job, interval):
            pass
        if now["state"].upper() != "SUCCEEDED":
            raise CommandError(f"{job}: {now['state']}: {now.get('reason') or ''}".rstrip(": "), 1, [])
        return now

    def follow(self, job: str, out: Optional[TextIO] = None, interval: float = 0.5) -> Dict[str, Any]:
        """Show the job's progress until it has ended, and return its last status, whatever that is: a line that changes in a
        terminal, an output that changes in a notebook, else lines. out: where to, else standard error."""
        now: Dict[str, Any] = {}
        place = progress.for_place(out)
        try:
            for now in self.watch(job, interval):
                place.show(now)
        finally:
            place.close()
        return now

    def cancel(self, job: str, now: bool = False) -> None:
        """Stop a job at the next step boundary, with a checkpoint; now: at once, without."""
        self.run("cancel", *(["--now"] if now else []), job)

    def resume(self, job: str, changes: Optional[Values] = None) -> Dict[str, Any]:
        """Let a job that is paused, or has ended, go on from its newest checkpoint; its state afterwards.

        changes as for set(): {"training.epochs": 20} lets a job that has SUCCEEDED train on. Raises CommandError when there is
        nothing left for it to do, or its checkpoints are gone.
        """
        sets = [part for change in settings(changes or {}) for part in ("--set", change)]
        return messages.job(self.run("resume", *sets, job))

    def set(self, job: str, changes: Values) -> Dict[str, Any]:
        """Change keys of a job, also while it runs; its status afterwards, whose `changes` tell all that were made."""
        return messages.job(self.run("set", job, *settings(changes)))

    def export(self, job: str, file: Union[str, "os.PathLike[str]"]) -> Dict[str, Any]:
        """Write the variables of the newest checkpoint as one safetensors file."""
        return dict(self.run("export", job, os.fspath(file)))


def settings(values: Values) -> List[str]:
    """KEY=VALUE, as --set takes them: YAML, of which JSON is a part."""
    return [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in values.items()]


def failure(name: str, code: int, result: Any, stderr: str) -> CommandError:
    errors = result.get("errors") or [] if isinstance(result, dict) else []
    lines = []
    for e in errors:
        where = ":".join(str(e[k]) for k in ("file", "line", "column") if e.get(k) is not None)
        lines.append(": ".join(part for part in (where, e.get("key") or "", e["message"]) if part))
    if not lines and isinstance(result, dict) and result.get("reason"):
        lines = [str(result["reason"])]
    return CommandError("\n".join(lines) or stderr.strip() or f"gradus {name} ended with code {code}", code, errors)
