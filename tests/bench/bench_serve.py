#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Answers of gradus-serve beside an echo of as many bytes over the same RPC layer, and beside the forward passes of PyTorch and
ONNX Runtime.

Usage: bench_serve.py BIN_DIR [--runs 7] [--seconds 0.5] [--realtime] [--python PROGRAM] [--json FILE]

A model of 784-256-128-10 on drawn digits; one client that waits for each answer, batches of 1 and 64; the server on one processor,
the client on another. Echo and server are asked in turn; medians of the runs are printed. Records in a second: of four clients. Then newer versions take the place of others
while four clients ask. PyTorch (python3-torch) and ONNX Runtime with the exported model (pip install onnxruntime), where
--python has them: one thread, without any request. Prints, never asserts."""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FEATURES, OUTPUTS = 784, 10
BATCHES = (1, 64)
CLIENTS = 4  # for what the server can do at most

TORCH = """
import os, sys, time
os.environ["OPENBLAS_NUM_THREADS"] = "1"
import torch
torch.set_num_threads(1)
L, R = torch.nn.Linear, torch.nn.ReLU
model = torch.nn.Sequential(L(784, 256), R(), L(256, 128), R(), L(128, 10), torch.nn.Softmax(dim=1)).eval()
with torch.no_grad():
    for batch in (1, 64):
        x = torch.rand(batch, 784)
        for _ in range(200): model(x)
        times = []
        end = time.perf_counter() + float(sys.argv[1])
        while time.perf_counter() < end:
            begin = time.perf_counter(); model(x); times.append(time.perf_counter() - begin)
        times.sort()
        print(batch, times[len(times) // 2] * 1e6)
"""


ONNX = """
import sys, time
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[2], options, providers=["CPUExecutionProvider"])
outputs = [o.name for o in session.get_outputs()]
for batch in (1, 64):
    x = {"features": numpy.random.randint(0, 256, (batch, 28, 28)).astype(numpy.float32)}
    for _ in range(200): session.run(outputs, x)
    times = []
    end = time.perf_counter() + float(sys.argv[1])
    while time.perf_counter() < end:
        begin = time.perf_counter(); session.run(outputs, x); times.append(time.perf_counter() - begin)
    times.sort()
    print(batch, times[len(times) // 2] * 1e6)
"""
LIBRARIES = {"PyTorch": TORCH, "ONNX Runtime": ONNX}


class Bench:
    def __init__(self, args):
        self.args = args
        self.dir = tempfile.mkdtemp(prefix="gradus-bench-")
        self.processes = []

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def program(self, name):
        return os.path.join(self.args.bin_dir, name)

    def gradus(self, *words):
        done = subprocess.run([self.program("gradus"), *words], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        return done.stdout

    def pinned(self, processor, *words):
        scheduled = ["chrt", "-r", "1"] if self.args.realtime else []
        return [*scheduled, "taskset", "-c", str(processor), *words]

    def start(self, *words):
        process = subprocess.Popen(self.pinned(0, *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        self.processes.append(process)
        line = process.stdout.readline()
        return re.search(r"(?:grpc=)?(127\.0\.0\.1:\d+)", line).group(1)

    def ask(self, address, batch, seconds=None, clients=1):
        done = subprocess.run(self.pinned(1, self.program("bench_serve"), "ask", address, "digits-1", str(FEATURES), str(batch),
                                          str(seconds or self.args.seconds), str(clients)), capture_output=True, text=True)
        if not done.stdout:
            raise SystemExit(done.stderr)
        return json.loads(done.stdout)

    def train(self):
        self.gradus("generate", "digits", "--out", self.path("digits"), "--train", "6400", "--test", "500")
        self.gradus("run", SOURCE + "/examples/digits.yaml", "--set", "data.dir=" + self.path("digits"), "--set",
                    "training.epochs=1", "--set", "training.checkpoint_every=12", "--state-dir", self.path("state"))
        root = self.path("state", "checkpoints", "digits-1")
        return root, sorted(name for name in os.listdir(root) if name.startswith("step-"))

    def beside_echo(self, checkpoint):
        served = self.start(self.program("gradus-serve"), "--checkpoint", checkpoint)
        echo = self.start(self.program("bench_serve"), "echo", str(OUTPUTS))
        rows = []
        for batch in BATCHES:
            for address in (served, echo):
                self.ask(address, batch, 0.2)
            pairs = [(self.ask(served, batch), self.ask(echo, batch)) for _ in range(self.args.runs)]
            row = {"batch": batch}
            for key in ("p50_us", "p99_us", "requests_s"):
                row["serve " + key] = statistics.median(p[0][key] for p in pairs)
                row["echo " + key] = statistics.median(p[1][key] for p in pairs)
            row["p50 / echo"] = statistics.median(p[0]["p50_us"] / p[1]["p50_us"] for p in pairs)
            several = [self.ask(served, batch, clients=CLIENTS)["requests_s"] for _ in range(self.args.runs)]
            row["records/s"] = batch * statistics.median(several)
            rows.append(row)
        return rows

    def swaps(self, root, steps):
        following = self.path("following")
        os.makedirs(following)
        shutil.copy(root + "/owner", following)
        shutil.copytree(f"{root}/{steps[0]}", f"{following}/{steps[0]}")
        address = self.start(self.program("gradus-serve"), "--checkpoint", following, "--follow", "--follow-every-ms", "50")
        still = self.ask(address, 1, 2, 4)
        asking = subprocess.Popen(self.pinned(1, self.program("bench_serve"), "ask", address, "digits-1", str(FEATURES), "1", "2",
                                              "4"), stdout=subprocess.PIPE, text=True)
        for step in steps[1:]:
            time.sleep(0.5)
            shutil.copytree(f"{root}/{step}", f"{following}/new")
            os.rename(f"{following}/new", f"{following}/{step}")
        moving = json.loads(asking.communicate()[0])
        return {"versions": moving["versions"], "failures": moving["failures"], "p99_us still": still["p99_us"],
                "p99_us": moving["p99_us"], "max_us": moving["max_us"], "p99 / still": moving["p99_us"] / still["p99_us"]}

    def alone(self, program, model):
        """Microseconds of a forward pass in a library, by batches."""
        done = subprocess.run(self.pinned(0, self.args.python, "-c", program, str(self.args.seconds), model), capture_output=True,
                              text=True)
        return {int(b): float(us) for b, us in (line.split() for line in done.stdout.splitlines())}

    def libraries(self, checkpoint):
        model = self.path("model.onnx")
        self.gradus("export", "--from", checkpoint, model)
        return {name: self.alone(program, model) for name, program in LIBRARIES.items()}

    def close(self):
        for process in self.processes:
            process.stdin.close()
            process.terminate()
            process.wait()
        shutil.rmtree(self.dir)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--realtime", action="store_true", help="before all other programs of the machine")
    parser.add_argument("--python", default="/usr/bin/python3", help="that has the libraries to compare with")
    parser.add_argument("--json")
    args = parser.parse_args()
    bench = Bench(args)
    try:
        root, steps = bench.train()
        found = {"requests": bench.beside_echo(f"{root}/{steps[-1]}"), "swaps": bench.swaps(root, steps),
                 "alone_us": bench.libraries(f"{root}/{steps[-1]}")}
    finally:
        bench.close()
    for row in found["requests"]:
        print("  ".join(f"{k} {v:.4g}" for k, v in row.items()))
        for name, all_us in found["alone_us"].items():
            us = all_us.get(row["batch"])
            if us:
                print(f"  {name}'s forward pass: {us:.4g} us, {row['batch'] / us * 1e6:.4g} records/s; "
                      f"requests reach {row['records/s'] * us / row['batch'] / 1e6:.3g} of it")
    print("swaps  " + "  ".join(f"{k} {v:.4g}" for k, v in found["swaps"].items()))
    if args.json:
        with open(args.json, "w") as f:
            json.dump(found, f, indent=2)


if __name__ == "__main__":
    sys.exit(main())
