#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A model like DLRM on a sparse table, beside PyTorch without a parameter server.

Usage: bench_sparse.py BIN_DIR [--rule sgd] [--runs 5] [--epochs 3] [--records 102400] [--rows 1000000] [--json FILE]

26 categories of a million values each and 13 numbers (Zipf's law with exponent 1.05, hashed), rows of 16 floats, three layers of 400,
batches of 256. PyTorch's side, where python3-torch is installed: one EmbeddingBag(sparse=True) for all fields, the same layers, one and
two threads. Every run is taken in turn with the others; medians are printed, and ratios to PyTorch with as many threads as there are
workers. Prints, never asserts."""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

FIELDS, NUMBERS, DIM, WIDTH, BATCH = 26, 13, 16, 400, 256
WARM_STEPS = 30

JOB = """name: dlrm-like
data:
  format: criteo
  train: {{file: clicks.tsv}}
  columns:
    - {{column: label, as: label}}
    - {{column: I1..I13, log: true, standardise: true}}
    - {{column: C1..C26, as: sparse}}
model:
  tables: [{{name: rows, dim: {dim}, memory_bytes: 1 GiB, copies_bytes: 128 MiB}}]
  layers:
    - embedding: {{name: vectors, table: rows}}
    - flatten
    - concat: {{from: [flatten_1, input]}}
    - dense: {{units: {width}, activation: relu}}
    - dense: {{units: {width}, activation: relu}}
    - dense: {{units: {width}, activation: relu}}
    - dense: {{units: 1}}
  loss: sigmoid_cross_entropy
update: {{rule: {rule}, learning_rate: 0.01}}
training: {{batch_size: {batch}, epochs: {epochs}, evaluate_every: never, replicas: 0}}
"""

TORCH = """
import os, sys, time
threads, rule, path, rows = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
os.environ["OPENBLAS_NUM_THREADS"] = sys.argv[1]
import torch
torch.set_num_threads(threads)
ids, numbers, labels = [], [], []
with open(path) as f:
    for line in f:
        fields = line.split("\\t")
        labels.append(float(fields[0]))
        numbers.append([float(x) for x in fields[1:14]])
        ids.append([(int(x, 16) + k * 7919) %% rows for k, x in enumerate(fields[14:])])
ids, numbers, labels = torch.tensor(ids), torch.log1p(torch.tensor(numbers)), torch.tensor(labels)
table = torch.nn.EmbeddingBag(rows, %(dim)d, mode="sum", sparse=True)
net = torch.nn.Sequential(torch.nn.Linear(26 * %(dim)d + 13, %(width)d), torch.nn.ReLU(), torch.nn.Linear(%(width)d, %(width)d),
                          torch.nn.ReLU(), torch.nn.Linear(%(width)d, %(width)d), torch.nn.ReLU(), torch.nn.Linear(%(width)d, 1))
kinds = {"sgd": (torch.optim.SGD, torch.optim.SGD), "adagrad": (torch.optim.Adagrad, torch.optim.Adagrad),
         "adam": (torch.optim.SparseAdam, torch.optim.Adam)}[rule]
steps = [kinds[0](list(table.parameters()), lr=0.01), kinds[1](net.parameters(), lr=0.01)]
def step(at):
    part = slice(at %% len(ids), at %% len(ids) + %(batch)d)
    rows = table(ids[part].reshape(-1, 1)).reshape(-1, 26 * %(dim)d)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(net(torch.cat([rows, numbers[part]], 1)).squeeze(1), labels[part])
    for s in steps:
        s.zero_grad(set_to_none=True)
    loss.backward()
    for s in steps:
        s.step()
for i in range(%(warm)d):
    step(i * %(batch)d)
begin, count = time.perf_counter(), 0
while time.perf_counter() - begin < 5:
    step(count * %(batch)d)
    count += 1
print(count * %(batch)d / (time.perf_counter() - begin))
""" % {"dim": DIM, "width": WIDTH, "batch": BATCH, "warm": WARM_STEPS}


def write_clicks(path, records, rows):
    draw = random.Random(1)
    with open(path, "w", encoding="ascii") as f:
        for _ in range(records):
            keys = (int(draw.random() ** -20 % 2**63) * 0x9E3779B97F4A7C15 % 2**64 >> 20 for _ in range(FIELDS))
            numbers = "\t".join(str(draw.randrange(1000)) for _ in range(NUMBERS))
            f.write(f"{draw.randrange(2)}\t{numbers}\t" + "\t".join(f"{(key + k * 104729) % rows:08x}" for k, key in enumerate(keys)) + "\n")


def measure(args, work):
    data = os.path.join(work, "clicks.tsv")
    write_clicks(data, args.records - args.records % BATCH, args.rows)
    job = os.path.join(work, "job.yaml")
    with open(job, "w", encoding="ascii") as f:
        f.write(JOB.format(dim=DIM, width=WIDTH, batch=BATCH, rule=args.rule, epochs=args.epochs))

    def cluster(mode, nodes):
        command = [os.path.join(args.bin_dir, "gradus"), "run", job, "--json", "--state-dir", os.path.join(work, "state")]
        for key, value in {"data.dir": work, "training.mode": mode, "cluster.workers": nodes, "cluster.ps": nodes,
                           "cluster.partitions": nodes}.items():
            command += ["--set", f"{key}={value}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)["examplesPerSecond"]

    def torch(threads):
        done = subprocess.run(["/usr/bin/python3", "-c", TORCH, str(threads), args.rule, data, str(args.rows)],
                              capture_output=True, text=True, timeout=300)
        return float(done.stdout) if done.returncode == 0 else None

    benches = {"PyTorch, 1 thread": lambda: torch(1), "PyTorch, 2 threads": lambda: torch(2)}
    for mode in ("sync", "async"):
        for nodes in (1, 2):
            benches[f"{mode} {nodes}+{nodes}"] = lambda mode=mode, nodes=nodes: cluster(mode, nodes)
    figures = {name: [] for name in benches}
    for _ in range(args.runs):
        for name, bench in benches.items():
            figures[name].append(bench())
    print(f"26 fields of {args.rows} x {DIM}, 3 layers of {WIDTH}, {args.rule}, batch {BATCH}, {os.cpu_count()} CPUs, {args.runs} runs")
    print(f"{'':<20} {'median':>10} {'min':>10} {'max':>10}  of PyTorch")
    rows = []
    for name, values in figures.items():
        if None in values:
            print(f"{name:<20} {'-':>10}  (no python3-torch here)")
            continue
        median = statistics.median(values)
        peer = figures["PyTorch, 2 threads" if "2" in name else "PyTorch, 1 thread"]
        ratio = None if None in peer else median / statistics.median(peer)
        print(f"{name:<20} {median:>10.0f} {min(values):>10.0f} {max(values):>10.0f}  {'' if ratio is None else f'{ratio:6.1%}'}")
        rows.append({"bench": name, "rule": args.rule, "unit": "examples/s", "median": median, "min": min(values), "max": max(values),
                     "ratio": ratio})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir")
    parser.add_argument("--rule", choices=("sgd", "adagrad", "adam"), default="sgd")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--records", type=int, default=102400)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    work = tempfile.mkdtemp(prefix="gradus-bench-")
    try:
        rows = measure(args, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if args.json:
        with open(args.json, "w", encoding="ascii") as f:
            json.dump(rows, f, indent=2)


if __name__ == "__main__":
    main()
