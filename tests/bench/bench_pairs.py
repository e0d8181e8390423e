#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds beside each other: the same transfers with the programs of each, in turn, and the ratios of their rates.

Usage: bench_pairs.py BIN_A BIN_B [--kind exchange] [--sockets tcp,memory] [--sizes 4K,1M,16M] [--clients 1]
                      [--rule sgd] [--link DELAY_US,MB_PER_SECOND] [--pairs 24] [--seconds 0.2] [--json FILE]

A ratio above 1: A is faster. A pair is one short measurement of each, right after each other, so a machine that drifts
or that others use does so for both; servers and clients are started anew four times, because where their memory lies
is worth some percent. Prints, never asserts."""

import argparse
import itertools
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench  # noqa: E402
import machine  # noqa: E402
import transfers  # noqa: E402

STARTS = 4


class Side:
    """A server of one build and its clients, over a link where there is one."""

    def __init__(self, bin_dir, args, socket, size):
        self.server = transfers.Server(bin_dir, socket)
        self.programs = []
        target = self.server.said["grpc"]
        if args.link:
            link = transfers.Program(os.path.join(bin_dir, "bench_link"), target.rsplit(":", 1)[1], *args.link)
            self.programs.append(link)
            target = f"127.0.0.1:{link.said[0]}"
        program = os.path.join(bin_dir, "bench_transfer")
        self.clients = [transfers.Program(program, target, size, args.rule, i, args.clients) for i in range(args.clients)]
        self.programs += self.clients

    def rate(self, args):
        rate, _ = transfers.together(self.clients, args.kind, args.seconds)
        time.sleep(args.seconds / 2) # for whoever else is here
        return rate

    def close(self):
        for p in reversed(self.programs):
            p.close()
        self.server.close()


def measure(args, socket, size):
    """Rates of A and B, pair by pair."""
    pairs = []
    for start in range(STARTS):
        sides = {}
        for name in "AB" if start % 2 == 0 else "BA":
            sides[name] = Side(args.bin_a if name == "A" else args.bin_b, args, socket, size)
            sides[name].rate(args)
        for i in range((args.pairs + STARTS - 1) // STARTS):
            rates = {name: sides[name].rate(args) for name in ("AB" if (start + i) % 2 == 0 else "BA")}
            pairs.append((rates["A"], rates["B"]))
        for side in sides.values():
            side.close()
    return pairs


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_a")
    parser.add_argument("bin_b")
    parser.add_argument("--kind", choices=("exchange", "push", "pull"), default="exchange")
    parser.add_argument("--sockets", type=lambda t: t.split(","), default=["tcp", "memory"], metavar="tcp,unix,memory")
    parser.add_argument("--sizes", type=lambda t: [bench.parse_size(s) for s in t.split(",")],
                        default=[4 << 10, 1 << 20, 16 << 20], metavar="4K,1M,...")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--rule", default="sgd")
    parser.add_argument("--link", type=lambda t: t.split(","), metavar="DELAY_US,MB_PER_SECOND", help="with sockets tcp")
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=0.2, help="of one measurement")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args(argv)


def main():
    args = parse(sys.argv[1:])
    machine.prefer_ourselves()
    print(f"{machine.describe()}; {args.kind}, {args.clients} clients, {args.rule}; medians, quartiles")
    print(f"{'':<8}{'bytes':>10} {'A, GB/s':>9} {'B, GB/s':>9} {'A / B':>7}")
    rows = []
    for socket, size in itertools.product(args.sockets, args.sizes):
        pairs = measure(args, socket, size)
        scale = size * (2 if args.kind == "exchange" else 1) * 1e-9
        a, b = (statistics.median(side) * scale for side in zip(*pairs))
        low, ratio, high = statistics.quantiles([x / y for x, y in pairs], n=4)
        print(f"{socket:<8}{size:>10} {a:>9.3g} {b:>9.3g} {ratio:>7.3f}  {low:.3f}–{high:.3f}", flush=True)
        rows.append({"socket": socket, "bytes": size, "a": a, "b": b, "ratio": ratio, "quartiles": [low, high]})
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=2)


if __name__ == "__main__":
    main()
