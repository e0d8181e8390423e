# SPDX-License-Identifier: Apache-2.0
"""What example jobs reach on public data, beside scikit-learn's solution of the same problem: the same records, scaling and
penalty. Skipped where GRADUS_TEST_DATA names no directory with the data, or scikit-learn is not installed."""

import os
import unittest

from cluster import DATA, SOURCE, ClusterTest

# Part of the area under the curve that a few epochs of mini-batches may lack of the optimum. The criteo sample has 200
# test records, of which one more in the right place is worth 0.0007.
MARGIN = {"rcv1": 0.003, "w6a": 0.003, "criteo": 0.015}


class References(ClusterTest):
    model = {}

    def setUp(self):
        super().setUp()
        try:
            import sklearn  # noqa: F401
        except ImportError:
            self.skipTest("scikit-learn is not installed")

    def data(self, name):
        path = os.path.join(DATA, name)
        if not DATA or not os.path.isdir(path):
            self.skipTest(f"GRADUS_TEST_DATA names no directory with {name}")
        return path

    def reference(self, train, labels, test, test_labels, l2):
        """AUC of logistic regression with a penalty of l2 / 2 times the sum of squares beside the mean loss."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import roc_auc_score
        model = LogisticRegression(C=1 / (l2 * train.shape[0]), max_iter=2000).fit(train, labels)
        return roc_auc_score(test_labels, model.predict_proba(test)[:, 1])

    def train(self, name, **sets):
        result = self.run_job(name, f"{SOURCE}/examples/{name}.yaml", **{
            "training__evaluate_every": "never", "cluster__ps": 2, **sets})
        return result["metrics"]["test"]["auc"]

    def libsvm(self, name, train, test, l2, **sets):
        from sklearn.datasets import load_svmlight_files
        directory = self.data(name)
        x, y, other, other_y = load_svmlight_files([os.path.join(directory, f) for f in (train, test)])
        expected = self.reference(x, y, other, other_y, l2)
        auc = self.train("libsvm-logistic", **{
            "data__dir": directory, "data__train__file": train, "data__test__file": test, "data__scale": "none",
            "model__loss": "sigmoid_cross_entropy", "model__metrics": "[auc]", "update__l2": l2, **sets})
        print(f"{name}: AUC {auc:.4f}, scikit-learn {expected:.4f}", flush=True)
        self.assertGreater(auc, expected - MARGIN[name])

    def test_words(self):
        """Documents of length one, which are not to be scaled by features: that costs 0.006."""
        self.libsvm("rcv1", "rcv1_small_train.libsvm", "rcv1_small_test.libsvm", 0.0001, training__epochs=20,
                    update__learning_rate=1)

    def test_pages(self):
        self.libsvm("w6a", "w6a_300d_train.libsvm", "w6a_300d_test.libsvm", 0.0001, training__epochs=20)

    def test_clicks(self):
        """A weight for each category in a table, and for 13 numbers, beside as many columns of a matrix."""
        import math
        from sklearn.feature_extraction import DictVectorizer
        from sklearn.preprocessing import StandardScaler
        from scipy.sparse import hstack
        with open(os.path.join(self.data("clicks"), "criteo_1k.tsv")) as f:
            lines = [line for line in f if line.strip()]
        for name, part in (("train", lines[:800]), ("test", lines[800:])):
            with open(os.path.join(self.dir, name), "w") as f:
                f.writelines(part)
        rows = [(line.rstrip("\n").split("\t") + [""] * 40)[:40] for line in lines]
        numbers = [[math.log1p(max(float(v or 0), 0)) for v in row[1:14]] for row in rows]
        categories = [{f"{i}={v}": 1.0 for i, v in enumerate(row[14:]) if v} for row in rows]
        labels = [int(row[0]) for row in rows]
        scaler, columns = StandardScaler().fit(numbers[:800]), DictVectorizer().fit(categories[:800])

        def matrix(first, end):
            return hstack([scaler.transform(numbers[first:end]), columns.transform(categories[first:end])]).tocsr()
        expected = max(self.reference(matrix(0, 800), labels[:800], matrix(800, len(rows)), labels[800:], l2)
                       for l2 in (0.1, 0.01, 0.001))
        auc = self.train("criteo-logistic", data__dir=self.dir, data__train__file="train", data__test__file="test",
                         data__test_fraction=0, training__epochs=5)
        print(f"criteo: AUC {auc:.4f}, scikit-learn {expected:.4f} with the best of three penalties", flush=True)
        self.assertGreater(auc, expected - MARGIN["criteo"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
