# SPDX-License-Identifier: Apache-2.0
"""gradus table: what the tables of a running job hold, in a cluster of real processes; in text and JSON, with a server that
stands still, and what is refused."""

import os
import re
import signal
import unittest
import urllib.request

from cluster import ENDLESS, SOURCE, ClusterTest, gradus, read_message
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

    def tables(self, *args):
        """What each server says, by table: {name: [(shard, table), ...]}."""
        answer = read_message(self.table(self.job_id, "--json", *args).stdout)
        self.assertEqual((answer["job"], answer["table"]), (self.job_id, "".join(args)))
        found = {}
        for shard in answer["shards"]:
            for table in shard["tables"]:
                found.setdefault(table["name"], []).append((shard, table))
        return found

    def check(self, parts, count, dim, bytes_max):
        self.assertEqual([shard["shard"] for shard, _ in parts], list(range(count)))
        self.assertEqual(sum(t["bytes_max"] for _, t in parts), bytes_max)
        for shard, t in parts:
            self.assertEqual((t["dim"], t["rows"], t["refused"], shard["problem"]), (dim, t["admitted"] - t["evicted"], 0, ""))
            self.assertTrue(0 < t["bytes"] <= t["bytes_max"])
            self.assertGreater(shard["version"], 60)
            self.assertGreater(t["rows"], 0)
            self.assertGreaterEqual(t["read"], t["updated"] + t["dropped"])  # what is pushed was read before

    def test_a_running_job(self):
        done = self.table(self.job_id)
        self.assertEqual(done.stderr, "")
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0].split(), ["job", self.job_id])
        self.assertEqual(lines[3].split(), "TABLE DIM ROWS MEMORY FULL ADMITTED EVICTED DROPPED LOAD".split())
        self.assertEqual([line.split()[:2] for line in lines[4:]], [["weights", "1"], ["factors", "4"]])
        tables = self.tables()
        self.assertEqual(list(tables), ["weights", "factors"])
        self.check(tables["weights"], 2, 1, 8 << 20)
        self.check(tables["factors"], 2, 4, 16 << 20)
        self.assertFalse(any(t["hottest"] for parts in tables.values() for _, t in parts))
        self.assertEqual([t["dropped"] for _, t in tables["weights"]], [0, 0])
        self.assertTrue(all(t["dropped"] > 0 for _, t in tables["factors"]))  # the first sightings of each key

        done = self.table(self.job_id, "factors")
        self.assertTrue(all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout)
        self.assertIn("table       factors\n", done.stdout)
        self.assertIn("\nHOTTEST KEY           SIGHTINGS  SHARD\n", done.stdout)
        self.assertEqual(len(re.findall(r"^ +[01] .*  ps-[12]$", done.stdout, re.M)), 2)
        tables = self.tables("factors")
        self.assertEqual(list(tables), ["factors"])
        self.check(tables["factors"], 2, 4, 16 << 20)
        for _, table in tables["factors"]:
            sightings = [k["sightings"] for k in table["hottest"]]
            self.assertEqual(len(sightings), 20)
            self.assertEqual(sightings, sorted(sightings, reverse=True))
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
            shown = self.table(self.job_id)
        finally:
            os.kill(stopped.pid, signal.SIGCONT)
        there, missing = read_message(done.stdout)["shards"]
        self.assertNotEqual(there["ps"], missing["ps"])
        self.assertEqual(([t["name"] for t in there["tables"]], there["problem"]), (["weights", "factors"], ""))
        self.assertEqual(missing["tables"], [])
        self.assertIn("ParameterServer.Stats", missing["problem"])
        self.assertIn(f"warning: {missing['ps']} is missing: ", self.said(shown))
        steps = self.master.job(self.job_id)["steps"]
        self.wait_for("more steps", lambda: self.master.job(self.job_id)["steps"] > steps + 20)
        self.check(self.tables("weights")["weights"], 2, 1, 8 << 20)


if __name__ == "__main__":
    unittest.main()
