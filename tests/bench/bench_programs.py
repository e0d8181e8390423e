#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Models in PyTorch trained by a cluster of one worker and one server, beside the same module trained by PyTorch alone.

Usage: bench_programs.py BIN_DIR [--only mlp|resnet] [--batches 64,256] [--pictures DIR] [--runs 5] [--epochs 0] [--json FILE]

Both with one thread and SGD; the cluster in sync mode, values in shared memory; the two are taken in turn, each with other seeds, and a
line has the medians, the median of the ratios and the accuracies. mlp: 784-256-128-10 on 25,600 digits that `gradus generate` draws;
resnet: 78,000 parameters on 3 x 32 x 32 pictures: 20,000 drawn ones, or those of DIR/train.bin and DIR/test.bin (records like
CIFAR-10's). Needs python3-torch. Prints, never asserts."""

import argparse
import json
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from job_json import read_job  # noqa: E402

PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's torch
RECORDS = {"mlp": 25600, "resnet": 20480}
EPOCHS = {"mlp": 6, "resnet": 1}
TESTS = 1000
LEARNING_RATE = 0.05  # of torch_tasks.py

JOB = {
    "name": "bench-programs",
    "model": {"program": "torch_tasks", "metrics": ["accuracy"]},
    "update": {"rule": "sgd", "learning_rate": LEARNING_RATE},
    "training": {"mode": "sync", "replicas": 1, "evaluate_every": "never"},
    "cluster": {"workers": 1, "ps": 1},
}


def draw_pictures(path, count, seed):
    """Pictures of ten classes: a coloured bar whose angle is its class, and noise."""
    draw = random.Random(seed)
    with open(path, "wb") as f:
        for _ in range(count):
            label, colour, shift = draw.randrange(10), draw.randrange(3), draw.randrange(32)
            noise = bytearray(draw.getrandbits(8 * 3072).to_bytes(3072, "little"))
            for y in range(32):
                x = (shift + y * label // 4) % 32
                for k in range(3):
                    noise[colour * 1024 + y * 32 + (x + k) % 32] = 255
            f.write(bytes([label]) + noise)


def make_data(args, task, work):
    directory = os.path.join(work, task)
    if task == "resnet" and args.pictures:
        return args.pictures
    if task == "resnet":
        os.mkdir(directory)
        draw_pictures(os.path.join(directory, "train.bin"), RECORDS[task], 1)
        draw_pictures(os.path.join(directory, "test.bin"), TESTS, 2)
    else:
        subprocess.run([os.path.join(args.bin_dir, "gradus"), "generate", "digits", "--out", directory, "--train", str(RECORDS[task]),
                        "--test", str(TESTS)], check=True, stdout=subprocess.DEVNULL)
    return directory


def output_of(command, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, env=environment)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def measure(args, task, batch, data, work):
    program = [PYTHON, os.path.join(HERE, "torch_tasks.py"), task, data]
    epochs = args.epochs or EPOCHS[task]
    job = os.path.join(work, "job.yaml")
    with open(job, "w", encoding="ascii") as f:
        json.dump(JOB, f)  # JSON is YAML
    one_thread = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")

    def cluster(seed):
        command = [os.path.join(args.bin_dir, "gradus"), "run", job, "--json", "--state-dir", os.path.join(work, "state"), "--worker",
                   shlex.join(program), "--set", f"training.batch_size={batch}", "--set", f"training.epochs={epochs}", "--set",
                   f"training.seed={seed}"]
        return read_job(output_of(command, one_thread))

    def alone(seed):
        return json.loads(output_of([*program, "--alone", str(batch), str(epochs), str(seed)], one_thread))

    taken = [(cluster(seed), alone(seed)) for seed in range(1, args.runs + 1)]
    rates = [[run[side]["examples_per_second"] for run in taken] for side in (0, 1)]
    rights = [[accuracy_of(run[side]) for run in taken] for side in (0, 1)]
    ratio = statistics.median(a / b for a, b in zip(*rates))
    print(f"{task:<7} batch {batch:<4} cluster 1+1 {statistics.median(rates[0]):8.0f} examples/s   PyTorch alone "
          f"{statistics.median(rates[1]):8.0f}   {ratio:6.1%}   accuracy {spread(rights[0])} beside {spread(rights[1])}", flush=True)
    return {"bench": task, "batch": batch, "cluster": rates[0], "alone": rates[1], "ratio": ratio, "cluster_accuracy": rights[0],
            "alone_accuracy": rights[1]}


def accuracy_of(run):
    return run["accuracy"] if "accuracy" in run else run["metrics"]["test"]["accuracy"]


def spread(values):
    return f"{min(values):.3f}-{max(values):.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir")
    parser.add_argument("--only", action="append", choices=list(RECORDS))
    parser.add_argument("--batches", type=lambda text: [int(word) for word in text.split(",")], default=[64, 256], metavar="64,256")
    parser.add_argument("--pictures", metavar="DIR")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=0, help=f"default: {EPOCHS}")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    print(f"PyTorch models, sgd, one thread, {os.cpu_count()} CPUs, {args.runs} runs")
    work = tempfile.mkdtemp(prefix="gradus-bench-")
    try:
        rows = []
        for task in args.only or RECORDS:
            data = make_data(args, task, work)
            rows += [measure(args, task, batch, data, work) for batch in args.batches]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if args.json:
        with open(args.json, "w", encoding="ascii") as f:
            json.dump(rows, f, indent=2)


if __name__ == "__main__":
    main()
