#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs when a process dies, and what a follower costs while none does.

Usage: bench_takeover.py BIN_DIR [--runs 10] [--modes sync,async] [--only kill|master|cost] [--json FILE]

BIN_DIR holds gradus and its services. Digits on two servers and two workers, everything at its default:
kill    kill -9 of a server with `cluster.standby: follower`, in a new cluster each time: from the kill to the third next step
        that a worker begins, and how many of these jobs went back to a checkpoint;
master  the same for the master, which is started again at once;
cost    the same job with and without a follower, in turn: examples a second, and CPU of the servers for a step.
Prints, never asserts."""

import argparse
import json
import os
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JOB = os.path.join(ROOT, "examples", "digits.yaml")
TICKS = os.sysconf("SC_CLK_TCK")
WAIT_S = 120


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--modes", default="sync,async")
    parser.add_argument("--only", choices=("kill", "master", "cost"))
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def wait(what, condition):
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.002)
    raise SystemExit(f"waited {WAIT_S} s for {what}")


class Cluster:
    """A master, servers, two workers, and a job."""

    def __init__(self, service, gradus, data, servers=2, **keys):
        self.service, self.gradus = service, gradus
        self.dir = tempfile.mkdtemp(prefix="bench-takeover-")
        self.logs = 0
        self.master = self.start("master", f"--state-dir={self.dir}/state")
        nodes = f"--master={self.master.address}"
        self.servers = [self.start("ps", nodes, f"--checkpoint-dir={self.dir}/state/checkpoints") for _ in range(servers)]
        self.workers = [self.start("worker", nodes) for _ in range(2)]
        keys = {"data.dir": data, "cluster.ps": 2, "cluster.workers": 2, **keys}
        done = self.ask("submit", JOB, *(word for key, value in keys.items() for word in ("--set", f"{key}={value}")))
        self.job = done.strip()

    def start(self, kind, *args, **more):
        self.logs += 1
        return self.service(kind, *args, log=f"{self.dir}/{kind}-{self.logs}.log", **more)

    def restart_master(self):
        self.master = self.start("master", f"--state-dir={self.dir}/state", listen=self.master.address)

    def ask(self, *args):
        done = self.gradus(*args, "--master", self.master.address)
        if done.returncode != 0:
            raise SystemExit(f"gradus {' '.join(args)}: {done.stderr}")
        return done.stdout

    def status(self):
        return json.loads(self.ask("status", self.job, "--json"))

    def steps(self):
        """Begun by the first worker."""
        with urllib.request.urlopen(f"http://{self.workers[0].http}/metrics", timeout=WAIT_S) as answer:
            found = re.search(r"^gradus_worker_steps_total(?:\{[^}]*\})? (\S+)$", answer.read().decode(), re.M)
        return float(found.group(1)) if found else 0

    def stop(self):
        for service in [*self.workers, *self.servers, self.master]:
            service.stop(signal.SIGKILL)
        shutil.rmtree(self.dir, ignore_errors=True)


def seconds_without_steps(cluster, kill):
    """From @kill() until the worker has begun three steps more: one may be begun already."""
    wait("a hundred steps", lambda: cluster.steps() > 100)
    time.sleep(random.random())
    begun = time.monotonic()
    kill()
    steps = cluster.steps()
    wait("the next steps", lambda: cluster.steps() >= steps + 3)
    return time.monotonic() - begun


def measure_kill(args, make, mode, figures, of_master):
    seconds, back = [], 0
    for _ in range(args.runs):
        cluster = make(**{"training.mode": mode, "training.epochs": 100000, "cluster.standby": "follower"})
        try:
            if of_master:
                def kill():
                    cluster.master.stop(signal.SIGKILL)
                    cluster.restart_master()
            else:
                victim = random.choice(cluster.servers)

                def kill():
                    victim.process.send_signal(signal.SIGKILL)
            seconds.append(seconds_without_steps(cluster, kill))
            if of_master:
                wait("the adoption", lambda: cluster.status()["adoptions"] != "0")
            back += int(cluster.status()["recoveries"]) > 0
        finally:
            cluster.stop()
    what = "master" if of_master else "server"
    figures[f"kill -9 of a {what}, {mode}"] = {"runs": args.runs, "p50_s": statistics.median(seconds), "max_s": max(seconds),
                                               "went_back": back}
    print(f"kill -9 of a {what}, {mode}: to the third next step p50 {statistics.median(seconds):.2f} s, max {max(seconds):.2f} s, "
          f"{args.runs} times; {back} went back to a checkpoint", flush=True)


def measure_cost(args, make, mode, figures):
    kept = {"none": [], "follower": []}
    for _ in range(args.runs):
        for standby, found in kept.items():
            cluster = make(**{"training.mode": mode, "training.epochs": 30, "training.evaluate_every": "never",
                              "training.batch_size": 256, "training.checkpoint_every": "never", "cluster.standby": standby})
            try:
                wait("training", lambda: cluster.steps() > 20)
                before = sum(cpu_seconds(s.process) for s in cluster.servers)
                first = cluster.steps()
                cluster.ask("watch", cluster.job)
                steps = cluster.steps() - first
                status = cluster.status()
                cpu = sum(cpu_seconds(s.process) for s in cluster.servers) - before
                found.append((status["examplesPerSecond"], cpu / steps * 1e3))
            finally:
                cluster.stop()
    rate = {name: statistics.median(f[0] for f in found) for name, found in kept.items()}
    cpu = {name: statistics.median(f[1] for f in found) for name, found in kept.items()}
    figures[f"cost of a follower, {mode}"] = {"examples_per_second": rate, "server_cpu_ms_per_step": cpu}
    print(f"cost of a follower, {mode}, batch 256: {rate['none']:.0f} -> {rate['follower']:.0f} examples/s "
          f"({rate['follower'] / rate['none']:.2f}), CPU of the servers for a step {cpu['none']:.3f} -> {cpu['follower']:.3f} ms "
          f"({cpu['follower'] / cpu['none']:.2f} x)", flush=True)


def main():
    args = arguments()
    os.environ["GRADUS_BIN_DIR"] = os.path.abspath(args.bin_dir)
    os.environ["GRADUS_SOURCE_DIR"] = ROOT
    sys.path.insert(0, os.path.join(ROOT, "tests", "integration"))
    from cluster import Service, gradus  # needs the environment
    for name in ("GRADUS_HEARTBEAT_INTERVAL_MS", "GRADUS_HEARTBEAT_TIMEOUT_MS"):
        os.environ.pop(name, None)  # as users have them
    figures = {}
    with tempfile.TemporaryDirectory(prefix="bench-takeover-") as work:
        data = os.path.join(work, "digits")
        gradus("generate", "digits", "--out", data, "--train", "20000", "--test", "500")

        def make(**keys):
            return Cluster(Service, gradus, data, **keys)

        for mode in args.modes.split(","):
            if args.only in (None, "kill"):
                measure_kill(args, make, mode, figures, False)
            if args.only in (None, "master"):
                measure_kill(args, make, mode, figures, True)
            if args.only in (None, "cost"):
                measure_cost(args, make, mode, figures)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(figures, f, indent=1)


if __name__ == "__main__":
    main()
