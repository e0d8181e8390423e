# SPDX-License-Identifier: Apache-2.0
"""gradus predict: records of standard input and of JSON lines are answered as those of files, a column that says which they
are goes along, and what cannot be read ends it, with its place, or is counted as data.bad_records says."""

import csv
import gzip
import io
import json
import lzma
import os
import random
import subprocess
import sys
import unittest
import zlib

sys.path.insert(0, os.path.dirname(__file__))
from cluster import BIN, SOURCE, gradus  # noqa: E402
from test_predict import FLOWERS, PredictTest, read_csv  # noqa: E402
from test_sparse_fields import example  # noqa: E402
from test_tables import JOB as JOB_OF_TABLES, click_lines  # noqa: E402


class Inputs(PredictTest):
    def run_predict(self, result, data, *more, stdin=None, code=0):
        done = subprocess.run([f"{BIN}/gradus", "predict", result["checkpoint"], "--data", data, *more], input=stdin,
                              capture_output=True, timeout=600)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stderr)
        self.said = " ".join(done.stderr.decode().split())
        return done.stdout.decode()

    def answers(self, *args, **more):
        return list(csv.DictReader(io.StringIO(self.run_predict(*args, **more))))

    def bytes_of(self, path):
        with open(path, "rb") as f:
            return f.read()

    def with_ids(self, name, position):
        """The test records with one more column, which the model does not know."""
        rows = []
        for i, row in enumerate(self.rows):
            items = list(row.items())
            items.insert(position, ("order id", f'no. "{i}", new'))
            rows.append(dict(items))
        return self.write(name, rows)

    def test_csv(self):
        result = self.train(FLOWERS, data__ignore="price")
        expected = read_csv(self.predict(result, self.test, "a.csv"))
        self.assertEqual(self.answers(result, self.test), expected)  # without --out: standard output
        self.assertNotIn("warning", self.said)
        self.assertEqual(self.answers(result, "-", stdin=self.bytes_of(self.test)), expected)
        for position in (0, 3, 5):
            path = self.with_ids("ids.csv", position)
            for source, given in ((path, None), ("-", self.bytes_of(path))):
                found = self.answers(result, source, "--id", "order id", stdin=given)
                self.assertEqual(list(found[0])[:2], ["order id", "class"])
                self.assertEqual([f.pop("order id") for f in found], [f'no. "{i}", new' for i in range(len(self.rows))])
                self.assertEqual(found, expected)
        lines = self.run_predict(result, path, "--id", "order id", "--format", "json").splitlines()
        self.assertEqual((json.loads(lines[7])["order id"], json.loads(lines[7])["class"]), ('no. "7", new', expected[7]["class"]))
        # One that the model has, or that the job passes over.
        self.assertEqual([f["size"] for f in self.answers(result, self.test, "--id", "size")], [r["size"] for r in self.rows])
        self.assertEqual([f["price"] for f in self.answers(result, self.test, "--id", "price")], [r["price"] for r in self.rows])
        bare = self.write("bare.csv", [dict({"n": i}, **r) for i, r in enumerate(self.rows)], ("kind",))
        found = self.answers(result, bare, "--unlabelled", "--id", "n")
        self.assertEqual([f.pop("n") for f in found], [str(i) for i in range(len(self.rows))])
        self.assertEqual(found, expected)
        # A class and a category that were never trained: the label means nothing, the category is none of those.
        odd = self.write("odd.csv", [dict(self.rows[0], kind="purple"), dict(self.rows[0], soil="mud")])
        found = self.answers(result, odd)
        self.assertIn(f'warning: column soil: 1 record has a category that the training data did not have; the first: "mud", {odd}:3', self.said)
        self.assertEqual(found[0]["class"], expected[0]["class"])
        self.assertAlmostEqual(sum(float(p) for name, p in found[1].items() if name != "class"), 1, places=5)
        self.json_lines(result, expected)
        self.wrong(result)

    def json_lines(self, result, expected):
        path = os.path.join(self.dir, "new.jsonl")
        with open(path, "w") as f:
            for i, row in enumerate(self.rows):
                record = {"width": float(row["width"]), "size": float(row["size"]), "soil": row["soil"], "who": i}
                f.write(json.dumps(dict(record, kind="of no meaning") if i % 2 else record) + "\n" + "\n" * (i % 3))
        found = self.answers(result, path, "--id", "who")
        self.assertEqual([f.pop("who") for f in found], [str(i) for i in range(len(self.rows))])
        self.assertEqual(found, expected)
        given = self.bytes_of(path)
        with gzip.open(path + ".gz", "wb") as f:
            f.write(given)
        self.assertEqual([f["class"] for f in self.answers(result, path + ".gz", "--id", "who")], [e["class"] for e in expected])
        self.assertEqual(len(self.answers(result, "-", "--data-format", "json", "--id", "who", stdin=given)), len(expected))
        lists = "".join(json.dumps({"features": [float(r["size"]), float(r["width"])], "soil": r["soil"]}) + "\n"
                        for r in self.rows)
        self.assertEqual(self.answers(result, "-", "--data-format", "json", stdin=lists.encode()), expected)

    def wrong(self, result):
        def refused(part, data, *more, stdin=None, code=2):
            self.run_predict(result, data, *more, stdin=stdin, code=code)
            self.assertIn(part, self.said)
        refused('--id names column "nmae", but there is none among the 5 columns', self.test, "--id", "nmae")
        good = json.dumps({"features": [1, 2], "soil": "clay"}) + "\n"
        for line, part in (
                ("{", "standard input:2: JSON, line 1"), ("[1]", "an object is expected"),
                ('{"features": [1], "soil": "clay"}', '"features": 1 numbers, expected 2'),
                ('{"size": "1", "width": 2, "soil": "clay"}', '"size": a number that fits a float is expected'),
                ('{"size": 1e99, "width": 2, "soil": "clay"}', "fits a float"),
                ('{"size": 1, "soil": "clay"}', '"width" is missing; the job does not say'),
                ('{"size": 1, "width": 2, "soil": null}', '"soil" is missing'),
                ('{"size": 1, "width": 2, "soil": {}}', '"soil": text is expected'),
                ('{"size": 1, "widht": 2, "soil": "clay"}', '"widht": the model has no column of that name')):
            refused(part, "-", "--data-format", "json", stdin=(good + line + "\n").encode())
            self.assertIn("standard input:2: ", self.said)
        refused('"who" (--id): text or a number', "-", "--data-format", "json", "--id", "who", stdin=good.encode())
        refused("there are no records", "-", "--data-format", "json", stdin=b"\n\n")
        refused("standard input: there is nothing", "-", stdin=b"")
        # What is bad is an error, or counted.
        lines = self.bytes_of(self.test).splitlines(keepends=True)
        lines[3:3] = [b"nonsense,blue,clay,1,1\n"]
        lines[9:9] = [b"1,2\n"]
        refused('standard input:4: column 0 ("size"): "nonsense" is not a number', "-", stdin=b"".join(lines))
        refused("2 fields, expected 5", "-", "--set", "data.bad_records=1", stdin=b"".join(lines), code=1)
        self.assertIn("these are more bad records than data.bad_records: 1", self.said)
        expected = self.answers(result, self.test)
        with open(self.dir + "/bad.csv", "wb") as f:
            f.write(b"".join(lines))
        for source, given in (("-", b"".join(lines)), (self.dir + "/bad.csv", None)):
            self.assertEqual(self.answers(result, source, "--set", "data.bad_records=2", stdin=given), expected)
            self.assertIn('bad records without an answer: 2; the first: ', self.said)
            self.assertIn('4: column 0 ("size"): "nonsense" is not a number', self.said)
        both = (good + "{\n" + good).encode()
        found = self.answers(result, "-", "--data-format", "json", "--set", "data.bad_records=1", stdin=both)
        self.assertEqual((len(found), found[0]), (2, found[1]))
        self.assertIn("the first: standard input:2: JSON", self.said)

    def test_texts_that_are_not_utf8(self):
        """Bytes stay what they are, but JSON has them as messages do; the first one is told with its line."""
        file, new = (os.path.join(self.dir, name) for name in ("latin1.yaml", "new.csv"))
        with open(os.path.join(self.dir, "latin1.csv"), "wb") as f:
            f.write(b"city,x,size\n" + 40 * b"Bonn,1,klein\nK\xf6ln,2,gro\xdf\n")
        with open(new, "wb") as f:
            f.write(b"city,x\nK\xf6ln,2\nZ\xfcrich,1\n")
        with open(file, "w") as f:
            f.write("name: latin1\ndata: {train: {file: latin1.csv}, label: size, categorical: city, scale: none}\n"
                    "model: {layers: [dense: {units: 2}], loss: softmax_cross_entropy}\nupdate: {rule: sgd}\ntraining: {epochs: 2}\n")
        done = gradus("validate", file)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = " ".join(done.stderr.split())
        self.assertIn(r'latin1.csv:3: the label: "gro\xDF" is not UTF-8', said)
        self.assertIn("iconv -f latin1 -t utf8", said)
        result = self.run_job(file=file, data__dir=self.dir)
        lines = [json.loads(line) for line in self.run_predict(result, new, "--unlabelled", "--format", "json", "--id", "city").splitlines()]
        self.assertEqual([line["city"] for line in lines], [r"K\xF6ln", r"Z\xFCrich"])
        self.assertEqual(list(lines[0]["probabilities"]), [r"gro\xDF", "klein"])
        self.assertIn(r'column city: 1 record has a category that the training data did not have; the first: "Z\xFCrich"', self.said)

    def test_keys_and_images(self):
        for name, count, seed in (("train", 600, 1), ("test", 700, 2)):
            with open(os.path.join(self.dir, name), "w") as f:
                f.write("".join(click_lines(count, seed)))
        result = self.train(JOB_OF_TABLES)
        path = os.path.join(self.dir, "test")
        expected = self.answers(result, path)
        given = self.bytes_of(path)
        self.assertEqual(self.answers(result, "-", stdin=given), expected)
        bare = b"".join(line.split(b" ", 1)[1] for line in given.splitlines(keepends=True))
        self.assertEqual(self.answers(result, "-", "--unlabelled", stdin=bare), expected)
        lines = []
        for line in given.decode().splitlines():
            record = {}
            for word in line.split()[1:]:
                field, key, weight = word.split(":")
                record.setdefault(field, []).append(int(key) if float(weight) == 1 else [int(key), float(weight)])
            lines.append(json.dumps(record) + "\n")
        self.assertEqual(self.answers(result, "-", "--data-format", "json", stdin="".join(lines).encode()), expected)
        self.run_predict(result, path, "--id", "0", code=2)
        self.assertIn("these records have no columns with names", self.said)
        self.run_predict(result, "-", "--data-format", "json", stdin=b'{"0": [-1]}\n', code=2)
        self.assertIn('"0": a list of keys, whole numbers from 0 on, is expected', self.said)

    def test_packed_standard_input(self):
        """As a packed file has it, for predict and for evaluate; other packings are named."""
        result = self.train(FLOWERS, data__ignore="price")
        given = self.bytes_of(self.test)
        expected = self.answers(result, self.test)
        records = "".join(json.dumps({"width": float(r["width"]), "size": float(r["size"]), "soil": r["soil"]}) + "\n"
                          for r in self.rows).encode()
        zstd = subprocess.run(["zstd", "-q", "-c"], input=given, capture_output=True, check=True).stdout
        measured = gradus("evaluate", result["checkpoint"], "--json")
        self.assertEqual(measured.returncode, 0, measured.stderr)
        for packed in (gzip.compress(given), zlib.compress(given), zstd, gzip.compress(given[:300]) + gzip.compress(given[300:])):
            self.assertEqual(self.answers(result, "-", stdin=packed), expected)
            done = subprocess.run([f"{BIN}/gradus", "evaluate", result["checkpoint"], "--json", "--set", "data.test.file=-"], input=packed,
                                  capture_output=True, timeout=600)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout), json.loads(measured.stdout))
        for stdin in (records, gzip.compress(records)):
            self.assertEqual(self.answers(result, "-", "--data-format", "json", stdin=stdin), expected)
        self.run_predict(result, "-", stdin=gzip.compress(given)[:-20], code=None)
        self.assertIn("standard input: the gzip file is cut off", self.said)
        self.run_predict(result, "-", stdin=lzma.compress(given), code=2)
        self.assertIn("standard input", self.said)
        self.assertIn("xz", self.said)
        self.run_predict(result, "-", stdin=b"", code=2)

    def test_ids_of_tfrecord(self):
        result = self.run_job(file=SOURCE + "/examples/tfrecord-logistic.yaml", training__epochs=1, data__dir=self.dir, **self.tfrecords())
        path = os.path.join(self.dir, "asked")
        expected = self.answers(result, path)
        ids = [f"no. {i}" for i in range(len(expected))]
        for source, given in ((path, None), ("-", self.bytes_of(path)), ("-", gzip.compress(self.bytes_of(path)))):
            for name, values in (("who", ids), ("number", [str(2**60 + i) for i in range(len(ids))]), ("half", ["0.5"] * len(ids))):
                found = self.answers(result, source, "--id", name, stdin=given)
                self.assertEqual([f.pop(name) for f in found], values)
                self.assertEqual(found, expected)
        label = self.answers(result, path, "--id", "label")  # one that the model knows
        self.assertEqual({f["label"] for f in label}, {"0", "1"})
        for name, said in (("nobody", 'feature "nobody" (--id) is missing'), ("words", 'feature "words" (--id) has not one value')):
            self.run_predict(result, path, "--id", name, code=2)
            self.assertIn("asked: record 0 at byte 0: " + said, self.said)

    def tfrecords(self):
        """Files of records with labels, and of those that are asked about, which have ids, too."""
        draw = random.Random(6)
        for file, count in (("train", 300), ("asked", 260)):
            with open(os.path.join(self.dir, file), "wb") as f:
                for i in range(count):
                    features = {"label": [float(draw.random() < 0.5)], "who": [b"no. %d" % i], "number": [2**60 + i], "half": [0.5],
                                "words": [b"a", b"b"], **{f"I{k + 1}": [draw.random()] for k in range(13)},
                                **{f"C{k + 1}": [draw.randrange(20)] for k in range(26)}}
                    f.write(example(features))
        return {"data__train__file": "train", "data__test__file": "asked"}

    def test_images(self):
        result = self.run_job(file=SOURCE + "/examples/digits.yaml", training__epochs=1)
        images = f"{self.shared}/digits/t10k-images-idx3-ubyte.gz"
        expected = self.answers(result, images)
        with gzip.open(images) as f:
            pixels = f.read()[16:]
        lines = [json.dumps({"features": [list(p[r * 28:r * 28 + 28]) for r in range(28)], "label": 3})
                 for p in (pixels[i * 784:i * 784 + 784] for i in range(len(expected)))]
        self.assertEqual(self.answers(result, "-", "--data-format", "json", stdin="\n".join(lines).encode()), expected)
        self.assertEqual(self.answers(result, "-", stdin=self.bytes_of(images)), expected)  # packed
        with gzip.open(images) as f:
            whole = f.read()
        self.assertEqual(self.answers(result, "-", stdin=whole), expected)
        self.run_predict(result, "-", stdin=pixels, code=2)
        self.assertIn("standard input: not an IDX file", self.said)
        self.run_predict(result, "-", stdin=whole[:-1], code=None)
        self.assertIn(f"standard input: {len(whole)} bytes expected, the file ends at byte {len(whole) - 1}", self.said)
        self.run_predict(result, "-", stdin=whole + b"x", code=None)
        self.assertIn("more bytes follow the last record", self.said)
        measured = [subprocess.run([f"{BIN}/gradus", "evaluate", result["checkpoint"], "--json", *more], input=whole, check=True,
                                   capture_output=True, timeout=600).stdout for more in ([], ["--set", "data.test.file=-"])]
        self.assertEqual(*[{k: v for k, v in json.loads(m).items() if k in ("loss", "accuracy", "examples")} for m in measured])

    def test_memory_does_not_grow(self):
        """Ten million bytes of standard input and a hundred take the same."""
        result = self.train(FLOWERS, data__ignore="price")
        lines = self.bytes_of(self.test).splitlines(keepends=True)

        def peak(times):
            body = lines[0] + b"".join(lines[1:]) * times
            command = [f"{BIN}/gradus", "predict", result["checkpoint"], "--data", "-", "--out", "/dev/null", "--format", "csv"]
            script = ("import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], stdin=sys.stdin); "
                      "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
            done = subprocess.run(["/usr/bin/python3", "-c", script, *command], input=body, capture_output=True, timeout=600)
            code, kib = done.stdout.split()[-2:]
            self.assertEqual(code, b"0", done.stderr)
            return int(kib) * 1024
        small, large = peak(300), peak(3000)
        print(f"peak memory: {small >> 20} MiB, ten times the records: {large >> 20} MiB")
        self.assertLess(large, small + (64 << 20))


if __name__ == "__main__":
    unittest.main()
