# SPDX-License-Identifier: Apache-2.0
"""Synchronous training has the same bits, whatever is killed, stopped and replaced meanwhile."""

import contextlib
import os
import re
import signal
import sqlite3

from faults import Digits, FashionMnist, FaultTest, main


class SameBits:
    """One job, trained by one worker on one server, then again on clusters in trouble."""

    job_keys = {"training__replicas": 4}
    reference = {}  # by data set and epochs: every class computes it once

    def expected(self, epochs=None):
        epochs = epochs or self.epochs
        kind = self.data_dir(), epochs
        if kind not in SameBits.reference:
            result = self.quiet("plain", training__epochs=epochs, **self.job_keys)
            SameBits.reference[kind] = self.bits(result["job"], "plain")
        return SameBits.reference[kind]

    def train(self, **sets):
        return self.start_job(**{**self.job_keys, "cluster__ps": 2, "cluster__partitions": 2, **sets})

    def assert_same(self, job):
        status = self.wait_end(job)
        self.assertEqual(self.bits(job), self.expected(int(status["epochs"])))
        self.assertEqual(status["dropped"], 0)
        self.assertEqual(set(s["examples"] for s in status["shards"]), {self.records * status["epochs"]})
        self.assert_learned(status)
        return status

    def test_spread(self):
        for workers, ps in ((2, 2), (4, 3)):
            with self.subTest(workers=workers, ps=ps):
                result = self.quiet(f"w{workers}p{ps}", cluster__workers=workers, cluster__ps=ps, cluster__partitions=ps,
                                    **self.job_keys)
                self.assertEqual(self.bits(result["job"], f"w{workers}p{ps}"), self.expected())

    def test_workers_killed_and_replaced(self):
        self.cluster(workers=4)
        job = self.train(cluster__workers=4)
        for i, part in enumerate((0.1, 0.35, 0.6, 0.85)):
            self.wait_done(job, part)
            self.replace_worker(i)
        self.assertEqual(self.assert_same(job)["recoveries"], 0)

    def test_the_last_worker_killed_and_replaced(self):
        self.cluster(workers=1)
        job = self.train(cluster__workers=1)
        self.wait_done(job, 0.4)
        name = self.node_of(self.workers[0])
        self.workers[0].stop(signal.SIGKILL)
        status = self.wait_for("RECOVERING", lambda: (
            lambda s: s if s["state"] == "RECOVERING" else None)(self.now(job)))
        self.assertIn(name, status["reason"])
        self.workers[0] = self.start_worker()
        self.assert_same(job)

    def test_speculation_and_a_worker_that_stops_and_goes(self):
        self.cluster(workers=4)
        job = self.train(cluster__workers=4, training__speculate="true")
        for part in (0.1, 0.2, 0.35, 0.5):
            self.wait_done(job, part)
            self.workers[1].process.send_signal(signal.SIGSTOP)
            before = self.now(job)["steps"]
            self.wait_for("steps without it", lambda: self.now(job)["steps"] > before)
            self.workers[1].process.send_signal(signal.SIGCONT)
        self.assertEqual(self.now(job)["generation"], 1)  # it was never thought dead
        self.assertGreater(self.assert_same(job)["speculated"], 0)

    def test_speculation_and_workers_killed(self):
        self.cluster(workers=3)
        job = self.train(cluster__workers="2..3", training__speculate="true")
        for i, part in enumerate((0.2, 0.5, 0.8)):
            self.wait_done(job, part)
            self.replace_worker(i)
        self.assert_same(job)

    def recovering(self, job, what):
        status = self.wait_for("RECOVERING", lambda: (
            lambda s: s if s["state"] == "RECOVERING" else None)(self.now(job)))
        self.assertIn(what, status["reason"])

    def assert_resumed_from_a_checkpoint(self, master, job):
        resumed = [line for line in self.log_of(master).splitlines() if "event=job_resumes" in line]
        self.assertEqual(len(resumed), 1, resumed)
        self.assertIn(f"checkpoint={job}/step-", resumed[0].replace(self.state_dir + "/checkpoints/", ""))

    def test_a_server_killed_and_replaced(self):
        self.cluster(workers=2)
        job = self.train(cluster__workers=2, training__checkpoint_every="2 epochs")
        self.wait_done(job, 0.5)
        self.wait_checkpoint(job)
        name = self.node_of(self.servers[1])
        self.servers[1].stop(signal.SIGKILL)
        self.recovering(job, name)
        self.servers[1] = self.start_ps()
        status = self.assert_same(job)
        self.assertEqual(status["recoveries"], 1)
        self.assert_resumed_from_a_checkpoint(self.master, job)

    def test_a_server_killed_before_the_first_checkpoint(self):
        self.cluster(workers=2)
        job = self.train(cluster__workers=2)
        self.wait_done(job, 0.3)
        self.replace_ps(0)
        self.assertEqual(self.assert_same(job)["recoveries"], 1)

    def test_the_master_killed_and_started_again(self):
        self.cluster(workers=2)
        job = self.train(cluster__workers=2, training__checkpoint_every="2 epochs")
        self.wait_done(job, 0.5)
        self.wait_checkpoint(job)
        self.replace_master()
        self.assertIn(self.now(job)["state"], ("RECOVERING", "RUNNING"))
        status = self.assert_same(job)
        self.assertEqual((status["recoveries"], status["adoptions"]), (0, 1))
        self.assertIn("job_adopts", self.log_of(self.master))
        self.assertNotIn("job_resumes", self.log_of(self.master))
        for worker in self.workers:
            self.assertEqual(self.log_of(worker).count("data_loaded"), 1)
        for node in (*self.workers, *self.servers):
            self.assertEqual(len(re.findall(r"\bjoined\b", self.log_of(node))), 1)

    def test_the_master_and_a_server_killed_together(self):
        """A master that finds a server gone goes back to the checkpoint, as ever."""
        self.cluster(workers=2)
        job = self.train(cluster__workers=2, training__checkpoint_every="2 epochs")
        self.wait_done(job, 0.5)
        self.wait_checkpoint(job)
        self.master.stop(signal.SIGKILL)
        self.servers[0].stop(signal.SIGKILL)
        self.master = self.start("master", *self.master_args, f"--listen={self.master.address}")
        self.servers[0] = self.start_ps()
        status = self.assert_same(job)
        self.assertEqual((status["recoveries"], status["adoptions"]), (1, 0))
        self.assert_resumed_from_a_checkpoint(self.master, job)

    def test_the_master_and_all_workers_killed_together(self):
        """The shards are all that is needed."""
        self.cluster(workers=2)
        job = self.train(cluster__workers=2)
        self.wait_done(job, 0.5)
        self.master.stop(signal.SIGKILL)
        for worker in self.workers:
            worker.stop(signal.SIGKILL)
        self.master = self.start("master", *self.master_args, f"--listen={self.master.address}")
        self.workers = [self.start_worker(), self.start_worker()]
        status = self.assert_same(job)
        self.assertEqual((status["recoveries"], status["adoptions"]), (0, 1))

    def test_the_master_killed_again_and_again(self):
        self.cluster(workers=2)
        job = self.train(cluster__workers=2, training__checkpoint_every="1 epoch", training__evaluate_every=37)
        for part in (0.2, 0.3, 0.4, 0.5, 0.6):
            self.wait_done(job, part)
            self.replace_master()
        self.assertEqual(self.assert_same(job)["recoveries"], 0)

    def pinned(self, job):
        """The version that the row of a master which has ended names as pinned, with something to be done yet; "": none."""
        from rpc_python import Protos
        with contextlib.closing(sqlite3.connect(self.state_dir + "/master.db")) as store:
            row = store.execute("SELECT job FROM job WHERE id = ?", (job,)).fetchone()[0]
        return Protos(os.environ["GRADUS_DESCRIPTORS"])["gradus.v1.Job"].FromString(row).handover.pin.id

    def test_the_master_stopped_between_pin_and_unpin(self):
        """In order, while a version is pinned on the servers for an evaluation or a checkpoint: the next master finishes that."""
        self.cluster(workers=2)
        job = self.train(cluster__workers=2, training__checkpoint_every=20, training__evaluate_every=10)
        found = set()
        for adoptions in range(1, 40):
            self.wait_done(job, 0.1)
            steps = self.now(job)["steps"]
            self.wait_for("some steps", lambda steps=steps: self.now(job)["steps"] > steps + 5)
            self.assertEqual(self.master.stop(), 0)
            found.add(self.pinned(job))
            self.master = self.start("master", *self.master_args, f"--listen={self.master.address}")
            self.wait_for("the adoption", lambda adoptions=adoptions: self.now(job)["adoptions"] == adoptions)
            if len(found - {""}) >= 3:
                break
        else:
            self.fail("nothing was pinned whenever the master was stopped")
        status = self.assert_same(job)
        self.assertEqual(status["recoveries"], 0)
        steps = [e["step"] for e in status["evaluations"]]
        self.assertEqual(len(steps), len(set(steps)))
        for step in (int(pin.split("-")[1]) for pin in found - {""}):
            self.assertIn(step, steps)

    def test_everything_killed_once(self):
        self.cluster(workers=2)
        job = self.train(cluster__workers=2, training__checkpoint_every="2 epochs",
                         training__speculate="true")
        self.wait_done(job, 0.3)
        self.replace_worker(0)
        self.wait_done(job, 0.5)
        self.replace_master()
        self.wait_done(job, 0.6)
        self.replace_ps(0)
        self.replace_worker(1)
        self.assertEqual(self.assert_same(job)["recoveries"], 1)


class DigitsBits(Digits, SameBits, FaultTest):
    pass


class FashionMnistBits(FashionMnist, SameBits, FaultTest):
    pass


if __name__ == "__main__":
    main()
