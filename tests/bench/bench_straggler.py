#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What one slow worker of four costs in each mode: the time of one epoch beside that without it.

Usage: bench_straggler.py BIN_DIR [--runs 3] [--records 16384] [--factor 5] [--pace 4] [--json FILE] [--plot FILE]

BIN_DIR holds gradus and its services. All modes are taken in turn, so that a machine that drifts drifts for all;
medians are printed as a table in Markdown. --pace P makes every worker, the slow one too, take P times as
long as it computes by sleeping the rest: four workers behave like four machines on one that has fewer cores.
Prints, never asserts."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import plots  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from job_json import read_job  # noqa: E402

JOB = os.path.join(ROOT, "examples", "fashion-mnist-cnn.yaml")
WORKERS = 4
PS = 2
# Records of one global step. Four replicas of a quarter each or sixteen of a sixteenth; async takes sixteenths.
STEP = 512
WHOLE = {"training.replicas": 4, "training.batch_size": STEP // 4}
FINE = {"training.replicas": 16, "training.batch_size": STEP // 16}
SINGLE = {"training.batch_size": STEP // 16}
SPECULATE = {"training.speculate": "true"}

# name, what it is measured against, with the slow worker, keys
MODES = (
    ("sync, R = 4", "sync, R = 4", False, {"training.mode": "sync", **WHOLE}),
    ("sync, R = 16", "sync, R = 16", False, {"training.mode": "sync", **FINE}),
    ("async", "async", False, {"training.mode": "async", **SINGLE}),
    ("sync, R = 4", "sync, R = 4", True, {"training.mode": "sync", **WHOLE}),
    ("sync, backup: 3 of 4", "sync, R = 4", True,
     {"training.mode": "sync", **WHOLE, "training.replicas_to_aggregate": 3}),
    ("sync, speculation, R = 4", "sync, R = 4", True, {"training.mode": "sync", **WHOLE, **SPECULATE}),
    ("sync, speculation, R = 16", "sync, R = 16", True, {"training.mode": "sync", **FINE, **SPECULATE}),
    ("bounded(4)", "async", True, {"training.mode": "bounded", "training.staleness": 4, **SINGLE}),
    ("async", "async", True, {"training.mode": "async", **SINGLE}),
)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin_dir")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--records", type=int, default=16384)
    parser.add_argument("--factor", type=float, default=5)
    parser.add_argument("--pace", type=float, default=4)
    parser.add_argument("--only", metavar="TEXT", default="", help="modes whose name has it")
    parser.add_argument("--json", metavar="FILE")
    plots.add_option(parser, "times with the slow worker, as multiples of those without")
    return parser.parse_args()


class Cluster:
    """Real processes; with @slow_down for each worker."""

    def __init__(self, gradus, service, directory, slow_down):
        self.gradus = gradus
        self.services = []
        os.mkdir(directory)

        def start(kind, *args):
            log = os.path.join(directory, f"{kind}-{len(self.services)}.log")
            self.services.append(service(kind, *args, log=log))
            return self.services[-1].address

        state = os.path.join(directory, "state")
        self.master = start("master", f"--state-dir={state}")
        for _ in range(PS):
            start("ps", f"--master={self.master}", f"--checkpoint-dir={state}/checkpoints")
        for factor in slow_down:
            start("worker", f"--master={self.master}", f"--slow-down={factor}")

    def stop(self):
        for service in reversed(self.services):
            service.stop()

    def train(self, keys):
        """The status of the finished job."""
        command = ["submit", JOB, "--watch", "--json", "--master", self.master]
        for key, value in keys.items():
            command += ["--set", f"{key}={value}"]
        done = self.gradus(*command, timeout=600)
        if done.returncode != 0:
            sys.exit(f"gradus {' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        job = read_job(done.stdout)["job"]
        return read_job(self.gradus("status", job, "--json", "--master", self.master).stdout)


def measure(args, work):
    os.environ["GRADUS_BIN_DIR"] = os.path.abspath(args.bin_dir)
    os.environ["GRADUS_SOURCE_DIR"] = ROOT
    sys.path.insert(0, os.path.join(ROOT, "tests", "integration"))
    from cluster import Service, gradus  # needs the environment
    data = os.path.join(work, "digits")
    gradus("generate", "digits", "--out", data, "--train", str(args.records), "--test", "500")
    keys = {"data.dir": data, "training.epochs": 1, "training.evaluate_every": "never",
            "training.checkpoint_every": "never", "cluster.workers": WORKERS, "cluster.ps": PS}
    modes = [m for m in MODES if args.only in m[0]]
    figures = {mode[:3]: [] for mode in modes}
    clusters = {}
    try:
        for slow in (False, True):
            factors = [args.pace] * (WORKERS - 1) + [args.pace * (args.factor if slow else 1)]
            clusters[slow] = Cluster(gradus, Service, os.path.join(work, f"slow-{slow}"), factors)
        for run in range(args.runs):
            for name, against, slow, more in modes:
                status = clusters[slow].train({**keys, **more})
                figures[name, against, slow].append(status)
                print(f"run {run + 1}: {name}{', one slow' if slow else ''}: {status['seconds']:.2f} s, "
                      f"{status['dropped']} dropped, {status['speculated']} speculated, "
                      f"loss {status['metrics']['test']['loss']:.4f}", file=sys.stderr, flush=True)
    finally:
        for cluster in clusters.values():
            cluster.stop()
    return figures


def rows_of(figures):
    rows = []
    references = {name: statistics.median(s["seconds"] for s in runs)
                  for (name, _, slow), runs in figures.items() if not slow}
    for (name, against, slow), runs in figures.items():
        seconds = [s["seconds"] for s in runs]
        median = statistics.median(seconds)
        rows.append({
            "mode": name, "slow_worker": slow, "seconds": median, "min": min(seconds), "max": max(seconds),
            "reference": against, "ratio": median / references[against] if against in references else None,
            "dropped": statistics.median(s["dropped"] for s in runs),
            "speculated": statistics.median(s["speculated"] for s in runs),
            "test_accuracy": statistics.median(s["metrics"]["test"]["accuracy"] for s in runs),
        })
    return rows


def print_table(rows):
    print("| mode | slow worker | seconds | min–max | × its time without | dropped | speculated | test accuracy |")
    print("|---|---|---|---|---|---|---|---|")
    for r in rows:
        ratio = f"{r['ratio']:.2f}" if r["ratio"] is not None and r["slow_worker"] else "1"
        print(f"| {r['mode']} | {'one' if r['slow_worker'] else 'none'} | {r['seconds']:.2f} "
              f"| {r['min']:.2f}–{r['max']:.2f} | {ratio} | {r['dropped']:.0f} | {r['speculated']:.0f} "
              f"| {r['test_accuracy']:.3f} |")


def plot(path, rows, factor):
    """Bars of the ratios, and what no mode can beat without leaving work out. False: there is nothing to draw."""
    values = [(r["mode"], r["ratio"]) for r in rows if r["slow_worker"] and r["ratio"] is not None]
    best = WORKERS / (WORKERS - 1 + 1 / factor)
    if values:
        plots.bars(path, f"Time of one epoch with one of {WORKERS} workers {factor:g} times slower", values,
                   "multiple of the time without a slow worker",
                   [(1, "1: no slow worker"), (best, f"{best:.2f}: the same work on the speed that is left")])
    return bool(values)


def main():
    args = arguments()
    work = tempfile.mkdtemp(prefix="gradus-bench-")
    try:
        rows = rows_of(measure(args, work))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print_table(rows)
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"factor": args.factor, "pace": args.pace, "records": args.records, "runs": args.runs,
                       "cpus": os.cpu_count(), "rows": rows}, f, indent=2)
    if args.plot and not plot(args.plot, rows, args.factor):
        print("no plot: no mode was measured with and without a slow worker", file=sys.stderr)


if __name__ == "__main__":
    main()
