# SPDX-License-Identifier: Apache-2.0
"""Workers come, go, hang and come back while a job runs."""

import signal
import time

from cluster import gradus, read_jobs, read_message
from faults import Digits, FaultTest, main


class Members(Digits, FaultTest):
    epochs = 4  # not much longer than it takes

    def train(self, workers, **sets):
        return self.start_job(**{"training__replicas": 4, "cluster__ps": 2, "cluster__partitions": 2,
                                 "cluster__workers": workers, **sets})

    def finish(self, job):
        """All that was applied has to be whole epochs; how many."""
        status = self.wait_end(job)
        self.assert_each_record_once(status)
        self.assertEqual((status["recoveries"], status["dropped"]), (0, 0))
        return int(status["epochs"])

    def assert_same_bits(self, job, epochs):
        plain = self.quiet("plain", training__replicas=4, training__epochs=epochs)
        self.assertEqual(self.bits(job), self.bits(plain["job"], "plain"))

    def members(self, job, count, timeout=60):
        self.wait_for(f"{count} workers", lambda: len(self.now(job)["workers"]) == count, timeout)

    def wait_heard(self):
        """Until every node has beaten once more."""
        began = time.monotonic()

        def heard():
            nodes = read_message(gradus("nodes", "--json", "--master", self.master.address).stdout)["nodes"]
            return all(n["heartbeat_age_ms"] < 1000 * (time.monotonic() - began) for n in nodes)
        self.wait_for("heartbeats", heard)

    def one_more(self, mode):
        self.cluster(workers=1)
        job = self.train("1..2", training__mode=mode)
        self.members(job, 1)
        self.wait_used(self.workers[0])
        self.workers.append(self.start_worker())
        began, steps = time.monotonic(), self.now(job)["steps"]
        self.wait_used(self.workers[1])
        print(f"used after {time.monotonic() - began:.1f} s and {self.now(job)['steps'] - steps} steps")
        self.members(job, 2)
        self.workers.append(self.start_worker())  # more than the job may have
        epochs = self.finish(job)
        self.assertEqual(self.batches(self.workers[2]), 0)
        return job, epochs

    def test_names_outlive_the_master(self):
        """A node keeps its name as long as it lives: what was said of a job names the same processes afterwards."""
        self.cluster(workers=4)

        def names():
            nodes = read_message(gradus("nodes", "--json", "--master", self.master.address).stdout or '{"nodes": []}')["nodes"]
            return {n["address"]: n["id"] for n in nodes if n["alive"]}

        before = names()
        self.assertEqual(len(before), 4 + len(self.servers))
        first = self.workers[0].process
        first.send_signal(signal.SIGSTOP)  # so it is the last one to come
        self.replace_master()
        self.wait_for("the others", lambda: len(names()) == len(before) - 1)
        first.send_signal(signal.SIGCONT)
        self.wait_for("all nodes", lambda: len(names()) == len(before))
        self.assertEqual(names(), before)

    def test_a_node_whose_place_another_has_is_not_listed(self):
        self.cluster(workers=2)

        def listed(*args):
            nodes = read_message(gradus("nodes", "--json", "--master", self.master.address, *args).stdout or '{"nodes": []}')["nodes"]
            return sorted((n["role"], n["alive"]) for n in nodes)

        everybody = listed()
        self.assertIn(("WORKER", True), everybody)
        self.workers[0].stop(signal.SIGKILL)
        lost = sorted([*everybody, ("WORKER", False)])
        lost.remove(("WORKER", True))
        self.wait_for("a worker that is lost", lambda: listed() == lost)
        self.workers[0] = self.start_worker()
        self.wait_for("another in its place", lambda: listed() == everybody)
        self.assertEqual(listed("--all"), sorted([*everybody, ("WORKER", False)]))
        self.assertEqual(self.workers[1].stop(), 0)
        everybody.remove(("WORKER", True))
        self.assertEqual(listed(), everybody)

    def test_one_more_worker_is_used_sync(self):
        self.assert_same_bits(*self.one_more("sync"))

    def test_one_more_worker_is_used_async(self):
        self.one_more("async")

    def drain(self, mode):
        self.cluster(workers=3)
        job = self.train("1..3", training__mode=mode)
        self.members(job, 3)
        for worker in self.workers[:2]:
            self.wait_used(worker)
            self.assertEqual(worker.stop(), 0)
        self.members(job, 1)
        self.wait_used(self.workers[2])
        # Nobody was thought dead: who went has said so.
        self.assertNotIn("event=node_lost", self.log_of(self.master))
        return job, self.finish(job)

    def test_sigterm_drains_sync(self):
        self.assert_same_bits(*self.drain("sync"))

    def test_sigterm_drains_bounded(self):
        self.drain("bounded")

    def test_the_last_worker_drains_and_another_comes(self):
        self.cluster(workers=1)
        job = self.train(1)
        self.assertEqual(self.workers[0].stop(), 0)
        self.wait_for("RECOVERING", lambda: self.now(job)["state"] == "RECOVERING")
        self.workers[0] = self.start_worker()
        self.wait_used(self.workers[0])
        self.assert_same_bits(job, self.finish(job))

    def hang(self, mode, **sets):
        self.cluster(workers=2, silence_ms=1500)
        job = self.train("1..2", training__mode=mode, **sets)
        hung, other = self.workers
        for _ in range(2):
            self.wait_used(hung)
            name = self.node_of(hung)
            hung.process.send_signal(signal.SIGSTOP)
            self.wait_for("it to be left out", lambda: name not in self.now(job)["workers"])
            self.wait_used(other)
            hung.process.send_signal(signal.SIGCONT)
            self.members(job, 2)
            self.wait_used(hung)
        return job

    def test_a_hung_worker_is_left_out_and_comes_back_sync(self):
        job = self.hang("sync")
        self.assert_same_bits(job, self.finish(job))

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
        self.assert_same_bits(job, self.finish(job))

    def test_a_master_that_stands_still_gives_nobody_up(self):
        silence_s = 6  # nobody else stands still for so long
        self.cluster(workers=2, silence_ms=1000 * silence_s)
        job = self.train(2)
        self.members(job, 2)
        for still_s in (silence_s - 0.1, silence_s + 2):
            self.master.process.send_signal(signal.SIGSTOP)
            time.sleep(still_s)
            self.master.process.send_signal(signal.SIGCONT)
            for worker in self.workers:  # it has judged by then
                self.wait_used(worker)
            self.wait_heard()
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
                read_jobs(gradus("list", "--json", "--master", self.master.address).stdout)[0]))
        self.assertIn("1 more worker", listed["reason"])
        self.wait_for("RUNNING with one worker", lambda: self.now(job)["state"] == "RUNNING")
        self.wait_used(self.workers[0])
        self.assert_same_bits(job, int(self.wait_end(job)["epochs"]))

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
