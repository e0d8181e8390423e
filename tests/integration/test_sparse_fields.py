# SPDX-License-Identifier: Apache-2.0
"""Sparse fields end to end: examples that train on them, on public samples where GRADUS_TEST_DATA names a directory that has
them, else on data that are made here; the same bits for any cluster; and what is refused."""

import hashlib
import json
import os
import random
import unittest

from cluster import DATA, SOURCE, ClusterTest, gradus


def libffm_lines(count, seed):
    """39 fields of which some of the categories decide the label."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        keys = [draw.randrange(20) for _ in range(26)]
        label = int(keys[0] % 2 + keys[1] % 2 + keys[2] % 2 > 1)
        numbers = " ".join(f"{k}:{k}:{draw.random():.4f}" for k in range(13) if draw.random() < 0.9)
        categories = " ".join(f"{13 + k}:{1000 * k + keys[k]}:1" for k in range(26))
        lines.append(f"{label} {numbers} {categories}\n")
    return lines


def criteo_lines(count, seed):
    """Clicks that some of the categories decide; empty fields, and lines that are cut behind their last value."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        keys = [draw.randrange(1, 20) for _ in range(26)]
        fields = [str(int(keys[0] % 2 + keys[1] % 2 + keys[2] % 2 > 1))]
        fields += [str(draw.randrange(100)) if draw.random() < 0.8 else "" for _ in range(13)]
        fields += [f"{key * 2654435761 % 2**32:08x}" if k < 3 or draw.random() < 0.8 else "" for k, key in enumerate(keys)]
        lines.append("\t".join(fields).rstrip("\t") + "\n")
    return lines


class SparseFields(ClusterTest):
    model = {}

    def write(self, name, text):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write(text)
        return os.path.join(self.dir, name)

    def example(self, name):
        return f"{SOURCE}/examples/{name}.yaml"

    def train(self, example, state="state", **sets):
        result = self.run_job(state, file=self.example(example), **sets)
        self.assertEqual(result["state"], "SUCCEEDED")
        return result

    def clicks(self, name):
        """The directory of public samples, or None."""
        directory = os.path.join(DATA, "clicks")
        return directory if DATA and os.path.exists(os.path.join(directory, name)) else None


class LibFfm(SparseFields):
    def test_public_sample(self):
        directory = self.clicks("ffm_small_train.txt")
        if directory is None:
            self.skipTest("GRADUS_TEST_DATA names no directory with clicks")
        result = self.train("libffm-logistic", data__dir=directory, training__epochs=10)
        self.assertGreater(result["metrics"]["train"]["auc"], 0.75)

    def made(self):
        lines = libffm_lines(1200, 1)
        self.write("train", "".join(lines[:1000]))
        self.write("part-1", "".join(lines[:300]))
        self.write("part-2", "".join(lines[300:1000]))
        self.write("test", "".join(lines[1000:]))
        return {"data__dir": self.dir, "data__train__file": "train", "data__test__file": "test"}

    def test_learns(self):
        result = self.train("libffm-logistic", **self.made(), training__epochs=10)
        self.assertGreater(result["metrics"]["test"]["auc"], 0.85)

    def test_the_same_bits(self):
        sets = {**self.made(), "training__epochs": 2, "training__replicas": 2}
        sums = set()
        for i, (files, workers, servers) in enumerate((("train", 1, 1), ("part-*", 2, 2))):
            result = self.train("libffm-logistic", f"state-{i}", **{
                **sets, "data__train__file": files, "cluster__workers": workers, "cluster__ps": servers})
            sums.add(hashlib.sha256(self.export(result["job"], f"state-{i}")).hexdigest())
        self.assertEqual(len(sums), 1)

    def test_what_there_is_and_what_is_refused(self):
        sets = self.made()
        arguments = [self.example("libffm-logistic"), *self.job(**sets)]
        done = gradus("validate", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sparse fields 13 to 38 (26): 26.0 keys of a record, each field as 100 columns", done.stdout)
        fields = json.loads(gradus("validate", "--json", *arguments).stdout)["sparse_fields"]
        self.assertEqual(fields[13], {"name": "13", "keys": 1000, "columns": 100})
        fields = json.loads(gradus("plan", "--json", *arguments).stdout)["sparse_fields"]
        self.assertEqual(len(fields), 39)
        done = gradus("validate", *arguments, "--set", "data.columns.1.width=0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("data.columns.1.width: no layer takes the keys of a sparse field yet", done.stderr.replace("\n    ", " "))


class Criteo(SparseFields):
    def test_public_sample(self):
        directory = self.clicks("criteo_1k.tsv")
        if directory is None:
            self.skipTest("GRADUS_TEST_DATA names no directory with clicks")
        result = self.train("criteo-logistic", data__dir=directory, training__epochs=5)
        self.assertGreater(result["metrics"]["test"]["auc"], 0.65)

    def test_learns(self):
        self.write("criteo_1k.tsv", "".join(criteo_lines(2000, 2)))
        result = self.train("criteo-logistic", data__dir=self.dir, training__epochs=5)
        self.assertGreater(result["metrics"]["test"]["auc"], 0.9)

    def test_bad_lines_are_counted(self):
        lines = criteo_lines(200, 3)
        lines[10] = "1\tx\n"
        self.write("criteo_1k.tsv", "".join(lines))
        arguments = [self.example("criteo-logistic"), *self.job(data__dir=self.dir, data__bad_records=1)]
        done = gradus("validate", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 bad train records are left out", done.stderr)
        self.assertIn('"x" is no number', done.stderr)
        self.assertIn("sparse fields C1 to C26 (26)", done.stdout)


if __name__ == "__main__":
    unittest.main()
