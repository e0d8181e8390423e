#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""All benchmarks of the data plane, each beside what the machine allows in the same run. Prints, never asserts."""

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
import plots  # noqa: E402
import report  # noqa: E402
import transfers  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
SOCKETS = ("tcp", "unix", "memory")
LINK_DELAYS_US, LINK_MB_PER_SECOND = (50, 500), 1250  # one way: of one rack; of one region
LATENCY_BYTES = 4 * KIB
APPLY_RULES = ("sgd", "momentum", "adam")
MEMORY_BYTES = (16 * MIB, 64 * MIB, 256 * MIB)
MEMORY_SLOTS = {"sgd": 0, "momentum": 1, "adam": 2}
CROWDS, CROWD = (1, 4, 16, 64, 256), 64  # clients of one process
MEMORY_CLIENTS, MEMORY_GRADIENTS = 4, 2  # that push at once, that there is room for


def seconds_for(args, size):
    """Long enough for several operations of the largest."""
    return args.seconds * (1 if size < 64 * MIB else 2 if size < 256 * MIB else 4)


def transfer(args, kind, both_ways):
    for socket in args.sockets or SOCKETS:
        for clients in args.clients:
            for size in args.sizes:
                pair = transfers.Pair(args.bin_dir, socket, size, clients, wire=args.wire)
                seconds = seconds_for(args, size)
                pair.warm(kind, seconds)
                rounds = [pair.round(kind, seconds) for _ in range(args.runs)]
                pair.close()
                scale = size * (2 if both_ways else 1) * 1e-9
                ours, raw = ([side[0] * scale for side in sides] for sides in zip(*rounds))
                name = kind if args.wire == "fp32" else f"{kind} {args.wire}"
                yield report.row(f"{name} {socket}", size, clients, "GB/s", ours, raw)
                if size >= MIB and kind == "exchange":
                    yield cpu_row(f"{kind} CPU {socket}", size, clients, rounds, scale)


def cpu_row(name, size, clients, rounds, scale):
    """CPU seconds of client and server per GB; the plain socket's are those of its client's half, twice."""
    ours = [cpu / (sum(a["ops"] for a in answers) * scale) for (_, answers, cpu), _ in rounds]
    raw = [2 * cpu / (sum(a["ops"] for a in answers) * scale) for _, (_, answers, cpu) in rounds]
    return report.row(name, size, clients, "CPU s/GB", ours, raw, less_is_better=True)


def bench_exchange(args):
    """Fused exchange: the gradient there, the parameters of the next version back; bytes of both ways."""
    yield from transfer(args, "exchange", True)


def bench_push(args):
    """Push alone: the gradient there, applied, an empty answer."""
    yield from transfer(args, "push", False)


def bench_pull(args):
    """Pull alone."""
    yield from transfer(args, "pull", False)


def bench_link(args):
    """Fused exchange between two hosts: over a link of 10 Gbit/s each way with a delay, beside what fits through it."""
    for delay_us, size in itertools.product(LINK_DELAYS_US, args.sizes):
        link = transfers.Link(args.bin_dir, size, delay_us, LINK_MB_PER_SECOND, args.wire)
        link.rate("exchange", args.seconds)
        rates = [link.rate("exchange", seconds_for(args, size)) for _ in range(args.runs)]
        link.close()
        fits = 1 / (2 * (size / (LINK_MB_PER_SECOND * 1e6) + delay_us * 1e-6))
        scale = 2 * size * 1e-9
        yield report.row(f"link {delay_us} us", size, 1, "GB/s", [r * scale for r in rates], [fits * scale] * len(rates))


def bench_latency(args):
    """Round trips of an exchange of 4 KiB each way."""
    for socket in args.sockets or SOCKETS:
        pair = transfers.Pair(args.bin_dir, socket, LATENCY_BYTES, 1)
        pair.warm("exchange", args.seconds)
        rounds = [pair.round("exchange", args.seconds) for _ in range(args.runs)]
        pair.close()
        for key, name in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9")):
            ours, raw = ([side[1][0][key] for side in sides] for sides in zip(*rounds))
            yield report.row(f"latency {name} {socket}", LATENCY_BYTES, 1, "us", ours, raw, less_is_better=True)


def bench_apply(args):
    """Update rules beside a triad over as many bytes, on one thread and on two: memory bandwidth. Clients are threads."""
    line = re.compile(r"^(\S+) .*?([\d.]+) GB/s of memory +(\d+) %")
    head = re.compile(r"^([\d.]+) (\w+) in each array")
    units = {"KiB": KIB, "MiB": MIB, "GiB": 1 << 30}
    figures = {}
    for _, rule, threads in itertools.product(range(args.runs), APPLY_RULES, args.clients):
        done = subprocess.run([os.path.join(args.bin_dir, "bench_rules"), str(args.seconds), rule, str(threads)],
                              capture_output=True, text=True, check=True)
        size = 0
        for text in done.stdout.splitlines():
            if head.match(text):
                number, unit = head.match(text).groups()
                size = int(float(number) * units[unit])
            elif line.match(text):
                name, rate, percent = line.match(text).groups()
                if name == rule: # the share is of the triad right after it: the memory's speed changes
                    figures.setdefault((size, APPLY_RULES.index(rule), threads), []).append(
                        (float(rate), float(rate) * 100 / float(percent)))
    for (size, rule, threads), values in sorted(figures.items()):
        yield report.row(f"apply {APPLY_RULES[rule]}", size, threads, "GB/s", *zip(*values))


def bench_memory(args):
    """Peak of resident memory of a server that four clients push to at once, with room for two of their gradients,
    beside 1.15 x (values x (2 + slots) + that limit) + 64 MB. Pages of shared memory count where it has them mapped."""
    for socket, (rule, slots), size in itertools.product(args.sockets or SOCKETS, MEMORY_SLOTS.items(), MEMORY_BYTES):
        if size > max(args.sizes):
            continue
        limit = MEMORY_GRADIENTS * (size + MIB // 8)
        pair = transfers.Pair(args.bin_dir, socket, size, MEMORY_CLIENTS, rule, "--gradient-bytes-max", str(limit))
        pair.warm("exchange", seconds_for(args, size))
        peak = machine.memory_bytes(pair.server.pid, "VmHWM")
        pair.close()
        allowed = 1.15 * (size * (2 + slots) + limit) + 64e6
        yield report.row(f"memory {rule} {socket}", size, MEMORY_CLIENTS, "MB", [peak * 1e-6], [allowed * 1e-6],
                         less_is_better=True)


def bench_clients(args):
    """One process that is many clients of one server: CPU of the server for a GB and memory of a connection, beside those of one
    client; p99 beside four times the p50 at half of what 64 clients can get through; the slowest client beside the fastest."""
    alone = None
    for count in CROWDS:
        with transfers.Crowd(args.bin_dir, MIB, count) as crowd:
            crowd.run("exchange", args.seconds)
            costs = [crowd.cost(args.seconds) for _ in range(args.runs)]
            alone = alone or costs
            yield report.row("clients, CPU", MIB, count, "CPU s/GB", costs, [statistics.median(alone)] * len(costs),
                             less_is_better=True)
    with transfers.Crowd(args.bin_dir, MIB, CROWD, sync=True) as crowd: # as many gradients are summed as there are clients
        crowd.run("exchange", args.seconds)
        costs = [crowd.cost(args.seconds) for _ in range(args.runs)]
    yield report.row("clients, CPU, sync", MIB, CROWD, "CPU s/GB", costs, [statistics.median(alone)] * len(costs),
                     less_is_better=True)
    memory = {}
    for count in (CROWDS[0], CROWDS[-1]):
        with transfers.Crowd(args.bin_dir, LATENCY_BYTES, count) as crowd:
            crowd.run("exchange", args.seconds)
            memory[count] = machine.memory_bytes(crowd.server.pid)
    each = (memory[CROWDS[-1]] - memory[CROWDS[0]]) / (CROWDS[-1] - CROWDS[0])
    yield report.row("clients, memory of each", LATENCY_BYTES, CROWDS[-1], "KB", [each * 1e-3], [])
    for dead in (0, CROWD // 4):
        with transfers.Crowd(args.bin_dir, 64 * KIB, CROWD, dead) as crowd:
            crowd.run("exchange", args.seconds)
            full = [crowd.run("exchange", args.seconds) for _ in range(args.runs)]
            rate = statistics.median(a["ops"] / a["seconds"] for a in full)
            half = [crowd.run(f"r{rate / 2:.0f}", args.seconds) for _ in range(args.runs)]
        name = f"{dead} dead" if dead else "all read"
        yield report.row(f"clients, {name}, exchanges", 64 * KIB, CROWD, "1/s", [a["ops"] / a["seconds"] for a in full], [])
        yield report.row(f"clients, {name}, slowest", 64 * KIB, CROWD, "exchanges", [a["least"] for a in full],
                         [a["most"] for a in full])
        yield report.row(f"clients, {name}, half: p50", 64 * KIB, CROWD, "us", [a["p50"] for a in half], [])
        yield report.row(f"clients, {name}, half: p99", 64 * KIB, CROWD, "us", [a["p99"] for a in half],
                         [4 * a["p50"] for a in half], less_is_better=True)


def bench_training(args):
    """The digits network with and without parameter servers, examples per second."""
    rows = []
    for socket, batch in itertools.product(args.sockets or ["memory"], (64, 256)):
        path = os.path.join(args.scratch, "training.json")
        subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "bench_cluster.py"),
                        args.bin_dir, "--batch", str(batch), "--rule", args.rule, "--socket", socket,
                        "--runs", str(args.runs), "--epochs", "2", "--json", path],
                       check=True, stdout=subprocess.DEVNULL)
        with open(path, encoding="utf-8") as f:
            for r in json.load(f):
                clients = int(r["bench"].split()[-1].split("+")[0]) if "+" in r["bench"] else 1
                rows.append({"bench": f"training {socket} {batch}: {r['bench']}", "bytes": 0, "clients": clients,
                             "unit": "ex/s", "median": r["median"], "min": r["min"], "max": r["max"],
                             "raw": r["raw"], "ratio": r["ratio"]})
    yield from rows


BENCHES = {name[6:]: f for name, f in globals().items() if name.startswith("bench_")}


def parse_size(text):
    for suffix, unit in (("K", KIB), ("M", MIB)):
        if text.endswith(suffix):
            return int(text[:-1]) * unit
    return int(text)


def parse(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="\n".join(f"  {n:<9} {f.__doc__.splitlines()[0]}" for n, f in BENCHES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir")
    parser.add_argument("--only", action="append", choices=list(BENCHES), help="one bench; may be repeated")
    parser.add_argument("--json", metavar="FILE")
    plots.add_option(parser, "ratios over sizes")
    parser.add_argument("--wire", choices=("fp32", "fp16", "bf16"), default="fp32",
                        help="how values of exchange, push and pull travel; bytes are counted as floats all the same")
    parser.add_argument("--rule", default="adam", help="of training; PyTorch's figures are with sgd")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of one measurement")
    parser.add_argument("--sizes", type=lambda t: [parse_size(s) for s in t.split(",")], default=list(SIZES),
                        metavar="4K,1M,...")
    parser.add_argument("--clients", type=lambda t: [int(s) for s in t.split(",")], default=[1, 2], metavar="1,2")
    parser.add_argument("--sockets", type=lambda t: t.split(","), default=None,
                        metavar="tcp,unix,memory,tls", help="the first three; training: memory")
    return parser.parse_args(argv)


def main():
    args = parse(sys.argv[1:])
    machine.prefer_ourselves()
    print(f"{machine.describe()}; medians of {args.runs}, taken in turn with the raw figures")
    report.print_head()
    rows = []
    with tempfile.TemporaryDirectory(prefix="gradus-bench-") as scratch:
        args.scratch = scratch
        for name in args.only or BENCHES:
            began, busy = time.monotonic(), machine.busy_seconds()
            for r in BENCHES[name](args):
                report.print_row(r)
                rows.append(r)
            wall = time.monotonic() - began
            print(f"  ({name}: {wall:.0f} s, {(machine.busy_seconds() - busy) / wall:.2f} CPUs busy, all programs)",
                  flush=True)
    if args.json:
        report.write_json(args.json, rows)
    if args.plot and not report.plot(args.plot, rows):
        print("no plot: nothing was measured for two sizes", file=sys.stderr)


if __name__ == "__main__":
    main()
