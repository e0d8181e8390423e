# SPDX-License-Identifier: Apache-2.0
"""Training that ends for want of a better version, and the best version that is kept, on real processes."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from cluster import gradus, read_job  # noqa: E402
from faults import Digits, FaultTest, main  # noqa: E402

STOP = {"training__stop__metric": "accuracy", "training__stop__patience": 2, "training__evaluate_every": 5,
        "training__stop__min_delta": 0.02, "training__replicas": 2, "cluster__workers": "1..2", "cluster__ps": 2}


def model(evaluations, patience, min_delta):
    """What a walk over the evaluations says: the best one, and how many are after it."""
    best = None
    for e in evaluations:
        value = e["test"]["accuracy"]
        if best is None or value > best["test"]["accuracy"] + min_delta:
            best, without = e, 0
        else:
            without += 1
            if without == patience:
                return best, without
    return best, without


class Stop(Digits, FaultTest):
    def weights(self, what, *flags, state=True):
        out = os.path.join(self.dir, "out.safetensors")
        where = ("--state-dir", self.state_dir) if state else ()
        done = gradus("export", what, out, "--bare", *flags, *where)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, "rb") as f:
            return f.read()

    def stop_keys(self, **more):
        keys = dict(STOP, training__epochs=40)
        keys.update(more)
        return keys

    def assert_stopped(self, status):
        best, without = model(status["evaluations"], 2, 0.02)
        self.assertEqual(without, 2, status["evaluations"])
        self.assertEqual(status["steps"], status["evaluations"][-1]["step"])
        self.assertEqual(status["best"]["step"], best["step"])
        self.assertIn(f"of step {best['step']} for 2 evaluations", status["reason"])
        self.assertTrue(status["reason"].startswith("stopped early: no better accuracy than "), status["reason"])
        self.assertTrue(status["best"]["stops"])
        return best

    def test_the_same_end_and_result_whatever_dies(self):
        self.cluster(workers=2)
        keys = self.stop_keys(training__stop__restore_best="true", training__checkpoint_every=5)
        whole = self.start_job(**keys)
        first = self.wait_end(whole)
        best = self.assert_stopped(self.status(self.master, whole))
        self.assertIn(f"the result is the version of step {best['step']}", first["reason"])
        self.assertIn(f"step-{best['step']:09d}", first["checkpoint"])
        job = self.start_job(**keys)
        self.wait_for("an evaluation", lambda: len(self.status(self.master, job)["evaluations"]) > 0 or None)
        self.replace_ps(0)
        self.replace_master()
        done = self.wait_end(job)
        self.assertEqual((done["steps"], done["reason"]), (first["steps"], first["reason"]))
        again = self.status(self.master, job)
        self.assertEqual(again["best"]["step"], best["step"])
        self.assertEqual(self.weights(job), self.weights(whole))
        # By its directory alone, where no master is asked: the result, the best, and the last one by name.
        directory = os.path.dirname(done["checkpoint"])
        self.assertEqual(self.weights(directory, state=False), self.weights(whole))
        last = os.path.join(directory, f"step-{done['steps']:09d}")
        self.assertNotEqual(self.weights(last, state=False), self.weights(whole))
        self.assertEqual(self.weights(last, "--best", state=False), self.weights(whole))

    def test_every_mode_keeps_the_best_beside_the_newest(self):
        self.cluster(workers=2)
        for mode in ("async", "bounded"):
            job = self.start_job(**self.stop_keys(training__mode=mode, training__checkpoints_keep="{last: 1, best: accuracy}"))
            self.wait_end(job)
            status = self.status(self.master, job)
            best = self.assert_stopped(status)
            self.assertIn(f"step-{best['step']:09d}", status["best"]["checkpoint"])
            self.assertIn(f"step-{status['steps']:09d}", status["checkpoint"])
            kept = [f"step-{step:09d}" for step in (best["step"], status["steps"])]
            # The last prune follows the end of the job.
            self.wait_for("these two alone", lambda: kept == sorted(
                name for name in os.listdir(os.path.dirname(status["checkpoint"])) if name.startswith("step-")))
            self.assertNotEqual(self.weights(job), self.weights(job, "--best"))
            self.assertEqual(self.weights(job + "@best"), self.weights(job, "--best"))
            shown = gradus("status", job + "@best", "--json", "--state-dir", self.state_dir)
            self.assertEqual(read_job(shown.stdout)["checkpoint"], status["best"]["checkpoint"], shown.stderr)
            evaluated = gradus("evaluate", job + "@best", "--json", "--state-dir", self.state_dir)
            self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
            self.assertAlmostEqual(json.loads(evaluated.stdout)["metrics"]["accuracy"], best["test"]["accuracy"], places=6)

    def test_the_best_is_kept_without_an_early_end_from_when_it_is_set(self):
        self.cluster(workers=2)
        job = self.start_job(training__evaluate_every="20 steps", training__checkpoints_keep=1)
        self.assertNotIn("best", self.status(self.master, job))
        refused = self.set_keys(job, "training.checkpoints_keep.best=auc", expect=2)
        self.assertIn("training.checkpoints_keep.best: auc is not measured", " ".join(refused.split()))
        self.set_keys(job, "training.checkpoints_keep.best=loss")
        self.wait_for("a best version", lambda: self.status(self.master, job).get("best", {}).get("checkpoint") or None)
        self.wait_end(job)
        status = self.status(self.master, job)
        self.assertEqual((status["best"]["metric"], status["best"]["stops"]), ("loss", False))
        self.assertEqual(self.weights(job + "@best"), self.weights(status["best"]["checkpoint"], state=False))

    def test_without_a_best_version_there_is_none(self):
        self.cluster(workers=1)
        job = self.submit(training__epochs=1, cluster__workers=1, training__replicas=1)
        self.wait_end(job)
        done = gradus("export", job, os.path.join(self.dir, "x"), "--best", "--state-dir", self.state_dir)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("no best version was kept; training.checkpoints_keep.best of the job file does it", done.stderr)
        for command in (["status"], ["evaluate"], ["predict", "--data=x", "--out=-"]):
            done = gradus(*command, job + "@best", "--state-dir", self.state_dir)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn("no best version was kept", " ".join(done.stderr.split()))


if __name__ == "__main__":
    main()
