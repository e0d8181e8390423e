#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `gradus plan` predicts of a step, beside what clusters with limited links take on this machine.

Usage: bench_scaling.py BIN_DIR [--runs 3] [--seconds 3] [--realtime] [--only PATTERN] [--table] [--json FILE]

Every node has a network namespace and a link of its own (link_cluster.py), and all share this machine's processors, which
the predictions are told. Steps are taken from the workers' counters over some seconds, all configurations in turn; medians
of the runs. --table prints instead what is predicted for up to 1,000 workers and 100 servers, which measures nothing.
Without root, namespaces or tc's tbf it says so and ends. Prints, never asserts."""

import argparse
import fnmatch
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import link_cluster  # noqa: E402
import machine  # noqa: E402

JOB = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples", "digits.yaml")
SHAPES = ((1, 1), (2, 1), (2, 2), (4, 2))
# Units of the two hidden layers, from 784 to 10 outputs.
MODELS = {"0.2 MB": (64, 32), "0.9 MB": (256, 128), "5.3 MB": (1024, 512)}
LINKS = {"100 Mbit/s": 1e8, "1 Gbit/s": 1e9}
PARTS = ("load", "compute", "wire", "apply", "wait")


def number(ms):
    return f"{ms:,.0f}" if ms >= 1000 else f"{ms:.3g}"


class Case:
    def __init__(self, shape, model, link, mode):
        self.workers, self.servers = shape
        self.model, self.link, self.mode = model, link, mode
        self.name = f"{mode} {self.workers}+{self.servers}, {model}, {link}"
        self.measured = []

    def sets(self, data):
        units = MODELS[self.model]
        values = {
            "data.dir": data, "training.mode": self.mode, "training.batch_size": 64, "training.epochs": 0,
            "training.steps": 100000000, "training.evaluate_every": "never", "training.replicas": 0,
            "update.rule": "sgd", "update.learning_rate": 0.01, "cluster.workers": self.workers,
            "cluster.ps": self.servers, "cluster.partitions": 0, "model.layers.1.units": units[0],
            "model.layers.2.units": units[1]}
        return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def predict(args, data, case):
    done = subprocess.run(
        [os.path.join(args.bin_dir, "gradus"), "plan", JOB, "--json", *case.sets(data), "--round-trip=0",
         f"--link={LINKS[case.link] / 1e6:.0f}Mbit", f"--processors={os.cpu_count()}"],
        capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["predicted"]


def worker_steps(pages):
    """Of each worker: steps, and their seconds."""
    return [(page.get("gradus_worker_steps_total", 0),
             sum(page.get(f'gradus_worker_step_seconds_total{{part="{part}"}}', 0) for part in PARTS)) for page in pages]


def measure(args, work, data, case):
    """Milliseconds of a step (sync), or for each batch of all workers together."""
    cluster = link_cluster.Cluster(args.bin_dir, work, case.workers, case.servers, int(LINKS[case.link]))
    try:
        cluster.gradus("submit", JOB, *case.sets(data))

        def now():
            return worker_steps([cluster.metrics(worker) for worker in cluster.workers])

        end = time.monotonic() + 60
        while min(steps for steps, _ in now()) < 3:
            if time.monotonic() > end:
                sys.exit(f"{case.name}: no steps; {cluster.gradus('status', 'digits-1')}")
            time.sleep(0.1)
        before, begin = now(), time.monotonic()
        after = before
        while time.monotonic() - begin < args.seconds or min(a[0] - b[0] for a, b in zip(after, before)) < 6:
            time.sleep(0.1)
            after = now()
    finally:
        cluster.stop()
    each = [(a[1] - b[1]) / (a[0] - b[0]) * 1e3 for a, b in zip(after, before)]
    return statistics.median(each) if case.mode == "sync" else 1 / sum(1 / ms for ms in each)


def compare(args, work, data, cases):
    print(machine.describe())
    predicted = {case.name: predict(args, data, case) for case in cases}
    for number in range(args.runs):
        for case in cases:
            ms = measure(args, work, data, case)
            case.measured.append(ms)
            print(f"run {number + 1}: {case.name}: {ms:.2f} ms", file=sys.stderr, flush=True)
            time.sleep(args.pause)
    rows = []
    print("| mode | workers + servers | parameters | links | measured, ms | predicted, ms | difference | what limits |")
    print("|---|---|---|---|---|---|---|---|")
    for case in cases:
        p = predicted[case.name]
        shared = 1 if case.mode == "sync" else case.workers
        ms, expected = statistics.median(case.measured), p["step_ms"] / shared
        off = expected / ms - 1
        rows.append({"case": case.name, "measured_ms": case.measured, "median_ms": ms, "predicted_ms": expected,
                     "difference": off, "predicted": p})
        print(f"| {case.mode} | {case.workers}+{case.servers} | {case.model} | {case.link} | {number(ms)} | {number(expected)} "
              f"| {off * 100:+.0f} % | {p['limit'].replace('_', ' ')} |")
    worst = max(rows, key=lambda row: abs(row["difference"]))
    within = sum(abs(row["difference"]) <= 0.15 for row in rows)
    print(f"\nWithin 15 %: {within} of {len(rows)}; the farthest is {worst['case']}, {worst['difference'] * 100:+.0f} %.")
    return rows


# ---- more machines than there are ----

TABLE_MODELS = (  # name, units of hidden layers, milliseconds of a batch of 64
    ("0.9 MB", (256, 128), 1), ("100 MB", (8192, 2250), 100))
TABLE_SHAPES = ((1, 1), (10, 1), (10, 10), (100, 10), (100, 100), (1000, 10), (1000, 100))


def print_table(args):
    print("| parameters, a batch's computation | links | mode | workers + servers | step, ms | examples/s | of W alone | what limits "
          "| enough servers |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, units, ms in TABLE_MODELS:
        for link in ("1 Gbit/s", "25 Gbit/s"):
            for mode in ("sync", "async"):
                for workers, servers in TABLE_SHAPES:
                    done = subprocess.run(
                        [os.path.join(args.bin_dir, "gradus"), "plan", JOB, "--json", "--set=model.input=784",
                         "--set=data.dir=/nonexistent", "--set=data.classes=10", f"--set=model.layers.1.units={units[0]}",
                         f"--set=model.layers.2.units={units[1]}", f"--set=training.mode={mode}", "--set=training.replicas=0",
                         f"--set=cluster.workers={workers}", f"--set=cluster.ps={servers}", "--set=cluster.partitions=0",
                         "--set=cluster.slice_bytes=4KiB", f"--step-compute={ms}ms", f"--link={link}"], capture_output=True, text=True)
                    if done.returncode != 0:
                        sys.exit(done.stderr)
                    p = json.loads(done.stdout)["predicted"]
                    share = p["examples_per_second"] * ms * 1e-3 / 64 / workers
                    print(f"| {name}, {ms} ms | {link} | {mode} | {workers}+{servers} | {number(p['step_ms'])} "
                          f"| {p['examples_per_second']:,.0f} | {share * 100:.0f} % | {p['limit'].replace('_', ' ')} "
                          f"| {p['servers_enough'] or '-'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin_dir")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two measurements")
    parser.add_argument("--realtime", action="store_true", help="before everything else on this machine")
    parser.add_argument("--only", metavar="PATTERN", action="append",
                        help="configurations whose name is like that: 'sync 2+2*1 Gbit/s'")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    if args.table:
        print_table(args)
        return
    why = link_cluster.why_not()
    if why:
        print(f"skipped: {why}")
        return
    link_cluster.enter(__file__)
    if args.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    work = tempfile.mkdtemp(prefix="gradus-bench-")
    try:
        data = os.path.join(work, "digits")
        subprocess.run([os.path.join(args.bin_dir, "gradus"), "generate", "digits", "--out", data, "--train", "20000",
                        "--test", "100"], check=True, stdout=subprocess.DEVNULL)
        cases = [Case(shape, model, link, mode) for mode in ("sync", "async") for shape in SHAPES for model in MODELS
                 for link in LINKS]
        if args.only:
            cases = [case for case in cases if any(fnmatch.fnmatch(case.name, only) for only in args.only)]
        rows = compare(args, work, data, cases)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=2)


if __name__ == "__main__":
    main()
