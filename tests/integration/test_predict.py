# SPDX-License-Identifier: Apache-2.0
"""gradus predict: the answers are those that `gradus evaluate` measures, in every format, from files, stores and tables;
what is wrong is said, and leaves no file."""

import csv
import gzip
import json
import math
import os
import random
import unittest

from cluster import ClusterTest, gradus
from s3_server import Store
from test_tables import JOB as JOB_OF_TABLES, click_lines

FLOWERS = """name: flowers
data:
  train: {file: train.csv}
  test: {file: test.csv}
  label: kind
  categorical: soil
model:
  layers: [{dense: {units: 3}}]
  loss: softmax_cross_entropy
  metrics: [accuracy]
update: {rule: adam, learning_rate: 0.05}
training: {batch_size: 16, epochs: 6}
"""
HOUSES = """name: houses
data:
  train: {file: train.csv}
  test: {file: test.csv}
  label: price
  ignore: "kind, soil"
  label_scale: standard
model:
  layers: [{dense: {units: 1}}]
  loss: mean_squared_error
  metrics: [rmse]
update: {rule: adam, learning_rate: 0.05}
training: {batch_size: 16, epochs: 6}
"""
KINDS = ("blue, wild", 'the "red"', "white")


def flowers(count, seed):
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        kind = draw.randrange(3)
        size = draw.gauss(kind, 0.7)
        rows.append({"size": f"{size:.3f}", "kind": KINDS[kind], "soil": draw.choice(("clay", "sand")),
                     "width": f"{draw.gauss(-kind, 1):.3f}", "price": f"{100000 + 30000 * size:.2f}"})
    return rows


def read_csv(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


class PredictTest(ClusterTest):
    model = {}

    def write(self, name, rows, leave_out=()):
        path = os.path.join(self.dir, name)
        with open(path, "w", newline="") as f:
            names = [n for n in rows[0] if n not in leave_out]
            out = csv.DictWriter(f, names, extrasaction="ignore")
            out.writeheader()
            out.writerows(rows)
        return path

    def train(self, text, **sets):
        file = os.path.join(self.dir, "job.yaml")
        with open(file, "w") as f:
            f.write(text)
        self.rows = flowers(300, 2)
        self.write("train.csv", flowers(500, 1))
        self.test = self.write("test.csv", self.rows)
        return self.run_job(file=file, data__dir=self.dir, training__epochs=6, **sets)

    def predict(self, result, data, out, *more):
        path = os.path.join(self.dir, out)
        done = gradus("predict", result["checkpoint"], "--data", data, "--out", path, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def evaluate(self, result):
        done = gradus("evaluate", result["checkpoint"], "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["metrics"]

    def refused(self, code, part, *args):
        before = sorted(os.listdir(self.dir))
        done = gradus("predict", *args)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(part, " ".join(done.stderr.split()))
        self.assertEqual(sorted(os.listdir(self.dir)), before)



class Predict(PredictTest):
    def test_images(self):
        file = os.path.dirname(os.path.abspath(__file__)) + "/../../examples/digits.yaml"
        result = self.run_job(file=file, training__checkpoint_every=16)
        images, labels = (f"{self.shared}/digits/t10k-{n}.gz" for n in ("images-idx3-ubyte", "labels-idx1-ubyte"))
        answers = read_csv(self.predict(result, images, "a.csv"))
        with gzip.open(labels) as f:
            labels = f.read()[8:]
        measured = self.evaluate(result)
        self.assertEqual(len(answers), len(labels))
        self.assertAlmostEqual(sum(a["class"] == str(n) for a, n in zip(answers, labels)) / len(labels),
                               measured["accuracy"], places=8)
        loss = sum(-math.log(float(a[f"p_{n}"])) for a, n in zip(answers, labels)) / len(labels)
        self.assertAlmostEqual(loss, measured["loss"], places=5)
        earlier = read_csv(self.predict(result, images, "b.csv", "--step", "32"))
        self.assertNotEqual(answers, earlier)
        self.refused(5, "no checkpoint of step 17", result["checkpoint"], "--data", images, "--out", "-", "--step", "17")

    def test_names_and_categories(self):
        result = self.train(FLOWERS, data__ignore="price")
        answers = read_csv(self.predict(result, self.test, "a.csv"))
        accuracy = sum(a["class"] == r["kind"] for a, r in zip(answers, self.rows)) / len(self.rows)
        self.assertAlmostEqual(accuracy, self.evaluate(result)["accuracy"], places=8)
        self.assertGreater(accuracy, 0.6)
        self.assertEqual(list(answers[0])[1:], ["p_" + kind for kind in KINDS])
        bare = self.write("bare.csv", self.rows, ("kind",))
        self.assertEqual(answers, read_csv(self.predict(result, bare, "b.csv", "--unlabelled")))
        with open(self.predict(result, bare, "c.jsonl", "--unlabelled")) as f:
            lines = [json.loads(line) for line in f]
        self.assertEqual([line["class"] for line in lines], [a["class"] for a in answers])
        self.assertEqual(lines[5]["probabilities"], {kind: float(answers[5]["p_" + kind]) for kind in KINDS})
        done = gradus("predict", "flowers-1", "--state-dir", self.dir + "/state", "--data", bare, "--unlabelled", "--out",
                      "-", "--format", "json")
        self.assertEqual([json.loads(line) for line in done.stdout.splitlines()], lines)

    def test_values(self):
        result = self.train(HOUSES)
        answers = read_csv(self.predict(result, self.test, "a.csv"))
        squares = [(float(a["value"]) - float(r["price"])) ** 2 for a, r in zip(answers, self.rows)]
        rmse = math.sqrt(sum(squares) / len(squares))
        self.assertLess(abs(rmse / self.evaluate(result)["rmse"] - 1), 1e-4)

    def test_tables_and_blocks(self):
        """More records than a batch, as lists of keys, of which no file is read as a whole."""
        for name, count, seed in (("train", 600, 1), ("test", 700, 2)):
            with open(os.path.join(self.dir, name), "w") as f:
                f.write("".join(click_lines(count, seed)))
        result = self.train(JOB_OF_TABLES)
        labelled = os.path.join(self.dir, "test")
        with open(labelled) as f, open(os.path.join(self.dir, "bare"), "w") as out:
            lines = f.readlines()
            out.writelines(line.split(" ", 1)[1] for line in lines)
        answers = read_csv(self.predict(result, labelled, "a.csv"))
        loss = sum(-math.log(float(a["p_" + line[0]])) for a, line in zip(answers, lines)) / len(lines)
        self.assertAlmostEqual(loss, self.evaluate(result)["loss"], places=4)
        bare = os.path.join(self.dir, "bare")
        self.assertEqual(answers, read_csv(self.predict(result, bare, "b.csv", "--unlabelled")))
        file = self.dir + "/model.safetensors"
        self.assertEqual(gradus("export", "--from", result["checkpoint"], file).returncode, 0)
        self.assertEqual(answers, read_csv(self.predict({"checkpoint": file}, labelled, "f.csv")))
        with open(bare, "rb") as f, gzip.open(bare + ".gz", "wb") as packed:
            packed.write(f.read())
        self.assertEqual(answers, read_csv(self.predict(result, bare + ".gz", "c.csv", "--unlabelled")))
        with open(bare, "a") as f:
            f.write("0:1:1 nonsense\n")  # the last line: answers were written before
        self.refused(2, "bare:701", result["checkpoint"], "--data", bare, "--unlabelled", "--out", self.dir + "/d.csv")

    def test_an_object_store(self):
        result = self.train(FLOWERS, data__ignore="price")
        plain = self.predict(result, self.test, "a.csv")
        with Store() as store:
            before = dict(os.environ)
            os.environ.update(store.environment())
            try:
                with open(self.test, "rb") as f:
                    store.buckets["bucket"]["data/test.csv"] = (f.read(), '"data"', "")
                for name in os.listdir(result["checkpoint"]):
                    with open(os.path.join(result["checkpoint"], name), "rb") as f:
                        store.buckets["bucket"]["job/step-000000192/" + name] = (f.read(), f'"{name}"', "")
                done = gradus("predict", "s3://bucket/job/step-000000192", "--data", "s3://bucket/data/test.csv", "--out",
                              "s3://bucket/out/a.csv")
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(plain, "rb") as f:
                    self.assertEqual(store.buckets["bucket"]["out/a.csv"][0], f.read())
                self.assertEqual(gradus("export", "--from", result["checkpoint"], "s3://bucket/out/m.safetensors").returncode, 0)
                self.predict({"checkpoint": "s3://bucket/out/m.safetensors"}, self.test, "f.csv")
                self.assertEqual(read_csv(plain), read_csv(self.dir + "/f.csv"))
                done = gradus("predict", "s3://bucket/job/step-000000192", "--data", "s3://bucket/data/none.csv", "--out",
                              "s3://bucket/out/b.csv")
                self.assertEqual(done.returncode, 5, done.stderr)
                self.assertNotIn("out/b.csv", store.keys())
                self.assertEqual(store.uploads, {})
            finally:
                os.environ.clear()
                os.environ.update(before)

    def test_what_is_wrong(self):
        result = self.train(FLOWERS, data__ignore="price")
        path, out = result["checkpoint"], self.dir + "/a.csv"
        self.refused(2, "--data FILE is missing", path, "--out", out)
        self.refused(2, "says no format", path, "--data", self.test, "--out", self.dir + "/a.txt")
        self.refused(5, "none.csv", path, "--data", self.dir + "/none.csv", "--out", out)
        self.refused(5, "no/a.csv", path, "--data", self.test, "--out", self.dir + "/no/a.csv")
        bare = self.write("bare.csv", self.rows, ("kind",))
        self.refused(2, '"kind"', path, "--data", bare, "--out", out)
        self.refused(2, "is said to have none", path, "--data", self.test, "--unlabelled", "--out", out)
        other = self.write("other.csv", [{"size": 1, "kind": "white", "soil": "clay", "depth": 1, "price": 1}])
        self.refused(2, "its columns are size, depth, soil; those of", path, "--data", other, "--out", out)


if __name__ == "__main__":
    unittest.main()
