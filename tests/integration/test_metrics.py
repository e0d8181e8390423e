# SPDX-License-Identifier: Apache-2.0
"""Metrics of jobs: the same bits for any number of workers, and what scikit-learn makes of the answers of `gradus predict`."""

import csv
import json
import math
import os
import random
import unittest

from cluster import ClusterTest, gradus

try:
    from sklearn import metrics as reference
except ImportError:
    reference = None

ALL = "accuracy, auc, precision, recall, f1, log_loss, ece, confusion_matrix"
JOB = """name: measured
data: {{train: {{file: train.csv}}, test: {{file: test.csv}}, label: label}}
model:
  layers: [dense: {{units: {units}}}]
  loss: {loss}
  metrics: [{metrics}]
update: {{rule: adam, learning_rate: 0.05}}
training: {{batch_size: 16, replicas: 2, epochs: 2}}
"""


def calibration_error(answers, weights=None):
    """Of (probability, is it right): 15 bins of one width."""
    bins = {}
    weights = weights or [1] * len(answers)
    for (p, right), weight in zip(answers, weights):
        bins.setdefault(min(int(p * 15), 14), []).append(weight * (right - p))
    return sum(abs(sum(b)) for b in bins.values()) / sum(weights)


class Metrics(ClusterTest):
    model = {}

    def write_data(self, classes, real=False):
        draw = random.Random(5)
        for name, count in (("train", 900), ("test", 2500)):  # more than one part of an evaluation
            with open(os.path.join(self.dir, f"{name}.csv"), "w") as f:
                f.write("a,b,label\n")
                for _ in range(count):
                    label = min(draw.randrange(classes + 1), classes - 1)  # the last one twice as often
                    value = f"{1000 + 3 * label + draw.random():.4f}" if real else label
                    f.write(f"{draw.gauss(label, 1):.4f},{draw.gauss(-label, 1.5):.4f},{value}\n")

    def job_file(self, name, loss, metrics, units):
        file = os.path.join(self.dir, name)
        with open(file, "w") as f:
            f.write(JOB.format(loss=loss, metrics=metrics, units=units))
        return file

    def answers(self, result):
        out = os.path.join(self.dir, "answers.csv")
        done = gradus("predict", result["checkpoint"], "--data", os.path.join(self.dir, "test.csv"), "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, newline="") as f:
            return list(csv.DictReader(f))

    def train(self, loss, metrics, units=1, classes=2):
        self.write_data(classes, loss == "mean_squared_error")
        file = self.job_file("job.yaml", loss, metrics, units)
        results = [self.run_job(f"state-{workers}", file=file, data__dir=self.dir, training__epochs=2, training__replicas=2,
                                cluster__workers=workers, model__top_k=3) for workers in (1, 2)]
        self.assertEqual(results[0]["metrics"]["test"], results[1]["metrics"]["test"])
        measured = gradus("evaluate", results[1]["checkpoint"], "--json")
        self.assertEqual(measured.returncode, 0, measured.stderr)
        self.assert_close(json.loads(measured.stdout)["metrics"], results[1]["metrics"]["test"], 9)
        with open(os.path.join(self.dir, "test.csv"), newline="") as f:
            return results[1], self.answers(results[1]), [float(r["label"]) for r in csv.DictReader(f)]

    def assert_close(self, found, expected, places):
        self.assertEqual(sorted(found), sorted(expected))
        for name, value in expected.items():
            if name == "confusion_matrix":
                self.assertEqual(found[name], value)
            else:
                self.assertAlmostEqual(found[name], value, places=places, msg=name)

    def of_classes(self, labels, said, average, weights=None):
        weigh = {"sample_weight": weights}
        names = {n: getattr(reference, f"{n}_score")(labels, said, average=average, **weigh) for n in ("precision", "recall", "f1")}
        return names | {"accuracy": reference.accuracy_score(labels, said, **weigh),
                        "confusion_matrix": reference.confusion_matrix(labels, said, **weigh).tolist()}

    @unittest.skipUnless(reference, "scikit-learn is not installed")
    def test_classes(self):
        result, answers, labels = self.train("softmax_cross_entropy", ALL + ", top_k_accuracy", units=4, classes=4)
        self.assertNotIn("confusion_matrix", result["metrics"]["train"])
        p = [[float(a[f"p_{k}"]) for k in range(4)] for a in answers]
        said = [row.index(max(row)) for row in p]
        whole = [[v / sum(row) for v in row] for row in p]
        expected = self.of_classes(labels, said, "macro") | {
            "auc": reference.roc_auc_score(labels, whole, multi_class="ovr"), "top_k_accuracy":
            reference.top_k_accuracy_score(labels, p, k=3), "log_loss": reference.log_loss(labels, whole),
            "ece": calibration_error([(max(row), s == y) for row, s, y in zip(p, said, labels)])}
        expected["loss"] = expected["log_loss"]
        self.assert_close(result["metrics"]["test"], expected, 4)  # bins

    @unittest.skipUnless(reference, "scikit-learn is not installed")
    def test_two_classes(self):
        for loss, units, more in (("sigmoid_cross_entropy", 1, ", calibration"), ("softmax_cross_entropy", 2, "")):
            with self.subTest(loss):
                result, answers, labels = self.train(loss, ALL + more, units=units)
                p = [float(a["p_1"]) for a in answers]
                said = [int(v > 0.5) for v in p]
                expected = self.of_classes(labels, said, "binary") | {
                    "auc": reference.roc_auc_score(labels, p), "log_loss": reference.log_loss(labels, p),
                    "ece": calibration_error(list(zip(p, labels)))}
                expected |= {"calibration": sum(p) / sum(labels)} if more else {}
                expected["loss"] = expected["log_loss"]
                self.assert_close(result["metrics"]["test"], expected, 4)
                status = gradus("status", result["job"], "--state-dir", os.path.join(self.dir, "state-2"))
                self.assertIn("confusion   classes of records in rows", status.stdout, status.stderr)

    @unittest.skipUnless(reference, "scikit-learn is not installed")
    def test_values(self):
        result, answers, labels = self.train("mean_squared_error", "rmse, mae, r2")
        said = [float(a["value"]) for a in answers]
        error = reference.mean_squared_error(labels, said)
        expected = {"rmse": math.sqrt(error), "mae": reference.mean_absolute_error(labels, said)}
        found = result["metrics"]["test"]
        self.assertAlmostEqual(found["r2"], reference.r2_score(labels, said), delta=1e-4 * abs(found["r2"]))
        for name, value in expected.items():
            self.assertAlmostEqual(found[name], value, delta=1e-4 * value)

    def test_the_loss_follows_the_labels(self):
        """Bit by bit what the job is that names the loss."""
        for classes, loss, units in ((2, "sigmoid_cross_entropy", 1), (3, "softmax_cross_entropy", 3)):
            with self.subTest(loss):
                self.write_data(classes)
                same = []
                for name, given, outputs in (("auto", "auto", 0), ("named", loss, units)):
                    file = self.job_file(f"{name}.yaml", given, "accuracy, auc", outputs)
                    result = self.run_job(f"{name}-{classes}", file=file, data__dir=self.dir)
                    self.assertEqual(json.loads(gradus("evaluate", result["checkpoint"], "--json").stdout)["metrics"].keys(),
                                     result["metrics"]["test"].keys())
                    same.append((self.answers(result), result["metrics"]))
                self.assertEqual(*same)
                self.assertEqual(list(same[0][0][0]), ["class"] + [f"p_{k}" for k in range(classes)])
        result = self.run_job("real", file=self.job_file("real.yaml", "auto", "rmse, r2", 0), data__dir=self.dir,
                              data__label_kind="real")
        self.assertEqual(sorted(result["metrics"]["test"]), ["loss", "r2", "rmse"])

    def write_rare(self):
        """Every tenth record is of class 1."""
        draw = random.Random(9)
        rows = [(y, draw.gauss(y, 1), draw.gauss(-y, 1.5)) for y in (int(draw.random() < 0.1) for _ in range(3000))]
        for name, part in (("train", rows[:2000]), ("test", rows[2000:])):
            with open(os.path.join(self.dir, f"{name}.csv"), "w") as f:
                f.write("a,b,label\n" + "".join(f"{a:.4f},{b:.4f},{y}\n" for y, a, b in part))
        return rows[:2000]

    @unittest.skipUnless(reference, "scikit-learn is not installed")
    def test_balanced_classes(self):
        """Weights as scikit-learn has them, whoever says them and wherever the records are; the loss is that of records."""
        from sklearn.linear_model import LogisticRegression
        rows = self.write_rare()
        rare = sum(y for y, _, _ in rows)
        named = [len(rows) / 2 / (len(rows) - rare), len(rows) / 2 / rare]
        found = {}
        for name, loss, sets in (("none", "sigmoid_cross_entropy", {}), ("said", "sigmoid_cross_entropy", {"model__class_weights": named}),
                                 ("memory", "sigmoid_cross_entropy", {"model__class_weights": "balanced"}),
                                 ("stream", "sigmoid_cross_entropy", {"model__class_weights": "balanced", "data__loading": "stream"}),
                                 ("index", "sigmoid_cross_entropy", {"model__class_weights": "balanced", "data__loading": "stream"}),
                                 ("softmax", "softmax_cross_entropy", {"model__class_weights": "balanced"})):
            file = self.job_file("job.yaml", loss, "accuracy, recall, auc, log_loss", 0)
            result = self.run_job(name, file=file, data__dir=self.dir, training__replicas=2, training__epochs=15,
                                  cluster__workers=1 + (name == "stream"), **sets)
            found[name] = result["metrics"]["test"]
            self.assertEqual(found[name]["loss"], found[name]["log_loss"])
        self.assertEqual(found["memory"], found["stream"])
        self.assertEqual(found["memory"], found["index"])
        for metric, value in found["memory"].items():
            self.assertAlmostEqual(found["said"][metric], value, places=5)
        self.assertLess(found["none"]["recall"], 0.4)
        with open(os.path.join(self.dir, "test.csv"), newline="") as f:
            test = [(float(r["a"]), float(r["b"]), int(r["label"])) for r in csv.DictReader(f)]
        model = LogisticRegression(class_weight="balanced", C=1e6).fit([r[1:] for r in rows], [r[0] for r in rows])
        expected = reference.recall_score([r[2] for r in test], model.predict([r[:2] for r in test]))
        for name in ("memory", "softmax"):
            self.assertAlmostEqual(found[name]["recall"], expected, delta=0.05)

    @unittest.skipUnless(reference, "scikit-learn is not installed")
    def test_weights_of_records(self):
        """What scikit-learn makes of `sample_weight`, for any number of workers and wherever the records are; 1 each is none."""
        from sklearn.linear_model import LogisticRegression
        draw = random.Random(4)
        rows, test = ([(draw.gauss(y, 1), draw.gauss(-y, 1.5), y) for y in (int(draw.random() < 0.4) for _ in range(n))]
                      for n in (2000, 1000))
        # Records above the line weigh more, and some are wrong and weigh nothing.
        rows = [(a, b, w if k % 4 else 0, y if k % 4 else 1 - y)
                for k, (a, b, y) in enumerate(rows) for w in (0.25 + 2.5 * (a > 0.5),)]
        with open(os.path.join(self.dir, "train.csv"), "w") as f:
            f.write("a,b,w,one,label\n" + "".join(f"{a:.4f},{b:.4f},{w},1,{y}\n" for a, b, w, y in rows))
        with open(os.path.join(self.dir, "test.csv"), "w") as f:  # has no weights
            f.write("a,b,one,label\n" + "".join(f"{a:.4f},{b:.4f},1,{y}\n" for a, b, y in test))
        found = {}
        for name, workers, sets in (("none", 1, {"data__ignore": "w,one", "data__test__file": ""}),
                                    ("one", 2, {"data__weight": "one", "data__ignore": "w", "data__test__file": ""}),
                                    ("memory", 1, {}), ("stream", 2, {"data__loading": "stream"}), ("index", 1, {"data__loading": "stream"}),
                                    ("softmax", 1, {"model__loss": "softmax_cross_entropy"})):
            sets = ({} if name == "none" else {"data__weight": "w", "data__ignore": "one"}) | sets
            file = self.job_file("job.yaml", "sigmoid_cross_entropy", "accuracy, log_loss", 0)
            result = self.run_job(name, file=file, data__dir=self.dir, training__replicas=2, training__epochs=25,
                                  update__learning_rate=0.01, cluster__workers=workers, **sets)
            found[name] = result
        self.assertEqual(found["none"]["metrics"]["train"], found["one"]["metrics"]["train"])
        for name in ("stream", "index"):
            self.assertEqual(found["memory"]["metrics"], found[name]["metrics"])
        measured = gradus("evaluate", found["memory"]["checkpoint"], "--json")
        self.assert_close(json.loads(measured.stdout)["metrics"], found["memory"]["metrics"]["test"], 9)
        model = LogisticRegression(C=1e6).fit([r[:2] for r in rows], [r[3] for r in rows], sample_weight=[r[2] for r in rows])
        plain = LogisticRegression(C=1e6).fit([r[:2] for r in rows], [r[3] for r in rows])
        expected = model.predict_proba([r[:2] for r in test])[:, 1]
        other = plain.predict_proba([r[:2] for r in test])[:, 1]
        self.assertGreater(sum(abs(expected - other)) / len(test), 0.1)
        for name in ("memory", "softmax"):
            p = [float(a["p_1"]) for a in self.answers(found[name])]
            self.assertLess(sum(abs(p - expected)) / len(test), 0.02, name)

    def write_weighted(self, classes, real):
        """Test records with weights of eighths, whose sums are exact; the weights of both parts."""
        self.write_data(classes, real)
        draw = random.Random(8)
        for name in ("train", "test"):
            path = os.path.join(self.dir, f"{name}.csv")
            with open(path) as f:
                lines = f.read().splitlines()
            weights = [draw.randrange(33) / 8 for _ in lines[1:]]
            with open(path, "w") as f:
                f.write("w," + lines[0] + "\n" + "".join(f"{w},{line}\n" for w, line in zip(weights, lines[1:])))
        return weights

    @unittest.skipUnless(reference, "scikit-learn is not installed")
    def test_records_count_by_their_weights(self):
        """What scikit-learn makes of `sample_weight` in metrics; the same bits however the work is divided."""
        for loss, units, classes, metrics in (
                ("softmax_cross_entropy", 4, 4, ALL + ", top_k_accuracy"), ("sigmoid_cross_entropy", 1, 2, ALL + ", calibration"),
                ("mean_squared_error", 1, 2, "rmse, mae, r2")):
            with self.subTest(loss):
                weights = self.write_weighted(classes, loss == "mean_squared_error")
                file = self.job_file("job.yaml", loss, metrics, units)
                results = [self.run_job(f"{loss}-{nodes}", file=file, data__dir=self.dir, data__weight="w", training__epochs=1,
                                        training__replicas=2, model__top_k=3, cluster__workers=nodes, cluster__ps=nodes) for nodes in (1, 2)]
                found = results[0]["metrics"]["test"]
                self.assertEqual(found, results[1]["metrics"]["test"])
                measured = gradus("evaluate", results[0]["checkpoint"], "--json")
                self.assertEqual((measured.returncode, measured.stderr), (0, ""))
                measured = json.loads(measured.stdout)
                self.assertEqual((measured["examples"], measured["weight"]), (len(weights), sum(weights)))
                self.assert_close(measured["metrics"], found, 9)
                answers = self.answers(results[0])
                with open(os.path.join(self.dir, "test.csv"), newline="") as f:
                    labels = [float(r["label"]) if units == 1 and classes == 2 else int(r["label"]) for r in csv.DictReader(f)]
                for name, value in self.weighed(loss, answers, labels, weights).items():
                    if name == "confusion_matrix":
                        self.assertEqual(found[name], value)
                    else:  # scores of auc are rounded to bins
                        self.assertAlmostEqual(found[name], value, delta=2e-4 * max(1, abs(value)), msg=name)

    def weighed(self, loss, answers, labels, weights):
        weigh = {"sample_weight": weights}
        if loss == "mean_squared_error":
            said = [float(a["value"]) for a in answers]
            error = reference.mean_squared_error(labels, said, **weigh)
            return {"loss": error, "rmse": math.sqrt(error), "mae": reference.mean_absolute_error(labels, said, **weigh),
                    "r2": reference.r2_score(labels, said, **weigh)}
        if loss == "sigmoid_cross_entropy":
            p = [float(a["p_1"]) for a in answers]
            expected = self.of_classes(labels, [int(v > 0.5) for v in p], "binary", weights) | {
                "auc": reference.roc_auc_score(labels, p, **weigh), "log_loss": reference.log_loss(labels, p, **weigh),
                "calibration": sum(v * w for v, w in zip(p, weights)) / sum(y * w for y, w in zip(labels, weights)),
                "ece": calibration_error(list(zip(p, labels)), weights)}
            return expected | {"loss": expected["log_loss"]}
        p = [[float(a[f"p_{k}"]) for k in range(4)] for a in answers]
        said = [row.index(max(row)) for row in p]
        whole = [[v / sum(row) for v in row] for row in p]
        expected = self.of_classes(labels, said, "macro", weights) | {
            "auc": reference.roc_auc_score(labels, whole, multi_class="ovr", **weigh), "log_loss": reference.log_loss(labels, whole, **weigh),
            "top_k_accuracy": reference.top_k_accuracy_score(labels, p, k=3, **weigh),
            "ece": calibration_error([(max(row), s == y) for row, s, y in zip(p, said, labels)], weights)}
        return expected | {"loss": expected["log_loss"]}

    def test_a_test_file_without_weights_counts_each_record_once(self):
        self.write_weighted(2, False)
        file = self.job_file("job.yaml", "sigmoid_cross_entropy", "accuracy", 1)
        result = self.run_job("run", file=file, data__dir=self.dir, data__weight="w", training__epochs=1)
        for name, change in (("plain", lambda line: line.partition(",")[2]), ("ones", lambda line: "w" + line[1:] if line[0] == "w" else "1" + line[line.index(","):])):
            with open(os.path.join(self.dir, "test.csv")) as f, open(os.path.join(self.dir, f"{name}.csv"), "w") as to:
                to.writelines(change(line) for line in f)
        plain, ones = (gradus("evaluate", result["checkpoint"], "--json", "--set", f"data.test.file={name}.csv") for name in ("plain", "ones"))
        said = "the test records do not have the weights that data.weight names, so each counts once"
        self.assertIn(said, " ".join(plain.stderr.split()))
        self.assertEqual(ones.stderr, "")
        self.assertEqual(json.loads(plain.stdout)["metrics"], json.loads(ones.stdout)["metrics"])
        self.assertNotEqual(json.loads(plain.stdout)["metrics"], result["metrics"]["test"])
        done = gradus("validate", file, "--set", f"data.dir={self.dir}", "--set", "data.weight=w", "--set", "data.test.file=plain.csv")
        self.assertIn(said, " ".join(done.stderr.split()))
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(reference, "scikit-learn is not installed")
    def test_sampled_negatives(self):
        """A fifth of the negatives trains, and probabilities are those of all records, wherever these are."""
        from sklearn.linear_model import LogisticRegression
        rows = self.write_rare()
        found = {}
        for name, workers, sets in (("memory", 1, {}), ("stream", 2, {"data__loading": "stream"}), ("index", 1, {"data__loading": "stream"}),
                                    ("softmax", 1, {"model__loss": "softmax_cross_entropy"})):
            file = self.job_file("job.yaml", "sigmoid_cross_entropy", "log_loss, auc", 0)
            result = self.run_job(name, file=file, data__dir=self.dir, data__negative_sampling=0.2, training__replicas=2,
                                  training__epochs=60, update__learning_rate=0.01, cluster__workers=workers, **sets)
            found[name] = result
        for name in ("stream", "index"):
            self.assertEqual(found["memory"]["metrics"], found[name]["metrics"])
        with open(os.path.join(self.dir, "test.csv"), newline="") as f:
            test = [(float(r["a"]), float(r["b"])) for r in csv.DictReader(f)]
        model = LogisticRegression(C=1e6).fit([r[1:] for r in rows], [r[0] for r in rows])
        expected = model.predict_proba(test)[:, 1]
        for name in ("memory", "softmax"):
            p = [float(a["p_1"]) for a in self.answers(found[name])]
            self.assertLess(abs(sum(p) / sum(expected) - 1), 0.15, name)  # 3 without the correction
            self.assertLess(sum(abs(p - expected)) / len(test), 0.02, name)

    def test_what_does_not_fit(self):
        with open(os.path.join(self.dir, "train.csv"), "w") as f:
            f.write("a,label\n" + "".join(f"{i},{i % 300}\n" for i in range(3000)))
        for metrics, sets, said in (
                ("auc", (), "metric auc counts at most 256 classes, but the data has 300"),
                ("top_k_accuracy", ("model.top_k=300",), "top_k_accuracy is always 1 with model.top_k: 300 of 300 classes"),
                ("calibration", (), "'calibration' does not fit the loss softmax_cross_entropy"),
                ("r2", (), "'r2' does not fit the loss softmax_cross_entropy"),
                ("accuracy", ("model.class_weights=[1, 2]",), "model.class_weights: 2 weights, but the data has 300 classes"),
                ("accuracy", ("model.class_weights=[1, heavy]",), "model.class_weights: 'heavy' is no weight; allowed: balanced, or"),
                ("accuracy", ("model.class_weights=[0, 0]",), "model.class_weights: all weights are 0"),
                ("accuracy", ("data.weight=v",), 'data.weight names column "v", but there is none among the 2 columns'),
                ("accuracy", ("data.weight=label",), 'data.weight names column "label", which is the label'),
                ("accuracy", ("data.weight=a", "data.format=libsvm"), "records of this data.format have nothing beside label and features"),
                ("accuracy", ("data.negative_sampling=0.5",), "data.negative_sampling: the data has 300 classes; only of two"),
                ("accuracy", ("data.negative_sampling=0",), "data.negative_sampling: no negative would be left; allowed: above 0"),
                ("confusion_matrix", ("training.stop.metric=confusion_matrix",), "'confusion_matrix' is not known")):
            file = self.job_file("job.yaml", "softmax_cross_entropy", metrics, 0)
            sets = [w for s in sets + (f"data.dir={self.dir}", "data.test.file=", "data.test_fraction=0.1") for w in ("--set", s)]
            done = gradus("validate", file, *sets)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(said, " ".join(done.stderr.split()))


if __name__ == "__main__":
    unittest.main()
