# SPDX-License-Identifier: Apache-2.0
"""ONNX files of models whose rows lie in tables or under hashes: the examples for sparse fields, with lists of keys and
their values, keys that no train record had, columns that keys fall into, and texts."""

import json
import os
import random
import re
import unittest

from cluster import SOURCE, gradus
from onnx_exports import Exports, metadata, np

TESTED = 40
TABLES = """name: clicks
data:
  train: {{file: train.csv}}
  test: {{file: test.csv}}
  columns:
    - {{column: label, as: label}}
    - {{column: price, standardise: true}}
    - {{column: page, as: sparse, hash: {hash}}}
    - {{column: words, as: sparse, separator: "|", vocabulary: [red, green, blue], unknown: own}}
    - {{column: shop, as: category, buckets: 7, hash: {hash}, missing: own}}
    - {{column: user, as: sparse, width: 11, hash: {hash}}}
model:
  tables:
    - {{name: pages, dim: 3, init: {init}, init_mean: 0.1, init_spread: 0.4}}
  layers:
    - embedding: {{name: rows, from: [page, words], table: pages, pooling: {pooling}}}
    - flatten: {{name: flat}}
    - concat: {{from: [input, flat]}}
    - dense: {{units: 0}}
  loss: sigmoid_cross_entropy
update: {{rule: adagrad, learning_rate: 0.1}}
training: {{batch_size: 16, epochs: 2}}
"""


def keys_of_page():
    """The functions that docs/onnx.md shows."""
    with open(SOURCE + "/docs/onnx.md") as f:
        shown = re.search(r"### Keys\n.*?```python\n(.*?)```", f.read(), re.DOTALL).group(1)
    names = {}
    exec(shown, names)
    return names["key"]


key = keys_of_page()


def padded(lists, fill=-1, kind=np.int64):
    most = max(1, max(map(len, lists)))
    return np.array([list(x) + [fill] * (most - len(x)) for x in lists], kind)


class OfTables(Exports):
    def example(self, name, **sets):
        with open(f"{SOURCE}/examples/{name}.yaml") as f:
            text = f.read()
        text = re.sub(r"(train:\n +file: )\S+", r"\1train", text)
        if "test_fraction" in text:
            text = re.sub(r" +test_fraction: .*\n +split_seed: .*\n", "  test: {file: test}\n", text)
        return re.sub(r"(test:\n +file: )\S+", r"\1test", text)

    def of_example(self, name, lines, inputs, **sets):
        """Trains an example on @lines of a generator, and compares the answers for others, of which it has no labels."""
        train, test = lines(random.Random(1), 300), lines(random.Random(2), TESTED)
        result = self.train(self.example(name), {"train": "".join(train), "test": "".join(test)}, training__epochs=1, **sets)
        answers = self.predict(result, self.dir + "/test")
        exported = self.export(result)
        self.compare(exported, inputs(test), answers)
        told = metadata(exported[1])
        self.assertIn("gradus.version", told)
        return result, exported, inputs(test), answers

    def test_clicks(self):
        def lines(draw, count):
            return ["\t".join([str(draw.randrange(2))] + [str(draw.randrange(50)) if draw.random() < 0.8 else "" for _ in range(13)]
                              + [f"{draw.randrange(60) * 0x9E3779B9 % 2**32:08x}" if draw.random() < 0.9 else "" for _ in range(26)])
                    + "\n" for _ in range(count)]

        def inputs(rows):
            cells = [row.rstrip("\n").split("\t") for row in rows]
            out = {"features": np.array([[float(c or "nan") for c in row[1:14]] for row in cells], np.float32)}
            for n in range(26):
                out[f"C{n + 1}"] = np.array([[int(row[14 + n], 16) if row[14 + n] else -1] for row in cells])
            return out

        for name in ("criteo-deepfm", "criteo-wide-deep", "criteo-logistic", "criteo-fm", "criteo-dlrm", "criteo-dcn"):
            with self.subTest(name):
                result, (_, model), _, _ = self.of_example(name, lines, inputs, state=name)
                tables = {t.name for t in model.graph.initializer}
                self.assertLessEqual({t["name"] for t in result["tables"]} if "tables" in result else set(), tables)

    def test_lists_with_values(self):
        def lines(draw, count):
            return [f"{draw.randrange(2)} " + " ".join(f"{key}:{draw.choice((0.5, 1, -2, 0.25))}" for key in sorted(draw.sample(range(1, 90), draw.randrange(1, 9))))
                    + "\n" for _ in range(count)]

        def inputs(rows):
            cells = [[pair.split(":") for pair in row.split()[1:]] for row in rows]
            return {"features": padded([[int(k) for k, _ in row] for row in cells]),
                    "features.values": padded([[float(v) for _, v in row] for row in cells], 7, np.float32)}

        self.of_example("libsvm-fm", lines, inputs)

    def test_fields_with_values(self):
        def lines(draw, count):
            return [f"{draw.randrange(2)} " + " ".join(f"{f}:{draw.randrange(3000)}:{draw.choice((1, 0.5, 2))}" for f in range(39) if draw.random() < 0.8)
                    + "\n" for _ in range(count)]

        def inputs(rows):
            out = {str(f): np.full((len(rows), 1), -1, np.int64) for f in range(39)}
            out.update({f"{f}.values": np.ones((len(rows), 1), np.float32) for f in range(39)})
            for i, row in enumerate(rows):
                for f, key, value in (pair.split(":") for pair in row.split()[1:]):
                    out[f][i, 0], out[f + ".values"][i, 0] = int(key), float(value)
            return out

        self.of_example("libffm-fm", lines, inputs)

    def test_ratings(self):
        def lines(draw, count):
            return [f"{draw.randrange(90)}\t{draw.randrange(70)}\t{draw.randrange(1, 6)}\t0\n" for _ in range(count)]

        def inputs(rows):
            return {str(n): np.array([[key(row.split("\t")[n], "xxh3")] for row in rows]) for n in range(2)}

        _, (_, model), _, _ = self.of_example("ratings-mf", lines, inputs)
        self.assertEqual(metadata(model)["gradus.hash.0"], "xxh3")

    def clicks_with_texts(self, count, seed):
        draw = random.Random(seed)
        return [{"label": draw.randrange(2), "price": f"{draw.gauss(3, 2):.2f}", "page": f"page {draw.randrange(80)}",
                 "words": "|".join(draw.sample(("red", "green", "blue", "mauve"), draw.randrange(1, 4))),
                 "shop": draw.choice(("here", "there", "elsewhere", "")), "user": f"u{draw.randrange(300)}"} for _ in range(count)]

    def of_texts(self, kind, init, pooling):
        rows = self.clicks_with_texts(TESTED, 2)
        result = self.train(TABLES.format(hash=kind, init=init, pooling=pooling), {"train.csv": self.clicks_with_texts(200, 1), "test.csv": rows},
                            state=f"{kind}-{init}")
        answers = self.predict(result, self.dir + "/test.csv")
        exported = self.export(result, name=f"{kind}-{init}.onnx")
        told = metadata(exported[1])
        self.assertEqual([told[f"gradus.hash.{c}"] for c in ("page", "shop", "user")], [kind] * 3)
        self.assertEqual(json.loads(told["gradus.categories.words"]), ["red", "green", "blue", None])
        words = ["red", "green", "blue", "mauve"]
        inputs = {"features": np.array([[float(r["price"])] for r in rows], np.float32),
                  "page": np.array([[key(r["page"], kind)] for r in rows]),
                  "words": padded([sorted(words.index(w) for w in r["words"].split("|")) for r in rows]),
                  "shop": np.array([[key(r["shop"], kind) if r["shop"] else -1] for r in rows]),
                  "user": np.array([[key(r["user"], kind)] for r in rows])}
        self.compare(exported, inputs, answers)
        texts = self.export(result, "--texts", name=f"{kind}-{init}-texts.onnx")
        inputs["words"] = padded([r["words"].split("|") for r in rows], "", object)
        self.compare(texts, inputs, answers)

    def test_hashed_texts_and_rows_that_begin_by_chance(self):
        self.of_texts("xxh3", "uniform", "sum")
        self.of_texts("fnv1a", "normal", "mean")

    def test_rows_that_begin_otherwise(self):
        self.of_texts("xxh3", "truncated_normal", "sqrt_n")
        self.of_texts("fnv1a", "constant", "sum")

    def test_a_table_beside_the_file(self):
        rows = self.clicks_with_texts(TESTED, 2)
        result = self.train(TABLES.format(hash="fnv1a", init="zeros", pooling="sum"), {"train.csv": self.clicks_with_texts(200, 1), "test.csv": rows})
        path, model = self.export(result, "--external")
        self.assertTrue(os.path.exists(path + ".data"))
        pages = next(t for t in model.graph.initializer if t.name == "pages")
        done = gradus("export", "--from", result["checkpoint"], self.dir + "/out.safetensors", "--json")
        self.assertEqual(pages.dims[0], json.loads(done.stdout)["tables"][0]["rows"] + 1)  # the last: of keys without a row


if __name__ == "__main__":
    unittest.main()
