# SPDX-License-Identifier: Apache-2.0
"""Jobs that are paused and resumed, wait in the order of their priorities, keep to the quotas of their owners and make way for
others, on real processes."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from cluster import ENDLESS, SLOW_DOWN, SOURCE, gradus, read_job, read_jobs, read_message  # noqa: E402
from faults import Digits, FaultTest, main  # noqa: E402
from test_storage import SmallDisk  # noqa: E402
from test_tokens import Tokens  # noqa: E402


class FairTest(Digits, FaultTest):
    epochs = 4

    def ask(self, *command, expect=0):
        done = gradus(*command, "--json", "--master", self.master.address)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return (read_jobs if command[0] == "list" else read_job)(done.stdout) if expect == 0 else done.stderr

    def wait_state(self, job, state, timeout=60):
        def there():
            status = self.now(job)
            return status if status["state"] == state else None
        return self.wait_for(f"{job} to be {state}", there, timeout)

    def wait_free(self):
        def free():
            nodes = read_message(gradus("nodes", "--json", "--master", self.master.address).stdout)["nodes"]
            return all(n["jobs"] == [] for n in nodes)
        self.wait_for("all nodes to be free", free, 30)

    def weights(self, job, state="cluster"):
        return self.export(job, state)

    def weights_of_quiet(self, status, **keys):
        """Of a job of as many epochs that nothing happens to."""
        return self.weights(self.quiet("quiet", training__epochs=int(status["epochs"]), **keys)["job"], "quiet")

    def list(self, *args):
        return {row["job"]: row for row in self.ask("list", *args)}


class Pause(FairTest):
    job_keys = {"training__replicas": 2, "cluster__workers": 2, "cluster__ps": 2}

    def test_the_same_weights_as_without_a_pause(self):
        self.cluster(workers=2)
        job = self.start_job(**self.job_keys)
        self.wait_done(job, 0.2)
        self.assertTrue(self.ask("pause", job)["paused"])
        paused = self.wait_state(job, "PAUSED")
        self.assertIn(f"by request, at step {paused['steps']}", paused["reason"])
        self.assertEqual(paused["workers"], [])
        self.wait_free()
        self.assertIn(f"step-{paused['steps']:09d}", paused["checkpoint"])
        status = self.ask("status", job)
        self.assertEqual((status["waiting"], status["queue_position"], status["paused"]), ("FOR_RESUME", 0, True))
        self.ask("resume", job)
        done = self.wait_end(job)
        self.assertEqual(done["recoveries"], 0)
        self.assertEqual(self.weights(job), self.weights_of_quiet(done, training__replicas=2))

    def test_a_pause_outlives_the_master_and_counts_each_record_once(self):
        self.cluster(workers=2)
        job = self.start_job(training__mode="async", **self.job_keys)
        self.wait_done(job, 0.2)
        self.ask("pause", job)
        paused = self.wait_state(job, "PAUSED")
        self.replace_master()
        waiting = self.submit(training__epochs=1, **self.job_keys)  # it is in nobody's way
        self.wait_end(waiting)
        again = self.now(job)
        self.assertEqual((again["state"], again["steps"], again["generation"]),
                         ("PAUSED", paused["steps"], paused["generation"]))
        self.ask("resume", job)
        self.assert_each_record_once(self.wait_end(job))

    def test_the_master_dies_while_it_is_being_paused(self):
        self.cluster(workers=2)
        job = self.start_job(**self.job_keys)
        self.wait_done(job, 0.2)
        self.ask("pause", job)
        self.replace_master()
        self.wait_state(job, "PAUSED")
        self.wait_free()
        self.ask("resume", job)
        self.wait_end(job)

    def test_what_waits_and_what_is_over(self):
        self.cluster(workers=0)
        job = self.submit()
        self.assertEqual(self.ask("pause", job)["state"], "PAUSED")
        self.assertEqual(self.ask("pause", job)["state"], "PAUSED")
        shown = gradus("list", "--master", self.master.address)
        self.assertIn("by request, before it ran", shown.stdout)
        self.assertLessEqual(max(map(len, shown.stdout.splitlines())), 80)
        self.ask("set", job, "training.epochs=3", "priority=7")
        self.assertEqual(self.ask("resume", job)["state"], "PENDING")
        self.assertEqual(self.ask("status", job)["priority"], 7)
        self.assertIn("\npriority    7\nqueue       place 1\n", gradus("status", job, "--master", self.master.address).stdout)
        self.ask("pause", job)
        gradus("cancel", job, "--master", self.master.address)
        self.assertIn("while it was paused", self.wait_state(job, "CANCELLED")["reason"])
        self.assertIn("has ended: CANCELLED", self.ask("pause", job, expect=1))
        self.assertEqual(self.ask("resume", job)["state"], "PENDING")
        self.assertIn("no job none-1", self.ask("pause", "none-1", expect=5))

    def test_a_pause_on_a_full_disk(self):
        self.state_dir = self.dir + "/cluster"
        disk = SmallDisk(self, self.state_dir, "12m")
        self.cluster(workers=2)
        job = self.start_job(**self.job_keys, model__layers__1__units=128)
        self.wait_done(job, 0.01)
        disk.fill()
        with open(disk.path + "/filler", "r+b") as f:
            f.truncate(os.path.getsize(disk.path + "/filler") - 300000)  # for rows, not for a checkpoint
        self.ask("pause", job)
        status = self.wait_for("a failure", lambda: (
            lambda s: s if "paused later" in s["reason"] else None)(self.now(job)))
        self.assertEqual(status["state"], "RUNNING")
        self.assertIn("No space left", status["reason"])
        self.wait_for("more steps", lambda: self.now(job)["steps"] > status["steps"] + 20)
        disk.make_room()
        self.assertIn("at step", self.wait_state(job, "PAUSED")["reason"])
        self.ask("cancel", job)


class Queue(FairTest):
    def restart_with(self, *args):
        self.master_args = (*self.master_args, *args)
        self.replace_master()

    one = {"cluster__workers": 1, "training__replicas": 1}

    def test_the_higher_priority_goes_first(self):
        self.cluster(workers=1)
        first = self.start_job(**self.one)
        low = self.submit(training__epochs=1, priority=-1, **self.one)
        middle = self.submit(training__epochs=1, **self.one)
        high = self.submit(training__epochs=1, priority=5, **self.one)
        rows = self.list()
        self.assertEqual([rows[j]["queue_position"] for j in (high, middle, low)], [1, 2, 3])
        self.assertEqual([rows[j]["waiting"] for j in (high, middle, low)], ["FOR_NODES", "FOR_TURN", "FOR_TURN"])
        self.assertIn(f"waits behind job {high} of priority 5", rows[low]["reason"])
        for job in (first, high, middle, low):
            self.wait_end(job)
        started = [self.status(self.master, j)["started_ms"] for j in (high, middle, low)]
        self.assertEqual(started, sorted(started))

    def test_a_job_makes_way_for_a_higher_one(self):
        self.cluster(workers=2)
        self.restart_with("--preemption=on", "--preempt-after-ms=200")
        low = self.start_job(training__replicas=2, cluster__workers=2)
        self.wait_done(low, 0.1)
        same = self.submit(training__epochs=1, cluster__workers=2)
        high = self.submit(training__epochs=2, cluster__workers=2, priority=1)
        made_way = self.wait_state(low, "PENDING")
        self.assertIn(f"made way for job {high} at step", made_way["reason"])
        self.wait_end(high)
        self.wait_end(low)
        self.wait_end(same)
        status = self.status(self.master, low)
        self.assertEqual((status["preemptions"], status["recoveries"]), (1, 0))
        self.assertEqual(self.status(self.master, same)["preemptions"], 0)
        self.assertEqual(self.weights(low), self.weights_of_quiet(status, training__replicas=2))


class Quotas(Tokens):
    def test_of_one_owner(self):
        server = self.server_certificate()
        own = self.dir + "/node-token"
        with open(own, "w") as f:
            f.write(self.token("node", "nodes") + "\n")
        common = [*server, "--tls-client=optional", f"--tokens={self.list}", f"--token-file={own}", "--local-sockets=off"]
        master = self.start("master", f"--state-dir={self.dir}/state", "--owner-running-max=1",
                            f"--audit-log={self.audit}", *common)
        at = f"--master={master.address}"
        self.start("ps", at, f"--checkpoint-dir={self.dir}/state/checkpoints", *common)
        for _ in range(2):
            self.start("worker", at, f"--slow-down={SLOW_DOWN}", *common)
        ann, bob = self.token("submitter", "ann"), self.token("submitter", "bob")
        self.wait_for("the tokens to be known", lambda: self.ask(master, bob).returncode == 0)  # the last one

        def submit(who):
            done = self.ask(master, who, "submit", SOURCE + "/examples/digits.yaml",
                            *self.job(training__epochs=ENDLESS, training__evaluate_every="never"))
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout.strip()

        def status(job):
            return read_job(self.ask(master, ann, "status", job, "--json").stdout)

        def wait(job, state):
            self.wait_for(f"{job} to be {state}", lambda: status(job)["state"] == state)

        first = submit(ann)
        wait(first, "RUNNING")
        second, other = submit(ann), submit(bob)
        wait(other, "RUNNING")  # nobody is in its way
        waits = status(second)
        self.assertEqual((waits["state"], waits["waiting"], waits["owner"]), ("PENDING", "FOR_QUOTA", "ann"))
        self.assertEqual(waits["reason"], "owner ann is at the quota of running jobs: 1 of 1")
        rows = read_jobs(self.ask(master, bob, "list", "--owner", "ann", "--json").stdout)
        self.assertEqual({row["job"] for row in rows}, {first, second})
        self.refused(self.ask(master, bob, "pause", first), f"bob (submitter, by token) may not pause job {first}")
        self.assertEqual(self.ask(master, ann, "pause", first).returncode, 0)
        wait(first, "PAUSED")
        wait(second, "RUNNING")  # what is paused does not count
        self.assertEqual(self.ask(master, ann, "resume", first).returncode, 0)
        self.assertEqual(status(first)["waiting"], "FOR_QUOTA")
        for who, job in ((ann, first), (ann, second), (bob, other)):
            self.assertEqual(self.ask(master, who, "cancel", job, "--now").returncode, 0)


def load_tests(loader, tests, pattern):
    """Without the tests of those that this file takes its tools from."""
    suite = unittest.TestSuite()
    for case in (Pause, Queue):
        suite.addTests(loader.loadTestsFromTestCase(case))
    suite.addTest(Quotas("test_of_one_owner"))
    return suite


if __name__ == "__main__":
    main()
