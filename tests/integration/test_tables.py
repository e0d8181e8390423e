# SPDX-License-Identifier: Apache-2.0
"""Jobs with sparse tables: the same bits for any cluster and whatever is killed, with admission and eviction; every batch
once in async; evaluations of one version while training goes on."""

import json
import os
import random
import struct
import unittest

from cluster import SLOWER, gradus
from faults import FaultTest, main
from test_recovery import SameBits

FIELDS = 6

JOB = """name: clicks
data:
  format: libffm
  train: {file: train}
  test: {file: test}
  columns: [{column: 0..5, as: sparse}]
model:
  tables:
    # Half of the keys come once or twice, and most of the others go again: both are decided at every version.
    - {name: weights, dim: 1, init: zeros, memory_bytes: 4 MiB, copies_bytes: 4 MiB, admission: counted, sightings: 2,
       admission_bytes: 1 MiB, evict: {unseen: 60, every: 7}}
    - {name: factors, dim: 5, memory_bytes: 4 MiB, copies_bytes: 4 MiB, admission: probability, probability: 0.9,
       rows_max: 1500, evict: {every: 5, least: frequent}}
    - {name: all, dim: 3, memory_bytes: 4 MiB, copies_bytes: 4 MiB, catch_up: true}
  layers:
    - linear: {name: wide, table: weights, bias: true}
    - embedding: {name: vectors, table: factors}
    - factorization: {name: second, from: vectors}
    - embedding: {name: mixed, from: [0, 1, 2], table: all, hashing: none, shared: true}
    - flatten: {name: flat, from: mixed}
    - dense: {name: hidden, units: 8, activation: tanh}
    - dense: {name: deep, units: 1}
    - add: {from: [wide, second, deep]}
  loss: sigmoid_cross_entropy
update: {rule: adam, learning_rate: 0.02}
training: {batch_size: 16, epochs: 10}
"""


def click_lines(count, seed):
    """Some keys are in most lines, most are in few."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        keys = [int(draw.paretovariate(0.7)) % 4000 for _ in range(FIELDS)]
        label = int(keys[0] % 2 + keys[1] % 2 + keys[2] % 2 > 1)
        lines.append(f"{label} " + " ".join(f"{f}:{k}:{draw.choice((1, 1, 0.5))}" for f, k in enumerate(keys)) + "\n")
    return lines


class Clicks:
    """In the place of faults.Digits."""
    records = 2000
    model = {}
    sizes = {"training.epochs": 10}
    slow_down = 60 // SLOWER
    heartbeat_ms = 1000 * SLOWER
    accuracy = 0.7

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.file = cls.shared + "/clicks.yaml"
        for name, text in (("clicks.yaml", JOB), ("train", "".join(click_lines(cls.records, 1))),
                           ("test", "".join(click_lines(400, 2)))):
            with open(os.path.join(cls.shared, name), "w") as f:
                f.write(text)

    def data_dir(self):
        return self.shared

    def tensors(self, job, state="cluster"):
        """The export, as {name: (type, shape, bytes)}."""
        data = self.export(job, state)
        size, = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + size])
        header.pop("__metadata__", None)
        return {name: (t["dtype"], t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
                for name, t in header.items()}


class ClicksBits(Clicks, SameBits, FaultTest):
    # What these do to tables others here do, too.
    test_the_last_worker_killed_and_replaced = None
    test_a_server_killed_before_the_first_checkpoint = None
    test_speculation_and_workers_killed = None

    def test_what_an_export_has(self):
        result = self.run_job("plain", self.file, data__dir=self.shared, training__epochs=2)
        tensors = self.tensors(result["job"], "plain")
        rows = {}
        for table, dim in (("weights", 1), ("factors", 5), ("all", 3)):
            kind, shape, data = tensors[f"{table}.keys"]
            self.assertEqual(kind, "U64")
            keys = struct.unpack(f"<{shape[0]}Q", data)
            self.assertEqual(len(set(keys)), len(keys))
            self.assertEqual(tensors[f"{table}.values"][:2], ("F32", [len(keys), dim]))
            rows[table] = keys
        seen = {int(k.split(":")[1]) for line in click_lines(self.records, 1) for k in line.split()[1:4]}
        self.assertEqual(set(rows["all"]), seen)  # hashing: none, and every key that came has a row
        pairs = {tuple(k.split(":")[:2]) for line in click_lines(self.records, 1) for k in line.split()[1:]}
        self.assertTrue(0 < len(rows["weights"]) < len(pairs))
        self.assertTrue(0 < len(rows["factors"]) <= 1500 + 200)  # and what came since the last look

    def test_evaluations_change_no_bit(self):
        result = self.run_job("evaluated", self.file, data__dir=self.shared, cluster__workers=2, cluster__ps=3, cluster__partitions=3,
                              training__evaluate_every="1 epoch", **self.job_keys, **self.sizes)
        self.assertEqual(self.bits(result["job"], "evaluated"), self.expected())


class ClicksOnce(Clicks, FaultTest):
    """Each batch once, on every shard, with workers, a server and the master killed."""

    def test_async(self):
        self.cluster(workers=3)
        job = self.start_job(training__mode="async", cluster__workers=3, cluster__ps=2, cluster__partitions=2,
                             training__evaluate_every="2 epochs", training__checkpoint_every="2 epochs")
        self.wait_done(job, 0.2)
        self.replace_worker(0)
        self.wait_done(job, 0.45)
        self.replace_ps(1)
        self.wait_done(job, 0.6)
        self.replace_worker(1)
        self.wait_done(job, 0.75)
        self.replace_master()
        status = self.wait_end(job)
        self.assert_each_record_once(status, self.sizes["training.epochs"])
        self.assert_learned(status)

    def test_bounded(self):
        self.cluster(workers=3)
        job = self.start_job(training__mode="bounded", training__staleness=3, cluster__workers=3, cluster__ps=2,
                             cluster__partitions=2)
        self.wait_done(job, 0.3)
        self.replace_worker(2)
        status = self.wait_end(job)
        self.assert_each_record_once(status, self.sizes["training.epochs"])
        self.assert_learned(status)


CATCH_UP = """name: catch-up
data: {format: libffm, train: {file: train}, columns: [{column: 0..5, as: sparse}]}
model:
%s
  layers: [linear: {name: linear, %s, hashing: none, shared: true, bias: true}]
  loss: sigmoid_cross_entropy
update: {%s}
training: {batch_size: 16, epochs: 3, evaluate_every: never}
"""


class CatchUp(Clicks, FaultTest):
    def train(self, name, tables, rows, update):
        path = os.path.join(self.dir, name + ".yaml")
        with open(path, "w") as f:
            f.write(CATCH_UP % (tables, rows, update))
        result = self.run_job(name, path, data__dir=self.shared, training__epochs=3)
        return self.tensors(result["job"], name)

    def test_a_row_is_as_a_dense_one(self):
        """A whole training run, of the same weights in a variable and in a table that catches up."""
        for i, update in enumerate(("rule: momentum, learning_rate: 0.05", "rule: adam, learning_rate: 0.01",
                                    "rule: adamw, learning_rate: 0.01, weight_decay: 0.1",
                                    "rule: ftrl, learning_rate: 0.1, l1: 0.001, l2: 0.01",
                                    "rule: adagrad, learning_rate: 0.1",
                                    "rule: adam, learning_rate: 0.01, schedule: {kind: step, every: 50, rate: 0.5}")):
            with self.subTest(update):
                dense = self.train(f"dense-{i}", "", "rows: 4000", update)
                sparse = self.train(f"table-{i}", "  tables: [{name: t, dim: 1, init: zeros, catch_up: true, "
                                    "memory_bytes: 4 MiB, copies_bytes: 4 MiB}]", "table: t", update)
                weights = struct.unpack("<4000f", dense["linear.weights"][2])
                keys = struct.unpack(f"<{sparse['t.keys'][1][0]}Q", sparse["t.keys"][2])
                rows = struct.unpack(f"<{len(keys)}f", sparse["t.values"][2])
                largest = max(abs(w) for w in weights)
                self.assertGreater(largest, 0.01)
                self.assertGreater(len(keys), 400)
                for key, row in zip(keys, rows):
                    self.assertLessEqual(abs(row - weights[key]), 1e-5 * max(abs(weights[key]), 0.01 * largest), key)


class Refusals(Clicks, FaultTest):
    def test_a_table_that_is_full(self):
        done = self.run_job("full", self.file, expect=1, data__dir=self.shared, model__tables__2__memory_bytes="1 MiB",
                            model__tables__2__dim=4096, training__epochs=1)
        self.assertIn("table all", json.dumps(done))

    def test_what_fits_no_table(self):
        for change, said in (
                (("dim: 5", "dim: 5, catch_up: true, clip_norm: -1"), "clip_norm"),
                (("table: factors}", "table: factor}"), "table: model.tables has none of the name 'factor'"),
                (("table: factors}", "table: factors, rows: 7}"), "rows: a table has a row for every key that comes"),
                (("table: factors}", "table: factors, dim: 6}"), "dim: 6, but the rows of table 'factors' have 5 numbers")):
            path = os.path.join(self.dir, "job.yaml")
            with open(path, "w") as f:
                f.write(JOB.replace(*change))
            done = gradus("validate", path, "--set", f"data.dir={self.shared}")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, " ".join(done.stderr.split()))


if __name__ == "__main__":
    main()
