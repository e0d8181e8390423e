# SPDX-License-Identifier: Apache-2.0
"""Examples on public data, when GRADUS_TEST_DATA names a directory that has them: the files as they are, and results
that are not worse than those of the reference beside the data."""

import hashlib
import os
import re
import unittest

from cluster import DATA, SOURCE, ClusterTest, gradus


class PublicData(ClusterTest):
    def train(self, example, directory, state="state", **sets):
        if not os.path.isdir(os.path.join(DATA, directory)) or not DATA:
            self.skipTest(f"GRADUS_TEST_DATA names no directory with {directory}")
        sets = {"training__epochs": 20, **sets}
        result = self.run_job(state, file=f"{SOURCE}/examples/{example}.yaml",
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
        self.assertGreater(result["metrics"]["test"]["auc"], 0.98)

    def test_columns(self):
        result = self.train("california-housing", "csv")
        self.assertLess(result["metrics"]["test"]["rmse"], 70000)


class Parts(ClusterTest):
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


if __name__ == "__main__":
    unittest.main()
