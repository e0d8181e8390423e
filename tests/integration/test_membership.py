# SPDX-License-Identifier: Apache-2.0
"""Workers come, go, hang and come back while a job runs."""

import json
import signal
import time

from cluster import gradus
from faults import SLOWER, Digits, FaultTest, main


class Members(Digits, FaultTest):
    sizes = {**Digits.sizes, "training.epochs": 1000}  # the tests say when it is enough

    def train(self, workers, **sets):
        return self.start_job(**{"training__replicas": 4, "cluster__ps": 2, "cluster__partitions": 2,
                                 "cluster__workers": workers, **sets})

    def finish(self, job):
        """Not much longer; all that was applied has to be whole epochs."""
        epochs = int(self.now(job)["epochs"]) + 4
        self.set_keys(job, f"training.epochs={epochs}")
        status = self.wait_end(job)
        self.assert_each_record_once(status, epochs)
        self.assertEqual((status["recoveries"], status["dropped"]), (0, 0))
        return status, epochs

    def assert_same_bits(self, job, epochs):
        plain = self.run_job("plain", self.file, training__replicas=4, training__batch_size=16,
                             training__epochs=epochs, training__evaluate_every="never")
        self.assertEqual(self.bits(job), self.bits(plain["job"], "plain"))

    def members(self, job, count, timeout=60):
        self.wait_for(f"{count} workers", lambda: len(self.now(job)["workers"]) == count, timeout)

    def steps_in(self, seconds, job):
        """How many the job makes in so long, as far as it can be seen in less."""
        begin, before = time.monotonic(), self.now(job)["steps"]
        time.sleep(1)
        made = self.wait_for("some steps", lambda: self.now(job)["steps"] - before >= 10 and self.now(job)["steps"] - before)
        return seconds * made / (time.monotonic() - begin)

    def one_more(self, mode):
        self.cluster(workers=1)
        job = self.train("1..2", training__mode=mode)
        self.members(job, 1)
        in_5_s = self.steps_in(5, job)
        more = self.start_worker()
        began = self.now(job)["steps"]
        self.wait_used(more)
        # In steps, because a machine that is busy slows down those of the job as well.
        self.assertLess(self.now(job)["steps"] - began, in_5_s)
        self.members(job, 2)
        third = self.start_worker()  # more than the job may have
        status, epochs = self.finish(job)
        self.assertEqual(self.batches(third), 0)
        return job, epochs

    def test_one_more_worker_is_used_within_5_s_sync(self):
        self.assert_same_bits(*self.one_more("sync"))

    def test_one_more_worker_is_used_within_5_s_async(self):
        self.one_more("async")

    def drain(self, mode):
        # Nobody is thought dead: a worker that goes has to say so.
        self.cluster(workers=3, heartbeat_ms=60000)
        job = self.train("1..3", training__mode=mode)
        self.members(job, 3)
        for worker in self.workers[:2]:
            self.wait_used(worker)
            self.assertEqual(worker.stop(), 0)
        self.members(job, 1)
        self.wait_used(self.workers[2])
        return job, self.finish(job)[1]

    def test_sigterm_drains_sync(self):
        self.assert_same_bits(*self.drain("sync"))

    def test_sigterm_drains_bounded(self):
        self.drain("bounded")

    def test_the_last_worker_drains_and_another_comes(self):
        self.cluster(workers=1, heartbeat_ms=60000)
        job = self.train(1)
        self.assertEqual(self.workers[0].stop(), 0)
        self.wait_for("RECOVERING", lambda: self.now(job)["state"] == "RECOVERING")
        self.wait_used(self.start_worker())
        self.assert_same_bits(job, self.finish(job)[1])

    def hang(self, mode, **sets):
        self.cluster(workers=2)
        job = self.train("1..2", training__mode=mode, **sets)
        self.members(job, 2)
        hung = self.workers[0]
        for _ in range(2):
            self.wait_used(hung)
            hung.process.send_signal(signal.SIGSTOP)
            self.members(job, 1)
            self.wait_used(self.workers[1])
            hung.process.send_signal(signal.SIGCONT)
            self.members(job, 2)
            self.wait_used(hung)
        return job

    def test_a_hung_worker_is_left_out_and_comes_back_sync(self):
        job = self.hang("sync")
        self.assert_same_bits(job, self.finish(job)[1])

    def test_a_hung_worker_is_left_out_and_comes_back_async(self):
        self.finish(self.hang("async"))

    def test_a_hung_worker_is_left_out_and_comes_back_bounded(self):
        self.finish(self.hang("bounded", training__staleness=1))

    def test_the_number_of_workers_is_set(self):
        self.cluster(workers=3)
        job = self.train(1)
        self.members(job, 1)
        for workers, count in (("3", 3), ("1", 1), ("1..2", 2), ("2..4", 3), ("1", 1)):
            self.set_keys(job, f"cluster.workers={workers}")
            self.members(job, count)
        self.set_keys(job, "cluster.workers=1..3")
        for worker in self.workers:
            self.wait_used(worker)
        self.assert_same_bits(job, self.finish(job)[1])

    def test_a_master_that_stands_still_gives_nobody_up(self):
        timeout_s = 3 * SLOWER  # so long that nobody is silent for it only because the machine is busy
        self.cluster(workers=2, heartbeat_ms=1000 * timeout_s)
        job = self.train(2)
        self.members(job, 2)
        for still_s in (timeout_s - 0.1, timeout_s + 2):
            self.master.process.send_signal(signal.SIGSTOP)
            time.sleep(still_s)
            self.master.process.send_signal(signal.SIGCONT)
            self.wait_used(self.workers[0])
            time.sleep(timeout_s + 0.5)
        self.assertEqual(self.now(job)["generation"], 1)
        self.assertNotIn("event=node_lost", self.log_of(self.master))
        self.finish(job)

    def test_a_job_that_ran_with_one_worker_recovers_with_one(self):
        self.cluster(workers=2)
        job = self.train(2, training__checkpoint_every=100)
        self.workers[1].stop(signal.SIGKILL)
        self.members(job, 1)
        self.replace_ps(0)
        self.wait_for("the recovery", lambda: self.now(job)["recoveries"] == 1)
        listed = self.wait_for("the reason in the list", lambda: (
            lambda job: job if "worker" in job["reason"] else None)(
                json.loads(gradus("list", "--json", "--master", self.master.address).stdout)[0]))
        self.assertIn("1 more worker", listed["reason"])
        self.wait_for("RUNNING with one worker", lambda: self.now(job)["state"] == "RUNNING", 30 * SLOWER)
        self.wait_used(self.workers[0])
        epochs = int(self.now(job)["epochs"]) + 4
        self.set_keys(job, f"training.epochs={epochs}")
        self.wait_end(job)
        self.assert_same_bits(job, epochs)

    def test_a_job_that_shrinks_makes_room_for_another(self):
        self.cluster(workers=2)
        job = self.train(2)
        other = self.submit(training__epochs=2, cluster__workers=1, cluster__ps=1)
        self.wait_for("a reason", lambda: "worker" in self.now(other)["reason"])
        self.set_keys(job, "cluster.workers=1")
        self.wait_end(other)
        self.finish(job)


if __name__ == "__main__":
    main()
