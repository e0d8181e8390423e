# SPDX-License-Identifier: Apache-2.0
"""What on_a_cluster.py looks at and does things with: commands, pods, the steps of a job over time. Every process that is
started here is in PROCESSES, and is ended by its id (end_processes())."""

import calendar
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tests", "support"))
from job_json import read_job  # noqa: E402

NAMESPACE = "gradus"
COMMAND_S = 1200
WAIT_S = 300
# Printed by the client's pod: what the job is at, several times a second, until nobody reads it.
FOLLOW = """while echo "$(date +%s.%N) $(timeout 5 gradus status {job} --json 2>/dev/null |
grep -oE '"(state|step)":"[A-Z0-9]*"' | head -2 | tr '\\n' ' ')"; do sleep 0.1; done"""
PROCESSES = []
times = []


def fail(what):
    raise SystemExit(f"test-kubernetes: FAILED: {what}")


def check(condition, what):
    if not condition:
        fail(what)


def say(what):
    print(f"-- {time.strftime('%H:%M:%S')} {what}", flush=True)


def measured(what, seconds):
    times.append((what, seconds))
    say(f"{what}: {seconds:.1f} s")


# ---- processes ----


def start(command, **how):
    """In a group of its own, so that what it starts ends with it, and Ctrl-C is for this program alone."""
    process = subprocess.Popen(command, start_new_session=True, text=True, errors="replace", cwd=SOURCE, **how)
    PROCESSES.append(process)
    return process


def end(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all of it has ended
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
    PROCESSES.remove(process)


def end_processes():
    while PROCESSES:
        end(PROCESSES[-1])


def finish(command, stdin=None, timeout=COMMAND_S, merged=False):
    """(exit code, stdout, stderr) of a command."""
    process = start(command, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT if merged else subprocess.PIPE)
    try:
        out, err = process.communicate(stdin, timeout=timeout)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        return fail(f"not done after {timeout} s: {command}")
    finally:
        end(process)


def run(command, timeout=COMMAND_S, secret=False):
    """One command as a shell takes it, shown with what it prints unless that is a secret; its output."""
    print(f"\n$ {command}", flush=True)
    code, output, _ = finish(["bash", "-c", command], timeout=timeout, merged=True)
    lines = ["(not shown)"] if secret and code == 0 else output.splitlines()
    print("\n".join(lines if len(lines) <= 30 else lines[:4] + [f"… {len(lines) - 24} lines …"] + lines[-20:]), flush=True)
    check(code == 0, f"exit code {code}: {command}")
    return output


def kubectl(*args, wanted=True, stdin=None, timeout=COMMAND_S):
    code, out, err = finish(["kubectl", "-n", NAMESPACE, *args], stdin, timeout)
    if wanted and code != 0:
        fail(f"kubectl {' '.join(args)}: {err.strip()}")
    return out if code == 0 else None


def refused(*command, said):
    code, out, err = finish(["kubectl", "-n", NAMESPACE, *command], timeout=60)
    check(code != 0 and said in out + err, f"{command} is not refused: {out}{err}")


def wait_for(what, condition, timeout=WAIT_S):
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        value = condition()
        if value:
            return value
        time.sleep(0.3)
    return fail(f"waited {timeout} s: {what}")


# ---- the cluster ----


def gradus(*args, wanted=True):
    return kubectl("exec", "test-client", "--", "gradus", *args, wanted=wanted)


def status(job):
    """What the master says of the job; {} while there is none."""
    text = gradus("status", job, "--json", wanted=False)
    return read_job(text or "{}")


def pods_of(component):
    """Objects of pods that run and are to stay."""
    listed = json.loads(kubectl("get", "pods", "-o", "json", "-l", f"app.kubernetes.io/component={component}"))
    return [p for p in listed["items"] if "deletionTimestamp" not in p["metadata"] and p["status"]["phase"] == "Running"]


def pods(component):
    return sorted(p["metadata"]["name"] for p in pods_of(component))


def seconds(text):
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


def ready_since():
    """When the last pod became ready; in whole seconds, as the API server writes it."""
    listed = json.loads(kubectl("get", "pods", "-o", "json", "-l", "app.kubernetes.io/component in (master,ps,worker)"))
    ready = [c["lastTransitionTime"] for p in listed["items"] for c in p["status"]["conditions"]
             if (c["type"], c["status"]) == ("Ready", "True")]
    check(len(ready) == len(listed["items"]), "a pod is not ready")
    return max(seconds(at) for at in ready)


def started(pod):
    """When the container of a pod was started."""
    state = json.loads(kubectl("get", "pod", pod, "-o", "json"))["status"]["containerStatuses"][0]["state"]
    return seconds(state["running"]["startedAt"])


def events(pod, wanted=True):
    """(time, fields) of each line of a service's log; none of a pod that is not there, unless it is wanted."""
    found = []
    for line in (kubectl("logs", pod, wanted=wanted) or "").splitlines():
        try:
            fields = json.loads(line)
            at = datetime.datetime.fromisoformat(fields["time"].replace("Z", "+00:00")).timestamp()
        except (ValueError, KeyError):
            continue
        found.append((at, fields))
    return found


class Steps(threading.Thread):
    """The steps of a job over time, as a pod beside it sees them."""

    def __init__(self, job):
        super().__init__(daemon=True)
        self.points = []  # (time, state, steps); steps None: the master does not answer
        self.process = start(["kubectl", "-n", NAMESPACE, "exec", "test-client", "--", "bash", "-c", FOLLOW.format(job=job)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.start()

    def run(self):
        try:
            for line in self.process.stdout:
                steps = re.search(r'"step":"(\d+)"', line)
                state = re.search(r'"state":"(\w+)"', line)
                self.points.append((float(line.split()[0]), state.group(1) if state else "",
                                    int(steps.group(1)) if steps else None))
        except ValueError:
            pass  # the pipe was closed: it has ended

    def moves(self):
        """The times at which the number of steps was another one than before."""
        seen = [(at, steps) for at, _, steps in list(self.points) if steps is not None]
        return [at for (at, steps), (_, before) in zip(seen[1:], seen) if steps != before]

    def stall(self, since, settled=8):
        """From an event to the end of the longest time without a step in what follows it."""
        def over():
            after = [since] + [at for at in self.moves() if at > since]
            return after if len(after) > 3 and after[-1] - since > settled else None
        after = wait_for("steps go on", over)
        longest = max(range(1, len(after)), key=lambda i: after[i] - after[i - 1])
        return after[longest] - since

    def stop(self):
        end(self.process)
