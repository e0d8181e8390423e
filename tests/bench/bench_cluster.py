#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Training throughput of the cluster beside the same network without a parameter server.

Usage: bench_cluster.py BIN_DIR [--batch 64] [--rule adam] [--socket memory] [--runs 5] [--epochs 3] [--json FILE]

BIN_DIR holds gradus, its services and bench_local. Every run is taken in turn with the others, so that a
machine that drifts drifts for all; medians are printed, and the ratio to the limit. Prints, never asserts."""

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
JOB = os.path.join(HERE, "..", "..", "examples", "digits.yaml")


# How values pass between a worker and a server of one host; "memory" is what they agree on by themselves.
SOCKETS = {"memory": [], "unix": ["--no-shared-memory"], "tcp": ["--local-sockets", "off"]}


def restrained(bin_dir, socket, work):
    """A directory like @bin_dir whose workers and servers use @socket."""
    if not SOCKETS[socket]:
        return bin_dir
    out = os.path.join(work, "bin")
    os.mkdir(out)
    for name in ("gradus", "gradus-master"):
        shutil.copy(os.path.join(bin_dir, name), out)
    for name in ("gradus-ps", "gradus-worker"):
        path = os.path.join(out, name)
        command = shlex.join([os.path.abspath(os.path.join(bin_dir, name)), *SOCKETS[socket]])
        with open(path, "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\nexec {command} "$@"\n')
        os.chmod(path, 0o755)
    return out


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin_dir")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rule", default="adam")
    parser.add_argument("--socket", choices=list(SOCKETS), default="memory")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    work = tempfile.mkdtemp(prefix="gradus-bench-")
    try:
        rows = measure(args, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(rows, f, indent=2)


def measure(args, work):
    gradus = os.path.join(restrained(args.bin_dir, args.socket, work), "gradus")
    subprocess.run([gradus, "generate", "digits", "--out", work, "--train", "60000", "--test", "1000"],
                   check=True, stdout=subprocess.DEVNULL)
    sets = {"data.dir": work, "training.batch_size": args.batch, "training.epochs": args.epochs,
            "training.evaluate_every": "never", "training.replicas": 0, "update.rule": args.rule}

    def local():
        steps = args.epochs * 60000 // args.batch
        return output_of([os.path.join(args.bin_dir, "bench_local"), JOB, str(steps),
                          *[f"{k}={v}" for k, v in sets.items()]])["examples_per_second"]

    def cluster(mode, nodes, overlap):
        more = dict(sets, **{"training.mode": mode, "cluster.workers": nodes, "cluster.ps": nodes,
                             "cluster.partitions": nodes, "training.overlap": str(overlap).lower()})
        command = [gradus, "run", JOB, "--json", "--state-dir", os.path.join(work, "state")]
        for key, value in more.items():
            command += ["--set", f"{key}={value}"]
        return output_of(command)["examplesPerSecond"]

    benches = {"no parameter server": local}
    for mode, overlap in (("sync", False), ("async", False), ("async", True)):
        for nodes in (1, 2):
            name = f"{mode}{', overlap' if overlap else ''} {nodes}+{nodes}"
            benches[name] = lambda mode=mode, nodes=nodes, overlap=overlap: cluster(mode, nodes, overlap)
    figures = {name: [] for name in benches}
    for _ in range(args.runs):
        for name, bench in benches.items():
            figures[name].append(bench())
    limit = statistics.median(figures["no parameter server"])
    print(f"784-256-128-10, {args.rule}, {args.socket}, batch {args.batch}, {os.cpu_count()} CPUs, {args.runs} runs")
    print(f"{'workers + servers':<22} {'median':>10} {'min':>10} {'max':>10}  of the limit")
    rows = []
    for name, values in figures.items():
        median = statistics.median(values)
        print(f"{name:<22} {median:>10.0f} {min(values):>10.0f} {max(values):>10.0f}  {median / limit:6.1%}")
        rows.append({"bench": name, "batch": args.batch, "unit": "examples/s", "median": median,
                     "min": min(values), "max": max(values), "raw": limit, "ratio": median / limit})
    return rows


if __name__ == "__main__":
    main()
