# SPDX-License-Identifier: Apache-2.0
"""gradus export of whole models as ONNX: from raw records, the file answers as `gradus predict` does. ONNX's own package
checks it; NumPy computes it, and ONNX Runtime where it is installed."""

import gzip
import json
import os
import random
import unittest

import onnx_bytes
from cluster import SOURCE, gradus
from onnx_exports import TOLERANCE, Exports, metadata, np, onnx, onnx_numpy, onnxruntime
from test_predict import FLOWERS, HOUSES, flowers, read_csv
CNN = """[{conv2d: {filters: 8, kernel: 3, padding: same, use_bias: false}}, batch_norm, relu, {max_pool2d: {size: 2}},
 {conv2d: {filters: 8, kernel: [3, 2], stride: 2, activation: gelu}}, {avg_pool2d: {size: 3, stride: 1, padding: same}}, flatten,
 {dense: {units: 16, activation: relu}}, {layer_norm: {}}, {dropout: {rate: 0.25}}, {dense: {units: 10}}]"""
BIKES = """name: bikes
data:
  train: {file: train.csv}
  test: {file: test.csv}
  columns:
    - {column: count, as: label}
    - {column: temperature, standardise: true}
    - {column: year, standardise: true}
    - {column: wind, log: true, standardise: true, missing: mean}
    - {column: hour, boundaries: [6.5, 9, 16, 19.5]}
    - {column: rain, log: true, boundaries: [-0.5, 0.1, 0.7, 2.3], missing: own}
    - {column: weather, as: category, vocabulary: [clear, mist, rain], unknown: own}
    - {column: season, as: category, missing: own}
    - {column: tags, as: list, separator: "|"}
  label_scale: standard
model:
  layers:
    - cross: {name: cross_1, rank: 4, from: input}
    - cross: {name: cross_2, from: [input, cross_1]}
    - dense: {name: deep_1, units: 16, activation: tanh, from: input}
    - concat: {from: [cross_2, deep_1]}
    - dense: {units: 1}
  loss: mean_squared_error
  metrics: [rmse]
update: {rule: adam, learning_rate: 0.01}
training: {batch_size: 32, epochs: 3}
"""
RATINGS = """name: ratings
data:
  format: libffm
  train: {file: train}
  test: {file: test}
  columns: [{column: 0..2, as: sparse}]
model:
  layers:
    - embedding: {name: users, from: "0", dim: 4, rows: 30, hashing: none}
    - embedding: {name: items, from: "1", dim: 4, rows: 20, hashing: none, unknown: own, pooling: mean}
    - dot: {name: match, from: [users, items]}
    - linear: {name: wide, from: ["0", "1", "2"], rows: 40, hashing: none, shared: true, unknown: zero, bias: true}
    - add: {from: [match, wide]}
  loss: sigmoid_cross_entropy
update: {rule: adam, learning_rate: 0.05}
training: {batch_size: 16, epochs: 2}
"""


def bikes(count, seed):
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        hour, wind = draw.randrange(24), draw.expovariate(0.1)
        rows.append({"temperature": f"{draw.gauss(15, 8):.2f}", "year": draw.choice((2011, 2012)),
                     "wind": "" if draw.random() < 0.1 else f"{wind:.3f}", "hour": hour,
                     "rain": "" if draw.random() < 0.2 else f"{draw.gauss(0, 3):.3f}",
                     "weather": draw.choice(("clear", "mist", "rain", "hail")),
                     "season": draw.choice(("summer", "winter", "")),
                     "tags": "|".join(draw.sample(("fair", "feast", "match"), draw.randrange(1, 3))),
                     "count": 100 + 10 * hour + draw.randrange(50)})
    return rows


class Exported(Exports):
    def images(self):
        path = f"{self.shared}/digits/t10k-images-idx3-ubyte.gz"
        with gzip.open(path) as f:
            pixels = np.frombuffer(f.read(), dtype=np.uint8, offset=16)
        return path, {"features": pixels.reshape(-1, 28, 28).astype(np.float32)}

    def test_a_network_for_images(self):
        result = self.run_job()
        path, inputs = self.images()
        answers = self.predict(result, path)
        exported = self.export(result)
        self.assertEqual(metadata(exported[1])["gradus.loss"], "softmax_cross_entropy")
        self.compare(exported, inputs, answers)
        outside = self.export(result, "--external", name="outside.onnx")
        self.assertTrue(os.path.exists(outside[0] + ".data"))
        self.assertLess(os.path.getsize(outside[0]), 10000)
        self.compare(outside, inputs, answers)

    def test_convolutions_and_statistics(self):
        result = self.run_job(model__input="[28, 28, 1]", model__layers=CNN, training__epochs=1)
        path, inputs = self.images()
        exported = self.export(result)
        operators = [n.op_type for n in exported[1].graph.node]
        self.assertEqual(operators.count("Transpose"), 2)  # where the images come in, and before they are one row
        self.assertIn("BatchNormalization", operators)
        self.compare(exported, inputs, self.predict(result, path))

    def test_categories_and_classes(self):
        rows = flowers(200, 2)
        result = self.train(FLOWERS, {"train.csv": flowers(400, 1), "test.csv": rows}, data__ignore="price")
        exported = self.export(result)
        told = metadata(exported[1])
        soils = json.loads(told["gradus.categories.soil"])
        self.assertEqual(soils, ["clay", "sand"])
        inputs = {"features": np.array([[float(r[c]) for c in json.loads(told["gradus.columns"])] for r in rows], np.float32),
                  "soil": np.array([[soils.index(r["soil"])] for r in rows])}
        answers = self.predict(result, self.dir + "/test.csv")
        self.compare(exported, inputs, answers)
        self.assertEqual([o.domain for o in exported[1].opset_import], [""])
        exported = self.export(result, "--texts", name="texts.onnx")
        self.assertEqual([(o.domain, o.version) for o in exported[1].opset_import], [("", 17), ("ai.onnx.ml", 3)])
        self.compare(exported, {**inputs, "soil": np.array([[r["soil"]] for r in rows], object)}, answers)

    def test_values_with_missing_numbers(self):
        train, rows = flowers(400, 1), flowers(200, 2)
        for n, row in enumerate(rows):
            row["size"] = "" if n % 5 == 0 else row["size"]
        result = self.train(HOUSES, {"train.csv": train, "test.csv": rows}, data__missing="mean")
        exported = self.export(result)
        inputs = {"features": np.array([[float(r[c] or "nan") for c in json.loads(metadata(exported[1])["gradus.columns"])]
                                        for r in rows], np.float32)}
        self.compare(exported, inputs, self.predict(result, self.dir + "/test.csv"))

    def test_declared_columns_and_a_cross_network(self):
        rows = bikes(300, 2)
        result = self.train(BIKES, {"train.csv": bikes(500, 1), "test.csv": rows})
        exported = self.export(result)
        told = metadata(exported[1])
        columns = json.loads(told["gradus.columns"])
        self.assertEqual(columns, ["temperature", "year", "wind", "hour", "rain"])
        inputs = {"features": np.array([[float(r[c]) if r[c] != "" else np.nan for c in columns] for r in rows], np.float32)}
        weathers, seasons, tags = (json.loads(told["gradus.categories." + c]) for c in ("weather", "season", "tags"))
        self.assertEqual(weathers, ["clear", "mist", "rain", None])  # the last: any other
        self.assertEqual(seasons, [None, "summer", "winter"])  # the first: a missing one
        inputs["weather"] = np.array([[weathers.index(r["weather"] if r["weather"] in weathers else None)] for r in rows])
        inputs["season"] = np.array([[seasons.index(r["season"] or None)] for r in rows])
        lists = [[tags.index(t) for t in r["tags"].split("|")] for r in rows]
        inputs["tags"] = np.array([(ids + [-1, -1])[:2] for ids in lists])
        answers = self.predict(result, self.dir + "/test.csv")
        self.compare(exported, inputs, answers)
        for name in ("weather", "season"):  # a list stays one of places
            inputs[name] = np.array([[r[name]] for r in rows], object)
        texts = self.export(result, "--texts", name="texts.onnx")
        self.compare(texts, inputs, answers)
        for missing in ("Na", "n/A", "NULL", "?", "nan"):  # as an empty cell
            inputs["season"] = np.array([[r["season"] or missing] for r in rows], object)
            self.compare(texts, inputs, answers)

    def test_rows_under_keys(self):
        def lines(count, seed):
            draw = random.Random(seed)
            for _ in range(count):
                user, items = draw.randrange(30), sorted(draw.sample(range(25), draw.randrange(4)))
                others = sorted(draw.sample(range(60), 2))
                yield int(user % 3 == 0), [user], items, others

        def text(records):
            return "".join(f"{label} " + " ".join(f"{f}:{k}:1" for f, keys in enumerate(lists) for k in keys) + "\n"
                           for label, *lists in records)

        records = list(lines(200, 2))
        result = self.train(RATINGS, {"train": text(lines(400, 1)), "test": text(records)})
        exported = self.export(result)
        inputs = {str(f): np.array([(r[1 + f] + [-1] * 3)[:3] for r in records]) for f in range(3)}
        inputs.update({name + ".values": np.ones(keys.shape, np.float32) for name, keys in inputs.items()})
        self.compare(exported, inputs, self.predict(result, self.dir + "/test"))

    def test_options_of_another_format_are_refused(self):
        result = self.train(RATINGS, {"train": "1 0:3:1 1:2:1 2:5:1\n0 0:4:1 1:7:1 2:1:1\n" * 40, "test": "1 0:3:1 1:2:1\n"})
        self.refused(result, 2, "--external is for ONNX alone", "--external", name="refused.safetensors")
        self.refused(result, 2, "--texts is for ONNX alone", "--texts", name="refused.safetensors")
        self.refused(result, 2, "--set is for ONNX alone", "--set", "data.label=x", name="refused.safetensors")
        self.assertEqual(gradus("export", "--from", result["checkpoint"], self.dir + "/plain").returncode, 0)

    def job_of(self, net):
        """A job like that of the digits whose model is a file."""
        job = os.path.join(self.dir, "of_a_file.yaml")
        with open(SOURCE + "/examples/digits.yaml") as f:
            before, after = f.read().split("model:\n")
        with open(job, "w") as f:
            f.write(f"{before}model:\n  onnx: {net}\n  loss: softmax_cross_entropy\n  metrics: [accuracy]\n\nupdate:"
                    + after.split("\nupdate:")[1])
        return job

    def test_what_is_written_is_read(self):
        """A file as the model of another job, which gets raw pixels and learns nothing: the same answers."""
        layers = CNN.replace("batch_norm, ", "")  # whose statistics would follow the batches
        result = self.run_job(model__input="[28, 28, 1]", model__layers=layers, training__epochs=1)
        path, _ = self.images()
        answers = self.predict(result, path)
        same = self.run_job(file=self.job_of(self.export(result)[0]), state="again", data__scale="none", update__rule="sgd", update__learning_rate="1e-30",
                            training__epochs=1)
        for a, b in zip(answers, self.predict(same, path), strict=True):
            for n in range(10):
                self.assertAlmostEqual(float(a[f"p_{n}"]), float(b[f"p_{n}"]), delta=TOLERANCE)

    def test_an_imported_model_goes_back_into_its_file(self):
        """The file of model.onnx with the values that were trained: the same graph, which answers in place of training."""
        net = os.path.join(self.dir, "net.onnx")
        with open(net, "wb") as f:
            f.write(onnx_bytes.mlp(dropout=0.5, softmax=True))
        before = onnx.load(net)
        before.graph.initializer.append(onnx.helper.make_tensor("training", onnx.TensorProto.BOOL, [], [True]))
        for n in before.graph.node:
            if n.op_type == "Dropout":  # as PyTorch exports what is to be trained
                n.input.append("training")
        onnx.save(before, net)
        path, inputs = self.images()
        result = self.run_job(file=self.job_of(net), state="imported", training__epochs=1)
        out = os.path.join(self.dir, "out.onnx")
        done = gradus("export", "--from", result["checkpoint"], out)
        self.assertEqual(done.returncode, 0, done.stderr)
        onnx.checker.check_model(out, full_check=True)
        after = onnx.load(out)
        self.assertEqual(metadata(after)["gradus.job"], result["job"])
        self.assertEqual(json.loads(metadata(after)["gradus.classes"]), [str(n) for n in range(10)])
        self.assertEqual([n.op_type for n in after.graph.node], [n.op_type for n in before.graph.node])
        self.assertEqual([i.name for i in after.graph.initializer], [i.name for i in before.graph.initializer])
        self.assertEqual({len(n.input) for n in after.graph.node if n.op_type == "Dropout"}, {2})
        pixels = {"image": inputs["features"].reshape(-1, 1, 28, 28) / np.float32(255)}
        expected = np.array([[float(a[f"p_{n}"]) for n in range(10)] for a in self.predict(result, path)])
        self.assertLess(np.abs(onnx_numpy.run(after, pixels)["probabilities"] - expected).max(), TOLERANCE)
        self.assertGreater(np.abs(onnx_numpy.run(before, pixels)["probabilities"] - expected).max(), 0.1)
        if onnxruntime is not None:
            session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
            self.assertLess(np.abs(session.run(["probabilities"], pixels)[0] - expected).max(), TOLERANCE)
        self.refused(result, 1, "written with its weights inside", "--external")

    def test_an_average_of_the_parameters(self):
        result = self.run_job(update__average="0.9", training__epochs=1)
        path, inputs = self.images()
        now, mean = (self.export(result, *more)[1] for more in ((), ("--average",)))
        a, b = (onnx_numpy.run(m, inputs)["probabilities"] for m in (now, mean))
        self.assertGreater(np.abs(a - b).max(), 1e-3)
        done = gradus("predict", result["checkpoint"], "--data", path, "--out", self.dir + "/a.csv", "--set",
                      "update.evaluate_average=true")
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = np.array([[float(r[f"p_{n}"]) for n in range(10)] for r in read_csv(self.dir + "/a.csv")])
        self.assertLess(np.abs(b - expected).max(), TOLERANCE)


if __name__ == "__main__":
    unittest.main()
