#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Models of users' own trained by a cluster, beside the same without one: every measure of programs, PyTorch and ONNX files.

Usage: bench_programs.py BIN_DIR [--only ROW]... [--batches 64,256] [--pictures DIR] [--runs 5] [--epochs 0] [--json FILE]

Rows; the two sides are taken in turn, with other seeds each time, and a line has their medians, the median of the ratios, and the
accuracies. All with one thread and the same matrix kernels, sgd, sync mode, values in shared memory:
  mlp       784-256-128-10 in PyTorch on 25,600 digits that `gradus generate` draws, 1 + 1, beside PyTorch alone
  resnet    78,000 parameters in PyTorch on 3 x 32 x 32 pictures, 1 + 1, batches of 64, beside PyTorch alone. Pictures are those of
            DIR/train*.bin and DIR/test*.bin, also .bin.gz (records like CIFAR-10's), else of cifar10 in GRADUS_TEST_DATA, else drawn
  dlrm      26 fields through one nn.EmbeddingBag(sparse=True) of a million rows, which is a sparse table, 2 + 2, two replicas of 256,
            beside PyTorch alone with batches of 512
  layer     microseconds of this thread's time that the Python layer takes for a batch, without waiting and without computing
  onnx-mlp, onnx-cnn
            the graph of an ONNX file beside the same as layers, 1 + 1, batches of 64
mlp, resnet, dlrm and half of layer need python3-torch. Prints, never asserts."""

import argparse
import glob
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
RECORDS = {"mlp": 25600, "resnet": 10240}
EPOCHS = {"mlp": 6, "resnet": 5, "dlrm": 2, "onnx-mlp": 6, "onnx-cnn": 2}
TESTS = 1000
LEARNING_RATE = 0.05  # of torch_tasks.py
ROWS = ("mlp", "resnet", "dlrm", "layer", "onnx-mlp", "onnx-cnn")

JOB = {
    "name": "bench-programs",
    "model": {"program": "torch_tasks", "metrics": ["accuracy"]},
    "update": {"rule": "sgd", "learning_rate": LEARNING_RATE},
    "training": {"mode": "sync", "replicas": 1, "evaluate_every": "never"},
    "cluster": {"workers": 1, "ps": 1},
}
TABLES = [{"name": "rows", "dim": 16, "init_spread": 0.05, "memory_bytes": "512 MiB"}]
DIGITS = {"train": {"file": "train-images-idx3-ubyte.gz", "labels": "train-labels-idx1-ubyte.gz"},
          "test": {"file": "t10k-images-idx3-ubyte.gz", "labels": "t10k-labels-idx1-ubyte.gz"}}
CHANNELS = (8, 16)
LAYERS = {
    "onnx-mlp": [{"flatten": {}}, {"dense": {"units": 256, "activation": "relu"}}, {"dense": {"units": 128, "activation": "relu"}},
                 {"dense": {"units": 10}}],
    "onnx-cnn": [layer for filters in CHANNELS for layer in
                 ({"conv2d": {"filters": filters, "kernel": 3, "padding": "same", "use_bias": False}}, {"batch_norm": {}}, {"relu": {}},
                  {"max_pool2d": {"size": 2}})] + [{"flatten": {}}, {"dense": {"units": 10}}],
}


# ---- data ----

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


def make_pictures(args, directory):
    known = os.path.join(os.environ.get("GRADUS_TEST_DATA", ""), "cifar10")
    if args.pictures:
        return args.pictures
    if glob.glob(os.path.join(known, "train*.bin*")):
        return known
    os.mkdir(directory)
    draw_pictures(os.path.join(directory, "train.bin"), RECORDS["resnet"], 1)
    draw_pictures(os.path.join(directory, "test.bin"), TESTS, 2)
    return directory


def make_digits(args, directory):
    if not os.path.exists(directory):
        subprocess.run([os.path.join(args.bin_dir, "gradus"), "generate", "digits", "--out", directory, "--train", str(RECORDS["mlp"]),
                        "--test", str(TESTS)], check=True, stdout=subprocess.DEVNULL)
    return directory


def make_data(args, task, work):
    """What the second argument of torch_tasks.py is."""
    if task == "resnet":
        return make_pictures(args, os.path.join(work, task))
    return make_digits(args, os.path.join(work, "digits")) if task == "mlp" else "drawn"


# ---- runs ----

def output_of(command, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, env=environment)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


KERNELS = "BENCH_KERNELS"  # names a file, where a worker's program writes which matrix kernels it has


def one_thread():
    return dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")


def same_kernels(file):
    """A worker chooses matrix kernels where OpenBLAS does not know the processor (docs/settings.md): PyTorch alone gets the same."""
    with open(file) as f:
        kernels = f.read()
    return dict(one_thread(), **({"OPENBLAS_CORETYPE": kernels} if kernels else {}))


def run_job(args, work, job, *more, **sets):
    """What became of it."""
    file = os.path.join(work, "job.yaml")
    with open(file, "w", encoding="ascii") as f:
        json.dump(job, f)  # JSON is YAML
    parts = [part for key, value in sets.items() for part in ("--set", f"{key.replace('__', '.')}={value}")]
    return read_job(output_of([os.path.join(args.bin_dir, "gradus"), "run", file, "--json", "--state-dir", os.path.join(work, "state"),
                               *more, *parts], one_thread()))


def accuracy_of(run):
    return run["accuracy"] if "accuracy" in run else run["metrics"]["test"]["accuracy"]


def spread(values):
    return f"{min(values):.3f}-{max(values):.3f}"


def compare(args, row, batch, names, ours, theirs):
    """Both sides for each seed, in an order that changes."""
    taken = []
    for seed in range(1, args.runs + 1):
        sides = {}
        for side in (ours, theirs) if seed % 2 else (theirs, ours):
            sides[side] = side(seed)
        taken.append((sides[ours], sides[theirs]))
    rates = [[run[side]["examples_per_second"] for run in taken] for side in (0, 1)]
    rights = [[accuracy_of(run[side]) for run in taken] for side in (0, 1)]
    ratio = statistics.median(a / b for a, b in zip(*rates))
    print(f"{row:<9} batch {batch:<4} {names[0]} {statistics.median(rates[0]):8.0f} examples/s   {names[1]} "
          f"{statistics.median(rates[1]):8.0f}   {ratio:6.1%}   accuracy {spread(rights[0])} beside {spread(rights[1])}", flush=True)
    return {"bench": row, "batch": batch, "sides": names, "rates": rates, "accuracies": rights, "ratio": ratio}


# ---- rows ----

def measure_torch(args, task, batch, work):
    """@batch: of one replica."""
    data, epochs, nodes = make_data(args, task, work), args.epochs or EPOCHS[task], 2 if task == "dlrm" else 1
    program = [PYTHON, os.path.join(HERE, "torch_tasks.py"), task, data]
    os.environ[KERNELS] = os.path.join(work, "kernels")
    job = dict(JOB, model=dict(JOB["model"], tables=TABLES)) if task == "dlrm" else JOB

    def cluster(seed):
        return run_job(args, work, job, "--worker", shlex.join(program), training__batch_size=batch, training__epochs=epochs,
                       training__seed=seed, training__replicas=nodes, cluster__workers=nodes, cluster__ps=nodes,
                       cluster__partitions=nodes)

    def alone(seed):
        return json.loads(output_of([*program, "--alone", str(nodes * batch), str(epochs), str(seed)], same_kernels(os.environ[KERNELS])))

    return compare(args, task, nodes * batch, (f"cluster {nodes}+{nodes}", "PyTorch alone"), cluster, alone)


def measure_onnx(args, row, work):
    sys.path.insert(0, os.path.join(HERE, "..", "integration"))
    import onnx_bytes
    data = make_digits(args, os.path.join(work, "digits"))
    with open(os.path.join(data, "net.onnx"), "wb") as f:
        f.write(onnx_bytes.mlp((784, 256, 128, 10)) if row == "onnx-mlp" else onnx_bytes.cnn(CHANNELS))

    def side(model):
        job = dict(JOB, data=dict(DIGITS, dir=data), model={"loss": "softmax_cross_entropy", "metrics": ["accuracy"], **model})
        return lambda seed: run_job(args, work, job, training__batch_size=64, training__epochs=args.epochs or EPOCHS[row],
                                    training__seed=seed)

    return compare(args, row, 64, ("ONNX file", "layers"), side({"onnx": "net.onnx"}),
                   side({"input": [28, 28, 1], "layers": LAYERS[row]}))


def measure_layer(args):
    figures = json.loads(output_of([PYTHON, "-B", os.path.join(HERE, "bench_layer.py"), "--batches", "300" if args.epochs else "3000"],
                                   dict(one_thread(), GRADUS_BIN=os.path.abspath(args.bin_dir))))
    for name, us in figures.items():
        print(f"layer     {name:<30} {us:6.1f} us a batch", flush=True)
    return {"bench": "layer", "us": figures}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir")
    parser.add_argument("--only", action="append", choices=ROWS)
    parser.add_argument("--batches", type=lambda text: [int(word) for word in text.split(",")], default=[64, 256], metavar="64,256",
                        help="of mlp")
    parser.add_argument("--pictures", metavar="DIR")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=0, help=f"default: {EPOCHS}")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    print(f"models of users' own, sgd, one thread, {os.cpu_count()} CPUs, {args.runs} runs", flush=True)
    work = tempfile.mkdtemp(prefix="gradus-bench-")
    try:
        rows = []
        for row in args.only or ROWS:
            if row == "layer":
                rows.append(measure_layer(args))
            elif row.startswith("onnx"):
                rows.append(measure_onnx(args, row, work))
            else:
                rows += [measure_torch(args, row, batch, work)
                         for batch in (args.batches if row == "mlp" else [256 if row == "dlrm" else 64])]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if args.json:
        with open(args.json, "w", encoding="ascii") as f:
            json.dump(rows, f, indent=2)


if __name__ == "__main__":
    main()
