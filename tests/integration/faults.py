# SPDX-License-Identifier: Apache-2.0
"""Clusters started by hand whose processes are killed, stopped and replaced while jobs run."""

import hashlib
import os
import re
import signal
import unittest
import urllib.request

from cluster import DATA, ENDLESS, SLOWER, SMALL_MODEL, SOURCE, ClusterTest, gradus, read_job, read_message, records_applied, standing_still

FINAL = ("SUCCEEDED", "FAILED", "CANCELLED")


class Digits:
    """Small jobs on the data set that gradus draws.

    A batch is computed in a tenth of a millisecond. Workers slow themselves down to some milliseconds, so that jobs hardly use
    the processors. What happens to a job happens to one without an end, which is given one afterwards (wait_end())."""

    records = 2000
    file = SOURCE + "/examples/digits.yaml"
    sizes = {"training.batch_size": 16, **SMALL_MODEL}
    epochs = 6  # of a job to which nothing happens, and the least of one without an end
    slow_down = 120 // SLOWER
    accuracy = 0.75

    def data_dir(self):
        return self.shared + "/digits"


class FashionMnist:
    """The same with a public data set, when GRADUS_TEST_DATA names a directory that has it."""

    records = 60000
    file = SOURCE + "/examples/fashion-mnist.yaml"
    sizes = {"training.batch_size": 64}
    epochs = 5
    model = {}
    slow_down = 1
    # A tenth is chance and 0.8 to 0.87 usual. How stale the gradients of a run with kills are differs from run to run.
    accuracy = 0.7

    def setUp(self):
        if not os.path.isdir(DATA + "/fashion-mnist"):
            self.skipTest("GRADUS_TEST_DATA names no directory with fashion-mnist")
        super().setUp()

    def data_dir(self):
        return DATA + "/fashion-mnist"


class FaultTest(ClusterTest):
    """With Digits or FashionMnist in front of it: what a job trains on, and how long."""

    def setUp(self):
        super().setUp()
        self.master = None
        self.servers = []
        self.workers = []
        self.endless = set()  # jobs

    # ---- the cluster ----

    def cluster(self, workers, ps=2, slow=(), silence_ms=None):
        """@slow: for the first workers, how many times as long their computations take as those of the others.
        @silence_ms: of a worker that hangs, until it is given up; much more as a rule. Who is dead is found by the connection."""
        self.state_dir = self.dir + "/cluster"
        self.master_args = (f"--state-dir={self.state_dir}",
                            *([f"--heartbeat-timeout-ms={silence_ms}"] if silence_ms else []))
        self.master = self.start("master", *self.master_args)
        self.servers = [self.start_ps() for _ in range(ps)]
        self.workers = [self.start_worker(*slow[i:i + 1]) for i in range(workers)]

    def start_ps(self):
        return self.start("ps", f"--master={self.master.address}",
                          f"--checkpoint-dir={self.state_dir}/checkpoints")

    def start_worker(self, slow=1):
        return self.start("worker", f"--master={self.master.address}", f"--slow-down={slow * self.slow_down}")

    def replace_worker(self, i):
        """kill -9 of the @i-th worker, and another in its place."""
        self.workers[i].stop(signal.SIGKILL)
        self.workers[i] = self.start_worker()

    def replace_ps(self, i):
        self.servers[i].stop(signal.SIGKILL)
        self.servers[i] = self.start_ps()

    def replace_master(self):
        """kill -9 of the master, and another where the nodes look for it."""
        self.master.stop(signal.SIGKILL)
        self.master = self.start("master", *self.master_args, f"--listen={self.master.address}")

    def log_of(self, service):
        with open(service.log.name) as f:
            return f.read()

    def batches(self, worker):
        """How many mini-batches this process has computed."""
        page = urllib.request.urlopen(f"http://{worker.http}/metrics", timeout=120).read().decode()
        return int(float(re.search(r"^gradus_worker_batches_total (\S+)", page, re.M).group(1)))

    def wait_used(self, worker, timeout=60):
        before = self.batches(worker)
        self.wait_for("a worker to be used", lambda: self.batches(worker) > before, timeout)

    def node_of(self, worker):
        """The name that the master knows the process by."""
        nodes = read_message(gradus("nodes", "--json", "--master", self.master.address).stdout)["nodes"]
        return next(n["id"] for n in nodes if n["address"] == worker.address and n["alive"])

    # ---- the job ----

    def keys(self, **more):
        """Of a job; with __ for each dot."""
        return {"data.dir": self.data_dir(), "training.evaluate_every": "never", "training.epochs": self.epochs,
                "training.checkpoint_within": "1h", **self.sizes,
                **{key.replace("__", "."): value for key, value in more.items()}}

    def sets(self, **more):
        return [item for key, value in self.keys(**more).items() for item in ("--set", f"{key}={value}")]

    def quiet(self, state, **more):
        """The same job by `gradus run`, on one worker and one server that nothing happens to: what it printed."""
        return self.run_job(state, self.file, **self.keys(**{"cluster__workers": 1, "cluster__ps": 1, **more}))

    def submit(self, **sets):
        done = gradus("submit", self.file, "--master", self.master.address, *self.sets(**sets))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def now(self, job):
        """What changes while it runs; self.status() has all there is."""
        return self.master.job(job)

    def wait_done(self, job, part):
        """Until it runs and @part (0 to 1) of what a quiet job does is done; its status then."""
        def reached():
            status = self.now(job)
            self.assertNotIn(status["state"], FINAL, f"before {part} of it was done: {status['reason']}")
            done = status["state"] == "RUNNING" and status["steps"] > 0 and status["epochs"] >= part * self.epochs
            return status if done else None
        return self.wait_for(f"{part} of the steps", reached, 90)

    def wait_checkpoint(self, job):
        return self.wait_for("a checkpoint", lambda: self.now(job)["checkpoint"])

    def start_job(self, **sets):
        """One that goes on until wait_end(), unless a number of epochs is given."""
        job = self.submit(**{"training__epochs": ENDLESS, **sets})
        if "training__epochs" not in sets:
            self.endless.add(job)
        self.wait_done(job, 0)
        return job

    def held(self):
        """While it lasts a job makes no more steps than those under way."""
        return standing_still([w.process.pid for w in self.workers if w.process.poll() is None])

    def give_end(self, job):
        """To a job without one: after as many epochs as a quiet one has, or soon."""
        if job in self.endless:
            self.endless.remove(job)
            self.end_job(self.master.client(), job, [w.process.pid for w in self.workers if w.process.poll() is None], self.epochs)

    def wait_end(self, job, state="SUCCEEDED", timeout=200):
        self.give_end(job)
        self.wait_for("the end of the job", lambda: self.now(job)["state"] in FINAL, timeout)
        status = self.status(self.master, job)
        self.assertEqual(status["state"], state, status["reason"])
        self.assertEqual(status["steps"], status["steps_total"])
        return status

    def set_keys(self, job, *changes, expect=0):
        done = gradus("set", job, *changes, "--json", "--master", self.master.address)
        self.assertEqual(done.returncode, expect, done.stderr)
        return read_job(done.stdout) if expect == 0 else done.stderr

    # ---- what must be true at its end ----

    def bits(self, job, state="cluster"):
        return hashlib.sha256(self.export(job, state)).hexdigest()

    def assert_learned(self, status):
        self.assertGreater(status["metrics"]["test"]["accuracy"], self.accuracy)

    def assert_each_record_once(self, status):
        """As every shard says itself: each record of the data once in each epoch, and nothing left over."""
        versions, epochs = set(), status["epochs"]
        for shard in status["shards"]:
            self.assertEqual(shard["examples"], self.records * epochs, status["shards"])
            versions.add(shard["version"])
            if status["consistency"]["mode"] == "SYNC":
                continue
            ledger = shard["ledger"]
            self.assertEqual(records_applied(ledger), self.records * epochs)
            whole = sum(ledger["done"]) * ledger["batch_records"] >= self.records
            self.assertTrue((ledger["epoch"], whole) == (epochs - 1, True) or
                            (ledger["epoch"], sum(ledger["done"])) == (epochs, 0), ledger)
        self.assertEqual(len(versions), 1, status["shards"])


def main():
    unittest.main(verbosity=2)
