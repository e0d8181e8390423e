# SPDX-License-Identifier: Apache-2.0
"""gradus set: keys of a job that waits or runs, by the real command."""

import os
import re
import signal
import subprocess
import unittest
import urllib.request

from cluster import BIN, ENDLESS, SOURCE, ClusterTest, gradus, read_job, read_jobs, read_watched, records_applied

RECORDS = 2000  # in the training data


class Set(ClusterTest):
    def submit(self, master, **sets):
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, *self.job(**sets))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def set(self, master, job, *changes, expect=0):
        done = gradus("set", job, *changes, "--json", "--master", master.address)
        self.assertEqual(done.returncode, expect, done.stderr)
        return read_job(done.stdout) if expect == 0 else done.stderr

    def running(self, master, **sets):
        job = self.submit(master, **sets)
        self.wait_for("steps", lambda: master.job(job)["steps"] > 0)
        return job

    def watch(self, master, job):
        done = gradus("watch", job, "--json", "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        return read_watched(done.stdout)[1]


class Waiting(Set):
    """A job that no node works on."""

    def setUp(self):
        super().setUp()
        self.master = self.start("master", f"--state-dir={self.dir}/cluster")
        self.id = self.submit(self.master)

    def test_what_changed_is_printed(self):
        changed = self.set(self.master, self.id, "training.mode=async", "cluster.workers=2..4")
        self.assertEqual(changed["job"], self.id)
        self.assertEqual(changed["state"], "PENDING")
        self.assertEqual(changed["changes"][-1]["sets"], ["training.mode=async", "cluster.workers=2..4"])
        self.assertIn("mode: async", changed["text"])
        self.assertEqual(changed["consistency"]["mode"], "ASYNC")
        self.assertEqual(self.status(self.master, self.id)["consistency"], changed["consistency"])
        done = gradus("set", self.id, "training.mode=bounded", "training.push_every=2",
                      "--state-dir", self.dir + "/cluster")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("training.mode: async -> bounded\n", done.stdout)
        self.assertIn("training.push_every: 1 -> 2\n", done.stdout)
        self.assertIn("bounded(4), push every 2\n", done.stdout)
        again = gradus("set", self.id, "training.push_every=2", "--master", self.master.address)
        self.assertIn("nothing changed: the job has these values already\n", again.stdout)
        shown = gradus("status", self.id, "--master", self.master.address)
        self.assertIn("\nmode        bounded(4), push every 2\n", shown.stdout)

    def test_every_wrong_key_is_named(self):
        err = self.set(self.master, self.id, "training.seed=7", "cluster.partitions=2", "training.epochs=many",
                       "training.mdoe=sync", "update.rule=adam", expect=2)
        for key in ("training.seed=7: fixed", "cluster.partitions=2: fixed", "training.epochs=many: ",
                    "training.mdoe=sync: ", "update.rule=adam: fixed"):
            self.assertIn(key, err)
        status = self.status(self.master, self.id)
        self.assertNotIn("many", status["text"])

    def test_exit_codes(self):
        address = self.master.address
        self.assertIn("no job none-1", self.set(self.master, "none-1", "training.mode=async", expect=5))
        self.assertEqual(gradus("set", self.id, "--master", address).returncode, 2)
        self.assertEqual(gradus("set", self.id, "mode", "--master", address).returncode, 2)
        self.assertEqual(gradus("cancel", self.id, "--master", address).returncode, 0)
        said = " ".join(self.set(self.master, self.id, "training.mode=async", expect=1).split())
        self.assertRegex(said, f"ended.*`gradus resume {self.id} --set '?training.mode=async'? --master {address}`")
        self.master.stop()
        gone = self.in_vain("set", self.id, "training.mode=async", "--master", address)
        self.assertNotIn("may still happen", gone.stderr)  # it was never sent


class Running(Set):
    def test_the_mode_goes_there_and_back(self):
        master, _, workers = self.start_cluster(ps=2, workers=2)
        job = self.running(master, training__epochs=ENDLESS, training__evaluate_every="never", training__replicas=2,
                           cluster__workers=2, cluster__ps=2)
        modes = []
        for mode in ("async", "bounded", "sync"):
            changed = self.set(master, job, f"training.mode={mode}")
            modes.append((changed["state"], changed["consistency"]["mode"]))
        self.assertEqual(modes, [("RUNNING", "ASYNC"), ("RUNNING", "BOUNDED"), ("RUNNING", "SYNC")])
        end = self.end_job(master.client(), job, [w.process.pid for w in workers], 0)
        result = self.watch(master, job)
        self.assertEqual((result["state"], result["epochs"]), ("SUCCEEDED", end))
        shards = self.status(master, job)["shards"]
        self.assertEqual([s["examples"] for s in shards], [end * RECORDS] * 2)

    def test_ledgers_count_every_record_once(self):
        master, _, _ = self.start_cluster(ps=2, workers=2)
        job = self.submit(master, training__mode="async", training__epochs=3, cluster__workers=2, cluster__ps=2)
        self.watch(master, job)
        status = self.status(master, job)
        self.assertEqual([records_applied(s["ledger"]) for s in status["shards"]], [3 * RECORDS] * 2)
        self.assertEqual([s["examples"] for s in status["shards"]], [3 * RECORDS] * 2)
        self.assertGreater(sum(status["staleness"]), 0)
        self.assertEqual((status["dropped"], status["recoveries"]), (0, 0))

    def standing_still(self):
        """A cluster with a job that reaches no step boundary until its worker goes on."""
        master, _, workers = self.start_cluster(1, 1)
        job = self.running(master, training__epochs=ENDLESS, training__evaluate_every="never")
        workers[0].process.send_signal(signal.SIGSTOP)
        return master, workers[0].process, job

    def metric(self, service, name):
        page = urllib.request.urlopen(f"http://{service.http}/metrics", timeout=120).read().decode()
        return float(re.search(rf"^gradus_{name} (\S+)$", page, re.M).group(1))

    def happens(self, master, worker, job):
        worker.send_signal(signal.SIGCONT)
        self.wait_for("ASYNC", lambda: self.status(master, job)["consistency"]["mode"] == "ASYNC")
        # the page is made again now and then, so it may be a little behind
        self.wait_for("the change to be counted", lambda: self.metric(master, "master_changes_total") == 1)
        self.assertEqual(gradus("cancel", job, "--now", "--master", master.address).returncode, 0)

    def test_a_timeout_does_not_stop_the_change(self):
        master, worker, job = self.standing_still()
        late = gradus("set", job, "training.mode=async", "--wait=6s", "--master", master.address)
        self.assertEqual(late.returncode, 1, late.stderr)
        self.assertIn("may still happen", late.stderr)
        self.assertIn("another change", self.set(master, job, "training.epochs=9", expect=1))
        self.happens(master, worker, job)

    def test_an_interrupt_does_not_stop_the_change(self):
        master, worker, job = self.standing_still()
        waiting = subprocess.Popen([os.path.join(BIN, "gradus"), "set", job, "training.mode=async",
                                    "--master", master.address], stderr=subprocess.PIPE, text=True)
        self.processes.append(waiting)
        self.wait_for("the change to wait", lambda: self.metric(master, "master_requests_waiting") == 1)
        waiting.send_signal(signal.SIGINT)
        err = waiting.communicate(timeout=120)[1]
        self.assertEqual(waiting.returncode, 130, err)
        self.assertIn("may still happen", err)
        self.happens(master, worker, job)

    def test_a_range_of_workers(self):
        process = self.start_run(training__epochs=ENDLESS, cluster__workers="1..2")
        self.wait_log("state", "master.log", "to=RUNNING")
        self.assertEqual(len(self.child(process, "gradus-worker")), 2)  # run starts the most
        listed = lambda: read_jobs(gradus("list", "--json", "--state-dir", self.dir + "/state").stdout)
        self.wait_for("both workers", lambda: len(listed()[0]["workers"]) == 2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
