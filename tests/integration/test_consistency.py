# SPDX-License-Identifier: Apache-2.0
"""Every mode and policy under kills and slow workers, and changed while the job runs."""

import signal

from faults import Digits, FashionMnist, FaultTest, main


class Kills:
    """Modes in which each batch updates on its own: the shards' ledgers say that none is lost or doubled."""

    def train(self, **sets):
        return self.start_job(**{"cluster__ps": 2, "cluster__partitions": 2, **sets})

    def survive(self, **sets):
        self.cluster(workers=3)
        job = self.train(cluster__workers=3, **sets)
        for i, part in enumerate((0.1, 0.4, 0.7)):
            self.wait_done(job, part)
            self.replace_worker(i)
        return self.assert_complete(job)

    def assert_complete(self, job):
        status = self.wait_end(job)
        self.assert_each_record_once(status)
        self.assertEqual(status["recoveries"], 0)
        self.assert_learned(status)
        return status

    def test_async(self):
        status = self.survive(training__mode="async")
        self.assertGreater(sum(status["staleness"]), 0)

    def test_async_with_overlap(self):
        self.survive(training__mode="async", training__overlap="true")

    def test_bounded(self):
        self.survive(training__mode="bounded", training__staleness=2)

    def test_max_staleness(self):
        status = self.survive(training__mode="async", training__staleness_policy="max_staleness",
                              training__max_staleness=1)
        self.assertGreater(status["dropped"], 0)
        self.assertEqual(sum(status["staleness"][2:]), 0)

    def test_pushes_of_several_batches(self):
        self.survive(training__mode="bounded", training__push_every=3, training__pull_every=2)

    def test_servers_killed_and_replaced(self):
        self.cluster(workers=2)
        job = self.train(cluster__workers=2, training__mode="async", training__checkpoint_every="2 epochs")
        self.wait_done(job, 0.5)
        self.replace_ps(0)
        status = self.wait_end(job)
        self.assertEqual(status["recoveries"], 1)
        self.assert_each_record_once(status)


class DigitsKills(Digits, Kills, FaultTest):
    pass


class FashionMnistKills(FashionMnist, Kills, FaultTest):
    pass


class Policies(Digits, FaultTest):
    # Fewer are enough on an idle machine; how stale gradients are depends on what else it does. A tenth is chance.
    epochs = 12
    accuracy = 0.5

    def test_each_learns(self):
        for keys in ({"staleness_policy": "scale_lr"}, {"staleness_policy": "delay_compensation"},
                     {"staleness_policy": "max_staleness", "max_staleness": 2, "push_every": 2},
                     {"staleness_policy": "scale_lr", "mode": "bounded"},
                     {"push_every": 4}, {"pull_every": 4}):
            with self.subTest(keys):
                state = "-".join(str(v) for pair in keys.items() for v in pair)
                result = self.quiet(state, **{
                    "training__mode": "async", "cluster__workers": 3, "cluster__ps": 2, "cluster__partitions": 2,
                    **{"training__" + key: value for key, value in keys.items()}})
                self.assertEqual(result["steps"], self.epochs * 125)
                self.assert_learned(result)


class Partial(Digits, FaultTest):
    """Steps that are complete with 3 of 4 replicas."""

    slow_down = Digits.slow_down // 3

    def train(self, **sets):
        return self.start_job(**{"training__replicas": 4, "training__replicas_to_aggregate": 3,
                                 "cluster__ps": 3, "cluster__partitions": 3, "cluster__workers": 4, **sets})

    def assert_whole_steps(self, job):
        """A step is dropped by all shards or by none; what was dropped is known."""
        status = self.wait_end(job)
        self.assertEqual(status["consistency"]["aggregate"], 3)
        self.assertEqual([s["version"] for s in status["shards"]], [status["steps_total"]] * 3)
        applied = set(s["examples"] for s in status["shards"])
        self.assertEqual(len(applied), 1, status["shards"])
        missing = self.records * status["epochs"] - applied.pop()
        self.assertGreaterEqual(missing, 0)
        self.assert_learned(status)
        return status, missing

    def test_a_slow_worker_is_not_waited_for(self):
        self.cluster(workers=4, ps=3, slow=(25,))
        status, missing = self.assert_whole_steps(self.train(training__epochs=self.epochs))
        self.assertGreater(status["dropped"], status["steps_total"] / 2)
        self.assertLessEqual(missing, status["dropped"] * self.sizes["training.batch_size"])

    def test_workers_killed(self):
        self.cluster(workers=4, ps=3)
        job = self.train()
        for i, part in enumerate((0.2, 0.6)):
            self.wait_done(job, part)
            self.replace_worker(i)
        self.assert_whole_steps(job)


class Changes(Digits, FaultTest):
    """gradus set on a job that runs."""

    def train(self, **sets):
        self.cluster(workers=3)
        return self.start_job(**{"training__replicas": 4, "cluster__ps": 2, "cluster__partitions": 2,
                                 "cluster__workers": 3, **sets})

    def assert_complete(self, job):
        status = self.wait_end(job)
        self.assertEqual(status["examples"], self.records * status["epochs"])
        self.assert_each_record_once(status)
        self.assertEqual((status["recoveries"], status["dropped"]), (0, 0))
        self.assert_learned(status)
        return status

    def change(self, job, mode, *more):
        changed = self.set_keys(job, f"training.mode={mode}", *more)
        self.assertEqual((changed["state"], changed["consistency"]["mode"]), ("RUNNING", mode.upper()))

    def test_to_async_and_back(self):
        job = self.train()
        for part, mode in ((0.1, "async"), (0.25, "sync"), (0.4, "bounded"), (0.55, "async"), (0.7, "sync"),
                           (0.85, "bounded")):
            self.wait_done(job, part)
            self.change(job, mode)
        self.assert_complete(job)

    def test_while_workers_are_killed(self):
        job = self.train()
        for i, (part, mode) in enumerate(((0.1, "async"), (0.4, "sync"), (0.7, "async"))):
            self.wait_done(job, part)
            self.workers[i].process.send_signal(signal.SIGKILL)
            self.change(job, mode)
            self.replace_worker(i)
        self.assert_complete(job)

    def test_policies_and_replicas(self):
        job = self.train(training__mode="async")
        for part, keys in ((0.1, ["training.push_every=3"]),
                           (0.25, ["training.push_every=1", "training.staleness_policy=scale_lr"]),
                           (0.4, ["training.mode=sync", "training.replicas=3"]),
                           (0.55, ["training.replicas=8", "training.speculate=true"]),
                           (0.7, ["training.mode=async", "training.staleness_policy=none",
                                  "training.overlap=true"])):
            self.wait_done(job, part)
            self.set_keys(job, *keys)
        self.assert_complete(job)

    def test_the_same_bits_when_only_the_end_moves(self):
        job = self.train()
        self.set_keys(job, "training.speculate=true")
        status = self.wait_end(job)
        expected = self.quiet("plain", training__replicas=4, training__epochs=int(status["epochs"]))
        self.assertEqual(self.bits(job), self.bits(expected["job"], "plain"))

    def test_a_wrong_key_changes_nothing(self):
        job = self.train()
        generation = self.now(job)["generation"]
        for key, named in (("training.mode=asink", "training.mode"), ("training.modus=async", "training.modus"),
                           ("model.loss=mean_squared_error", "model.loss"), ("cluster.partitions=3", "cluster.partitions"),
                           ("training.batch_size=8", "training.batch_size")):
            self.assertIn(named, self.set_keys(job, "training.staleness=7", key, expect=2))
        status = self.status(self.master, job)
        self.assertEqual((status["state"], status["mode"], status["generation"]), ("RUNNING", "SYNC", generation))
        self.assertNotIn("staleness: 7", status["text"])

    def test_after_a_master_that_was_killed(self):
        job = self.train(training__checkpoint_every="3 epochs")
        self.wait_done(job, 0.2)
        self.change(job, "async")
        self.wait_done(job, 0.5)
        self.replace_master()
        status = self.wait_end(job)
        self.assertEqual(status["consistency"]["mode"], "ASYNC")  # as it was changed
        self.assertEqual(status["recoveries"], 0)
        self.assert_each_record_once(status)


if __name__ == "__main__":
    main()
