# SPDX-License-Identifier: Apache-2.0
"""gradus table: what the tables of a running job hold, in a cluster of real processes; in text and JSON, with a server that
stands still, and what is refused."""

import json
import os
import re
import signal
import unittest
import urllib.request

from cluster import ENDLESS, SOURCE, ClusterTest, gradus
from test_sparse_fields import criteo_lines

JOB = """
name: clicks
data:
  format: criteo
  train: {file: clicks.tsv}
  missing: zero
  short_rows: missing
  columns:
    - {column: label, as: label}
    - {column: I1..I13, log: true, standardise: true}
    - {column: C1..C26, as: sparse}
model:
  tables:
    - {name: weights, dim: 1, init: zeros, memory_bytes: 8 MiB, copies_bytes: 2 MiB}
    - {name: factors, dim: 4, admission: counted, sightings: 3, admission_bytes: 1 MiB, memory_bytes: 16 MiB, copies_bytes: 4 MiB}
  layers:
    - linear: {name: first_order, from: C1..C26, table: weights}
    - embedding: {name: vectors, from: C1..C26, table: factors}
    - factorization: {name: second_order}
    - dense: {name: numbers, units: 1, from: input}
    - add: {from: [first_order, second_order, numbers]}
  loss: sigmoid_cross_entropy
update: {rule: adagrad, learning_rate: 0.02}
training: {batch_size: 16, epochs: 100000, evaluate_every: never}
cluster: {workers: 1, ps: 2}
"""


class TableCommand(ClusterTest):
    model = {}

    def submit(self, *args):
        done = gradus("submit", *args, "--master", self.master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        self.wait_for("steps", lambda: self.master.job(job)["steps"] > 60)
        return job

    def setUp(self):
        super().setUp()
        with open(os.path.join(self.dir, "clicks.tsv"), "w") as f:
            f.write("".join(criteo_lines(400, 7)))
        with open(os.path.join(self.dir, "clicks.yaml"), "w") as f:
            f.write(JOB)
        self.master, self.servers, _ = self.start_cluster(2, 2, slow_down=2)
        self.job_id = self.submit(os.path.join(self.dir, "clicks.yaml"), "--set", f"data.dir={self.dir}")

    def table(self, *args, expect=0):
        done = gradus("table", *args, "--master", self.master.address)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done

    def said(self, done):
        return " ".join(done.stderr.split())

    def check_json(self, table, count):
        self.assertEqual([s["shard"] for s in table["shards"]], list(range(count)))
        for key in ("rows", "bytes", "bytes_max", "copied_rows", "copies_bytes", "admitted", "evicted", "dropped", "updated", "read"):
            self.assertEqual(table[key], sum(s[key] for s in table["shards"]), key)
        self.assertEqual(table["rows"], table["admitted"] - table["evicted"])
        self.assertEqual(table["refused"], 0)
        for s in table["shards"]:
            self.assertTrue(0 < s["bytes"] <= s["bytes_max"])
            self.assertGreater(s["version"], 60)
            self.assertGreater(s["rows"], 0)
            self.assertGreaterEqual(s["read"], s["updated"] + s["dropped"])  # what is pushed was read before
        for key in ("updated", "read"):
            most = max(s[key] for s in table["shards"])
            self.assertAlmostEqual(table["imbalance"][key], most * count / table[key], 6)

    def test_a_running_job(self):
        done = self.table(self.job_id)
        self.assertEqual(done.stderr, "")
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0].split(), ["job", self.job_id])
        self.assertEqual(lines[3].split(), "TABLE DIM ROWS MEMORY FULL ADMITTED EVICTED DROPPED LOAD".split())
        self.assertEqual([line.split()[:2] for line in lines[4:]], [["weights", "1"], ["factors", "4"]])
        answer = json.loads(self.table(self.job_id, "--json").stdout)
        self.assertEqual((answer["job"], answer["problems"]), (self.job_id, []))
        weights, factors = answer["tables"]
        self.assertEqual((weights["name"], weights["dim"], weights["bytes_max"]), ("weights", 1, 8 << 20))
        self.assertEqual((factors["name"], factors["dim"], factors["bytes_max"]), ("factors", 4, 16 << 20))
        for table in answer["tables"]:
            self.check_json(table, 2)
            self.assertNotIn("hottest", table)
        self.assertEqual(weights["dropped"], 0)
        self.assertGreater(factors["dropped"], 0)  # the first sightings of each key

        done = self.table(self.job_id, "factors")
        self.assertTrue(all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout)
        self.assertIn("table       factors\n", done.stdout)
        self.assertIn("\nHOTTEST KEY           SIGHTINGS  SHARD\n", done.stdout)
        self.assertEqual(len(re.findall(r"^ +[01] .*  ps-[12]$", done.stdout, re.M)), 2)
        factors, = json.loads(self.table(self.job_id, "factors", "--json").stdout)["tables"]
        self.check_json(factors, 2)
        sightings = [k["sightings"] for k in factors["hottest"]]
        self.assertEqual(len(sightings), 20)
        self.assertEqual(sightings, sorted(sightings, reverse=True))
        self.assertEqual({k["shard"] for k in factors["hottest"]}, {0, 1})
        with urllib.request.urlopen(f"http://{self.servers[0].http}/metrics", timeout=120) as page:
            text = page.read().decode()
        self.assertGreater(float(re.search(r"^gradus_ps_table_rows (\S+)$", text, re.M)[1]), 0)
        self.assertGreater(float(re.search(r'^gradus_ps_table_row_events_total{event="updated"} (\S+)$', text, re.M)[1]), 0)

    def test_what_is_refused(self):
        said = self.said(self.table(self.job_id, "factor", expect=5))
        self.assertIn(f"job {self.job_id} has no table 'factor'; it has weights, factors", said)
        self.assertIn("no job nobody-1", self.said(self.table("nobody-1", expect=5)))
        digits = self.submit(SOURCE + "/examples/digits.yaml", *self.job(training__epochs=ENDLESS, training__evaluate_every="never"))
        self.assertIn(f"job {digits} has no tables", self.said(self.table(digits, expect=1)))
        done = gradus("cancel", self.job_id, "--now", "--master", self.master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"job {self.job_id} is CANCELLED; only a running job", self.said(self.table(self.job_id, expect=1)))

    def test_a_server_that_stands_still(self):
        stopped = self.servers[1].process
        os.kill(stopped.pid, signal.SIGSTOP)
        try:
            done = self.table(self.job_id, "--json")
        finally:
            os.kill(stopped.pid, signal.SIGCONT)
        answer = json.loads(done.stdout)
        missing, = answer["problems"]
        self.assertIn(f"warning: {missing['ps']} is missing: ", self.said(done))
        weights = answer["tables"][0]
        self.assertEqual(len(weights["shards"]), 1)
        self.assertNotEqual(weights["shards"][0]["ps"], missing["ps"])
        steps = self.master.job(self.job_id)["steps"]
        self.wait_for("more steps", lambda: self.master.job(self.job_id)["steps"] > steps + 20)
        answer = json.loads(self.table(self.job_id, "weights", "--json").stdout)
        self.assertEqual(answer["problems"], [])
        self.check_json(answer["tables"][0], 2)


if __name__ == "__main__":
    unittest.main()
