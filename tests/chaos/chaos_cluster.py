# SPDX-License-Identifier: Apache-2.0
"""Clusters by hand that can be killed, for long trials, and what must be true of their jobs."""

import hashlib
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from cluster import Service, gradus, read_job  # noqa: E402

FINAL = ("SUCCEEDED", "FAILED", "CANCELLED")


class Trouble(Exception):
    """What did not hold."""


def say(text):
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


class Cluster:
    """A master, servers and workers by hand, each of which can be killed and started again."""

    def __init__(self, directory, ps, workers, master_args=(), ps_args=()):
        self.dir = directory
        self.count = 0
        self.ps_args = ps_args
        self.master_args = (f"--state-dir={directory}/state", *master_args)
        os.makedirs(directory, exist_ok=True)
        self.master = self.service("master", *self.master_args)
        self.address = self.master.address
        self.ps = [self.new_ps() for _ in range(ps)]
        self.workers = [self.new_worker() for _ in range(workers)]

    def service(self, kind, *args):
        self.count += 1
        service = Service(kind, *args, log=f"{self.dir}/{self.count:04d}-{kind}.log")
        service.kind = kind
        return service

    def new_ps(self, listen="127.0.0.1:0"):
        name = f"server-{self.count + 1}"
        service = self.service("ps", f"--master={self.address}", f"--listen={listen}", f"--name={name}",
                               f"--checkpoint-dir={self.dir}/state/checkpoints", *self.ps_args)
        service.name = name
        return service

    def new_worker(self, listen="127.0.0.1:0"):
        return self.service("worker", f"--master={self.address}", f"--listen={listen}")

    def kill_worker(self, i, same_address=False):
        old = self.workers[i]
        old.stop(signal.SIGKILL)
        self.workers[i] = self.new_worker(old.address if same_address else "127.0.0.1:0")

    def kill_ps(self, i, same_address=False):
        old = self.ps[i]
        old.stop(signal.SIGKILL)
        self.ps[i] = self.new_ps(old.address if same_address else "127.0.0.1:0")

    def all_backups_follow(self, status):
        """A job goes on without any one of the servers. Who was killed is still named until the master knows it."""
        names = {service.name for service in self.ps}
        return status["state"] == "RUNNING" and all(
            shard["backup_follows"] and {shard["ps"], shard["backup"]} <= names for shard in status["shards"])

    def kill_master(self):
        self.master.stop(signal.SIGKILL)
        self.master = self.service("master", *self.master_args, f"--listen={self.address}")

    def close(self):
        for service in [*self.workers, *self.ps, self.master]:
            service.stop(signal.SIGKILL)

    # ---- jobs ----

    def call(self, *args, timeout=60):
        """A command of the client that is tried again while the master is away."""
        end = time.monotonic() + timeout
        while True:
            done = gradus(*args, "--master", self.address)
            if done.returncode != 4 or time.monotonic() > end:
                return done
            time.sleep(0.2)

    def submit(self, file, sets):
        args = [item for key, value in sets.items() for item in ("--set", f"{key}={value}")]
        done = self.call("submit", file, *args)
        if done.returncode != 0:
            raise Trouble(f"submit: {done.stderr}")
        return done.stdout.strip().splitlines()[0].split()[-1]

    def status(self, job):
        done = self.call("status", job, "--json")
        if done.returncode != 0:
            raise Trouble(f"status: exit code {done.returncode}: {done.stderr}")
        return read_job(done.stdout)

    def follow(self, job, timeout, each=None):
        """Until the job has ended; its status then, and the longest time without a new step."""
        begin = best_at = time.monotonic()
        best, stood, reasons = 0, 0.0, {}
        while True:
            status = self.status(job)
            now = time.monotonic()
            if status["steps"] > best or status["state"] in FINAL:
                stood = max(stood, now - best_at)
                best, best_at = status["steps"], now
            if status["reason"]:
                reasons[status["reason"]] = reasons.get(status["reason"], 0) + 1
            if status["state"] in FINAL:
                return status, stood
            if now - begin > timeout:
                most = sorted(reasons.items(), key=lambda item: -item[1])[:6]
                raise Trouble(f"{job} is still {status['state']} at step {status['steps']} of {status['steps_total']} "
                              f"after {timeout:.0f} s: {status['reason']!r}; reasons seen: {most}")
            if each is not None:
                each(status)
            time.sleep(0.1)

    def export(self, job):
        return export_digest(f"{self.dir}/{job}.safetensors", job, "--state-dir", self.dir + "/state")


def export_digest(out, *of):
    """Of the parameters: sha256 in hex. @of: what `gradus export` takes them from."""
    done = gradus("export", *of, out, "--bare")
    if done.returncode != 0:
        raise Trouble(f"export: {done.stderr}")
    with open(out, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    os.remove(out)
    return digest


def check_records(status, records, epochs):
    """As every shard says itself: each record of the data @epochs times."""
    for shard in status["shards"]:
        if shard["examples"] != records * epochs:
            raise Trouble(f"a shard has applied {shard['examples']} examples instead of {records * epochs}")
    if len({shard["version"] for shard in status["shards"]}) != 1:
        raise Trouble(f"the shards are at different versions: {status['shards']}")
