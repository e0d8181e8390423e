#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Long trials of a real cluster in trouble: what a suite has no time for.

    script/chaos kills    workers, servers and the master are killed with -9 again and again while jobs run
    script/chaos big      a model of hundreds of millions of parameters beside busy processors
    script/chaos slow     mini-batches that take a minute, while workers die, stop and join
    script/chaos all      everything at once, in rounds of a minute, after each of which every job must end well

Each prints what it did and saw; the exit code is 1 when something did not hold.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import chaos_all
from chaos_cluster import Cluster, Trouble, check_records, say
from cluster import SOURCE, gradus, read_message

EXAMPLE = SOURCE + "/examples/digits.yaml"


# ---- kills ----


class Killer:
    """Kills in turn, each kind at its own interval, while its owner calls tick().

    Not from a thread of its own: services end with the thread that started them."""

    def __init__(self, cluster, every, seconds, seed, standby):
        self.cluster, self.every = cluster, {kind: s for kind, s in every.items() if s > 0}
        self.standby = standby
        self.random = random.Random(seed)
        now = time.monotonic()
        self.end = now + seconds
        self.due = {kind: now + s for kind, s in self.every.items()}
        self.counts = dict.fromkeys(self.every, 0)

    def tick(self, status):
        now = time.monotonic()
        due = [kind for kind in self.due if self.due[kind] <= now < self.end and self.may_kill(kind, status)]
        if due:
            kind = min(due, key=self.due.get)
            self.kill(kind)
            self.counts[kind] += 1
            self.due[kind] = max(self.due[kind] + self.every[kind], time.monotonic())

    def may_kill(self, kind, status):
        return kind != "ps" or not self.standby or self.cluster.all_backups_follow(status)

    def kill(self, kind):
        c = self.cluster
        same = self.random.random() < 0.5
        if kind == "worker":
            c.kill_worker(self.random.randrange(len(c.workers)), same)
        elif kind == "ps":
            c.kill_ps(self.random.randrange(len(c.ps)), same)
        else:
            c.kill_master()


def trial_of_kills(options, data, mode, rule, reference):
    directory = tempfile.mkdtemp(prefix=f"chaos-{mode}-{rule}-", dir=options.dir)
    sets = {"data.dir": data, "training.mode": mode, "update.rule": rule, "training.epochs": options.epochs,
            "training.checkpoint_every": options.checkpoint_every, "training.evaluate_every": "never",
            "cluster.workers": "1..3", "cluster.ps": 2}
    if options.standby:
        sets["cluster.standby"] = "follower"
    if mode == "sync":
        sets["training.replicas"] = 4
    elif rule == "lamb":
        sets["cluster.partitions"] = 1  # sums over whole variables in async: no variable is cut
    if mode == "sync" and rule not in reference:
        alone = Cluster(directory + "/alone", 1, 1)
        try:
            job = alone.submit(EXAMPLE, {**sets, "cluster.workers": 1, "cluster.ps": 1, "cluster.standby": "none"})
            status, _ = alone.follow(job, 1800)
            if status["state"] != "SUCCEEDED":
                raise Trouble(f"the reference ended {status['state']}: {status['reason']}")
            reference[rule] = alone.export(job)
        finally:
            alone.close()
    cluster = Cluster(directory, 2, 3)
    begin, jobs = time.monotonic(), 0
    killer = Killer(cluster, {"worker": options.worker_s, "ps": options.ps_s, "master": options.master_s}, options.seconds,
                    options.seed, options.standby)
    try:
        while time.monotonic() < killer.end:
            job = cluster.submit(EXAMPLE, sets)
            status, stood = cluster.follow(job, options.seconds + options.patience, killer.tick)
            jobs += 1
            if status["state"] != "SUCCEEDED":
                raise Trouble(f"{job} ended {status['state']}: {status['reason']}")
            check_records(status, options.records, options.epochs)
            if options.standby and status["recoveries"] > 0:
                raise Trouble(f"{job} went back to a checkpoint, although its backups followed: {status['recoveries']} times")
            if options.stood_max > 0 and stood > options.stood_max:
                raise Trouble(f"{job} stood for {stood:.1f} s, more than {options.stood_max:.0f}")
            if mode == "sync" and cluster.export(job) != reference[rule]:
                raise Trouble(f"{job} has other bits than one worker and one server without any kill")
            say(f"  {mode} {rule}: {job} SUCCEEDED, {status['steps']} steps, generation {status['generation']}, "
                f"{status['recoveries']} recoveries, {status['takeovers']} takeovers, stood for {stood:.1f} s at most, {status['seconds']:.0f} s of "
                "training")
        say(f"{mode} {rule}: {jobs} jobs in {time.monotonic() - begin:.0f} s; killed {killer.counts}")
        shutil.rmtree(directory)
    finally:
        cluster.close()


def kills(options):
    data = options.dir + "/digits"
    done = gradus("generate", "digits", "--out", data, "--train", str(options.records), "--test", "1000", timeout=1200)
    if done.returncode != 0:
        raise Trouble(done.stderr)
    reference, failed = {}, 0
    for mode in options.modes.split(","):
        for rule in options.rules.split(","):
            try:
                trial_of_kills(options, data, mode, rule, reference)
            except Trouble as trouble:
                failed += 1
                say(f"FAILED: {mode} {rule}: {trouble}; the logs are below {options.dir}")
    return failed


# ---- big and slow ----


def busy(count):
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]


def memory_of(cluster):
    """Largest resident memory of every server and worker that is there, in MB."""
    peak = {}
    for service in [*cluster.ps, *cluster.workers]:
        with open(f"/proc/{service.process.pid}/status") as f:
            line = next(line for line in f if line.startswith("VmHWM"))
        peak.setdefault(service.kind, []).append(int(line.split()[1]) // 1024)
    return peak


def job_file(options, name, layers, rule, batch, training):
    path = f"{options.dir}/{name}.yaml"
    lines = [f"name: {name}", "data:", f"  dir: {options.dir}/digits",
             "  train: {file: train-images-idx3-ubyte.gz, labels: train-labels-idx1-ubyte.gz}",
             "  test: {file: t10k-images-idx3-ubyte.gz, labels: t10k-labels-idx1-ubyte.gz}",
             "model:", "  layers:", "    - flatten",
             *[f"    - dense: {{units: {units}, activation: relu}}" for units in layers], "    - dense: {units: 10}",
             "  loss: softmax_cross_entropy", "  metrics: [accuracy]",
             f"update: {{rule: {rule}, learning_rate: 0.0001}}",
             f"training: {{mode: sync, batch_size: {batch}, {training}}}",
             "cluster: {workers: 2, ps: 2}"]
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    return path


def big(options):
    """Two servers and two workers; checkpoints and evaluations; two loops that take the processors."""
    width = options.width
    parameters = 784 * width + width + width * width + width + width * 10 + 10
    say(f"784-{width}-{width}-10: {parameters / 1e6:.0f} M parameters, adam, 2 servers, 2 workers, {options.busy} busy loops")
    gradus("generate", "digits", "--out", options.dir + "/digits", "--train", "256", "--test", "128")
    file = job_file(options, "big", [width, width], "adam", 16,
                    f"replicas: 2, steps: {options.steps}, checkpoint_every: {max(1, options.steps // 2)}, "
                    f"evaluate_every: {max(1, options.steps // 2)}, checkpoints_keep: 1")
    loops = busy(options.busy)
    cluster = Cluster(options.dir, 2, 2)
    try:
        begin = time.monotonic()
        job = cluster.submit(file, {})
        shown = set()

        def each(status):
            words = f"{status['state']} step {status['steps']} {status['reason']}"
            if words not in shown:
                shown.add(words)
                say("  " + words)

        status, stood = cluster.follow(job, options.patience, each)
        say(f"{status['state']} {status['reason']!r} after {time.monotonic() - begin:.0f} s; {status['recoveries']} recoveries, "
            f"generation {status['generation']}; peak memory in MB {memory_of(cluster)}")
        if status["state"] != "SUCCEEDED" or status["recoveries"] > 0:
            raise Trouble("the job did not end at the first try")
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
        cluster.close()
    return 0


def slow(options):
    """Every computation takes long: one worker is killed, one added, the job changed, one stopped for 10 s."""
    gradus("generate", "digits", "--out", options.dir + "/digits", "--train", str(options.batch * 2), "--test", "128")
    file = job_file(options, "slow", [options.width, options.width], "adam", options.batch,
                    "replicas: 2, epochs: 6, evaluate_every: never")
    cluster = Cluster(options.dir, 2, 0)
    try:
        cluster.workers = [cluster.service("worker", f"--master={cluster.address}", f"--slow-down={options.slow_down}")
                           for _ in range(2)]
        job = cluster.submit(file, {"cluster.workers": "1..2", "training.checkpoint_every": "never"})

        def until(what, condition, timeout):
            end = time.monotonic() + timeout
            while not condition():
                if time.monotonic() > end:
                    status = cluster.status(job)
                    raise Trouble(f"waited {timeout} s for {what}: {status['state']} step {status['steps']} {status['reason']!r}")
                time.sleep(0.5)
            say(f"  {what}: {json.dumps({k: cluster.status(job)[k] for k in ('state', 'steps', 'generation', 'reason')})}")

        def steps():
            return cluster.status(job)["steps"]

        until("the first step", lambda: steps() >= 1, options.patience)
        cluster.workers[0].stop(signal.SIGKILL)
        at = steps()
        until("a step after the kill", lambda: steps() > at, options.patience)
        cluster.workers[0] = cluster.service("worker", f"--master={cluster.address}", f"--slow-down={options.slow_down}")
        at = steps()
        until("a step after one has joined", lambda: steps() > at, options.patience)
        done = cluster.call("set", job, "update.learning_rate=0.0002") if options.rate else \
            cluster.call("set", job, "cluster.workers=2")
        say(f"  set: exit code {done.returncode} {done.stderr.strip()}")
        cluster.workers[1].process.send_signal(signal.SIGSTOP)
        time.sleep(10)
        cluster.workers[1].process.send_signal(signal.SIGCONT)
        status, stood = cluster.follow(job, options.patience * 6)
        nodes = read_message(cluster.call("nodes", "--json").stdout)["nodes"]
        say(f"{status['state']} {status['reason']!r}: {status['steps']} steps, generation {status['generation']}, "
            f"{status['recoveries']} recoveries, stood {stood:.0f} s at most; nodes {[(n['id'], n['alive']) for n in nodes]}")
        if status["state"] != "SUCCEEDED" or status["recoveries"] > 0:
            raise Trouble("the job did not end well")
        check_records(status, options.batch * 2, 6)
    finally:
        cluster.close()
    return 0


def main():
    parser = argparse.ArgumentParser(prog="script/chaos", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dir", help="scratch directory, kept after a failure (default: a new one)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=600, help="seconds that a job may take beyond the trouble")
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("kills")
    p.add_argument("--seconds", type=float, default=300, help="of kills, for each mode and rule")
    p.add_argument("--modes", default="sync,async")
    p.add_argument("--rules", default="adam,lamb")
    p.add_argument("--records", type=int, default=60000)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--checkpoint-every", default="50")
    p.add_argument("--worker-s", type=float, default=2, help="seconds between kills of workers; 0: none")
    p.add_argument("--ps-s", type=float, default=10)
    p.add_argument("--master-s", type=float, default=15)
    p.add_argument("--standby", action="store_true",
                   help="jobs with cluster.standby: follower; a server is killed when all backups follow, and no job may go back")
    p.add_argument("--stood-max", type=float, default=0,
                   help="the longest time in seconds in which a job may come no further; 0: any")
    p = commands.add_parser("big")
    p.add_argument("--width", type=int, default=16384, help="of the two hidden layers (16384: 281 M parameters)")
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--busy", type=int, default=2)
    p = commands.add_parser("slow")
    p.add_argument("--batch", type=int, default=8192)
    p.add_argument("--width", type=int, default=2048, help="of the two hidden layers")
    p.add_argument("--slow-down", type=int, default=15, help="with the other defaults a batch takes about a minute")
    p.add_argument("--rate", action="store_true", help="change the learning rate instead of the number of workers")
    p = commands.add_parser("all")
    p.add_argument("--minutes", type=float, default=30, help="the last round ends later")
    p.add_argument("--round-s", type=float, default=45, help="seconds of trouble in a round")
    p.add_argument("--first", type=int, default=1, help="number of the first round")
    p.add_argument("--slow-down", type=int, default=60, help="how many times as long computations take")
    p.add_argument("--only", default="", help="names of what happens, with commas; default: everything")
    options = parser.parse_args()
    kept = options.dir is not None
    options.dir = os.path.abspath(options.dir or tempfile.mkdtemp(prefix="gradus-chaos-"))
    os.makedirs(options.dir, exist_ok=True)
    if options.command in ("big", "slow"):  # who is busy is not given up after the times that are usual, either
        for name in "GRADUS_HEARTBEAT_INTERVAL_MS", "GRADUS_HEARTBEAT_TIMEOUT_MS":
            del os.environ[name]
    try:
        failed = {"kills": kills, "big": big, "slow": slow, "all": chaos_all.everything}[options.command](options)
    except Trouble as trouble:
        say(f"FAILED: {trouble}; the logs are in {options.dir}")
        return 1
    if failed == 0 and not kept:
        shutil.rmtree(options.dir)
    say("all held" if failed == 0 else f"{failed} trials failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
