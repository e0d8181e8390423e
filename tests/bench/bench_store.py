#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints written to an object store while training goes on, beside curl with as many parts at a time.

Usage: bench_store.py BIN_DIR --url s3://BUCKET/PREFIX [--megabytes 1000] [--servers 2] [--runs 5] [--json FILE]

The store and its credentials are in the environment, as docs/storage.md says. A job with so many bytes of values and slots trains
on a cluster of this machine; in turn, `gradus checkpoint` writes them below the URL, and curl puts the same number of bytes there as
objects of the size of our parts, four at a time for each server, as our uploads are. Only keys are signed by curl, not what it sends
(UNSIGNED-PAYLOAD); so are our requests over https, or with GRADUS_S3_SIGN_PAYLOAD=false. A step's time is that of the steps between two looks at the job, with a checkpoint being
written and without. What lies below the URL afterwards is left there. Prints, never asserts."""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from urllib.parse import quote, urlsplit

import machine
import report

PART_BYTES, PARTS_AT_ONCE = 16 << 20, 4  # of one server (common/storage)
FEATURES, SLOTS, HIDDEN = 16, 2, 1280  # adam
START_SECONDS = 120

JOB = """name: store
data: {{train: {{file: records.csv}}, label_kind: real}}
model:
  layers: [dense: {{units: {hidden}, activation: relu}}, dense: {{units: {units}, activation: relu}}, dense: {{units: 1}}]
  loss: mean_squared_error
update: {{rule: adam, learning_rate: 0.00001}}
training: {{batch_size: 1, epochs: 1000000, evaluate_every: never, checkpoint_every: never}}
cluster: {{workers: 1, ps: {servers}, partitions: {servers}}}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Cluster:
    """A master, servers and a worker of this machine that share nothing but the store, and a job on them that trains."""

    def __init__(self, args, work):
        self.bin_dir, self.work, self.processes = args.bin_dir, work, []
        self.master = f"127.0.0.1:{free_port()}"
        self.start("gradus-master", "--listen", self.master, "--state-dir", os.path.join(work, "state"), "--checkpoint-dir", args.url)
        for _ in range(args.servers):
            self.start("gradus-ps", "--master", self.master, "--checkpoint-dir", args.url)
        self.start("gradus-worker", "--master", self.master)
        with open(os.path.join(work, "records.csv"), "w", encoding="ascii") as f:
            for i in range(64):
                f.write(",".join(str((i * 37 + k * 11) % 101 / 101) for k in range(FEATURES)) + f",{i % 7}\n")
        job = os.path.join(work, "job.yaml")
        units = max(1, round(args.megabytes * 1e6 / 4 / (1 + SLOTS) / HIDDEN))
        with open(job, "w", encoding="ascii") as f:
            f.write(JOB.format(hidden=HIDDEN, units=units, servers=args.servers))
        self.job = self.gradus("submit", job, "--set", f"data.dir={work}")["job"]
        self.wait_steps(3)

    def start(self, name, *arguments):
        with open(os.path.join(self.work, f"{name}-{len(self.processes)}.log"), "wb") as log:
            self.processes.append(subprocess.Popen([os.path.join(self.bin_dir, name), *arguments], stdout=log, stderr=log,
                                                   cwd=self.work))

    def gradus(self, *arguments):
        done = subprocess.run([os.path.join(self.bin_dir, "gradus"), arguments[0], "--json", "--master", self.master, *arguments[1:]],
                              capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise RuntimeError(f"gradus {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def steps(self):
        return int(self.gradus("status", self.job)["step"])

    def wait_steps(self, steps):
        end = time.monotonic() + START_SECONDS
        while self.steps() < steps:
            if time.monotonic() > end:
                raise RuntimeError(f"no step after {START_SECONDS} s: {self.gradus('status', self.job)}")
            time.sleep(0.2)

    def step_seconds(self, during):
        """Of the steps while @during() runs, and what that returns."""
        before, begin = self.steps(), time.monotonic()
        result = during()
        after = self.steps()
        return (time.monotonic() - begin) / max(1, after - before), result

    def checkpoint(self):
        begin = time.monotonic()
        self.gradus("checkpoint", self.job)
        return time.monotonic() - begin

    def close(self):
        for p in self.processes:
            p.kill()
        for p in self.processes:
            p.wait()


def settings_of_store():
    """(endpoint, region, key, secret) as our own programs read them."""
    env = os.environ
    endpoint = env.get("GRADUS_S3_ENDPOINT") or env.get("AWS_ENDPOINT_URL")
    region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or "us-east-1"
    if not endpoint or "AWS_ACCESS_KEY_ID" not in env or "AWS_SECRET_ACCESS_KEY" not in env:
        sys.exit("bench_store: GRADUS_S3_ENDPOINT, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say which store, and who we are")
    return endpoint, region, env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"]


class Curl:
    """Puts @count objects of @size bytes, @at_once at a time, by one process."""

    def __init__(self, url, work, count, size, at_once):
        endpoint, region, key, secret = settings_of_store()
        parts = urlsplit(endpoint)
        place = url.removeprefix("s3://").rstrip("/")
        body = os.path.join(work, "part")
        with open(body, "wb") as f:
            f.write(os.urandom(size))
        self.command = ["curl", "--silent", "--show-error", "--fail-early", "--fail", "--parallel", "--parallel-immediate",
                        "--parallel-max", str(at_once), "--config", os.path.join(work, "curl.config")]
        with open(self.command[-1], "w", encoding="utf-8") as f:
            for i in range(count):
                # A user in the URL may have a colon in it, one behind --user may not.
                f.write("next\n" if i > 0 else "")
                f.write(f'url = "{parts.scheme}://{quote(key, safe="")}:{quote(secret, safe="")}@{parts.netloc}/{place}/curl-{i}"\n'
                        f'upload-file = "{body}"\naws-sigv4 = "aws:amz:{region}:s3"\nfail\nsilent\nshow-error\n'
                        'header = "x-amz-content-sha256: UNSIGNED-PAYLOAD"\noutput = "/dev/null"\n')

    def put(self):
        begin = time.monotonic()
        done = subprocess.run(self.command, capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise RuntimeError(f"curl: exit code {done.returncode}\n{done.stderr[:2000]}")
        return time.monotonic() - begin


def measure(args, work):
    cluster = Cluster(args, work)
    try:
        bytes_written = args.megabytes * 1e6
        curl = Curl(args.url, work, max(1, round(bytes_written / PART_BYTES)), PART_BYTES, PARTS_AT_ONCE * args.servers)
        ours, raws, alone, meanwhile, meanwhile_curl = [], [], [], [], []
        for _ in range(args.runs):
            alone.append(cluster.step_seconds(lambda: time.sleep(5))[0])
            step, seconds = cluster.step_seconds(cluster.checkpoint)
            ours.append(bytes_written * 1e-6 / seconds)
            meanwhile.append(step)
            step, seconds = cluster.step_seconds(curl.put)
            raws.append(round(bytes_written / PART_BYTES) * PART_BYTES * 1e-6 / seconds)
            meanwhile_curl.append(step)
        size = int(bytes_written)
        yield report.row("checkpoint", size, args.servers, "MB/s", ours, raws)
        yield report.row("step, beside none", size, args.servers, "s", meanwhile, alone, less_is_better=True)
        yield report.row("step, beside curl's", size, args.servers, "s", meanwhile, meanwhile_curl, less_is_better=True)
    finally:
        cluster.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir", type=os.path.abspath)
    parser.add_argument("--url", required=True, metavar="s3://BUCKET/PREFIX", help="where checkpoints and curl's objects go; the bucket is there")
    parser.add_argument("--megabytes", type=float, default=1000, help="of values and slots")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    settings_of_store()
    print(f"{machine.describe()}; medians of {args.runs}, taken in turn; clients: servers that write")
    report.print_head()
    rows = []
    work = tempfile.mkdtemp(prefix="gradus-bench-")
    try:
        for row in measure(args, work):
            report.print_row(row)
            rows.append(row)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if args.json:
        report.write_json(args.json, rows)


if __name__ == "__main__":
    main()
