# SPDX-License-Identifier: Apache-2.0
"""Jobs that begin with the model of another one on other records: they are encoded as its records were (`from.encoding`), whatever
dies meanwhile; what is new among them is said, and what does not fit."""

import json
import os
import random
import shutil

from cluster import SLOWER, SOURCE, gradus, read_job
from faults import FaultTest, main

JOB = """name: visits
data:
  format: csv
  train: {file: monday.csv}
  test: {file: test.csv}
  columns:
    - {column: bought, as: label}
    - {column: price, log: true, standardise: true}
    - {column: age, standardise: true, missing: mean}
    - {column: city, as: category}
    - {column: page, as: list, separator: "|", unknown: own}
model:
  layers:
    - dense: {units: 8, activation: tanh}
    - dense: {units: 1}
  loss: sigmoid_cross_entropy
update: {rule: adam, learning_rate: 0.02}
training: {batch_size: 16, epochs: 3}
"""


def visits(count, seed, cities, pages, price):
    draw = random.Random(seed)
    lines = ["bought,price,age,city,page\n"]
    for _ in range(count):
        city, page, age = draw.choice(cities), draw.sample(pages, 2), draw.randrange(18, 80)
        bought = "yes" if (len(city) + len(page[0]) + age // 20) % 2 else "no"
        lines.append(f"{bought},{draw.uniform(1, price):.2f},{'' if draw.random() < 0.05 else age},{city},{'|'.join(page)}\n")
    return "".join(lines)


def clicks(count, seed, first):
    """Lines of Criteo's, whose counts and categories begin with @first."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        counts = [str(first + int(draw.paretovariate(0.8)) % 500) if draw.random() < 0.8 else "" for _ in range(13)]
        keys = [f"{first + int(draw.paretovariate(0.7)) % 200:08x}" if draw.random() < 0.9 else "" for _ in range(26)]
        lines.append("\t".join([str(int(len(counts[0]) + len(counts[1]) > 3)), *counts, *keys]).rstrip("\t") + "\n")
    return "".join(lines)


TABLES = """[{name: weights, dim: 1, init: zeros, memory_bytes: 8 MiB}, {name: vectors, dim: 8, init_spread: 0.05, memory_bytes: 8 MiB, catch_up: true}]"""


class DeepFm(FaultTest):
    """examples/criteo-deepfm.yaml, and the day after."""
    model = {}

    def day(self, state, train, **sets):
        return self.run_job(state, SOURCE + "/examples/criteo-deepfm.yaml",
                            **{"data__dir": self.dir, "data__train__file": train, "data__test__file": "test.tsv", "data__test_fraction": 0, **sets})

    def write_days(self):
        for name, text in (("monday.tsv", clicks(600, 1, 0)), ("tuesday.tsv", clicks(500, 2, 90)), ("test.tsv", clicks(200, 3, 30))):
            with open(os.path.join(self.dir, name), "w") as f:
                f.write(text)

    def test_the_first_evaluation_of_the_day_after_is_the_last_of_the_day_before(self):
        self.write_days()
        monday = self.day("monday", "monday.tsv")
        sets = {"from__checkpoint": monday["checkpoint"]}
        frozen = self.day("frozen", "tuesday.tsv", **sets, update="{rule: adagrad, learning_rate: 0}", cluster__ps=2)
        self.assertEqual(frozen["metrics"]["test"], monday["metrics"]["test"])
        cold = self.day("cold", "tuesday.tsv")
        warm = self.day("warm", "tuesday.tsv", **sets)
        self.assertNotEqual(warm["metrics"]["test"], cold["metrics"]["test"])
        measured = self.day("measured", "tuesday.tsv", **sets, update="{rule: adagrad, learning_rate: 0}", from__encoding="measure")
        self.assertNotEqual(measured["metrics"]["test"], monday["metrics"]["test"])

    def test_slots_go_on(self):
        """All records in a batch: two jobs of three updates are one of six, but for the order in which records are added up."""
        self.write_days()
        for rule in "adam", "ftrl", "adagrad":
            sets = {"update": f"{{rule: {rule}, learning_rate: 0.05, l2: 0}}", "training__batch_size": 600, "model__tables": TABLES}
            all_six = self.day(rule + "-six", "monday.tsv", **sets, training__epochs=6)["metrics"]["test"]["loss"]
            first = self.day(rule + "-first", "monday.tsv", **sets, training__epochs=3)
            sets.update(from__checkpoint=first["checkpoint"], training__epochs=3)
            with_slots = self.day(rule + "-with", "monday.tsv", **sets, from__slots="true", cluster__ps=2)["metrics"]["test"]["loss"]
            without = self.day(rule + "-without", "monday.tsv", **sets)["metrics"]["test"]["loss"]
            self.assertAlmostEqual(with_slots, all_six, places=4)
            later = self.day(rule + "-async", "monday.tsv", **sets, from__slots="true", training__mode="async", cluster__workers=2)
            self.assertEqual((later["steps"], later["epochs"]), (3, 3))
            self.assertAlmostEqual(later["metrics"]["test"]["loss"], all_six, places=4)
            self.assertGreater(abs(without - all_six), 10 * abs(with_slots - all_six))
        sets = {"from__checkpoint": first["checkpoint"], "from__slots": "true", "update": "{rule: adam}", "model__layers__6__units": 7,
                "from__strict": "false"}
        done = gradus("validate", SOURCE + "/examples/criteo-deepfm.yaml", *self.job(data__dir=self.dir, data__train__file="monday.tsv", **sets))
        said = " ".join(done.stderr.split())
        self.assertIn("from.slots: rule: adam here, adagrad there; slots: m per parameter, v per parameter here, squares per parameter there; "
                      "without values there: dense_2.kernel, dense_2.bias, dense_3.kernel (", said)


class Encoding(FaultTest):
    model = {}
    sizes = {}
    epochs = 3
    slow_down = 60 // SLOWER
    frozen = {"update": "{rule: sgd, learning_rate: 0}", "training__epochs": 1, "training__evaluate_every": "1 epoch"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.file = cls.shared + "/visits.yaml"
        before, after = (["Rome", "Oslo", "Paris"], ["a", "bb", "ccc"]), (["Kiev", "Paris", "Rome"], ["bb", "ccc", "dddd"])
        for name, text in (("visits.yaml", JOB), ("monday.csv", visits(800, 1, *before, 100)),
                           ("tuesday.csv", visits(600, 2, *after, 5000)), ("test.csv", visits(300, 3, *before, 100))):
            with open(os.path.join(cls.shared, name), "w") as f:
                f.write(text)

    def data_dir(self):
        return self.shared

    def source(self):
        done = self.run_job("source", self.file, **self.keys(training__evaluate_every="1 epoch"))
        return done, done["checkpoint"]

    def loss(self, state, **sets):
        done = self.run_job(state, self.file, **self.keys(**{**self.frozen, **sets}))
        return done["metrics"]["test"]["loss"]

    def said(self, state):
        return read_job(gradus("status", "visits-1", "--json", "--state-dir", os.path.join(self.dir, state)).stdout)["started_from"]

    def test_the_first_evaluation_is_that_of_the_source(self):
        done, checkpoint = self.source()
        sets = {"data__train": "{file: tuesday.csv}", "from__checkpoint": checkpoint}
        for state, more in ("memory", {}), ("stream", {"data__loading": "stream"}):
            self.assertEqual(self.loss(state, **sets, **more), done["metrics"]["test"]["loss"])
            self.assertEqual(self.said(state), f"all 4 variables from checkpoint {checkpoint}; and the encoding of records; "
                             "column city: 1 new category (Kiev), whose features are all 0; "
                             "column page: 1 new category (dddd), which has the feature of unknown ones")
        self.assertNotEqual(self.loss("measured", **sets, from__encoding="measure"), done["metrics"]["test"]["loss"])
        self.assertEqual(self.said("measured"), f"all 4 variables from checkpoint {checkpoint}")
        # The day after goes on from that, and what answers knows the categories of the first day.
        path = os.path.join(self.dir, "memory/checkpoints/visits-1")
        self.assertEqual(self.loss("third", **{**sets, "from__checkpoint": path}), done["metrics"]["test"]["loss"])
        shown = gradus("evaluate", "visits-1", "--json", "--state-dir", self.dir + "/third")
        self.assertAlmostEqual(json.loads(shown.stdout)["metrics"]["loss"], done["metrics"]["test"]["loss"], places=5, msg=shown.stderr)

    def test_what_does_not_fit(self):
        _, checkpoint = self.source()
        other = JOB.replace("city, as: category}", "city, as: category, missing: own}").replace("data:\n", "data:\n  missing: zero\n", 1)
        renamed = self.shared + "/renamed.csv"
        for name, text in (("other.yaml", other), ("renamed.csv", visits(50, 4, ["Rome"], ["a", "bb"], 9).replace("yes", "maybe"))):
            with open(os.path.join(self.shared, name), "w") as f:
                f.write(text)
        for command in "validate", "run":
            done = gradus(command, self.shared + "/other.yaml", *self.sets(from__checkpoint=checkpoint))
            self.assertNotEqual(done.returncode, 0)
            said = " ".join(done.stderr.split())
            self.assertIn(f"from.encoding: checkpoint {checkpoint}: its records were encoded otherwise: "
                          "data.missing: zero here, error there; data.columns: {column: bought, as: label}, ", said)
            self.assertIn("{column: city, as: category, missing: own}, ", said)
            self.assertIn("{column: city, as: category}, ", said)
            done = gradus(command, self.file, *self.sets(from__checkpoint=checkpoint, data__train=f"{{file: {renamed}}}"))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("the labels are maybe, no; the classes there are no, yes ('from.encoding: measure'", " ".join(done.stderr.split()))
        done = gradus("validate", self.file, *self.sets(from__safetensors="x.safetensors", from__encoding="source"))
        self.assertIn("from.encoding: source needs a checkpoint", " ".join(done.stderr.split()))

    def test_the_same_bits_whatever_dies(self):
        _, checkpoint = self.source()
        sets = {"data__train": "{file: tuesday.csv}", "from__checkpoint": checkpoint, "from__slots": "true", "training__replicas": 2}
        self.cluster(workers=1)
        job = self.start_job(**sets, cluster__workers="1..2", cluster__ps=2, cluster__partitions=2, training__checkpoint_every=10)
        self.wait_checkpoint(job)
        shutil.move(checkpoint, checkpoint + ".gone")
        self.workers.append(self.start_worker())  # has it from the master
        self.wait_used(self.workers[1])
        self.replace_master()  # has it from the job's own checkpoint
        self.replace_worker(0)
        self.replace_ps(0)
        status = self.wait_end(job)
        shutil.move(checkpoint + ".gone", checkpoint)
        self.quiet("whole", **sets, training__epochs=int(status["epochs"]))
        self.assertEqual(self.bits(job), self.bits("visits-1", "whole"))


if __name__ == "__main__":
    main()
