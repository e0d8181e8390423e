#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gradus predict beside gradus evaluate on the same records, and both ways in beside each other.

Usage: bench_predict.py BIN_DIR [--records 200000] [--runs 5] [--json FILE]

Clicks in the format of Criteo are drawn, examples/criteo-deepfm.yaml is trained on a tenth of them, and the checkpoint is
evaluated on all and asked about all, in turn: from the file, from standard input, and from JSON lines. Whole commands, with
their starts and the reading of the checkpoint; medians of the runs, records in a second of processor time (user and system),
which busy neighbours change least. Prints, never asserts."""

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def draw(path, records, seed):
    """Counts and categories that a few make up most of."""
    rng = random.Random(seed)
    with open(path, "w") as f:
        for _ in range(records):
            counts = [str(int(rng.expovariate(0.05))) if rng.random() < 0.8 else "" for _ in range(13)]
            words = [f"{int(rng.paretovariate(0.6)) % 100000 * 2654435761 % 2 ** 32:08x}" for _ in range(26)]
            f.write("\t".join([str(int(rng.random() < 0.25)), *counts, *words]) + "\n")


def as_json(path, out):
    with open(path) as f, open(out, "w") as lines:
        for line in f:
            cells = line.rstrip("\n").split("\t")
            record = {f"I{i}": float(c) if c else None for i, c in enumerate(cells[1:14], 1)}
            record.update({f"C{i}": [int(c, 16)] for i, c in enumerate(cells[14:], 1) if c})
            lines.write(json.dumps(record) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir")
    parser.add_argument("--records", type=int, default=200000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="gradus-bench-")
    gradus = os.path.join(args.bin_dir, "gradus")
    state = folder + "/state"

    def run(*words, stdin=None):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([gradus, *words], stdin=stdin, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    try:
        clicks, answers = folder + "/clicks.tsv", folder + "/answers.csv"
        draw(folder + "/train.tsv", args.records // 10, 1)
        draw(clicks, args.records, 2)
        as_json(clicks, folder + "/clicks.jsonl")
        run("run", SOURCE + "/examples/criteo-deepfm.yaml", "--set", "data.train.file=" + folder + "/train.tsv", "--set",
            "data.test_fraction=0", "--set", "data.test.file=" + clicks, "--set", "training.epochs=1", "--set",
            "training.evaluate_every=never", "--state-dir", state)
        asked = ["predict", "criteo-deepfm-1", "--state-dir", state, "--out", answers, "--data"]

        def from_input():
            with open(clicks) as f:
                return run(*asked, "-", stdin=f)
        ways = {"evaluate": lambda: run("evaluate", "criteo-deepfm-1", "--state-dir", state),
                "predict": lambda: run(*asked, clicks), "predict, standard input": from_input,
                "predict, JSON lines": lambda: run(*asked, folder + "/clicks.jsonl")}
        times = [{name: way() for name, way in ways.items()} for _ in range(args.runs)]
    finally:
        shutil.rmtree(folder)
    found = {}
    for name in ways:
        found[name] = {"records_s": args.records / statistics.median(t[name] for t in times),
                       "of evaluate": statistics.median(t["evaluate"] / t[name] for t in times)}
        print(f"{name:24} {found[name]['records_s']:10.0f} records/s  {found[name]['of evaluate']:.2f} of evaluate")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(found, f, indent=2)


if __name__ == "__main__":
    sys.exit(main())
