# SPDX-License-Identifier: Apache-2.0
"""Examples on public data, when GRADUS_TEST_DATA names a directory that has them: the files as they are, and results
that are not worse than those of the reference beside the data."""

import gzip
import hashlib
import json
import os
import re
import unittest
import urllib.request

from cluster import DATA, SOURCE, ClusterTest, gradus


CLICKS = """name: clicks
data:
  format: csv
  separator: tab
  header: false
  short_rows: missing
  missing: zero
  train: {file: criteo_1k.tsv}
  columns:
    - {column: 0, as: label}
    - {column: 1..13, log: true, standardise: true}
    - {column: 14..39, as: category, buckets: 100}
model:
  layers: [{dense: {units: 1}}]
  loss: sigmoid_cross_entropy
update: {rule: adam, learning_rate: 0.01}
"""


class PublicData(ClusterTest):
    model = {}
    def train(self, example, directory, state="state", **sets):
        if not os.path.isdir(os.path.join(DATA, directory)) or not DATA:
            self.skipTest(f"GRADUS_TEST_DATA names no directory with {directory}")
        sets = {"training__epochs": 20, **sets}
        result = self.run_job(state, file=os.path.join(f"{SOURCE}/examples", example + ".yaml"),
                              data__dir=os.path.join(DATA, directory), **sets)
        self.assertEqual(result["state"], "SUCCEEDED")
        return result

    def test_libsvm_two_classes(self):
        self.assertEqual(self.train("libsvm-logistic", "agaricus")["metrics"]["test"]["accuracy"], 1)

    def test_libsvm_three_classes(self):
        result = self.train("libsvm-logistic", "dna", data__train__file="dna.scale", data__test__file="dna.scale.t")
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.94)

    def test_libsvm_area_under_the_curve(self):
        result = self.train("libsvm-logistic", "w6a", data__train__file="w6a_300d_train.libsvm",
                            data__test__file="w6a_300d_test.libsvm", model__loss="sigmoid_cross_entropy")
        self.assertGreater(result["metrics"]["test"]["auc"], 0.985)

    def test_columns(self):
        result = self.train("california-housing", "csv")
        self.assertLess(result["metrics"]["test"]["rmse"], 70000)

    def test_declared_columns(self):
        result = self.train("bike-sharing", "csv", data__train__file="bike_hour.csv", training__epochs=5)
        self.assertLess(result["metrics"]["test"]["rmse"], 100)  # linear regression on the numbers as they are: 141.9

    def test_a_graph_of_layers(self):
        result = self.train("bike-sharing-dcn", "csv", data__train__file="bike_hour.csv", training__epochs=5)
        self.assertLess(result["metrics"]["test"]["rmse"], 75)

    def test_declared_columns_of_clicks(self):
        """Half of the rows are cut behind their last value that is not empty."""
        with open(os.path.join(self.dir, "clicks.yaml"), "w") as f:
            f.write(CLICKS)
        result = self.train(os.path.join(self.dir, "clicks"), "clicks", training__epochs=2)
        self.assertLess(result["metrics"]["train"]["loss"], 0.6)


class Streamed(ClusterTest):
    """Records that are read from their files when they are needed: the same bits as from memory."""
    model = {}

    def write(self, name, lines):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write("".join(lines))

    def exported(self, state, job, **sets):
        result = self.run_job(state, file=os.path.join(self.dir, job), data__dir=self.dir, training__epochs=2, **sets)
        self.assertEqual(result["state"], "SUCCEEDED")
        return hashlib.sha256(self.export(result["job"], state)).hexdigest(), result["metrics"]

    def check_same_bits(self, job):
        sums = [self.exported(f"state-{i}", job, **{"data__loading": loading, "data__memory": "1", "training__replicas": 2, **more})
                for i, (loading, more) in enumerate((("memory", {}), ("stream", {}), ("stream", {"cluster__workers": 2})))]
        self.assertEqual(sums[0], sums[1])
        self.assertEqual(sums[0][0], sums[2][0])
        self.assertTrue([name for name in os.listdir(self.dir) if name.endswith(".gradus-index")])

    def test_libsvm(self):
        self.write("part-1", [f"{i % 3} 1:{i % 7} {2 + i % 5}:0.{i}\n" for i in range(3000)])
        self.write("part-2", [f"{i % 3} 1:{i % 7} {2 + i % 5}:0.{i} # x\n\n" for i in range(2000)])
        with open(f"{SOURCE}/examples/libsvm-logistic.yaml") as f:
            text, count = re.subn(r"\n  test:\n    file: .*\n", "\n  test_fraction: 0.2\n", f.read())
        self.assertEqual(count, 1)
        self.write("job.yaml", [re.sub(r"file: .*", 'file: "part-*"', text, count=1)])
        self.check_same_bits("job.yaml")

    def test_clicks(self):
        rows = [[i % 2] + [i * k % 50 or "" for k in range(1, 14)] + [f"{i * k * 2654435761 % 2**32:08x}" for k in range(26)]
                for i in range(1500)]
        self.write("criteo_1k.tsv", ["\t".join(map(str, row)) + "\n" for row in rows])
        self.write("job.yaml", [CLICKS])
        self.check_same_bits("job.yaml")

    def test_a_packed_file_is_refused(self):
        self.write("job.yaml", [CLICKS])
        with gzip.open(os.path.join(self.dir, "packed.tsv"), "wt") as f:
            f.write("\t".join(["0"] + ["1"] * 13 + ["ab"] * 26) + "\n")
        arguments = [os.path.join(self.dir, "job.yaml"), *self.job(data__dir=self.dir, data__loading="stream")]
        done = gradus("validate", *arguments, "--set", "data.train.file=packed.tsv")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("a gzip file has to be read from its beginning", done.stderr.replace("\n    ", " "))
        self.assertIn("'gradus convert'", done.stderr)
        done = gradus("convert", os.path.join(self.dir, "packed.tsv"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--output FILE is missing", done.stderr)
        packed = os.path.join(self.dir, "packed.zst")
        done = gradus("convert", os.path.join(self.dir, "packed.tsv"), "--output", packed)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("in 1 blocks, packed into", done.stdout)
        done = gradus("validate", *arguments, "--set", "data.train.file=packed.zst")
        self.assertEqual(done.returncode, 0, done.stderr)


class Parts(ClusterTest):
    model = {}
    """One file or several, packed or not: the same records, so the same bits."""

    def write(self, name, lines):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write("".join(lines))

    def test_the_same_bits(self):
        lines = [f"{i % 3} 1:{i % 7} {2 + i % 5}:0.{i}\n" for i in range(90)]
        self.write("all", lines)
        self.write("part-2", lines[50:])
        self.write("part-10", lines[20:50])
        self.write("part-1", lines[:20])
        with open(f"{SOURCE}/examples/libsvm-logistic.yaml") as f:
            text, count = re.subn(r"\n  test:\n    file: .*\n", "\n", f.read())
        self.assertEqual(count, 1)
        self.write("job.yaml", [text])
        sums = {}
        for files in ("all", "part-*", "[part-1, part-10, part-2]"):
            state = f"state-{len(sums)}"
            result = self.run_job(state, file=os.path.join(self.dir, "job.yaml"), data__dir=self.dir,
                                  data__train__file=files, training__epochs=2, cluster__workers=2)
            self.assertEqual(result["state"], "SUCCEEDED")
            sums[files] = hashlib.sha256(self.export(result["job"], state)).hexdigest()
        self.assertEqual(len(set(sums.values())), 1, sums)
        done = gradus(*self.run_args(os.path.join(self.dir, "job.yaml"), "none", data__dir=self.dir,
                                     data__train__file="none-*"))
        self.assertIn("no file matches", done.stderr + done.stdout)
        self.assertNotEqual(done.returncode, 0)


TABLE = """name: table
data:
  format: csv
  columns:
    - {column: bought, as: label}
    - {column: price, log: true, standardise: true, missing: median}
    - {column: age, boundaries: [18, 25.5, 40], missing: own}
    - {column: city, as: category, vocabulary_file: cities.txt, missing: zero}
    - {column: page, as: category, buckets: 13, hash: fnv1a}
    - {column: tags, as: list, buckets: 7, missing: zero}
  train: {file: table.csv}
  test_fraction: 0.25
  bad_records: 2
model:
  layers: [{dense: {units: 4, activation: relu}}, {dense: {units: 1}}]
  loss: sigmoid_cross_entropy
update: {rule: adam, learning_rate: 0.01}
training: {replicas: 2, batch_size: 16, epochs: 2}
"""


class DeclaredColumns(ClusterTest):
    model = {}

    def write(self, name, text):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write(text)
        return os.path.join(self.dir, name)

    def table(self):
        rows = ["id,price,age,city,page,tags,bought"]
        for i in range(300):
            price = "" if i % 11 == 0 else f"{i * 7 % 50 - 3}.5"
            age = "?" if i % 13 == 0 else i % 60
            city = ("Rome", "Oslo", '"Paris, Texas"', "")[i % 4]
            tags = "|".join(f"t{k}" for k in range(i % 3))
            rows.append(f"{i},{price},{age},{city},page{i % 29},{tags},{int(i % 4 == 1)}")
        rows.insert(100, "x,abc,1,Rome,p,,0")
        rows.insert(200, "too,short")
        return "\n".join(rows) + "\n"

    def test_the_same_bits(self):
        self.write("table.csv", self.table())
        self.write("cities.txt", "Oslo\nParis, Texas\n")
        job = self.write("job.yaml", TABLE)
        sums = set()
        for workers, ps in ((1, 1), (2, 2)):
            state = f"state-{workers}"
            result = self.run_job(state, file=job, data__dir=self.dir, cluster__workers=workers, cluster__ps=ps,
                                  training__replicas=2)
            self.assertEqual(result["state"], "SUCCEEDED")
            sums.add(hashlib.sha256(self.export(result["job"], state)).hexdigest())
        self.assertEqual(len(sums), 1, sums)
        # What was trained is measured with the same means and categories by a process of its own.
        path = os.path.join(self.dir, state)
        done = gradus("evaluate", result["job"], "--state-dir", path, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertAlmostEqual(json.loads(done.stdout)["metrics"]["loss"], result["metrics"]["test"]["loss"], places=5)

    def test_bad_records_are_counted_once(self):
        """In three epochs, on two workers, and when a second job finds the data still in memory."""
        self.write("table.csv", self.table())
        self.write("cities.txt", "Oslo\n")
        job = self.write("job.yaml", TABLE)
        master, _, workers = self.start_cluster(1, 2, slow_down=1)
        for number in (1, 2):
            done = gradus("submit", job, "--watch", "--json", "--master", master.address,
                          *self.job(data__dir=self.dir, training__epochs=3, cluster__workers=2, training__replicas=2))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.status(master, f"table-{number}")["bad_records"], 2)
            for worker in workers:
                page = urllib.request.urlopen(f"http://{worker.http}/metrics", timeout=120).read().decode()
                self.assertIn("\ngradus_worker_bad_records_total 2\n", page)
        shown = gradus("status", "table-1", "--master", master.address).stdout
        self.assertRegex(shown, r"\nleft out +2 bad records\n")

    def test_what_is_wrong(self):
        self.write("table.csv", self.table())
        self.write("cities.txt", "Oslo\nOslo\n")
        job = self.write("job.yaml", TABLE)
        for wrong, message in (
                ({"data__bad_records": 1}, "table.csv:201: 2 fields, expected 7"),
                ({"data__bad_records": 0}, 'table.csv:101: column 1 ("price"): "abc" is not a number'),
                ({}, 'cities.txt:2: the category "Oslo" stands there twice'),
                ({"data__columns__1__column": "prise"}, 'data.columns.1.column names column "prise"'),
                ({"data__columns__1__boundaries": 5}, "buckets are 0 or 1 already")):
            done = gradus(*self.run_args(job, f"state-{len(message)}", data__dir=self.dir, **wrong))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr + done.stdout)


if __name__ == "__main__":
    unittest.main()
