#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A thousand nodes and a hundred jobs at one gradus-master: what it costs, and how long its nodes wait.

Usage: bench_master.py BIN_DIR [--workers 900] [--servers 100] [--jobs 100] [--queue 0] [--flaps 20] [--split-ms 1000] [--runs 10]
                       [--seconds 0.8] [--realtime] [--json FILE]

One process is all the nodes and clients (bench_master); the master is real, and so is every call. Each node beats each second, each
worker leases a split, reports it and its progress; each job is changed once, ends, and another one follows; some workers come and go.
Medians of the runs are printed, with the calls in a second and, as CPU, processors that the master kept busy. Prints, never asserts."""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
import transfers  # noqa: E402

KINDS = ("heartbeat", "lease", "report_split", "progress")
PAUSE_SECONDS = 0.8  # between two runs the load stands still: others want the machine, too
DESCRIPTORS = 8192


def set_realtime(pid, on):
    """All threads of a process, before everything else of this machine or not."""
    policy, priority = (os.SCHED_RR, 1) if on else (os.SCHED_OTHER, 0)
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            os.sched_setscheduler(int(task), policy, os.sched_param(priority))
        except ProcessLookupError:
            pass


class Master:
    def __init__(self, bin_dir, state_dir):
        self.log = open(os.path.join(state_dir, "log"), "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [os.path.join(bin_dir, "gradus-master"), "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--state-dir",
             state_dir, "--heartbeat-timeout-ms", "60000", "--jobs-max", "2000", "--exit-with-parent"], stdout=subprocess.PIPE, stderr=self.log, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS)))
        line = self.process.stdout.readline().split()
        self.said = dict(word.split("=", 1) for word in line[2:])
        self.pid = self.process.pid

    def metric(self, name):
        with urllib.request.urlopen(f"http://{self.said['http']}/metrics", timeout=10) as f:
            text = f.read().decode()
        found = re.search(rf"^(?:gradus_)?{name} ([\d.e+]+)$", text, re.MULTILINE)
        return float(found.group(1)) if found else 0.0

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


def run_once(args, master, load):
    pids = (master.pid, load.process.pid)
    before = master.metric("master_events_total"), master.metric("master_rows_stored_total")
    for pid in pids if args.realtime else ():
        set_realtime(pid, True)
    began, cpu = time.monotonic(), machine.thread_seconds(master.pid)
    load.begin("measure", args.seconds)
    found = load.end()
    cpu = machine.thread_seconds(master.pid) - cpu
    wall = time.monotonic() - began
    for pid in pids if args.realtime else ():
        set_realtime(pid, False)
    found["cpu"] = cpu / wall
    found["events_s"] = (master.metric("master_events_total") - before[0]) / wall
    found["rows_s"] = (master.metric("master_rows_stored_total") - before[1]) / wall
    return found


def median(rows, *path):
    values = []
    for row in rows:
        for key in path:
            row = row[key]
        values.append(row)
    return statistics.median(values)


def show(args, rows, memory):
    print(f"{args.workers} workers, {args.servers} servers, {args.jobs} jobs and {args.queue} that wait, {args.flaps} workers that come and go; "
          f"medians of {len(rows)} runs of {args.seconds:g} s")
    print(f"{'':<14} {'calls/s':>8} {'p50 ms':>8} {'p99 ms':>8} {'worst p99':>10}")
    for kind in KINDS:
        rate = statistics.median(r[kind]["calls"] / r["seconds"] for r in rows)
        print(f"{kind:<14} {rate:>8.0f} {median(rows, kind, 'p50_ms'):>8.2f} {median(rows, kind, 'p99_ms'):>8.2f} "
              f"{max(r[kind]['p99_ms'] for r in rows):>10.2f}")
    last = rows[-1]
    print(f"master: {median(rows, 'cpu'):.3f} processors, {median(rows, 'events_s'):.0f} events/s, "
          f"{median(rows, 'rows_s'):.1f} rows/s, {memory * 1e-6:.0f} MB")
    print(f"jobs: {last['ended']} ended, {last['failed']} of them not well, {last['changed']} changed, {last['running']} running; "
          f"{last['nodes']} nodes, {last['lost']} given up though they were there, {last['errors']} errors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir")
    parser.add_argument("--workers", type=int, default=900)
    parser.add_argument("--servers", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--queue", type=int, default=0, help="more jobs, for which there are no nodes")
    parser.add_argument("--flaps", type=int, default=20)
    parser.add_argument("--split-ms", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.8)
    parser.add_argument("--realtime", action="store_true", help="master and load before all other programs of the machine")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    print(machine.describe())
    with tempfile.TemporaryDirectory(prefix="gradus-bench-") as state_dir:
        master = Master(args.bin_dir, state_dir)
        try:
            load = transfers.Program(os.path.join(args.bin_dir, "bench_master"), master.said["grpc"],
                                     os.path.join(state_dir, "checkpoints"), args.workers, args.servers, args.jobs, args.flaps,
                                     args.split_ms, args.queue)
            rows = []
            time.sleep(PAUSE_SECONDS)
            for _ in range(args.runs):
                rows.append(run_once(args, master, load))
                time.sleep(PAUSE_SECONDS)
            memory = machine.memory_bytes(master.pid)
            load.close()
        finally:
            master.close()
    show(args, rows, memory)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"runs": rows, "memory_bytes": memory}, f, indent=1)


if __name__ == "__main__":
    main()
