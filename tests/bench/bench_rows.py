#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Rows of a sparse table pushed and pulled, beside a dense shard of as many bytes.

Usage: bench_rows.py BIN_DIR [--keys 6656] [--sockets memory,tcp] [--rounds 15] [--seconds 0.3] [--json FILE]

One server and one client each: gradients of KEYS rows of 16 floats there, the update (sgd), and as many rows of other keys back, in one
exchange; 6656 keys are 26 fields of 256 records, all different. The dense exchange has half of the bytes of both ways as its shard. The
two are taken in turn; a line has the medians and the median of the ratios. Prints, never asserts."""

import argparse
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
import transfers  # noqa: E402

DIM = 16
PUSHED = 8 + 4 + 4 * DIM + 8  # bytes of a key: with how often it was seen and its gradient; and the next batch's key
PULLED = 4 * DIM
WARM_SECONDS = 1.0  # all rows are made


class Side:
    def __init__(self, bin_dir, socket, size, *more):
        self.server = transfers.Server(bin_dir, socket)
        self.client = transfers.Program(os.path.join(bin_dir, "bench_transfer"), self.server.said["grpc"], size, "sgd", 0, 1, "fp32", *more)

    def round(self, seconds):
        """Exchanges a second, and CPU seconds of both processes for each."""
        before = machine.cpu_seconds(self.server.pid)
        rate, answers = transfers.together([self.client], "exchange", seconds)
        cpu = machine.cpu_seconds(self.server.pid) - before + sum(a["cpu"] for a in answers)
        return rate, cpu / sum(a["ops"] for a in answers)

    def close(self):
        self.client.close()
        self.server.close()


def measure(args, socket):
    size = args.keys * (PUSHED + PULLED) // 2 // 4 * 4
    rows, dense = Side(args.bin_dir, socket, 4, args.keys), Side(args.bin_dir, socket, size)
    taken = []
    try:
        for side in (rows, dense):
            side.round(WARM_SECONDS)
        for _ in range(args.rounds):
            taken.append((rows.round(args.seconds), dense.round(args.seconds)))
    finally:
        rows.close()
        dense.close()
    median = lambda side, at: statistics.median(t[side][at] for t in taken)  # noqa: E731
    ratio = statistics.median(r[0] / d[0] for r, d in taken)
    print(f"{socket:<8} rows {1e6 / median(0, 0):8.0f} us, CPU {median(0, 1) * 1e6:8.0f} us   "
          f"dense {1e6 / median(1, 0):8.0f} us, CPU {median(1, 1) * 1e6:8.0f} us   {ratio:6.1%} of the dense rate")
    return {"bench": "rows", "socket": socket, "keys": args.keys, "rows_per_second": median(0, 0), "dense_per_second": median(1, 0),
            "rows_cpu": median(0, 1), "dense_cpu": median(1, 1), "ratio": ratio}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir")
    parser.add_argument("--keys", type=int, default=6656)
    parser.add_argument("--sockets", default="memory,tcp")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    print(f"{args.keys} rows of {DIM} floats: {args.keys * PUSHED} bytes there, {args.keys * PULLED} back, {args.rounds} rounds")
    rows = [measure(args, socket) for socket in args.sockets.split(",")]
    if args.json:
        with open(args.json, "w", encoding="ascii") as f:
            json.dump(rows, f, indent=2)


if __name__ == "__main__":
    main()
