# SPDX-License-Identifier: Apache-2.0
"""A checkpoint is the whole model: it is measured and asked on a machine that never had the train data, and whatever has
become of these changes nothing."""

import csv
import ctypes
import json
import os
import random
import re
import shutil
import struct
import unittest

import numpy

from cluster import ClusterTest, gradus

SHOP = """name: shop
data:
  train: {file: train.csv}
  test: {file: test.csv}
  label: buys
  categorical: city
  missing: mean
model:
  layers: [{dense: {units: 8, activation: relu, name: dense_1}}, {dense: {units: 0}}]
  loss: softmax_cross_entropy
  metrics: [accuracy]
update: {rule: adam, learning_rate: 0.02}
training: {batch_size: 16, epochs: 3}
"""
CITIES = ("Bern", "Graz", "Linz", "Wien", "Zürich")
NAMES = ("age", "score", "city", "buys")


def visits(count, seed):
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        age, score, city = draw.gauss(50, 10), draw.random(), draw.randrange(len(CITIES))
        rows.append([f"{age:.3f}" if draw.random() < 0.95 else "", f"{score:.3f}", CITIES[city],
                     "yes" if age / 10 + 3 * score + city > 8 else "no"])
    return rows


class Portable(ClusterTest):
    model = {}

    def write(self, name, rows, names=NAMES):
        path = os.path.join(self.dir, name)
        with open(path, "w", newline="") as f:
            csv.writer(f).writerows([names, *rows])
        return path

    def train(self):
        file = os.path.join(self.dir, "job.yaml")
        with open(file, "w") as f:
            f.write(SHOP)
        self.write("train.csv", visits(600, 1))
        self.write("test.csv", visits(700, 2))
        return self.run_job(file=file, data__dir=self.dir, training__epochs=3)

    def evaluate(self, path, *args, code=0):
        done = gradus("evaluate", path, "--json", *args)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return json.loads(done.stdout)["metrics"] if code == 0 else " ".join(done.stderr.split())

    def test_train_data_are_not_needed(self):
        result = self.train()
        before = self.evaluate(result["checkpoint"])
        for name, value in result["metrics"]["test"].items():
            self.assertAlmostEqual(before[name], value, places=9)
        train = os.path.join(self.dir, "train.csv")
        for what, rows in (("a column times 100", [[a and float(a) * 100, *rest] for a, *rest in visits(600, 1)]),
                           ("a new city", visits(600, 1) + [["50", "0.5", "Basel", "no"]])):
            self.write("train.csv", rows)
            self.assertEqual(self.evaluate(result["checkpoint"]), before, what)
        os.unlink(train)
        self.assertEqual(self.evaluate(result["checkpoint"]), before)
        there = os.path.join(self.dir, "elsewhere")
        shutil.copytree(os.path.dirname(result["checkpoint"]), there + "/shop-1")
        os.rename(os.path.join(self.dir, "test.csv"), there + "/new.csv")
        moved = there + "/shop-1/" + os.path.basename(result["checkpoint"])
        self.assertEqual(self.evaluate(moved, "--set", f"data.test.file={there}/new.csv"), before)
        done = gradus("predict", moved, "--data", there + "/new.csv", "--out", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = list(csv.DictReader(done.stdout.splitlines()))
        right = sum(a["class"] == row[3] for a, row in zip(answers, visits(700, 2)))
        self.assertAlmostEqual(right / 700, before["accuracy"], places=9)
        self.assertEqual(gradus("export", "--from", moved, there + "/shop.onnx").returncode, 0)

    def test_what_does_not_fit(self):
        path = self.train()["checkpoint"]
        other = self.write("other.csv", [[a, c, s, b] for a, s, c, b in visits(20, 3)], ("age", "city", "height", "buys"))
        self.assertIn("its columns are age, height, city; those of",
                      self.evaluate(path, "--set", "data.test.file=" + other, code=2))
        self.assertIn("are age, score, city", self.evaluate(path, "--set", "data.test.file=" + other, code=2))
        never = self.write("never.csv", [*visits(20, 3), ["50", "0.5", "Wien", "perhaps"]])
        self.assertIn("never.csv:22: label \"perhaps\" does not occur in the train records",
                      self.evaluate(path, "--set", "data.test.file=" + never, code=2))
        self.assertIn("trained with other settings of data", self.evaluate(path, "--set", "data.scale=unit", code=2))

    def test_safetensors_say_what_they_are(self):
        """The metadata are enough for a few lines of NumPy to answer as `gradus predict` does."""
        result = self.train()
        for file in (self.dir + "/whole.safetensors", self.dir + "/bare.safetensors"):
            args = ("--bare",) if "bare" in file else ()
            self.assertEqual(gradus("export", "--from", result["checkpoint"], file, *args).returncode, 0)
            with open(file, "rb") as f:
                header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
                data = f.read()
            meta = header.pop("__metadata__", None)
            if "bare" in file:
                self.assertIsNone(meta)
                continue
            said = {k: json.loads(v) if v[:1] in "[{" else v for k, v in meta.items()}
            tensors = {k: numpy.frombuffer(data[slice(*t["data_offsets"])], "<f4").reshape(t["shape"]) for k, t in header.items()}
        self.assertEqual((said["gradus.job"], said["gradus.step"], said["gradus.classes"]), ("shop-1", str(result["steps"]), ["no", "yes"]))
        self.assertEqual([(i["name"], i["shape"]) for i in said["gradus.inputs"]], [("features", [-1, 2]), ("city", [-1, 1])])
        self.assertEqual([(o["name"], o["shape"]) for o in said["gradus.outputs"]], [("probabilities", [-1, 2])])
        self.assertAlmostEqual(said["gradus.metrics"]["train"]["loss"], result["metrics"]["train"]["loss"], places=6)
        self.assertIn("dense_1", said["gradus.text"])
        e = said["gradus.encoding"]
        x = []
        for age, score, city, _ in visits(700, 2):
            row = [float(v) if v else fill for v, fill in zip((age, score), e["fills"])]
            row = [(v - shift) * factor for v, shift, factor in zip(row, e["scaling"]["shift"], e["scaling"]["factor"])]
            x.append(row + [float(city == known) for known in e["categories"][0]])
        x = numpy.maximum(numpy.array(x) @ tensors["dense_1.kernel"] + tensors["dense_1.bias"], 0)
        x = numpy.exp(x @ tensors["dense_2.kernel"] + tensors["dense_2.bias"])
        x /= x.sum(1, keepdims=True)
        done = gradus("predict", result["checkpoint"], "--data", self.dir + "/test.csv", "--out", "-")
        answers = numpy.array([[float(a["p_no"]), float(a["p_yes"])] for a in csv.DictReader(done.stdout.splitlines())])
        self.assertLess(numpy.abs(x - answers).max(), 1e-5)

    def test_a_file_is_the_model(self):
        """On a machine that has nothing else: what was exported is measured and asked as the checkpoint was."""
        result = self.train()
        state = os.path.dirname(os.path.dirname(os.path.dirname(result["checkpoint"])))
        before = self.evaluate(result["checkpoint"])
        answers = gradus("predict", result["checkpoint"], "--data", self.dir + "/test.csv").stdout
        file, bare = self.dir + "/shop.safetensors", self.dir + "/bare.safetensors"
        self.assertEqual(gradus("export", "--from", result["checkpoint"], file).returncode, 0)
        self.assertEqual(gradus("export", "--from", result["checkpoint"], bare, "--bare").returncode, 0)
        os.rename(state, self.dir + "/gone")
        os.unlink(self.dir + "/train.csv")
        self.assertEqual(self.evaluate(file), before)
        there = os.path.join(self.dir, "elsewhere")
        os.mkdir(there)
        os.rename(file, there + "/shop.safetensors")
        os.rename(self.dir + "/test.csv", there + "/new.csv")
        done = gradus("predict", there + "/shop.safetensors", "--data", there + "/new.csv")
        self.assertEqual((done.returncode, done.stdout), (0, answers), done.stderr)
        for code, part, *args in ((1, "bare.safetensors: its metadata lack gradus.format_version", bare),
                                  (2, "is one model in a file; the best version", there + "/shop.safetensors@best"),
                                  (2, "--step is for a job", there + "/shop.safetensors", "--step", "3")):
            done = gradus("predict", *args, "--data", there + "/new.csv")
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(part, done.stderr)
        self.assertIn("trained with other settings of data",
                      self.evaluate(there + "/shop.safetensors", "--set", "data.scale=unit", code=2))

    def test_the_library_of_safetensors(self):
        """The one of the format's authors opens what was exported."""
        try:
            from safetensors import safe_open
        except ImportError as error:
            self.skipTest(f"{error} (pip: safetensors)")
        result = self.train()
        file = self.dir + "/shop.safetensors"
        self.assertEqual(gradus("export", "--from", result["checkpoint"], file).returncode, 0)
        with safe_open(file, "np") as f:
            self.assertEqual(json.loads(f.metadata()["gradus.classes"]), ["no", "yes"])
            self.assertEqual({name: f.get_tensor(name).shape for name in f.keys()},
                             {"dense_1.kernel": (7, 8), "dense_1.bias": (8,), "dense_2.kernel": (8, 2), "dense_2.bias": (2,)})

    def change(self, path, change):
        """A manifest that somebody has written anew, with its checksum."""
        manifest = os.path.join(path, "manifest.json")
        with open(manifest, encoding="utf-8") as f:
            text = change(f.read().rsplit('  "checksum"', 1)[0]).encode()
        xxh3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
        xxh3.restype, xxh3.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
        with open(manifest, "wb") as f:
            f.write(text + b'  "checksum": "0x%016x"\n}\n' % xxh3(text, len(text)))

    def test_manifests_of_others(self):
        """Of before there was such a thing they are read, with a warning; of the future, or such as lie, they are not."""
        path = self.train()["checkpoint"]
        before = self.evaluate(path)
        with open(os.path.join(path, "manifest.json"), encoding="utf-8") as f:
            whole = f.read().rsplit('  "checksum"', 1)[0]
        for code, said, change in (
                (1, "format_version: 9; this program knows 1 to 3",
                 lambda text: text.replace('"format_version": 1', '"format_version": 9')),
                (1, "what was measured on the train data: version: 2", lambda text: text.replace('"version": 1, "format"', '"version": 2, "format"')),
                (1, "what was measured on the train data: columns", lambda text: text.replace('"shape": [2], "bytes"', '"shape": [3], "bytes"')),
                (2, "variable dense_1.kernel has shape [7, 8] in the checkpoint", lambda text: text.replace('["Bern", "Graz", ', '["Bern", '))):
            self.change(path, lambda _, change=change: change(whole))
            self.assertIn(said, self.evaluate(path, code=code))
        self.change(path, lambda _: re.sub(r'  "encoding": .*\n', "", whole))
        done = gradus("evaluate", path, "--json")
        self.assertIn("keeps nothing of what was measured on its train data", " ".join(done.stderr.split()))
        self.assertEqual(json.loads(done.stdout)["metrics"], before)
        os.unlink(os.path.join(self.dir, "train.csv"))
        self.assertIn("which have to be here", self.evaluate(path, code=5))


if __name__ == "__main__":
    unittest.main(verbosity=2)
