# SPDX-License-Identifier: Apache-2.0
"""gradus set on the update section of a job that runs: from one step on, on all servers, with the bits of a job whose schedule had
said the same from the beginning, whatever is killed meanwhile."""

import datetime
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from cluster import gradus  # noqa: E402
from faults import FaultTest, main  # noqa: E402
from test_fair_use import FairTest  # noqa: E402
from test_tables import Clicks  # noqa: E402

RATE = 0.5  # that a job begins with; halves of it have the same bits however they are computed


class Changes:
    def change(self, job, *keys):
        """The change as it is recorded."""
        changed = self.set_keys(job, *keys)
        self.assertEqual(changed["state"], "RUNNING")
        last = self.status(self.master, job)["changes"][-1]
        self.assertEqual(last["sets"], list(keys))
        return last

    def bits_by_schedule(self, status, points, **keys):
        """Of a job that nothing happens to, whose schedule halves the rate at each of the steps."""
        factors = ", ".join(str(0.5 ** i) for i in range(len(points) + 1))
        schedule = f"{{kind: piecewise, at: {points}, factors: '{factors}'}}"
        done = self.quiet("schedule", training__epochs=int(status["epochs"]), update__schedule=schedule, **keys)
        return self.bits(done["job"], "schedule")


class TableChanges(Changes, Clicks, FaultTest):
    """Rows that have not been touched for a while are owed updates of before the change, and of afterwards."""

    def test_rows_catch_up_through_changes(self):
        self.cluster(workers=2)
        keys = {"training__replicas": 4, "update__rule": "momentum", "update__learning_rate": RATE}
        job = self.start_job(cluster__workers="1..2", cluster__ps=2, training__checkpoint_every="17 steps", **keys)
        self.wait_done(job, 0.1)
        first = self.change(job, f"update.learning_rate={RATE / 2}")
        self.wait_done(job, 0.2)
        self.replace_ps(0)
        self.wait_for("a recovery", lambda: self.now(job)["recoveries"] == 1)
        self.wait_done(job, 0.3)
        second = self.change(job, f"update.learning_rate={RATE / 4}")
        done = self.wait_end(job)
        self.assertEqual(self.bits(job), self.bits_by_schedule(done, [first["step"], second["step"]], **keys))


class UpdateChanges(Changes, FairTest):
    job_keys = {"training__replicas": 4, "cluster__workers": "1..3", "cluster__ps": 2, "cluster__partitions": 2,
                "update__rule": "sgd", "update__learning_rate": RATE}
    one_server = {**job_keys, "cluster__workers": 1, "cluster__ps": 1}

    def test_the_same_bits_when_workers_servers_and_the_master_die(self):
        self.cluster(workers=3)
        job = self.start_job(training__checkpoint_every="13 steps", **self.job_keys)
        self.wait_done(job, 0.1)
        first = self.change(job, f"update.learning_rate={RATE / 2}")
        self.replace_worker(0)
        self.wait_done(job, 0.3)
        self.replace_ps(1)  # it goes back to a checkpoint, maybe of before the change
        self.wait_for("a recovery", lambda: self.now(job)["recoveries"] == 1)
        self.wait_done(job, 0.4)
        self.workers[1].process.send_signal(signal.SIGKILL)
        second = self.change(job, f"update.learning_rate={RATE / 4}")
        self.replace_worker(1)
        self.replace_master()
        self.wait_done(job, 0.5)
        done = self.wait_end(job)
        self.assertLess(first["step"], second["step"])
        self.assertEqual([c["step"] for c in done["changes"]][:2], [first["step"], second["step"]])
        self.assertEqual(self.bits(job), self.bits_by_schedule(done, [first["step"], second["step"]], **self.one_server))

    def test_it_is_made_again_from_the_beginning(self):
        """Without a checkpoint all of it is."""
        self.cluster(workers=2)
        job = self.start_job(**self.job_keys)
        self.wait_done(job, 0.1)
        change = self.change(job, f"update.learning_rate={RATE / 2}")
        self.wait_done(job, 0.2)
        self.replace_ps(0)
        done = self.wait_end(job)
        self.assertEqual(done["recoveries"], 1)
        self.assertEqual(self.bits(job), self.bits_by_schedule(done, [change["step"]], **self.one_server))

    def test_paused_and_resumed(self):
        self.cluster(workers=2)
        job = self.start_job(**self.job_keys)
        self.wait_done(job, 0.1)
        self.ask("pause", job)
        paused = self.wait_state(job, "PAUSED")
        changed = self.set_keys(job, f"update.learning_rate={RATE / 2}")
        self.assertEqual(changed["changes"][0]["sets"], [f"update.learning_rate={RATE / 2}"])
        self.assertEqual(changed["changes"][0]["version"], 2 ** 64 - 1)  # from its next start on
        self.assertIn("from its next start on: update.learning_rate=0.25\n",
                      gradus("status", job, "--master", self.master.address).stdout)
        self.ask("resume", job)
        self.wait_done(job, 0.3)
        self.ask("cancel", job)
        ended = self.wait_state(job, "CANCELLED")
        self.ask("resume", job, "--set", f"update.learning_rate={RATE / 4}")
        done = self.wait_end(job)
        points = [paused["steps"], ended["steps"]]
        self.assertEqual([c["step"] for c in done["changes"]][:2], points)
        self.assertIn(f"changed     {self.day(done)}", gradus("status", job, "--master", self.master.address).stdout)
        self.assertEqual(self.bits(job), self.bits_by_schedule(done, points, **self.one_server))

    def day(self, status):
        when = datetime.datetime.fromtimestamp(status["changes"][0]["time_ms"] / 1000, datetime.timezone.utc)
        return when.strftime("%Y-%m-%dT%H:%M:%SZ, from step ")

    def test_clipping_begins_and_ends(self):
        """With sums over two servers, and none of them before and afterwards: the bits of one server."""
        self.cluster(workers=2)
        job = self.start_job(training__checkpoint_every="7 steps", **self.job_keys)
        self.wait_done(job, 0.1)
        self.change(job, "update.clip_norm=0.05", "update.weight_decay=0.01", "update.l1=0.0001")
        self.wait_done(job, 0.3)
        self.replace_ps(0)
        self.wait_for("a recovery", lambda: self.now(job)["recoveries"] == 1)
        self.wait_done(job, 0.4)
        self.change(job, "update.clip_norm=0", "update.clip_value=0.5")
        done = self.wait_end(job)
        one = self.job_on_one_server(done)
        self.assertEqual(self.bits(job), self.bits(one))

    def job_on_one_server(self, status):
        """The same by resuming: it stops at each step of a change, and goes on with it."""
        changes = [c for c in status["changes"] if c["sets"][0].startswith("update.")]
        job = self.submit(training__steps=changes[0]["step"], training__epochs=0, **self.one_server)
        for i, c in enumerate(changes):
            self.wait_end(job)
            end = changes[i + 1]["step"] if i + 1 < len(changes) else status["steps"]
            sets = [arg for key in c["sets"] for arg in ("--set", key)]
            self.ask("resume", job, *sets, "--set", f"training.steps={end}")
        self.wait_end(job)
        return job

    def test_async(self):
        self.cluster(workers=3)
        job = self.start_job(training__mode="async", training__checkpoint_every="1 epoch", **self.job_keys)
        self.wait_done(job, 0.1)
        change = self.change(job, f"update.learning_rate={RATE / 4}", "update.clip_global_norm=1")
        self.assertEqual(change["version"], change["step"])
        self.replace_worker(0)
        self.wait_done(job, 0.4)
        self.replace_ps(0)
        self.wait_for("a recovery", lambda: self.now(job)["recoveries"] == 1)
        self.wait_done(job, 0.5)
        self.change(job, "update.clip_global_norm=0")
        done = self.wait_end(job)
        self.assertEqual(done["changes"][0]["version"], change["version"])
        self.assert_each_record_once(done)

    def test_what_cannot_change(self):
        self.cluster(workers=1)
        job = self.start_job(**self.job_keys)
        generation = self.now(job)["generation"]
        for keys, words in (
            (["update.rule=adam"], "update.rule=adam: fixed when the job was submitted: it decides what the servers keep"),
            (["update.accumulate=2"], "update.accumulate=2: fixed"),
            (["update.average=0.9"], "update.average: there was none"),
            (["update.learning_rate=-1"], "update.learning_rate=-1"),
            (["update.variables=[{match: nothing, frozen: true}]"], "nothing"),
            (["update={rule: sgd}"], "a section; its keys can be set one by one"),
        ):
            done = gradus("set", job, *keys, "--master", self.master.address)
            self.assertIn(done.returncode, (1, 2), done.stderr)
            self.assertIn(words, " ".join(done.stderr.split()))
        status = self.ask("status", job)
        self.assertEqual((status["generation"], status["changes"]), (generation, []))
        self.change(job, "update.schedule.kind=cosine", "update.schedule.length=1000")
        self.change(job, "update.schedule.length=2000")
        self.assertIn("length: 2000", self.ask("status", job)["text"])
        self.wait_end(job)


if __name__ == "__main__":
    main()
