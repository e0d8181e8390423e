# SPDX-License-Identifier: Apache-2.0
"""Sparse fields end to end: examples that train on them, on public samples where GRADUS_TEST_DATA names a directory that has
them, else on data that are made here; the same bits for any cluster; and what is refused."""

import hashlib
import json
import math
import os
import random
import struct
import unittest
import zlib

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


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC32C = crc32c_table()


def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC32C[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def message(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def example(features):
    """A record of tf.train.Example: lists of int, float or bytes by their names."""
    entries = b""
    for name, values in features.items():
        if isinstance(values[0], bytes):
            one = message(1, b"".join(message(1, v) for v in values))
        elif isinstance(values[0], float):
            one = message(2, message(1, struct.pack(f"<{len(values)}f", *values)))
        else:
            one = message(3, message(1, b"".join(varint(v & 2**64 - 1) for v in values)))
        entries += message(1, message(1, name.encode()) + message(2, one))
    data = message(1, entries)
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def tfrecord_examples(count, seed):
    draw = random.Random(seed)
    records = []
    for _ in range(count):
        keys = [draw.randrange(-20, 20) for _ in range(26)]
        features = {"label": [float(keys[0] % 2 + keys[1] % 2 + keys[2] % 2 > 1)]}
        features.update({f"I{k + 1}": [draw.random()] for k in range(13)})
        features.update({f"C{k + 1}": [key] for k, key in enumerate(keys)})
        features["words"] = [b"w%d" % draw.randrange(9) for _ in range(3)]
        records.append(example(features))
    return records


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

    def test_a_factorization_machine_learns(self):
        result = self.train("libffm-fm", **self.made(), training__epochs=10)
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
        layers = "{linear: {name: a, from: 0..12, table: weights}}, {dense: {name: b, units: 1, from: input}}, {add: {from: [a, b]}}"
        sets = {**self.made(), "data__columns": "[{column: 0..12, as: sparse}, {column: 13..38, as: sparse, width: 100}]",
                "model__layers": f"[{layers}]", "update__variables": "[]"}
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
        self.assertIn("no layer reads the sparse field 13, and it has no width", done.stderr.replace("\n    ", " "))


class Lists(SparseFields):
    """Layers that read keys: embedding and linear, without any column."""
    data = "format: libffm, train: {file: train}, test: {file: test}, columns: [{column: 0..38, as: sparse}]"

    def job_file(self, layers):
        lines = libffm_lines(1200, 1)
        self.write("train", "".join(lines[:1000]))
        self.write("test", "".join(lines[1000:]))
        return self.write("lists.yaml", f"name: lists\ndata: {{{self.data}, dir: {self.dir}}}\n"
                          f"model:\n  loss: sigmoid_cross_entropy\n  layers:\n{layers}"
                          "update: {rule: adagrad, learning_rate: 0.1}\n"
                          "training: {batch_size: 16, epochs: 5}\ncluster: {workers: 1, ps: 1}\n")

    def test_the_same_bits(self):
        file = self.job_file("    - linear: {name: wide, from: 0..38, rows: 4096}\n"
                             "    - embedding: {name: rows, from: [0..12, 13..38], dim: 4, rows: 4096}\n"
                             "    - factorization: {from: rows}\n    - add: {from: [wide, factorization_1]}\n")
        sums = set()
        for i, (workers, servers) in enumerate(((1, 1), (2, 2))):
            result = self.run_job(f"state-{i}", file=file, data__dir=self.dir, training__replicas=2,
                                  cluster__workers=workers, cluster__ps=servers)
            self.assertEqual(result["state"], "SUCCEEDED")
            self.assertGreater(result["metrics"]["test"]["auc"], 0.85)
            sums.add(hashlib.sha256(self.export(result["job"], f"state-{i}")).hexdigest())
        self.assertEqual(len(sums), 1)

    def test_what_is_refused(self):
        for layers, said in (
                ("    - linear: {from: [0..38, C1], rows: 9}\n", "layer 1 (linear 'linear_1', line 6): from: it reads sparse fields of the data, and 'C1'"),
                ("    - linear: {from: 0..37, rows: 9}\n", "no layer reads the sparse field 38, and it has no width"),
                ("    - linear: {rows: 0}\n", "rows: it needs rows to look up"),
                ("    - linear: {rows: 9, hashing: none, shared: true}\n", "sparse field 9 has the key"),
                ("    - embedding: {rows: 9, dim: 0}\n    - dense: {units: 1}\n", "dim: a number from 1 on would fit")):
            done = gradus("validate", self.job_file(layers))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, " ".join(done.stderr.split()))


def libsvm_lines(count, seed):
    """Lists of three to six keys with values: who goes with whom decides, which a weighted sum of keys cannot say."""
    draw = random.Random(seed)
    records = []
    for _ in range(count):
        keys = sorted(draw.sample(range(1, 25), draw.randrange(3, 7)))
        values = [round(draw.uniform(0.5, 1.5), 3) for _ in keys]
        tied = sum(x * (1 if k % 2 else -1) for k, x in zip(keys, values))  # as a vector of one number
        product = (tied * tied - sum(x * x for x in values)) / 2
        records.append((int(product > 0), dict(zip(keys, values))))
    return records


class Machines(SparseFields):
    """Factorization machines on LIBSVM files: examples/libsvm-fm.yaml on keys whose products matter."""

    def setUp(self):
        super().setUp()
        self.records = libsvm_lines(3000, 4)
        for name, part in (("train", self.records[:2500]), ("test", self.records[2500:])):
            self.write(name, "".join(f"{y} {' '.join(f'{k}:{x}' for k, x in row.items())}\n" for y, row in part))

    def answers(self, job, state):
        out = os.path.join(self.dir, "answers.csv")
        done = gradus("predict", job, "--data", os.path.join(self.dir, "test"), "--out", out, "--state-dir", os.path.join(self.dir, state))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, encoding="utf-8") as f:
            return [float(line.split(",")[2]) for line in f.read().splitlines()[1:]]

    def test_on_tables(self):
        sets = {"data__dir": self.dir, "data__train__file": "train", "data__test__file": "test", "training__epochs": 20,
                "training__replicas": 2, "update__learning_rate": 0.2}
        sums = set()
        for workers, servers in ((1, 1), (2, 2)):
            result = self.train("libsvm-fm", f"state-{workers}", **sets, cluster__workers=workers, cluster__ps=servers)
            self.assertGreater(result["metrics"]["test"]["auc"], 0.95)
            sums.add(hashlib.sha256(self.export(result["job"], f"state-{workers}")).hexdigest())
        self.assertEqual(len(sums), 1)
        tensors = tensors_of(self.export(result["job"], "state-2"))
        rows = {name: dict(zip(tensors[f"{name}.keys"], zip(*[iter(tensors[f"{name}.values"])] * dim)))
                for name, dim in (("weights", 1), ("vectors", 8))}
        for (_, row), answer in zip(self.records[2500:], self.answers(result["job"], "state-2")):
            row = {k: x for k, x in row.items() if k in rows["vectors"]}
            logit = tensors["first_order.bias"][0] + sum(x * rows["weights"][k][0] for k, x in row.items())
            for i in range(8):
                parts = [x * rows["vectors"][k][i] for k, x in row.items()]
                logit += (sum(parts) ** 2 - sum(p * p for p in parts)) / 2
            self.assertAlmostEqual(answer, 1 / (1 + math.exp(-logit)), delta=1e-5)

    def test_elements_of_a_variable(self):
        file = self.write("rows.yaml", f"""
name: rows
data: {{format: libsvm, dir: {self.dir}, train: {{file: train}}, test: {{file: test}}, columns: [{{column: all, as: sparse}}]}}
model: {{layers: [fm: {{dim: 6, rows: 25, hashing: none, output: vector}}, dense: {{units: 1}}], loss: sigmoid_cross_entropy}}
update: {{rule: adam, learning_rate: 0.02}}
training: {{batch_size: 32, epochs: 8}}
""")
        result = self.run_job(file=file, data__dir=self.dir, training__epochs=8)
        self.assertGreater(result["metrics"]["test"]["auc"], 0.95)
        for sets, said in (("model.layers.0.dim=0", "dim: a number from 1 on would fit"),
                           ("model.layers.0.rows=9", "sparse field all has the key"),
                           ("model.layers.0.table=t", "table: model.tables has none of the name 't'")):
            done = gradus("validate", file, "--set", sets)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, " ".join(done.stderr.split()))


def tensors_of(data):
    """Of a safetensors file: 64-bit keys and 32-bit floats by name."""
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    found = {}
    for name, tensor in header.items():
        if name != "__metadata__":
            first, end = tensor["data_offsets"]
            kind, width = {"F32": ("f", 4), "U64": ("Q", 8), "I64": ("q", 8)}[tensor["dtype"]]
            found[name] = struct.unpack(f"<{(end - first) // width}{kind}", data[8 + size + first:8 + size + end])
    return found


def grouped_auc(records):
    """Of (group, label, score): the definition, pair by pair."""
    groups, total, weights = {}, 0, 0
    for group, label, score in records:
        groups.setdefault(group, ([], []))[label].append(score)
    for negatives, positives in groups.values():
        pairs = len(negatives) * len(positives)
        if pairs:
            wins = sum((p > n) + 0.5 * (p == n) for p in positives for n in negatives)
            total += (len(negatives) + len(positives)) * wins / pairs
            weights += len(negatives) + len(positives)
    return total / weights


class Groups(SparseFields):
    """grouped_auc: test records of one group lie in several of the workers' parts."""

    def setUp(self):
        super().setUp()
        draw = random.Random(8)
        self.records = []
        for _ in range(4000):
            user, item = draw.randrange(40), draw.randrange(20)
            self.records.append((user, item, int(draw.random() < 0.1 + 0.7 * (user * 7 % 40) / 40 + 0.2 * (item % 2))))
        for name, part in (("train", self.records[:1000]), ("test", self.records[1000:])):
            self.write(name, "label,user,item\n" + "".join(f"{y},{u},{i}\n" for u, i, y in part))
        self.file = self.write("groups.yaml", f"""
name: groups
data: {{format: csv, dir: {self.dir}, train: {{file: train}}, test: {{file: test}},
        columns: [{{column: label, as: label}}, {{column: user, as: sparse}}, {{column: item, as: sparse}}]}}
model: {{layers: [linear: {{from: item, rows: 4096}}], loss: sigmoid_cross_entropy, metrics: [auc, grouped_auc], group_by: user}}
update: {{rule: adagrad, learning_rate: 0.1}}
training: {{batch_size: 16, replicas: 2, epochs: 1}}
""")

    def test_the_same_for_any_number_of_workers(self):
        values = set()
        for workers in (1, 2):
            result = self.run_job(f"state-{workers}", file=self.file, data__dir=self.dir, training__replicas=2,
                                  cluster__workers=workers)
            self.assertEqual(result["state"], "SUCCEEDED")
            self.assertNotIn("grouped_auc", result["metrics"]["train"])
            values.add((result["metrics"]["test"]["auc"], result["metrics"]["test"]["grouped_auc"]))
        self.assertEqual(len(values), 1, values)
        auc, grouped = values.pop()
        # The model has one score for each item; what it is of the two kinds of items, labels say.
        scores = self.scores(result["job"], "state-2")
        expected = grouped_auc([(u, y, scores[i]) for u, i, y in self.records[1000:]])
        self.assertAlmostEqual(grouped, expected, delta=1e-3)  # bins
        self.assertGreater(grouped, auc)  # users differ more than items do
        done = gradus("evaluate", result["job"], "--json", "--on", "train", "--state-dir", os.path.join(self.dir, "state-2"))
        self.assertIn("grouped_auc", json.loads(done.stdout)["metrics"], done.stderr)

    def scores(self, job, state):
        """Of each item the logit: one line for each, measured alone."""
        found = []
        for item in range(20):
            self.write("one", f"label,user,item\n1,0,{item}\n")
            done = gradus("evaluate", job, "--json", "--state-dir", os.path.join(self.dir, state), "--set", "data.test.file=one")
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            found.append(-json.loads(done.stdout)["metrics"]["loss"])  # rises with the logit
        return found

    def test_what_is_refused(self):
        for sets, said in ((("model.group_by=nobody", "data.columns.1.width=10"), "and 'nobody' is none; user, item would fit"),
                           (("model.metrics=[auc]",), "nothing is measured by groups")):
            done = gradus("validate", self.file, *[word for s in sets for word in ("--set", s)])
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, " ".join(done.stderr.split()))
        self.write("test", "label,user,item\n1,1,1\n1,,1\n")
        done = gradus("validate", self.file, "--set", "data.missing=zero")
        self.assertIn("test record 1 (from 0): its sparse field user has 0 keys", " ".join(done.stderr.split()))


class Ratings(SparseFields):
    def test_learns(self):
        draw = random.Random(6)
        users = [[draw.gauss(0, 0.7) for _ in range(2)] for _ in range(100)]
        items = [[draw.gauss(0, 0.7) for _ in range(2)] for _ in range(60)]
        lines = []
        for _ in range(8000):
            u, i = draw.randrange(100), draw.randrange(60)
            rating = 3 + users[u][0] + items[i][0] + users[u][1] * items[i][1] + draw.gauss(0, 0.2)
            lines.append(f"{u}\t{i}\t{rating:.2f}\t88125\n")
        self.write("some.tsv", "".join(lines))
        result = self.train("ratings-mf", data__dir=self.dir, data__train__file="some.tsv")
        self.assertLess(result["metrics"]["test"]["rmse"], 0.75)  # of the mean alone: 1.1


class Criteo(SparseFields):
    def test_the_same_bits_on_three_servers(self):
        """Its dense part is 14 numbers in two variables."""
        self.write("criteo_1k.tsv", "".join(criteo_lines(2000, 2)))
        exports = []
        for ps in (1, 3, 16):
            result = self.train("criteo-logistic", f"state-{ps}", data__dir=self.dir, training__epochs=2, cluster__ps=ps)
            exports.append(self.export(result["job"], f"state-{ps}"))
        self.assertEqual(exports[0], exports[1])
        self.assertEqual(exports[0], exports[2])

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

    def test_every_model_learns(self):
        self.write("clicks", "".join(criteo_lines(2000, 2)))
        for name in ("fm", "wide-deep", "deepfm", "dlrm", "dcn"):
            with self.subTest(name):
                result = self.train(f"criteo-{name}", f"state-{name}", data__dir=self.dir, data__train__file="clicks",
                                    training__epochs=8)
                self.assertGreater(result["metrics"]["test"]["auc"], 0.8)

    def test_every_model_runs_on_the_public_sample(self):
        directory = self.clicks("criteo_1k.tsv")
        if directory is None:
            self.skipTest("GRADUS_TEST_DATA names no directory with clicks")
        for name in ("fm", "wide-deep", "deepfm", "dlrm", "dcn"):
            with self.subTest(name):
                result = self.train(f"criteo-{name}", f"state-{name}", data__dir=directory)
                self.assertGreater(result["metrics"]["test"]["auc"], 0.6)

    def test_bad_lines_are_counted(self):
        lines = criteo_lines(200, 3)
        lines[10] = "1\tx\n"
        self.write("criteo_1k.tsv", "".join(lines))
        arguments = [self.example("criteo-logistic"), *self.job(data__dir=self.dir, data__bad_records=1)]
        done = gradus("validate", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 bad train record is left out", done.stderr)
        self.assertIn('"x" is no number', done.stderr)
        self.assertIn("sparse fields C1 to C26 (26)", done.stdout)


class TfRecord(SparseFields):
    def write_bytes(self, name, data):
        with open(os.path.join(self.dir, name), "wb") as f:
            f.write(data)

    def test_public_sample(self):
        directory = os.path.join(DATA, "tfrecord")
        if not DATA or not os.path.isdir(directory):
            self.skipTest("GRADUS_TEST_DATA names no directory with tfrecord")
        result = self.train("tfrecord-logistic", data__dir=directory, training__epochs=10)
        self.assertGreater(result["metrics"]["train"]["auc"], 0.9)

    def test_learns_the_same_bits_from_packed_and_cut_files(self):
        records = tfrecord_examples(1200, 4)
        self.write_bytes("train", b"".join(records[:1000]))
        self.write_bytes("test", b"".join(records[1000:]))
        self.write_bytes("part-1", zlib.compress(b"".join(records[:400])))
        self.write_bytes("part-2", b"".join(records[400:1000]))
        sums = set()
        for i, (files, workers) in enumerate((("train", 1), ("part-*", 2))):
            result = self.train("tfrecord-logistic", f"state-{i}", data__dir=self.dir, data__train__file=files,
                                data__test__file="test", training__epochs=10, training__replicas=2, cluster__workers=workers)
            self.assertGreater(result["metrics"]["test"]["auc"], 0.85)
            sums.add(hashlib.sha256(self.export(result["job"], f"state-{i}")).hexdigest())
        self.assertEqual(len(sums), 1)

    def test_damage(self):
        records = tfrecord_examples(20, 5)
        self.write_bytes("cut", b"".join(records)[:-30])
        self.write_bytes("wrong", records[0] + records[1][:40] + b"\0\0" + records[1][42:] + records[2])
        for name, said in (("cut", "record 19 at byte"), ("wrong", "record 1 at byte %d: the checksum of its bytes is wrong" % len(records[0]))):
            done = gradus("validate", self.example("tfrecord-logistic"),
                          *self.job(data__dir=self.dir, data__train__file=name, data__test__file=""))
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, " ".join(done.stderr.split()))


if __name__ == "__main__":
    unittest.main()
