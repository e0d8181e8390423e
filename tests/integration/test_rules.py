# SPDX-License-Identifier: Apache-2.0
"""gradus rules: what programs read of it, and one rule by its name."""

import json
import os
import subprocess
import unittest

GRADUS = os.path.join(os.environ["GRADUS_BIN_DIR"], "gradus")


def rules(*args):
    return subprocess.run([GRADUS, "rules", *args], capture_output=True, text=True, timeout=120)


class Rules(unittest.TestCase):
    def test_json(self):
        done = rules("--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        listed = {rule["name"]: rule for rule in json.loads(done.stdout)}
        self.assertGreaterEqual(len(listed), 32)
        for rule in listed.values():
            self.assertGreaterEqual(rule["bytes_per_parameter"], 4)
            self.assertGreater(len(rule["help"]), 10)
            self.assertEqual(len(rule["slots"]), len(rule["slots_per"]))
            for h in rule["hyperparameters"]:
                self.assertLessEqual({"name", "default", "min", "max", "help"}, h.keys())
                if isinstance(h["default"], (int, float)) and not isinstance(h["default"], bool):
                    self.assertLessEqual(h["min"], h["default"])
                    self.assertLessEqual(h["default"], h["max"])
        adam = listed["adam"]
        self.assertEqual((adam["slots"], adam["bytes_per_parameter"]), (["m", "v"], 12))
        self.assertEqual({h["name"]: h["default"] for h in adam["hyperparameters"]},
                         {"learning_rate": 0.001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8})
        self.assertEqual(listed["adafactor"]["slots_per"], ["row", "column"])
        self.assertEqual(listed["ftrl"]["hyperparameters"][0]["choices"], ["tensorflow", "mcmahan"])

    def test_one_rule(self):
        self.assertEqual([r["name"] for r in json.loads(rules("lion", "--json").stdout)], ["lion"])
        done = rules("lion")
        self.assertEqual(done.returncode, 0)
        self.assertIn("weight_decay", done.stdout)
        self.assertNotIn("momentum_decay", done.stdout)

    def test_text_names_every_rule(self):
        text = rules().stdout
        for rule in json.loads(rules("--json").stdout):
            self.assertRegex(text, rf"(?m)^{rule['name']} ")

    def test_no_such_rule(self):
        done = rules("adm")
        self.assertEqual((done.returncode, done.stdout), (5, ""))
        self.assertIn("did you mean adam?", done.stderr)
        self.assertEqual(rules("quite another thing").returncode, 5)
        self.assertEqual(rules("adam", "sgd").returncode, 2)


if __name__ == "__main__":
    unittest.main()
