# SPDX-License-Identifier: Apache-2.0
"""Jobs with sparse tables: the same bits for any cluster and whatever is killed, with admission and eviction; every batch
once in async; evaluations of one version while training goes on."""

import json
import os
import random
import re
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
    sizes = {}
    epochs = 10
    slow_down = 60 // SLOWER
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

    def test_16_bits(self):
        bits = {}
        for gradients, parameters in (("bf16", "fp32"), ("fp32", "fp16"), ("fp16", "bf16")):
            found = set()
            for workers, ps in ((1, 1), (2, 2), (4, 3)):
                name = f"{gradients}-{parameters}-w{workers}p{ps}"
                result = self.run_job(name, self.file, data__dir=self.shared, cluster__ps=ps, cluster__workers=workers, training__replicas=4,
                                      training__wire=f"{{gradients: {gradients}, parameters: {parameters}}}", training__epochs=1)
                found.add((self.bits(result["job"], name), json.dumps(result["metrics"]["test"])))
            self.assertEqual(len(found), 1, (gradients, parameters))
            bits[gradients, parameters] = found.pop()
        self.assertEqual(len(set(bits.values())), len(bits))
        for mode in ({"training__mode": "async", "training__push_every": 3}, {"training__mode": "bounded", "training__staleness": 1}):
            result = self.run_job(mode["training__mode"], self.file, data__dir=self.shared, cluster__ps=2, cluster__workers=2,
                                  training__wire="{gradients: bf16, parameters: fp16}", **mode)
            self.assertEqual(result["state"], "SUCCEEDED")
            self.assertGreater(result["metrics"]["test"]["accuracy"], self.accuracy)

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
        result = self.quiet("evaluated", cluster__workers=2, cluster__ps=3, cluster__partitions=3, training__evaluate_every="1 epoch",
                            **self.job_keys)
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
        self.assert_each_record_once(status)
        self.assert_learned(status)

    def test_bounded(self):
        self.cluster(workers=3)
        job = self.start_job(training__mode="bounded", training__staleness=3, cluster__workers=3, cluster__ps=2,
                             cluster__partitions=2)
        self.wait_done(job, 0.3)
        self.replace_worker(2)
        status = self.wait_end(job)
        self.assert_each_record_once(status)
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
                                    "rule: adam, learning_rate: 0.01, schedule: {kind: step, every: 50, rate: 0.5}",
                                    "rule: sgd, learning_rate: 0.5, clip_global_norm: 0.1",
                                    "rule: momentum, learning_rate: 0.2, clip_value: 0.05, clip_norm: 0.1")):
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


BIAS_ALONE = """name: clicks
data:
  format: libffm
  train: {file: train}
  test: {file: test}
  columns: [{column: 0..5, as: sparse}]
model:
  tables:
    - {name: weights, dim: 1, init: zeros, memory_bytes: 4 MiB, copies_bytes: 4 MiB}
  layers:
    - linear: {name: wide, table: weights, bias: true}
  loss: sigmoid_cross_entropy
update: {rule: ftrl, learning_rate: 0.05}
training: {batch_size: 16, epochs: 10}
"""


class BiasAlone(Clicks, FaultTest):
    """One variable of one element: the other servers have rows of tables, and nothing else."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(cls.file, "w") as f:
            f.write(BIAS_ALONE)


    def test_norms_over_all_servers(self):
        """Rows and variables are clipped together, wherever they lie: the same bits, and other ones than without."""
        bits = {}
        for name, sets in (("one", {}), ("three", {"cluster__ps": 3, "cluster__workers": 2}),
                           ("free", {"update__clip_global_norm": 0, "update__clip_norm": 0})):
            result = self.quiet(name, **{"training__replicas": 4, "update__rule": "adam", "update__clip_global_norm": 0.02,
                                         "update__clip_norm": 0.05, **sets})
            bits[name] = self.bits(result["job"], name)
        self.assertEqual(bits["three"], bits["one"])
        self.assertNotEqual(bits["free"], bits["one"])
        self.run_job("async", self.file, data__dir=self.shared, update__clip_global_norm=0.02, training__mode="async",
                     cluster__ps=3, cluster__workers=2)

    def test_a_pattern_of_a_table_alone(self):
        bits = set()
        for i, pattern in enumerate(("weights", "wide.bias", "*")):
            path = os.path.join(self.dir, f"{i}.yaml")
            with open(path, "w") as f:
                f.write(BIAS_ALONE.replace("learning_rate: 0.05", f"learning_rate: 0.05, variables: [{{match: '{pattern}', learning_rate: 2}}]"))
            bits.add(self.bits(self.run_job(str(i), path, data__dir=self.shared)["job"], str(i)))
        self.assertEqual(len(bits), 3)
        with open(path, "w") as f:
            f.write(BIAS_ALONE.replace("learning_rate: 0.05", "learning_rate: 0.05, variables: [{match: other, learning_rate: 2}]"))
        done = gradus("plan", path, "--set", f"data.dir={self.shared}")
        self.assertIn("no variable matches 'other'", " ".join(done.stderr.split()))

    def test_rows_too_large_for_fp16(self):
        # Gradients of rows are multiples of the data's weights; that of the bias is none, and stays small.
        path = os.path.join(self.dir, "large.yaml")
        with open(path, "w") as f:
            f.write(BIAS_ALONE)
        large = os.path.join(self.dir, "large")
        os.makedirs(large)
        for name in ("train", "test"):
            with open(os.path.join(large, name), "w") as f:
                f.writelines(re.sub(r":(1|0\.5)(?=\s)", ":200000", line) for line in click_lines(200, 3))
        for wire, state in (("fp32", "SUCCEEDED"), ("bf16", "SUCCEEDED"), ("fp16", "FAILED")):
            result = self.run_job(wire, path, expect=int(state == "FAILED"), data__dir=large, cluster__ps=2, training__epochs=1,
                                  training__wire=f"{{gradients: {wire}}}")
            self.assertEqual(result["state"], state, result)
        self.assertIn("variable wide.bias is not finite", result["reason"])

    def test_three_servers_and_one_of_them_killed(self):
        keys = {"training__replicas": 4, "training__evaluate_every": "2 epochs"}
        several = {"cluster__ps": 3, "cluster__workers": 2}
        alone, spread = self.quiet("alone", **keys), self.quiet("spread", **keys, **several)
        self.assertEqual(self.bits(spread["job"], "spread"), self.bits(alone["job"], "alone"))
        self.assertEqual(spread["metrics"], alone["metrics"])
        self.quiet("decided", training__replicas_to_aggregate=3, **keys, **several)
        self.cluster(ps=3, workers=2)
        job = self.start_job(cluster__ps=3, cluster__workers=2, training__replicas=4, training__checkpoint_every="2 epochs")
        self.wait_done(job, 0.5)
        self.replace_ps(2)
        status = self.wait_end(job)
        self.assertEqual(status["recoveries"], 1)
        expected = self.quiet("expected", training__replicas=4, training__epochs=int(status["epochs"]))
        self.assertEqual(self.bits(job), self.bits(expected["job"], "expected"))

    def test_async_with_a_pause(self):
        self.cluster(ps=3, workers=2)
        job = self.start_job(cluster__ps=3, cluster__workers=2, training__mode="async")
        self.wait_done(job, 0.4)
        for command, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
            done = gradus(command, job, "--master", self.master.address)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.wait_for(state, lambda: self.now(job)["state"] == state)
        status = self.wait_end(job)
        self.assert_each_record_once(status)
        self.assert_learned(status)

    def test_without_tables_it_is_refused(self):
        path = os.path.join(self.dir, "job.yaml")
        with open(path, "w") as f:
            f.write(BIAS_ALONE.replace("table: weights, bias: true", "rows: 1, bias: false").replace("  tables:\n", "")
                    .replace("    - {name: weights, dim: 1, init: zeros, memory_bytes: 4 MiB, copies_bytes: 4 MiB}\n", ""))
        done = gradus("plan", path, "--set", f"data.dir={self.shared}", "--set", "cluster.ps=3")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("1 partitions cannot fill 3 parameter servers", " ".join(done.stderr.split()))
        with open(path, "w") as f:
            f.write(BIAS_ALONE)
        done = gradus("plan", path, "--set", f"data.dir={self.shared}", "--set", "cluster.ps=3", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)


class Edges(Clicks, FaultTest):
    def test_the_largest_key(self):
        """Keys as they are, from 0 to 2^64 - 1, in any order in a line; on two servers, through a checkpoint and an export."""
        keys = [0, 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
        draw = random.Random(3)
        lines = []
        for _ in range(400):
            picked = draw.sample(keys, 3)
            lines.append(f"{int(2**64 - 1 in picked)} " + " ".join(f"0:{k}:1" for k in picked) + "\n")
        path = os.path.join(self.dir, "job.yaml")
        with open(os.path.join(self.dir, "lines"), "w") as f:
            f.write("".join(lines))
        with open(path, "w") as f:
            f.write(BIAS_ALONE.replace("{file: train}", "{file: lines}").replace("{file: test}", "{file: lines}")
                    .replace("0..5", "0").replace("bias: true", "bias: true, hashing: none"))
        exports = []
        for ps in (1, 2):
            result = self.run_job(f"s{ps}", path, data__dir=self.dir, cluster__ps=ps, training__epochs=5)
            self.assertGreater(result["metrics"]["test"]["accuracy"], 0.95)
            exports.append(self.tensors(result["job"], f"s{ps}"))
        self.assertEqual(exports[0], exports[1])
        found = struct.unpack("<6Q", exports[0]["weights.keys"][2])
        self.assertEqual(sorted(found), keys)
        weights = dict(zip(found, struct.unpack("<6f", exports[0]["weights.values"][2])))
        self.assertGreater(weights[2**64 - 1], max(weights[k] for k in keys[:-1]))

    def test_a_key_that_is_no_key(self):
        path = os.path.join(self.dir, "job.yaml")
        for line, said in (("1 0:18446744073709551616:1", "18446744073709551616"), ("1 0:-1:1", "-1"),
                           ("1 0:7:1 0:3:1 0:7:1", "index 7 twice")):
            with open(os.path.join(self.dir, "lines"), "w") as f:
                f.write("1 0:5:1\n" + line + "\n")
            with open(path, "w") as f:
                f.write(BIAS_ALONE.replace("{file: train}", "{file: lines}").replace("  test: {file: test}\n", "")
                        .replace("0..5", "0"))
            done = gradus("validate", path, "--set", f"data.dir={self.dir}")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("lines:2", done.stderr)
            self.assertIn(said, " ".join(done.stderr.split()))


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
