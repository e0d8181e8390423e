# SPDX-License-Identifier: Apache-2.0
"""Jobs that have failed, were cancelled or have succeeded, and are resumed: the same bits as without an end in between, each record
once, and what is refused."""

import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from cluster import gradus, read_job  # noqa: E402
from faults import main  # noqa: E402
from test_fair_use import FairTest  # noqa: E402


class Resume(FairTest):
    job_keys = {"training__replicas": 2, "cluster__workers": "1..2", "cluster__ps": 2}

    def cancel(self, job, *flags):
        done = gradus("cancel", job, *flags, "--master", self.master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.wait_state(job, "CANCELLED")

    def test_the_same_weights_as_without_an_end(self):
        self.cluster(workers=2)
        job = self.start_job(training__evaluate_every="1 epoch", **self.job_keys)
        self.wait_done(job, 0.2)
        ended = self.cancel(job)
        self.assertIn("by request, at step", ended["reason"])
        self.wait_free()
        said = gradus("resume", job, "--master", self.master.address)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn(f"job {job} had CANCELLED: by request, at step {ended['steps']}", said.stderr)
        self.assertIn("it goes on from its newest checkpoint", said.stderr)
        self.wait_done(job, 0.5)
        self.cancel(job, "--now")  # what came since the checkpoint is done again
        self.replace_worker(0)
        self.ask("resume", job)
        done = self.wait_end(job)
        self.assertEqual((done["recoveries"], done["resumes"]), (0, 2))
        self.assertIn("CANCELLED: cancelled at once", done["ended_before"])
        self.assertIn("\nresumed     2 times after it had ended, the last time CANCELLED: cancelled at once",
                      gradus("status", job, "--master", self.master.address).stdout)
        self.assertEqual(self.weights(job), self.weights_of_quiet(done, training__replicas=2, training__evaluate_every="1 epoch"))
        whole = read_job(gradus("status", "digits-1", "--json", "--state-dir", self.dir + "/quiet").stdout)
        self.assertEqual([e["step"] for e in done["evaluations"]], [e["step"] for e in whole["evaluations"]])

    def test_a_job_of_gradus_run(self):
        """No master runs there any more: one is started, as the run had."""
        short = self.run_job(state="short", training__epochs=1, **self.job_keys)
        state = ("--state-dir", self.dir + "/short")
        idle = gradus("resume", short["job"], *state)
        self.assertEqual(idle.returncode, 1, idle.stderr)
        self.assertIn("which is all of its file", idle.stderr)
        wrong = gradus("resume", short["job"], "--set", "training.epochs=none", *state)
        self.assertEqual(wrong.returncode, 2, wrong.stderr)
        self.assertIn("--set training.epochs=none", wrong.stderr)
        done = gradus("resume", short["job"], "--set", "training.epochs=3", "--json", *state)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"job {short['job']} had SUCCEEDED; it goes on from its newest checkpoint", done.stderr)
        told = read_job(done.stdout)
        self.assertEqual((told["job"], told["state"], told["epochs"]), (short["job"], "SUCCEEDED", 3))
        whole = self.run_job(state="whole", training__epochs=3, **self.job_keys)
        self.assertEqual(self.export(short["job"], "short"), self.export(whole["job"], "whole"))
        self.assertIn("no master runs in", gradus("pause", short["job"], *state).stderr)

    def test_a_job_of_gradus_run_whose_checkpoint_is_damaged(self):
        """Nothing is started for what cannot go on; with a whole one, also an older one, it does."""
        job = self.run_job(state="damaged", training__epochs=1, **self.job_keys)
        state = ("--state-dir", self.dir + "/damaged")
        file = os.path.join(job["checkpoint"], "shard-1-of-2.safetensors")
        with open(file, "rb") as f:
            whole = f.read()
        with open(file, "r+b") as f:
            f.seek(len(whole) - 1)
            f.write(bytes([whole[-1] ^ 1]))
        done = gradus("resume", job["job"], "--set", "training.epochs=2", *state)
        self.assertEqual(done.returncode, 1, done.stderr)
        said = " ".join(done.stderr.split())
        for part in f"job {job['job']} cannot go on: none of its checkpoints is whole: checkpoint {job['checkpoint']}", os.path.basename(file), "checksum":
            self.assertIn(part, said)
        self.assertNotIn("1 master", said)
        self.assertEqual(read_job(gradus("status", job["job"], "--json", *state).stdout)["state"], "SUCCEEDED")
        with open(file, "wb") as f:
            f.write(whole)
        done = gradus("resume", job["job"], "--set", "training.epochs=2", *state)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_one_whose_checkpoint_is_damaged_waits(self):
        """In a cluster the file may be put back; what is damaged, and where, is shown meanwhile."""
        self.cluster(workers=2)
        job = self.submit(training__epochs=1, **self.job_keys)
        saved = self.wait_end(job)["checkpoint"]
        file = os.path.join(saved, "shard-1-of-2.safetensors")
        with open(file, "rb") as f:
            whole = f.read()
        with open(file, "r+b") as f:
            f.seek(len(whole) - 1)
            f.write(bytes([whole[-1] ^ 1]))
        self.ask("resume", job, "--set", "training.epochs=2")

        def told():
            reason = self.now(job)["reason"]
            return "none of its checkpoints can be read" in reason and saved in reason and os.path.basename(file) in reason and "damaged" in reason
        self.wait_for("the reason", told)
        with open(file, "wb") as f:
            f.write(whole)
        self.wait_end(job)

    def test_checkpoints_that_nobody_asks_for(self):
        self.cluster(workers=2)
        keys = {"training__evaluate_every": "never", **self.job_keys}
        for mode in ("sync", "async"):
            job = self.start_job(training__mode=mode, training__checkpoint_within="200ms", **keys)
            first = self.wait_checkpoint(job)
            self.wait_for("the next one", lambda job=job, first=first: self.now(job)["checkpoint"] != first)
            self.wait_end(job)
        done = gradus("submit", self.file, "--master", self.master.address, *self.sets(training__checkpoint_within=0, **keys))
        self.assertIn("no checkpoint is written before the end (training.checkpoint_every: never", " ".join(done.stderr.split()))

    def test_each_record_once_in_async_mode(self):
        self.cluster(workers=2)
        job = self.start_job(training__mode="async", **self.job_keys)
        self.wait_done(job, 0.2)
        self.cancel(job)
        self.ask("resume", job)
        self.assert_each_record_once(self.wait_end(job))

    def test_the_master_dies_when_it_has_answered(self):
        self.cluster(workers=2)
        job = self.start_job(**self.job_keys)
        self.wait_done(job, 0.3)
        self.cancel(job)
        self.replace_master()  # it knows the job by its row alone
        self.assertEqual(self.now(job)["state"], "CANCELLED")
        self.ask("resume", job)
        self.replace_master()
        done = self.wait_end(job)
        self.assertEqual(done["resumes"], 1)
        self.assertEqual(self.weights(job), self.weights_of_quiet(done, training__replicas=2))

    def test_one_that_succeeded_trains_on(self):
        self.cluster(workers=2)
        epochs = 4
        job = self.submit(training__epochs=epochs - 2, **self.job_keys)
        self.wait_end(job)
        self.assertIn("all of its file; to train on, set more: training.epochs=", self.ask("resume", job, expect=1))
        refused = gradus("resume", job, "--set", "training.seed=3", "--master", self.master.address)
        self.assertIn("training.seed=3: fixed when the job was submitted", refused.stderr)
        self.ask("resume", job, "--set", f"training.epochs={epochs}")
        done = self.wait_end(job)
        self.assertEqual(self.weights(job), self.weights_of_quiet(done, training__replicas=2))

    def test_what_is_refused(self):
        self.cluster(workers=2)
        self.assertIn("no job none-1", self.ask("resume", "none-1", expect=5))
        job = self.start_job(**self.job_keys)
        self.wait_done(job, 0.1)
        self.assertIn("what runs or waits is changed with Set",
                      gradus("resume", job, "--set", "training.epochs=99", "--master", self.master.address).stderr)
        self.assertEqual(self.ask("resume", job)["state"], "RUNNING")  # as it is wanted
        self.cancel(job)
        there = f"{self.state_dir}/checkpoints/{job}"
        os.rename(there, there + ".away")
        self.assertIn("none of its checkpoints is there, and it had ", self.ask("resume", job, expect=1))
        self.assertEqual(self.now(job)["state"], "CANCELLED")
        os.rename(there + ".away", there)
        self.ask("resume", job)
        self.wait_end(job)

    def test_other_data_than_before(self):
        self.cluster(workers=2)
        data = os.path.join(self.dir, "mine")
        shutil.copytree(self.data_dir(), data)
        job = self.start_job(data__dir=data, **self.job_keys)
        self.wait_done(job, 0.2)
        self.cancel(job)
        self.wait_free()
        os.rename(data, data + ".before")
        done = gradus("generate", "digits", "--out", data, "--seed", "99", "--train", str(self.records), "--test", "500")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.ask("resume", job)
        failed = self.wait_state(job, "FAILED")
        self.assertIn("the training records are not those that it was trained with until then", failed["reason"])
        shutil.rmtree(data)
        os.rename(data + ".before", data)
        self.wait_free()
        self.ask("resume", job)
        self.wait_end(job)


if __name__ == "__main__":
    main()
