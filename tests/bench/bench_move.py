#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long a job stands when it moves to another number of parameter servers.

Usage: bench_move.py BIN_DIR [--runs 3] [--rule sgd] [--layers 8192,7372] [--json FILE]

BIN_DIR holds gradus and its services. Digits on five servers and two workers, 256 MiB of values. The job moves from 2 servers
to 5 and back, with `gradus set JOB cluster.ps=N`. Printed for each move: how long the first worker began no step, beside a step of the same job; where
that time went, by the log of the master; CPU seconds of the workers and servers, and what the servers read and wrote. The
median and the lowest of the runs. Prints, never asserts."""

import argparse
import datetime
import json
import os
import re
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench_takeover  # noqa: E402
from bench_takeover import ROOT, cpu_seconds, wait  # noqa: E402

LOOK_S = 0.005
# What the master logs when a part of a move is over.
PARTS = (("checkpoint", r"event=checkpoint "), ("closed", r"event=job_state .* to=STARTING"),
         ("opened and started", r"event=job_state .* to=RUNNING"))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rule", default="sgd")
    parser.add_argument("--layers", default="8192,7372")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def io_bytes(process):
    """Read by read() and pread(), written by write(): of files and sockets."""
    with open(f"/proc/{process.pid}/io") as f:
        return {name: int(value) for name, value in (line.split(": ") for line in f)}


class Steps(threading.Thread):
    """When the number of steps that the first worker began was first seen to be higher."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.seen, self.ends = cluster, [], False
        self.start()

    def run(self):
        last = -1
        while not self.ends:
            steps = self.cluster.steps()
            if steps != last:
                self.seen.append(time.time())
                last = steps
            time.sleep(LOOK_S)

    def stop(self):
        self.ends = True
        self.join()


def gaps(times):
    return [b - a for a, b in zip(times, times[1:])]


def logged(cluster, after):
    """Lines of the master's log since then, with their times."""
    with open(f"{cluster.dir}/master-1.log") as f:
        for line in f:
            found = re.match(r"time=(\S+)Z (.*)", line)
            if found:
                at = datetime.datetime.fromisoformat(found.group(1) + "+00:00").timestamp()
                if at >= after - 0.001:
                    yield at, found.group(2)


def used(cluster):
    files = [io_bytes(s.process) for s in cluster.servers]
    return {"cpu_workers_s": sum(cpu_seconds(w.process) for w in cluster.workers),
            "cpu_servers_s": sum(cpu_seconds(s.process) for s in cluster.servers),
            "read_mb": sum(f["rchar"] for f in files) * 1e-6, "written_mb": sum(f["wchar"] for f in files) * 1e-6}


def move(cluster, steps, count):
    quiet = len(steps.seen)
    wait("some steps", lambda: len(steps.seen) >= quiet + 5)
    before, asked = used(cluster), time.time()
    cluster.ask("set", cluster.job, f"cluster.ps={count}")
    moved = time.time()
    wait("steps after it", lambda: steps.seen[-1] > moved and steps.seen[-2] > moved)
    after, times = used(cluster), list(steps.seen)
    first = next(i for i, t in enumerate(times) if t > asked)
    row = {"stood": max(gaps(times[first - 1:])), "step": statistics.median(gaps(times[quiet:first]))}
    at = asked
    for name, pattern in PARTS:
        end = next(t for t, line in logged(cluster, asked) if re.search(pattern, line))
        row[name], at = end - at, end
    row["first step"] = next(t for t in times if t > at) - at
    return {**row, **{name: after[name] - before[name] for name in before}}


def main():
    args = arguments()
    os.environ["GRADUS_BIN_DIR"] = os.path.abspath(args.bin_dir)
    os.environ["GRADUS_SOURCE_DIR"] = ROOT
    sys.path.insert(0, os.path.join(ROOT, "tests", "integration"))
    from cluster import Service, gradus  # needs the environment
    for name in ("GRADUS_HEARTBEAT_INTERVAL_MS", "GRADUS_HEARTBEAT_TIMEOUT_MS"):
        os.environ.pop(name, None)  # as users have them
    hidden = args.layers.split(",")
    layers = ["flatten", *(f"{{dense: {{units: {n}, activation: relu}}}}" for n in hidden), "{dense: {units: 10}}"]
    with tempfile.TemporaryDirectory(prefix="bench-move-") as work:
        data = os.path.join(work, "digits")
        gradus("generate", "digits", "--out", data, "--train", "20000", "--test", "500")
        cluster = bench_takeover.Cluster(Service, gradus, data, servers=5, **{
            "update.rule": args.rule, "training.epochs": 1000, "training.evaluate_every": "never", "training.batch_size": 2,
            "training.checkpoint_every": "never", "model.layers": f"[{', '.join(layers)}]", "cluster.partitions": 5})
        try:
            steps = Steps(cluster)
            wait("training", lambda: len(steps.seen) > 3)
            rows = {2: [], 5: []}
            for count in (5, 2) * args.runs:
                rows[count].append(move(cluster, steps, count))
            steps.stop()
        finally:
            cluster.stop()
    for count, found in rows.items():
        print(f"to {count} servers, {args.rule}, {os.cpu_count()} CPUs, {args.runs} times: median (lowest)")
        for name in found[0]:
            values = [row[name] for row in found]
            print(f"  {name:<20} {statistics.median(values):8.2f} ({min(values):.2f})")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
