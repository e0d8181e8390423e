# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that have only what changed in tables since a full one: servers, masters and bases that go, with the same bits."""

import json
import os
import shutil
import signal
import unittest

import test_table_checkpoints as tables
from cluster import gradus, standing_still
from s3_server import Store

DELTAS = {"training__checkpoint_every": "30 steps", "training__checkpoint_full_every": 4, "training__checkpoints_keep": 2}


class DeltaCheckpoints(tables.TableJobs):
    def submit(self, master, **sets):
        return super().submit(master, **{**DELTAS, **sets})

    def manifests(self, job):
        """Of each complete checkpoint, oldest first: its name, and that of its base or None."""
        root = f"{self.dir}/cluster/checkpoints/{job}"
        found = []
        for name in sorted(os.listdir(root)) if os.path.isdir(root) else ():
            try:
                with open(f"{root}/{name}/manifest.json", encoding="utf-8") as f:
                    base = json.load(f).get("base")
                found.append((name, base["directory"] if base else None))
            except OSError:
                continue
        return found

    def wait_delta(self, master, job, after):
        """A delta is the newest, and training has gone a little further."""
        self.wait_steps(master, job, after)
        self.wait_for("a delta", lambda: (self.manifests(job) or [("", None)])[-1][1])
        self.wait_steps(master, job, int(self.manifests(job)[-1][0].split("-")[1]) + 3)

    def test_a_server_killed_and_replaced(self):
        master, servers, _ = self.start_cluster(2, 2, slow_down=4)
        job = self.submit(master)
        self.wait_delta(master, job, 250)
        servers[1].stop(signal.SIGKILL)
        self.start("ps", f"--master={master.address}", f"--checkpoint-dir={self.dir}/cluster/checkpoints")
        self.assert_bits(master, job)
        self.assertEqual(master.job(job)["recoveries"], 1)
        self.assertIsNone(self.manifests(job)[-1][1], "the last one has everything")

    def test_a_master_killed_again_and_again(self):
        master, _, _ = self.start_cluster(2, 2, slow_down=4)
        job = self.submit(master, training__checkpoint_every="7 steps")
        for steps in 60, 200, 330:
            self.wait_steps(master, job, steps)
            address = master.address
            master.stop(signal.SIGKILL)
            master = self.start("master", f"--listen={address}", f"--state-dir={self.dir}/cluster")
            self.wait_state(master, job, "RUNNING")
        self.assert_bits(master, job)

    def test_old_ones_go_and_their_bases_with_the_last_of_them(self):
        master, _, _ = self.start_cluster(2, 2, slow_down=3)
        job = self.submit(master, training__checkpoints_keep=1)
        seen = set()

        def all_seen():
            there = self.manifests(job)
            names = [name for name, _ in there]
            for name, base in there[-1:]:
                self.assertTrue(base is None or base in names or name not in dict(self.manifests(job)), there)
                seen.add(base is not None)
            self.assertLessEqual(len(there), 4, there)
            return seen == {True, False} and master.job(job)["steps"] > 600
        self.wait_for("some with and some without a base", all_seen)
        self.assert_bits(master, job)
        self.wait_for("one", lambda: len(os.listdir(f"{self.dir}/cluster/checkpoints/{job}")) <= 2)

    def newest_delta(self, job):
        """Name and base, when it is the first of its base: the one that is written beside it, if any, is the second."""
        there = self.manifests(job)
        return there[-1] if len(there) > 3 and there[-1][1] == there[-2][0] else None

    def test_a_base_that_is_damaged(self):
        """There is an older one that is whole."""
        master, servers, workers = self.start_cluster(2, 2, slow_down=4)
        job = self.submit(master, training__checkpoints_keep=0)
        root = f"{self.dir}/cluster/checkpoints/{job}"
        damaged = None
        while not damaged:
            self.wait_for("a delta", lambda: self.newest_delta(job))
            with standing_still([w.process.pid for w in workers]):
                found = self.newest_delta(job)
                if not found:
                    continue
                name, damaged = found
                servers[1].stop(signal.SIGKILL)
                with open(f"{root}/{damaged}/shard-0-of-2.safetensors", "r+b") as f:
                    f.truncate(1000)
        done = gradus("export", "--from", f"{root}/{name}", self.dir + "/out", "--bare")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"{name}: its base {damaged}", " ".join(done.stderr.split()))
        self.start("ps", f"--master={master.address}", f"--checkpoint-dir={self.dir}/cluster/checkpoints")
        self.assert_bits(master, job)
        with open(master.log.name, encoding="utf-8") as f:
            log = f.read()
        self.assertIn(f"its base {damaged}", log)

    def test_a_job_paused_and_resumed(self):
        master, _, _ = self.start_cluster(2, 2, slow_down=4)
        job = self.submit(master, training__checkpoint_full_every=1000)  # wherever it is paused, that is a delta
        self.wait_steps(master, job, 130)
        for command, state in ("pause", "PAUSED"), ("resume", "RUNNING"):
            done = gradus(command, job, "--master", master.address)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.wait_state(master, job, state)
            if state == "PAUSED":
                self.assert_readable(job)
        self.assert_bits(master, job)

    def assert_readable(self, job):
        """Exported and evaluated, also from a copy that has the base beside it, and not without."""
        name, base = self.manifests(job)[-1]
        self.assertIsNotNone(base)
        root, copy = f"{self.dir}/cluster/checkpoints/{job}", self.dir + "/copy"
        out, other = self.dir + "/out.safetensors", self.dir + "/other.safetensors"
        for path in name, base:
            shutil.copytree(f"{root}/{path}", f"{copy}/{path}")
        for path, to in (f"{root}/{name}", out), (f"{copy}/{name}/", other):
            done = gradus("export", "--from", path, to, "--bare")
            self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, "rb") as a, open(other, "rb") as b:
            self.assertTrue(a.read() == b.read())
        done = gradus("evaluate", f"{copy}/{name}", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        shutil.rmtree(f"{copy}/{base}")
        done = gradus("export", "--from", f"{copy}/{name}", other, "--bare")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"its base {base}", " ".join(done.stderr.split()))

    def test_where_nothing_is_shared_but_a_store(self):
        with Store() as store:
            before = dict(os.environ)
            os.environ.update(store.environment())
            try:
                place = "--checkpoint-dir=s3://bucket/clicks"
                master = self.start("master", f"--state-dir={self.dir}/cluster", place)
                servers = [self.start("ps", f"--master={master.address}", place) for _ in range(2)]
                for _ in range(2):
                    self.start("worker", f"--master={master.address}", "--slow-down=4")
                job = self.submit(master, training__checkpoint_full_every=1000)
                self.wait_steps(master, job, 250)
                servers[0].stop(signal.SIGKILL)
                self.start("ps", f"--master={master.address}", place)
                self.assert_bits(master, job, 4)
                with open(master.log.name, encoding="utf-8") as f:
                    self.assertIn("delta_of=", f.read())
            finally:
                os.environ.clear()
                os.environ.update(before)


if __name__ == "__main__":
    unittest.main()
