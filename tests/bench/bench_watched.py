#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs a job that somebody looks at it: the processor time of all services for the same job with and without.

Usage: bench_watched.py BIN_DIR [--runs 5] [--epochs 20] [--records 60000]

A master, two servers and two workers train examples/digits.yaml, in turn alone and watched: a page open on the job, TensorBoard's files
written while it runs, and every process scraped each 5 s (Prometheus does it each 15 s). Medians, with the least and the most of
the ratio of a run to the one before it. Prints, never asserts."""

import argparse
import http.client
import os
import statistics
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "integration")]
import machine  # noqa: E402

SCRAPE_S = 5
PS, WORKERS = 2, 2


class Scraper:
    """Asks every process for its meters."""

    def __init__(self, addresses):
        self.over, self.count = threading.Event(), 0
        self.connections = [http.client.HTTPConnection(a, timeout=60) for a in addresses]
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over.wait(SCRAPE_S):
            for c in self.connections:
                c.request("GET", "/metrics")
                c.getresponse().read()
                self.count += 1

    def close(self):
        self.over.set()
        self.thread.join()
        for c in self.connections:
            c.close()


def train(gradus, services, data, args, work, watched):
    """(seconds of processor time, of the clock) of a job."""
    from bench_page import Viewer
    master = services[0]
    sets = {"data.dir": data, "training.epochs": args.epochs, "cluster.workers": WORKERS, "cluster.ps": PS}
    if watched:
        sets["training.tensorboard"] = work + "/boards"
    before = sum(machine.cpu_seconds(s.process.pid) for s in services)
    done = gradus("submit", os.path.join(ROOT, "examples", "digits.yaml"), "--master", master.address,
                  *[x for key, value in sets.items() for x in ("--set", f"{key}={value}")])
    if done.returncode != 0:
        sys.exit(done.stderr)
    job = done.stdout.strip()
    looks = [Viewer(master.http, f"jobs/{job}/events"), Scraper([s.http for s in services])] if watched else []
    done = gradus("watch", job, "--json", "--master", master.address, timeout=3000)
    if done.returncode != 0:
        sys.exit(done.stderr)
    for look in looks:
        look.close()
    spent = sum(machine.cpu_seconds(s.process.pid) for s in services) - before
    if watched and not os.path.isdir(f"{work}/boards/{job}/train"):
        sys.exit("no event files were written")
    return spent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--records", type=int, default=60000)
    args = parser.parse_args()
    os.environ.update(GRADUS_BIN_DIR=os.path.abspath(args.bin_dir), GRADUS_SOURCE_DIR=ROOT)
    from cluster import Service, gradus  # needs the environment
    print(machine.describe())
    services = []
    with tempfile.TemporaryDirectory(prefix="gradus-bench-") as work:
        def start(kind, *more):
            services.append(Service(kind, *more, log=f"{work}/{kind}-{len(services)}.log"))
        try:
            done = gradus("generate", "digits", "--out", work + "/digits", "--train", str(args.records), "--test", "10000")
            if done.returncode != 0:
                sys.exit(done.stderr)
            start("master", f"--state-dir={work}/state", "--tensorboard-root=" + work)
            for _ in range(PS):
                start("ps", f"--master={services[0].address}", f"--checkpoint-dir={work}/state/checkpoints")
            for _ in range(WORKERS):
                start("worker", f"--master={services[0].address}")
            alone, watched = [], []
            for run in range(args.runs + 1):  # the first reads the data and is not counted
                both = [train(gradus, services, work + "/digits", args, work, looked_at) for looked_at in (False, True)]
                if run > 0:
                    alone.append(both[0])
                    watched.append(both[1])
                    print(f"alone {both[0]:.1f} s, watched {both[1]:.1f} s", flush=True)
            ratios = [w / a for a, w in zip(alone, watched)]
            print(f"processor time of a job alone {statistics.median(alone):.2f} s, watched {statistics.median(watched):.2f} s: "
                  f"{statistics.median(ratios):.3f} times ({min(ratios):.3f} to {max(ratios):.3f})")
        finally:
            for service in reversed(services):
                service.stop()


if __name__ == "__main__":
    main()
