# SPDX-License-Identifier: Apache-2.0
"""gradus-serve beside a job with sparse tables that runs: dense values and rows of an answer are of one version, that of the
checkpoint of the same step; training goes on meanwhile, and what is gone goes on being served. Any mode, steps of any length."""

import csv
import os
import re
import signal
import struct
import unittest

from cluster import ENDLESS, gradus
from test_serve import floats
from test_tables import FIELDS, JOB, click_lines
import test_serve_live

RECORDS = 20
LINES = [re.sub(r":0\.5\b", ":1", line) for line in click_lines(RECORDS, 2)]


class LiveTablesTest(test_serve_live.LiveTest):
    def setUp(self):
        super().setUp()
        for name, text in (("clicks.yaml", JOB), ("train", "".join(click_lines(2000, 1))), ("test", "".join(LINES))):
            with open(os.path.join(self.dir, name), "w") as f:
                f.write(text)
        keys = [[int(word.split(":")[1]) for word in line.split()[1:]] for line in LINES]
        self.inputs = ([(str(f), "UINT64", [RECORDS, 1], {}) for f in range(FIELDS)],
                       [struct.pack(f"<{RECORDS}Q", *(k[f] for k in keys)) for f in range(FIELDS)], ["probabilities"])

    def submit(self, master, ps=1, workers=1, **more):
        sets = {"data.dir": self.dir, "training.epochs": ENDLESS, "training.checkpoints_keep": 1000, "cluster.ps": ps, "cluster.workers": workers}
        sets.update({key.replace("__", "."): value for key, value in more.items()})
        done = gradus("submit", self.dir + "/clicks.yaml", "--master", master.address,
                      *(item for key, value in sets.items() for item in ("--set", f"{key}={value}")))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def probabilities(self, checkpoint):
        done = gradus("predict", checkpoint, "--data", self.dir + "/test", "--format", "csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [float(row[p]) for row in csv.DictReader(done.stdout.splitlines()) for p in ("p_0", "p_1")]

    def compare(self, job, answers, least):
        common = sorted(set(answers) & set(self.steps_of(job)))
        self.assertGreaterEqual(len(common), least)
        for step in common[:5]:
            (said,) = answers[step]
            self.assertEqual([f"{x:.9g}" for x in floats(said)], [f"{x:.9g}" for x in self.probabilities(self.steps_of(job)[step])], step)

    def test_versions_of_dense_values_and_rows(self):
        master, servers, _ = self.start_cluster(ps=2, workers=1)
        job = self.submit(master, ps=2, training__checkpoint_every=1)
        service, client = self.follow(master, job)
        self.wait_for("a version", lambda: self.ready(client), 120)
        asking = test_serve_live.Asking(client, self.inputs)
        self.wait_for("versions with a checkpoint", lambda: len(set(asking.answers) & set(self.steps_of(job))) >= 3, 120)
        steps = master.job(job)["steps"]
        self.wait_for("training to go on", lambda: master.job(job)["steps"] > steps, 120)
        servers[1].stop(signal.SIGKILL)
        self.wait_for("the loss to be noticed", lambda: self.meter(service, "serve_following") == 0, 120)
        self.start("ps", f"--master={master.address}", f"--checkpoint-dir={self.dir}/cluster/checkpoints")
        swaps = self.meter(service, "serve_swaps_total")
        self.wait_for("newer versions", lambda: self.meter(service, "serve_swaps_total") > swaps, 120)
        self.end(master, job)
        self.wait_for("the end to be noticed", lambda: self.meter(service, "serve_following") == 0, 120)
        asking.stop()
        self.assertEqual(asking.failures, [])
        for step, said in asking.answers.items():
            self.assertEqual(len(said), 1, f"version {step} has several answers")  # also of steps that were made twice
        self.compare(job, asking.answers, 3)
        self.assertTrue(self.ready(client))
        self.assertIn(client.infer(*self.inputs).raw_output_contents[0], {next(iter(said)) for said in asking.answers.values()})

    def test_modes_without_one_version(self):
        for mode in ("async", "bounded"):
            with self.subTest(mode=mode):
                master, _, _ = self.start_cluster(ps=2, workers=2)
                job = self.submit(master, ps=2, workers=2, training__mode=mode, training__replicas=0)
                service, client = self.follow(master, job)
                self.wait_for("versions", lambda: self.ready(client) and self.meter(service, "serve_swaps_total") > 3, 120)
                asking = test_serve_live.Asking(client, self.inputs)
                self.wait_for("versions that are asked", lambda: len(asking.answers) > 3, 120)
                steps = master.job(job)["steps"]
                self.wait_for("training to go on", lambda: master.job(job)["steps"] > steps, 120)
                asking.stop()
                self.assertEqual(asking.failures, [])
                self.end(master, job)
                master.stop(signal.SIGTERM)

    def test_short_steps_of_several_servers(self):
        master, _, _ = self.start_cluster(ps=3, workers=1, slow_down=1)
        job = self.submit(master, ps=3, training__batch_size=1, training__checkpoint_every=500)
        service, client = self.follow(master, job)
        self.wait_for("versions", lambda: self.ready(client) and self.meter(service, "serve_swaps_total") > 5, 120)
        self.end(master, job)

    def test_more_rows_than_there_is_memory_for(self):
        master, _, _ = self.start_cluster()
        job = self.submit(master)
        self.wait_for("rows", lambda: master.job(job)["steps"] >= 100, 120)  # the first versions fit
        service, client = self.follow(master, job, "--tables-bytes-max=10KiB")

        def said():
            with open(service.log.name) as f:
                return re.search(r"its tables have \d+ rows, which take \d+ bytes; 10240 are allowed", f.read())
        self.wait_for("the reason", said, 120)
        self.assertFalse(self.ready(client))
        self.end(master, job)


if __name__ == "__main__":
    unittest.main()
