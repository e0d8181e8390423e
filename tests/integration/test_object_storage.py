# SPDX-License-Identifier: Apache-2.0
"""A cluster that shares nothing but an object store: everything is killed, the store fails, and the bits are the same."""

import os
import subprocess

from cluster import BIN, gradus
from faults import Digits, FaultTest, main
from s3_server import Store

ROOT = "s3://bucket/training/one"


class ObjectStorage(Digits, FaultTest):
    def setUp(self):
        super().setUp()
        self.store = Store()
        self.store.__enter__()
        self.addCleanup(self.store.__exit__)
        environment = {**self.store.environment(), "GRADUS_S3_STALL_SECONDS": "2"}
        before = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)
        self.addCleanup(lambda: [os.environ.pop(n) if v is None else os.environ.update({n: v})
                                 for n, v in before.items()])

    def cluster(self, workers, ps=2):
        self.state_dir = self.dir + "/cluster"
        self.master_args = (f"--state-dir={self.state_dir}", f"--checkpoint-dir={ROOT}/")
        self.master = self.start("master", *self.master_args)
        self.servers = [self.start_ps() for _ in range(ps)]
        self.workers = [self.start_worker() for _ in range(workers)]

    def start_ps(self):
        return self.start("ps", f"--master={self.master.address}", f"--checkpoint-dir={ROOT}")

    def checkpoints(self, job):
        return sorted({key.split("/")[3] for key in self.store.keys() if key.startswith(f"training/one/{job}/step-")})

    def train(self, **sets):
        return self.start_job(training__replicas=4, cluster__ps=2, cluster__partitions=2, cluster__workers=2,
                              training__checkpoint_every="1 epoch", **sets)

    def expected(self, epochs):
        return self.bits(self.quiet("plain", training__replicas=4, training__epochs=epochs)["job"], "plain")

    def assert_whole(self, job):
        """The end of a job, and what lies in the store."""
        status = self.wait_end(job)
        self.assertFalse(os.path.exists(self.state_dir + "/checkpoints"))
        self.assertIn("training/one/gradus-checkpoints", self.store.keys())
        self.assertIn(f"training/one/{job}/owner", self.store.keys())
        self.assertEqual(self.store.uploads, {})
        # The last prune follows the end of the job.
        found = self.wait_for("checkpoints_keep", lambda: (
            lambda names: names if len(names) == 3 else None)(self.checkpoints(job)))
        for name in found:
            self.assertIn(f"training/one/{job}/{name}/manifest.json", self.store.keys())
        self.assertEqual(self.now(job)["checkpoint"], f"{ROOT}/{job}/{found[-1]}")
        self.assertEqual(self.bits(job), self.expected(int(status["epochs"])))

    def test_everything_is_killed(self):
        self.cluster(workers=2)
        job = self.train()
        self.wait_done(job, 0.25)
        self.replace_ps(0)
        self.wait_done(job, 0.45)
        self.replace_worker(0)
        self.wait_done(job, 0.6)
        self.replace_master()
        self.wait_done(job, 0.75)
        self.replace_ps(1)
        self.assert_whole(job)
        self.assertGreaterEqual(self.now(job)["recoveries"], 2)
        self.assertEqual(self.now(job)["adoptions"], 1)
        out = gradus("evaluate", job, "--json", "--state-dir", self.state_dir)
        self.assertEqual(out.returncode, 0, out.stderr)
        # The same without any master: by the place alone, and into the store.
        done = gradus("export", "--from", f"{ROOT}/{job}", "s3://bucket/models/digits.safetensors", "--bare")
        self.assertEqual(done.returncode, 0, done.stderr)
        data = self.store.buckets["bucket"]["models/digits.safetensors"][0]
        with open(os.path.join(self.dir, f"cluster-{job}.safetensors"), "rb") as f:
            self.assertEqual(f.read(), data)

    def test_the_store_is_in_trouble(self):
        self.cluster(workers=2)
        job = self.train()
        self.wait_done(job, 0.2)
        self.store.fail("status", "", "step-", 4, status=503)
        self.store.fail("cut-request", "PUT", "shard-", 3)
        self.store.fail("stall", "PUT", "manifest", 1, seconds=4)
        self.store.fail("lost-answer", "", "step-", 3)
        self.wait_done(job, 0.6)
        self.store.fail("cut-answer", "GET", "shard-", 4)
        self.replace_ps(0)
        self.assert_whole(job)

    def test_a_store_that_is_full_for_a_while(self):
        self.cluster(workers=2)
        job = self.train()
        self.wait_done(job, 0.1)
        full = self.store.fail("status", "PUT", "shard-", 4, status=507, code="XMinioStorageFull")
        self.assert_whole(job)
        self.assertEqual(full.hits, 4)

    def test_two_masters_share_a_prefix(self):
        self.cluster(workers=1, ps=1)
        one = self.submit(cluster__workers=1, cluster__ps=1, training__epochs=1)
        other = self.start("master", f"--state-dir={self.dir}/other", f"--checkpoint-dir={ROOT}")
        done = gradus("submit", self.file, "--master", other.address, *self.sets(training__epochs=1))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual(one, done.stdout.strip())
        self.wait_end(one)

    def refused(self, *args, **environment):
        done = subprocess.run([os.path.join(BIN, "gradus-master"), "--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0",
                               f"--state-dir={self.dir}/refused", *args], capture_output=True, text=True, timeout=120,
                              env={**os.environ, **environment})
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_what_cannot_work_is_said_at_the_start(self):
        directory = f"--checkpoint-dir={ROOT}"
        self.assertIn("the secret key is wrong", self.refused(directory, AWS_SECRET_ACCESS_KEY="x"))
        self.assertIn("there are no credentials",
                      self.refused(directory, AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="", HOME="/nonexistent"))
        self.assertIn("the bucket does not exist", self.refused("--checkpoint-dir=s3://nowhere/x"))
        self.assertIn("a path, or a URL with", self.refused("--checkpoint-dir=gs://bucket/x"))
        done = gradus("export", "--from", f"{ROOT}/none-1", self.dir + "/x")
        self.assertEqual(done.returncode, 5, done.stderr)


if __name__ == "__main__":
    main()
