# SPDX-License-Identifier: Apache-2.0
"""Data files and job files in an object store: the same bits as from files, a store in trouble, and what cannot work."""

import gzip
import os
import random
import subprocess

from cluster import BIN, SOURCE, gradus
from faults import Digits, FaultTest, main
from s3_server import Store

DATA = "s3://bucket/data/digits"


class ObjectData(Digits, FaultTest):
    def setUp(self):
        super().setUp()
        self.store = Store()
        self.store.__enter__()
        self.addCleanup(self.store.__exit__)
        self.set_environment(GRADUS_S3_STALL_SECONDS="2", GRADUS_S3_ATTEMPTS="4", **self.store.environment())

    def set_environment(self, **environment):
        before = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)
        self.addCleanup(lambda: [os.environ.pop(n, None) if v is None else os.environ.update({n: v})
                                 for n, v in before.items()])

    def put(self, key, data):
        self.store.buckets["bucket"][key] = (data, f'"{abs(hash(data))}"', "")

    def put_digits(self):
        for name in os.listdir(self.data_dir()):
            with open(os.path.join(self.data_dir(), name), "rb") as f:
                self.put(f"data/digits/{name}", f.read())

    def trained(self, state, **sets):
        result = self.run_job(state, file=sets.pop("file", None), training__epochs=2, **sets)
        self.assertEqual(result["state"], "SUCCEEDED")
        return self.bits(result["job"], state)

    def text_job(self):
        """The job file of a data set in text, without its data."""
        with open(f"{SOURCE}/examples/libsvm-logistic.yaml") as f:
            lines = [line for line in f if not line.startswith(("  test:", "    file:", "  train:"))]
        text = "".join(lines)
        self.model = {}  # the keys are those of the digits
        path = os.path.join(self.dir, "job.yaml")
        with open(path, "w") as f:
            f.write(text)
        return path

    def test_idx_files(self):
        self.put_digits()
        expected = self.trained("files")
        self.assertEqual(self.trained("store", data__dir=DATA), expected)
        # What the job names is found where it is, also when the directory is another one.
        names = {"data__train__file": "train-images-idx3-ubyte.gz", "data__train__labels": "train-labels-idx1-ubyte.gz"}
        here = {k: f"{DATA}/{v}" for k, v in names.items()}
        self.assertEqual(self.trained("mixed", **here), expected)

    def records(self, count):
        chance = random.Random(7)
        return [f"{i % 3} " + " ".join(f"{k}:{chance.random():.6f}" for k in range(1, 41)) + "\n" for i in range(count)]

    def test_text_in_parts_and_packed(self):
        """One file of several parts, packed, and many: the same records, so the same bits."""
        lines = self.records(40000)
        text = "".join(lines).encode()
        self.assertGreater(len(text), 2 * (8 << 20))
        self.put("data/all", text)
        self.put("data/all.gz", gzip.compress(text, 1))
        self.put("data/all.zst", subprocess.run(["zstd", "-1", "-c"], input=text, capture_output=True, check=True).stdout)
        for i, name in enumerate(("part-1", "part-10", "part-2", "part-3")):
            self.put(f"data/sets/{name}", "".join(lines[i * 10000:(i + 1) * 10000]).encode())
        job, sets = self.text_job(), {"training__batch_size": 500, "training__evaluate_every": "never"}
        with open(self.dir + "/all", "wb") as f:
            f.write(text)
        expected = self.trained("0", file=job, data__dir=self.dir, data__train__file="all", **sets)
        for i, (directory, files) in enumerate((
                ("s3://bucket/data", "all"), (".", "s3://bucket/data/all.gz"), ("s3://bucket/data/", "all.zst"),
                ("s3://bucket/data", "sets/part-*"), ("/nowhere", "s3://bucket/data/set?/part-*"),
                (self.dir, '[s3://bucket/data/sets/part-1*, "s3://bucket/data/sets/part-[23]"]'))):
            with self.subTest(files=files):
                self.store.fail("cut-answer", "GET", "data/", 2)
                self.store.fail("status", "GET", "data/", 1, status=503)
                self.assertEqual(self.trained(str(i + 1), file=job, data__dir=directory, data__train__file=files, **sets),
                                 expected)

    # ---- a cluster ----

    def submit(self, *args, **environment):
        done = subprocess.run([os.path.join(BIN, "gradus"), "submit", *args, "--master", self.master.address],
                              capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def stranger(self, *args):
        """A command of somebody who has no credentials."""
        return subprocess.run([os.path.join(BIN, "gradus"), *args], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "HOME": self.dir})

    def sets_of(self, **sets):
        return [a for k, v in {"training__epochs": 1, "cluster__ps": 1, "cluster__workers": 1, "data__dir": DATA,
                               "model__input": "[28, 28]", "data__classes": 10, **sets}.items()
                for a in ("--set", f"{k.replace('__', '.')}={v}")]

    def test_the_workers_read_what_the_client_may_not(self):
        self.put_digits()
        self.cluster(workers=1, ps=1)
        for command in ("validate", "plan"):
            done = gradus(command, self.file, *self.sets_of())
            self.assertEqual(done.returncode, 0, done.stderr)
            done = self.stranger(command, self.file, *self.sets_of())
            self.assertEqual(done.returncode, 0, done.stderr)
        done = self.stranger("validate", self.file, "--set", f"data.dir={DATA}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not checked against its data", " ".join(done.stdout.split()))
        self.assertIn("there are no credentials", " ".join(done.stdout.split()))
        job = self.submit(self.file, *self.sets_of(), AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="", HOME=self.dir)
        self.assertEqual(self.wait_end(job)["state"], "SUCCEEDED")

    def failed(self, **sets):
        job = self.submit(self.file, *self.sets_of(**sets))
        status = self.wait_for("the end", lambda: (lambda s: s if s["state"] in ("FAILED", "SUCCEEDED") else None)(
            self.now(job)))
        self.assertEqual(status["state"], "FAILED")
        return status["reason"]

    def test_what_cannot_work_fails_the_job_and_nothing_else(self):
        self.put_digits()
        self.cluster(workers=1, ps=1)
        self.assertIn("the bucket does not exist", self.failed(data__dir="s3://nowhere/x"))
        self.assertIn("answers 404", self.failed(data__dir="s3://bucket/x"))
        self.assertIn("no file matches s3://bucket/data/digits/x-*", self.failed(data__train__file="x-*"))
        secret, self.store.secret = self.store.secret, "another"
        self.assertIn("the secret key is wrong", self.failed())
        self.store.secret = secret
        key = "data/digits/train-images-idx3-ubyte.gz"
        data = self.store.buckets["bucket"][key][0]
        self.put(key, data[:len(data) // 2])
        self.assertIn("cut off", self.failed())
        self.put_digits()
        job = self.submit(self.file, *self.sets_of())
        self.assertEqual(self.wait_end(job)["state"], "SUCCEEDED")
        done = gradus("nodes", "--master", self.master.address)
        self.assertIn("worker-1", done.stdout)  # the same that was there at first
        self.assertNotIn("worker-2", done.stdout)

    def test_a_store_that_is_away_is_waited_for(self):
        self.put_digits()
        self.cluster(workers=2, ps=1)
        away = self.store.fail("status", "GET", "digits", 1000, status=503)
        job = self.submit(self.file, *self.sets_of(cluster__workers=2))
        self.wait_for("several rounds", lambda: away.hits > 12)
        self.assertNotIn(self.now(job)["state"], ("FAILED", "SUCCEEDED"))
        away.left = 0
        self.assertEqual(self.wait_end(job)["state"], "SUCCEEDED")

    # ---- job files ----

    def test_job_files(self):
        self.put_digits()
        with open(self.file, "rb") as f:
            self.put("jobs/digits.yaml", f.read())
        self.put("jobs/wrong.yaml", b"name: x\nmodel: 7\n")
        self.cluster(workers=1, ps=1)
        url = "s3://bucket/jobs/digits.yaml"
        for command in ("validate", "plan"):
            done = gradus(command, url, "--set", f"data.dir={DATA}")
            self.assertEqual(done.returncode, 0, done.stderr)
        job = self.submit(url, *self.sets_of())
        self.assertEqual(self.wait_end(job)["state"], "SUCCEEDED")
        self.assertEqual(self.trained("there", file=url, data__dir=DATA), self.trained("here", data__dir=DATA))
        done = gradus("validate", "s3://bucket/jobs/wrong.yaml")
        self.assertEqual(done.returncode, 2)
        self.assertIn("s3://bucket/jobs/wrong.yaml:2:", done.stderr)
        done = gradus("submit", "s3://bucket/jobs/none.yaml", "--master", self.master.address)
        self.assertEqual(done.returncode, 5)
        self.assertIn("s3://bucket/jobs/none.yaml", done.stderr)
        done = self.stranger("validate", url)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there are no credentials", done.stderr)


if __name__ == "__main__":
    main()
