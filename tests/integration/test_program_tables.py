# SPDX-License-Identifier: Apache-2.0
"""Models of users' own with sparse tables, on real clusters: tables and variables end with the same bits on any cluster,
whatever is killed; every record counts once; and what a program does wrong with tables is said and contained."""

import json
import os
import random
import shlex
import struct
import sys
import unittest

from cluster import SOURCE, records_applied
from test_programs import NUMPY, TORCH, ProgramTest

TRAIN, EPOCHS = 2000, 6  # of numpy_tables_program.py
JOB = """name: mine
model:
  program: tables
  metrics: [accuracy]
  tables:
    - {name: users, dim: 4, memory_bytes: 4 MiB, copies_bytes: 4 MiB, evict: {unseen: 50, every: 7}}
    - {name: items, dim: 2, memory_bytes: 4 MiB, copies_bytes: 4 MiB, admission: counted, sightings: 2,
       admission_bytes: 1 MiB}
update: {rule: adagrad, learning_rate: 0.3}
training: {mode: sync, batch_size: 50, replicas: 4, epochs: %d, seed: 3, evaluate_every: 1 epoch}
cluster: {workers: 1, ps: 1}
""" % EPOCHS
DATA = """data:
  format: libffm
  train: {file: train}
  test: {file: test}
  columns: [{column: 0..1, as: sparse, hash: none}]
"""


def clicks(count, seed):
    numbers = random.Random(seed)
    for _ in range(count):
        user, items = numbers.randrange(300), numbers.sample(range(150), 3)
        clicked = (user % 2 == 0) ^ (sum(item % 2 == 0 for item in items) > 1)
        yield f"{int(clicked)} 0:{user}:1 " + " ".join(f"1:{item}:1" for item in items) + "\n"


@unittest.skipUnless(NUMPY, "NumPy is not installed")
class TablesInNumpy(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write(JOB)

    def write(self, text):
        with open(self.file, "w", encoding="utf-8") as f:
            f.write(text)

    def numpy(self, *options):
        return shlex.join([sys.executable, "-B", os.path.join(SOURCE, "tests/integration/numpy_tables_program.py"), self.pids,
                           *options])

    def rows(self, job, state):
        """{table: how many rows}, as exported."""
        data = self.export(job, state)
        size, = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + size])
        rows = {name: header[name + ".keys"]["shape"][0] for name in ("users", "items")}
        for name, dim in ("users", 4), ("items", 2):
            self.assertEqual(header[name + ".values"]["shape"], [rows[name], dim])
        return rows

    def test_bits_are_the_same_on_any_cluster_and_whatever_is_killed(self):
        result, _ = self.same_bits(self.numpy(), "mine-1")
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.9)
        rows = self.rows("mine-1", "2-2")
        self.assertTrue(250 < rows["users"] <= 300, rows)
        self.assertEqual(rows["items"], 150)
        self.killed_and_the_same()

    def test_records_of_the_job(self):
        """Sparse fields of `data` come as lists, of which the program makes its keys."""
        self.write(JOB + DATA)
        for part, count in ("train", TRAIN), ("test", 500):
            with open(os.path.join(self.dir, part), "w", encoding="utf-8") as f:
                f.writelines(clicks(count, part))
        result, _ = self.same_bits(self.numpy("--data"), "mine-1", data__dir=self.dir)
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.9)

    def test_async_counts_every_record_once(self):
        status, epochs = self.killed_in_async()
        self.assertEqual([records_applied(s["ledger"]) for s in status["shards"]], [epochs * TRAIN] * 2)
        self.assertEqual([s["examples"] for s in status["shards"]], [epochs * TRAIN] * 2)
        self.assertEqual(status["recoveries"], 0)
        rows = self.rows(status["job"], "cluster")  # what is learned of them depends on who was late, as in any async job
        self.assertTrue(200 < rows["users"] <= 300, rows)
        self.assertEqual(rows["items"], 150)

    def test_a_program_that_ends_when_it_is_asked_for_keys(self):
        self.run_program(self.numpy(), "whole")
        before = len(os.listdir(self.pids))
        self.cluster(2, 1, self.numpy("--what=keys-exit", f"--once={self.dir}/once"))
        status = self.wait_end(self.submit(cluster__workers=2))
        self.assertEqual(self.bits(status["job"], "cluster"), self.bits("mine-1", "whole"))
        self.assertEqual(len(os.listdir(self.pids)) - before, 3)  # one was started again
        self.assertEqual(status["recoveries"], 0)

    def fails(self, what, *words, **sets):
        """The job fails with these words as its reason."""
        done = self.run_program(self.numpy(f"--what={what}"), what, expect=1, **sets)
        self.assertEqual(done["state"], "FAILED")
        for word in words:
            self.assertIn(word, done["reason"])

    def test_mistakes_with_keys(self):
        self.fails("keys-raise", "the program failed 3 times on one batch, at its keys", "these keys have a mistake in them")
        self.fails("keys-float", "the program failed 3 times on one batch, at its keys", "keys are integers from 0 to 2^64 - 1")

    def test_gradients_that_are_no_numbers(self):
        self.fails("nan", "not finite")
        result = self.run_program(self.numpy("--what=nan"), "skip", update__non_finite="skip")
        self.assertEqual(result["state"], "SUCCEEDED")
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.9)

    def test_tables_that_the_job_does_not_have(self):
        self.fails("dims", 'table 1 ("users"): its rows have dim 4 in the job (model.tables), 8 in the description')
        self.fails("forgets", 'the job declares table "users" (model.tables), which the description does not name')
        self.write(JOB.replace("name: users", "name: people"))
        self.fails("forgets", 'the job declares table "people"')
        self.write(JOB.replace("program: tables", "program: tables\n  layers: []"))
        self.run_program(self.numpy(), "plain")  # an empty list says nothing


@unittest.skipUnless(TORCH, "PyTorch is not installed")
class TablesInPyTorch(ProgramTest):
    def setUp(self):
        super().setUp()
        with open(self.file, "w", encoding="utf-8") as f:
            f.write("""name: mine
model: {program: mine, tables: [{name: users, dim: 3, memory_bytes: 4 MiB}, {name: items, dim: 3, memory_bytes: 4 MiB}]}
update: {rule: adagrad, learning_rate: 0.1}
training: {mode: sync, batch_size: 20, replicas: 4, epochs: 2, seed: 3, evaluate_every: 1 epoch}
cluster: {workers: 1, ps: 1}
""")

    def command(self, script, *options):
        return shlex.join([sys.executable, "-B", os.path.join(SOURCE, script), *options])

    def task(self, what):
        return self.command("tests/integration/torch_tables_program.py", f"--what={what}")

    def test_the_example(self):
        result, _ = self.same_bits(self.command("examples/pytorch/clicks.py"), "torch-clicks-1",
                                   SOURCE + "/examples/pytorch/clicks.yaml")
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.95)
        self.assertAlmostEqual(float(self.as_in_the_manual(1, "2-2")), result["metrics"]["test"]["accuracy"], delta=1e-6)

    def test_all_kinds_of_modules(self):
        """Two modules share a table; a padding, weights and offsets; keys that the task says itself come to the same."""
        _, bits = self.same_bits(self.task(""), "mine-1")
        self.run_program(self.task("keys"), "keys", training__replicas=4)
        self.assertEqual(self.bits("mine-1", "keys"), bits)

    def test_keys_that_are_not_all(self):
        done = self.run_program(self.task("few-keys"), "state", expect=1)
        self.assertEqual(done["state"], "FAILED")
        self.assertIn('in table "items", which it did not when its keys were asked for', done["reason"])

    @staticmethod
    def imported():
        """The package, the class that is tested, and the task."""
        for place in os.path.join(SOURCE, "python"), os.path.dirname(os.path.abspath(__file__)):
            if place not in sys.path:
                sys.path.insert(0, place)
        import gradus
        from gradus.torch_tables import Embeddings
        from torch_tables_program import Task
        return gradus, Embeddings, Task

    def test_gradients_are_those_of_dense_embeddings(self):
        """Once with the index of the keys that were recorded, and once where others were said."""
        import copy
        import types
        import numpy
        import torch
        package, Embeddings, Task = self.imported()
        task = Task("")
        dense = task.model().eval()
        model = copy.deepcopy(dense)
        embeddings = Embeddings(model, task.tables(model), package.Job("j", "p", "", 3, 20, 512, {"users": 3, "items": 3}))
        numbers = numpy.random.RandomState(1)
        weights = {"users": numbers.randn(40, 3).astype("float32"), "items": numbers.randn(40, 3).astype("float32")}
        weights["users"][0] = 0  # the padding
        dense.users = torch.nn.Embedding(40, 3, padding_idx=0, _weight=torch.tensor(weights["users"]))
        shared = torch.nn.Parameter(torch.tensor(weights["items"]))
        dense.items = torch.nn.EmbeddingBag(40, 3, mode="mean", _weight=shared)
        dense.others = torch.nn.EmbeddingBag(40, 3, mode="sum", include_last_offset=True, _weight=shared)
        dense.items.weight = dense.others.weight = shared
        users, baskets, clicked = (t[:30] for t in task.dataset("train").tensors)
        baskets = baskets + 20  # here they are places of rows
        loss = task.loss(dense, (users, baskets, clicked))
        loss.backward()
        with torch.no_grad(), embeddings.recording() as said:
            task.loss(model, (users, baskets, clicked))
        for order in 1, -1:
            work = types.SimpleNamespace(keys={}, index={}, rows={}, row_gradients={})
            for table, keys in said.items():
                work.keys[table], work.index[table] = numpy.unique(numpy.concatenate(keys)[::order], return_inverse=True)
                work.rows[table] = weights[table][work.keys[table].astype("int64")]
                work.row_gradients[table] = numpy.zeros_like(work.rows[table])
            self.assertNotIn(0, work.keys["users"])
            with embeddings.rows_of(work):
                found = task.loss(model, (users, baskets, clicked))
                found.backward()
            self.assertEqual(found.item(), loss.item())
            for table, weight in ("users", dense.users.weight), ("items", shared):
                numpy.testing.assert_allclose(work.row_gradients[table], weight.grad[work.keys[table].astype("int64")],
                                              rtol=1e-5, atol=1e-7)

    def test_modules_that_cannot_be(self):
        package, Embeddings, Task = self.imported()
        job = package.Job("mine-1", "mine", "", 3, 20, 512, {"users": 3, "items": 3})

        def made(what):
            task = Task(what)
            model = task.model()
            return model, Embeddings(model, task.tables(model), job)
        model, embeddings = made("")
        self.assertEqual(embeddings.tables, {"users": 3, "items": 3})
        self.assertEqual([name for name, _ in model.named_parameters()], ["top.weight", "top.bias"])
        with self.assertRaisesRegex(package.UseError, "are there in loss"):
            model(*[t[:2] for t in Task("").dataset("test").tensors[:2]])
        for what, words in (("dim", 'those of "users" have dim 3, and embedding_dim is 4'),
                            ("table", 'and not "nowhere"; add it (model.tables: [{name: nowhere, dim: 3}])'),
                            ("module", 'tables() names "nobody"'), ("norm", "max_norm is not possible there"),
                            ("max", "mode is sum or mean there, not max"), ("tied", "no weight that again could share")):
            with self.subTest(what), self.assertRaises(package.UseError) as raised:
                made(what)
            self.assertIn(words, str(raised.exception))


if __name__ == "__main__":
    unittest.main(verbosity=2)
