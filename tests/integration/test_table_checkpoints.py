# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of jobs with tables: a server that is killed, a job that is paused, exports and evaluations, all with the same bits."""

import json
import os
import random
import signal
import struct
import unittest

from cluster import ENDLESS, ClusterTest, gradus
from s3_server import Store

EPOCHS = 12
# Each table does something else: counts sightings, evicts, catches up.
JOB = """name: clicks
data: {format: libffm, dir: %s, train: {file: train}, test: {file: test}, columns: [{column: 0..5, as: sparse}]}
model:
  loss: sigmoid_cross_entropy
  metrics: [auc]
  tables:
    - {name: wide, dim: 1, memory_bytes: 16 MiB, catch_up: true, evict: {unseen: 300, every: 20}}
    - {name: deep, dim: 4, memory_bytes: 16 MiB, admission: counted, sightings: 2, admission_bytes: 4 MiB}
  layers:
    - linear: {name: first, table: wide, bias: true}
    - embedding: {name: rows, table: deep}
    - flatten: {}
    - dense: {name: hidden, units: 8, activation: relu}
    - dense: {name: out, units: 1}
    - add: {from: [first, out]}
update: {rule: adam, learning_rate: 0.005}
training: {batch_size: 16, epochs: EPOCHS, replicas: 2, checkpoint_every: 100 steps, evaluate_every: 6 epochs}
cluster: {workers: 2, ps: 2}
"""


def header_of(data):
    return json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])


class TableJobs(ClusterTest):
    """For test_delta_checkpoints.py, too."""
    model = {}
    expected = {}  # by epochs: what an undisturbed run exports

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = random.Random(3)
        lines = []
        for _ in range(3600):
            keys = [min(int(draw.paretovariate(0.7)), 4000) for _ in range(6)]
            pairs = " ".join(f"{field}:{field * 100000 + key}:1" for field, key in enumerate(keys))
            lines.append(f"{int(sum(key % 2 for key in keys) > 3)} {pairs}\n")
        for name, part in ("train", lines[:3000]), ("test", lines[3000:]):
            with open(f"{cls.shared}/{name}", "w", encoding="utf-8") as f:
                f.writelines(part)
        cls.file = cls.shared + "/clicks.yaml"
        with open(cls.file, "w", encoding="utf-8") as f:
            f.write(JOB.replace("EPOCHS", str(EPOCHS)) % cls.shared)

    def job(self, **sets):
        return [item for key, value in sets.items() for item in ("--set", f"{key.replace('__', '.')}={value}")]

    def bits(self, epochs=EPOCHS):
        if epochs not in TableJobs.expected:
            result = self.run_job(f"plain-{epochs}", self.file, cluster__ps=1, training__checkpoint_every="never", training__epochs=epochs)
            self.assertEqual(result["state"], "SUCCEEDED")
            TableJobs.expected[epochs] = self.export(result["job"], f"plain-{epochs}")
        return TableJobs.expected[epochs]

    def submit(self, master, **sets):
        """It has no end before assert_bits()."""
        done = gradus("submit", self.file, "--master", master.address, "--json", *self.job(**{"training__epochs": ENDLESS, **sets}))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["job"]

    def wait_state(self, master, job, *states):
        return self.wait_for(" or ".join(states), lambda: (lambda s: s if s and s["state"] in states else None)(master.job(job)), 120)

    def wait_steps(self, master, job, steps):
        self.wait_for(f"{steps} steps", lambda: (
            lambda s: s and s["state"] == "RUNNING" and s["steps"] >= steps)(master.job(job)))

    def give_end(self, master, job, epochs=EPOCHS):
        """After so many epochs, or soon: how many."""
        workers = [s.process.pid for s in self.services if "worker" in os.path.basename(s.log.name) and s.process.poll() is None]
        return self.end_job(master.client(), job, workers, epochs)

    def assert_bits(self, master, job, epochs=EPOCHS):
        epochs = self.give_end(master, job, epochs)
        self.assertEqual(self.wait_state(master, job, "SUCCEEDED", "FAILED")["state"], "SUCCEEDED", master.job(job))
        self.assertTrue(self.export(job, "cluster") == self.bits(epochs))


class TableCheckpoints(TableJobs):
    def test_an_export_does_not_show_how_many_servers_there_were(self):
        result = self.run_job("three", self.file, cluster__ps=3)
        exported = self.export(result["job"], "three")
        self.assertTrue(exported == self.bits())
        header = header_of(exported)
        rows = header["deep.keys"]["shape"][0]
        self.assertGreater(rows, 200)
        self.assertEqual(header["deep.values"]["shape"], [rows, 4])
        self.assertEqual(header["deep.values"]["dtype"], "F32")
        self.assertEqual(header["wide.keys"]["dtype"], "U64")
        begin, end = header["deep.keys"]["data_offsets"]
        data = exported[8 + struct.unpack("<Q", exported[:8])[0]:]
        keys = struct.unpack(f"<{rows}Q", data[begin:end])
        self.assertEqual(len(set(keys)), rows)
        done = gradus("export", result["job"], self.dir + "/again", "--bare", "--state-dir", self.dir + "/three", "--json")
        self.assertEqual(json.loads(done.stdout)["tables"], [{"name": "wide", "rows": header["wide.keys"]["shape"][0], "dim": 1},
                                                             {"name": "deep", "rows": rows, "dim": 4}])
        done = gradus("evaluate", result["job"], "--state-dir", self.dir + "/three", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertAlmostEqual(json.loads(done.stdout)["metrics"]["loss"], result["metrics"]["test"]["loss"], places=6)
        with open(result["checkpoint"] + "/manifest.json", encoding="utf-8") as f:
            tables = json.load(f)["tables"]
        self.assertEqual([t["name"] for t in tables], ["wide", "deep"])
        self.assertEqual(sum(tables[1]["rows"]), rows)

    def test_a_server_killed_and_replaced(self):
        master, servers, _ = self.start_cluster(2, 2, slow_down=4)
        job = self.submit(master)
        self.wait_steps(master, job, 250)
        servers[1].stop(signal.SIGKILL)
        self.start("ps", f"--master={master.address}", f"--checkpoint-dir={self.dir}/cluster/checkpoints")
        self.assert_bits(master, job)
        self.assertEqual(master.job(job)["recoveries"], 1)

    def test_a_server_killed_where_nothing_is_shared_but_a_store(self):
        with Store() as store:
            before = dict(os.environ)
            os.environ.update(store.environment())
            try:
                place = "--checkpoint-dir=s3://bucket/clicks"
                master = self.start("master", f"--state-dir={self.dir}/cluster", place)
                servers = [self.start("ps", f"--master={master.address}", place) for _ in range(2)]
                for _ in range(2):
                    self.start("worker", f"--master={master.address}", "--slow-down=4")
                job = self.submit(master)
                self.wait_steps(master, job, 250)
                servers[0].stop(signal.SIGKILL)
                self.start("ps", f"--master={master.address}", place)
                self.assert_bits(master, job, 4)
                self.assertFalse(os.path.exists(self.dir + "/cluster/checkpoints"))
            finally:
                os.environ.clear()
                os.environ.update(before)

    def test_without_the_same_bits(self):
        for mode in "async", "bounded":
            with self.subTest(mode=mode):
                state = f"{self.dir}/{mode}"
                master = self.start("master", f"--state-dir={state}")
                servers = [self.start("ps", f"--master={master.address}", f"--checkpoint-dir={state}/checkpoints") for _ in range(2)]
                for _ in range(2):
                    self.start("worker", f"--master={master.address}", "--slow-down=4")
                job = self.submit(master, training__mode=mode, training__replicas=0)
                self.wait_steps(master, job, 250)
                servers[1].stop(signal.SIGKILL)
                self.start("ps", f"--master={master.address}", f"--checkpoint-dir={state}/checkpoints")
                self.give_end(master, job)
                self.assertEqual(self.wait_state(master, job, "SUCCEEDED", "FAILED")["state"], "SUCCEEDED", master.job(job))
                self.assertEqual(master.job(job)["recoveries"], 1)
                metrics = json.loads(gradus("evaluate", job, "--state-dir", state, "--json").stdout)["metrics"]
                self.assertGreater(metrics["auc"], 0.8)

    def test_a_job_paused_and_resumed(self):
        master, _, _ = self.start_cluster(2, 2, slow_down=4)
        job = self.submit(master)
        self.wait_steps(master, job, 130)
        for command, state in ("pause", "PAUSED"), ("resume", "RUNNING"):
            done = gradus(command, job, "--master", master.address)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.wait_state(master, job, state)
        self.assert_bits(master, job)

    def test_damage(self):
        result = self.run_job("damaged", self.file, training__epochs=2)
        path = os.path.join(result["checkpoint"], "shard-1-of-2.safetensors")
        with open(path, "r+b") as f:
            f.seek(-20, os.SEEK_END)
            f.write(b"\xff" * 4)
        for args in ("export", result["job"], self.dir + "/out"), ("evaluate", result["job"]):
            done = gradus(*args, "--state-dir", self.dir + "/damaged")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("shard-1-of-2.safetensors: checksum differs", " ".join(done.stderr.split()))


if __name__ == "__main__":
    unittest.main()
