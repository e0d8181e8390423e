#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the jobs of examples/ reach on records that they have not seen, as they are, beside scikit-learn on the same records.

Usage: accuracy.py BIN_DIR DATA_DIR [--seeds 5] [--only TEXT]

DATA_DIR has the folders clicks, csv, dna, agaricus, fashion-mnist, ratings, rcv1, tfrecord and w6a; what is missing is left out. Prints a
line for each job: mean and standard deviation over seeds of the initial values and the order of records, and the reference.
Reference of clicks and of LIBSVM files is logistic regression, C = 1 and the best of C = 1, 0.3, 0.1, 0.03, 0.01, which is chosen by the test records;
of ratings the means of users and items, and biased matrix factorization whose variances are sampled (Gibbs, 8 factors); of other tables
least squares. Prints, never asserts."""

import argparse
import csv
import functools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "examples")
CLICKS = ("logistic", "fm", "wide-deep", "deepfm", "dlrm", "dcn")
PENALTIES = (1, 0.3, 0.1, 0.03, 0.01)


def train(binaries, example, metric, seed, sets):
    with tempfile.TemporaryDirectory() as state:
        arguments = [os.path.join(binaries, "gradus"), "run", os.path.join(EXAMPLES, example + ".yaml"), "--json", "--state-dir", state]
        for key, value in {"training.evaluate_every": "never", **sets, "training.seed": seed}.items():
            arguments += ["--set", f"{key}={value}"]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    if done.returncode != 0:
        sys.exit(f"{example}: {done.stderr}")
    return next(m["value"] for m in json.loads(done.stdout)["test"] if m["name"] == metric)


def logistic(x, y, test, test_y):
    """AUC at C = 1, and at the best C; of several classes accuracy."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    results = []
    for c in PENALTIES:
        model = LogisticRegression(C=c, max_iter=2000).fit(x, y)
        binary = len(model.classes_) == 2
        results.append(roc_auc_score(test_y, model.predict_proba(test)[:, 1]) if binary else model.score(test, test_y))
    return {"C = 1": results[0], "best C": max(results)}


def clicks_reference(rows, test):
    """Rows of Criteo's format: standardised logarithms of 13 counts, and a column for each category."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.preprocessing import StandardScaler

    def numbers(part):
        return [[math.log1p(max(float(v or 0), 0)) for v in row[1:14]] for row in part]

    def categories(part):
        return [{f"{i}={v}": 1.0 for i, v in enumerate(row[14:]) if v} for row in part]
    scaler, columns = StandardScaler().fit(numbers(rows)), DictVectorizer().fit(categories(rows))

    def matrix(part):
        return hstack([scaler.transform(numbers(part)), columns.transform(categories(part))]).tocsr()
    return logistic(matrix(rows), [int(r[0]) for r in rows], matrix(test), [int(r[0]) for r in test])


def click_sets(data):
    """Splits of the two samples: by chance, by time."""
    import numpy
    sets = {}
    path = os.path.join(data, "clicks", "criteo_1k.tsv")
    if os.path.exists(path):
        with open(path, encoding="ascii") as f:
            rows = [(line.rstrip("\n").split("\t") + [""] * 40)[:40] for line in f if line.strip()]
        for seed in range(3):
            order = numpy.random.default_rng(seed).permutation(len(rows))
            sets[f"criteo_1k, split {seed}"] = [rows[i] for i in order[:800]], [rows[i] for i in order[800:]]
    path = os.path.join(data, "clicks", "criteo_2k.csv")
    if os.path.exists(path):
        with open(path, encoding="ascii") as f:
            rows = [row[1:] for row in list(csv.reader(f))[1:]]
        sets["criteo_2k, last 400"] = rows[:1599], rows[1599:]
        sets["criteo_2k, last 999"] = rows[:1000], rows[1000:]
        sets["criteo_2k, first 600"] = rows[600:], rows[:600]
    return sets


def click_jobs(data, folder):
    for name, parts in click_sets(data).items():
        paths = [os.path.join(folder, f"{name.replace(' ', '').replace(',', '-')}.{part}") for part in ("train", "test")]
        for path, rows in zip(paths, parts):
            with open(path, "w", encoding="ascii") as f:
                f.writelines("\t".join(row) + "\n" for row in rows)
        reference = functools.cache(functools.partial(clicks_reference, *parts))
        sets = {"data.train.file": paths[0], "data.test.file": paths[1], "data.test_fraction": 0}
        for model in CLICKS:
            yield f"criteo-{model}", name, "auc", sets, reference


def libsvm_reference(paths):
    from sklearn.datasets import load_svmlight_files
    from sklearn.preprocessing import MaxAbsScaler
    x, y, test, test_y = load_svmlight_files(paths)
    scaler = MaxAbsScaler().fit(x)
    return logistic(scaler.transform(x), y, scaler.transform(test), test_y)


def libsvm_jobs(data):
    for name, files in (("w6a", ("w6a_300d_train.libsvm", "w6a_300d_test.libsvm")),
                        ("agaricus", ("agaricus.txt.train", "agaricus.txt.test")),
                        ("dna", ("dna.scale", "dna.scale.t")),
                        ("rcv1", ("rcv1_small_train.libsvm", "rcv1_small_test.libsvm"))):
        folder = os.path.join(data, name)
        if os.path.isdir(folder):
            reference = functools.partial(libsvm_reference, [os.path.join(folder, f) for f in files])
            sets = {"data.dir": folder, "data.train.file": files[0], "data.test.file": files[1],
                    "model.metrics": "[accuracy, auc]"}
            yield "libsvm-logistic", name, "accuracy" if name == "dna" else "auc", sets, reference


def ratings_jobs(data):
    folder = os.path.join(data, "ratings")
    if os.path.isdir(folder):
        yield "ratings-mf", "FilmTrust", "rmse", {
            "data.dir": folder, "data.train.file": "filmtrust_train.tsv", "data.test.file": "filmtrust_test.tsv",
            "data.test_fraction": 0}, {"biases": 0.8011, "matrix factorization, the best pass": 0.7979, "Gibbs": 0.790}


def other_jobs(data):
    """The others on their own files. References: data sheets and scikit-learn 1.2.1, five folds where there is no test file."""
    def there(example, folder, metric, reference, **sets):
        path = os.path.join(data, folder)
        return [(example, folder, metric, {"data.dir": path, **sets}, reference)] if os.path.isdir(path) else []
    yield from there("iris", "csv", "accuracy", {"logistic regression": 0.96})
    yield from there("california-housing", "csv", "rmse", {"least squares": 68858})
    bikes = {"data.train.file": "bike_hour.csv"}
    yield from there("bike-sharing", "csv", "rmse", {"least squares": 141.9}, **bikes)
    yield from there("bike-sharing-dcn", "csv", "rmse", {"least squares": 141.9}, **bikes)
    yield from there("libsvm-fm", "agaricus", "accuracy", {"logistic regression": 1.0})
    yield from there("libffm-logistic", "clicks", "auc", {})
    yield from there("libffm-fm", "clicks", "auc", {})
    yield from there("tfrecord-logistic", "tfrecord", "auc", {})
    yield from there("fashion-mnist-logistic", "fashion-mnist", "accuracy", {"logistic regression": 0.8438})
    yield from there("fashion-mnist", "fashion-mnist", "accuracy", {"network of the same size": 0.8833})
    yield from there("fashion-mnist-cnn", "fashion-mnist", "accuracy", {"2 convolutions": 0.876})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", metavar="BIN_DIR")
    parser.add_argument("data", metavar="DATA_DIR")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="jobs whose example and set have this text")
    args = parser.parse_args()
    print("| example | data | metric | mean | deviation | reference |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for jobs in (click_jobs(args.data, folder), libsvm_jobs(args.data), ratings_jobs(args.data), other_jobs(args.data)):
            for example, name, metric, sets, reference in jobs:
                if args.only in f"{example} {name}":
                    got = [train(args.binaries, example, metric, seed + 1, sets) for seed in range(args.seeds)]
                    spread = statistics.stdev(got) if len(got) > 1 else 0
                    form = "{:.0f}" if max(got) > 1000 else "{:.1f}" if max(got) > 10 else "{:.4f}"
                    values = reference() if callable(reference) else reference
                    beside = ", ".join(f"{k}: {form.format(v)}" for k, v in values.items()) or "-"
                    print(f"| `{example}` | {name} | {metric} | {form.format(statistics.mean(got))} | {form.format(spread)} | {beside} |",
                          flush=True)


if __name__ == "__main__":
    main()
