# SPDX-License-Identifier: Apache-2.0
"""gradus set cluster.ps while a job runs: it moves to as many servers, and nothing of it is lost or made again."""

import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
from cluster import BIN, gradus  # noqa: E402
from faults import main  # noqa: E402
from test_fair_use import FairTest  # noqa: E402
from test_tables import Clicks  # noqa: E402


class Resize:
    job_keys = {"training__replicas": 4, "cluster__workers": 2, "cluster__ps": 2}

    def places(self, job):
        return [shard["ps"] for shard in self.status(self.master, job)["shards"]]

    def wait_servers(self, job, count):
        """Until it runs on so many; its status then."""
        def there():
            status = self.status(self.master, job)
            return status if status["state"] == "RUNNING" and len(status["shards"]) == count else None
        return self.wait_for(f"{count} servers", there)

    def move(self, job, count):
        """The change is answered when it is made."""
        self.set_keys(job, f"cluster.ps={count}")
        servers = self.places(job)
        self.assertEqual(len(set(servers)), count, servers)

    def assert_nothing_lost(self, job):
        status = self.wait_end(job)
        self.assertEqual((status["recoveries"], status["takeovers"]), (0, 0), status["reason"])
        return status

    def assert_as_quiet(self, job, **sets):
        status = self.assert_nothing_lost(job)
        quiet = self.quiet("quiet", training__epochs=int(status["epochs"]), training__replicas=4, **sets)
        self.assertEqual(self.bits(job), self.bits(quiet["job"], "quiet"))
        return status

    def there_and_back(self, **sets):
        """A job that has moved from 2 servers to 5 and back to 2."""
        self.cluster(workers=2, ps=5)
        job = self.start_job(**{**self.job_keys, **sets})
        self.wait_done(job, 0.1)
        workers = self.now(job)["workers"]
        self.move(job, 5)
        self.wait_done(job, 0.3)
        self.move(job, 2)
        self.wait_done(job, 0.4)
        status = self.now(job)
        self.assertEqual(sorted(status["workers"]), sorted(workers))
        return job


class Tables(Resize, Clicks, FairTest):
    def test_rows_move(self):
        self.assert_as_quiet(self.there_and_back())


class Digits(Resize, FairTest):
    def test_sync(self):
        status = self.assert_as_quiet(self.there_and_back())
        self.assertEqual([c["sets"] for c in status["changes"]][:2], [["cluster.ps=5"], ["cluster.ps=2"]])

    def test_sums_of_whole_variables(self):
        rule = {"update__rule": "lamb", "update__learning_rate": 0.01}
        self.assert_as_quiet(self.there_and_back(**rule), **rule)

    def test_async(self):
        self.assert_each_record_once(self.assert_nothing_lost(self.there_and_back(training__mode="async")))

    def test_with_backups(self):
        job = self.there_and_back(cluster__standby="follower")
        shards = self.status(self.master, job)["shards"]
        self.assertEqual([s["backup"] for s in shards], [s["ps"] for s in shards[::-1]])
        self.assert_as_quiet(job)

    def test_another_job_waits(self):
        """It does not get the workers meanwhile."""
        self.cluster(workers=2, ps=3)
        job = self.start_job(**self.job_keys)
        other = self.submit(**{**self.job_keys, "cluster__workers": 1})
        self.wait_for("the other to wait", lambda: "waits for" in self.now(other)["reason"])
        self.move(job, 3)
        self.wait_done(job, 0.2)
        self.move(job, 1)
        self.assertEqual((self.now(other)["state"], len(self.now(job)["workers"])), ("PENDING", 2))
        self.assert_as_quiet(job)
        self.wait_end(other)

    def test_one_server_too_few(self):
        """It trains on until the last one is there, whatever else happens to it."""
        self.cluster(workers=2, ps=2)
        job = self.start_job(training__checkpoint_every="10 steps", **self.job_keys)
        self.set_keys(job, "cluster.ps=3", "training.checkpoint_every=7 steps")
        steps = self.now(job)["steps"]
        self.wait_for("more steps", lambda: self.now(job)["steps"] > steps + 5)
        shown = gradus("status", job, "--master", self.master.address).stdout
        self.assertIn("wants 3 parameter servers: 2 can serve it", " ".join(shown.split()))
        self.replace_ps(0)
        self.wait_for("a recovery", lambda: (lambda s: s["recoveries"] == 1 and s["state"] == "RUNNING")(self.now(job)))
        self.assertEqual(len(set(self.places(job))), 2)
        self.replace_master()
        self.wait_done(job, 0)
        self.assertEqual(len(set(self.places(job))), 2)
        self.servers.append(self.start_ps())
        status = self.wait_servers(job, 3)
        self.assertEqual(status["recoveries"], 1)
        status = self.wait_end(job)
        quiet = self.quiet("quiet", training__epochs=int(status["epochs"]), training__replicas=4)
        self.assertEqual(self.bits(job), self.bits(quiet["job"], "quiet"))

    def test_the_master_is_killed_meanwhile(self):
        self.cluster(workers=2, ps=3)
        job = self.start_job(**self.job_keys)
        self.wait_done(job, 0.1)
        with self.held():  # so that it cannot be done before
            asks = subprocess.Popen([BIN + "/gradus", "set", job, "cluster.ps=3", "--master", self.master.address],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(asks.wait)
            self.addCleanup(asks.kill)
            self.wait_for("it to be stored", lambda: "ps: 3" in self.status(self.master, job)["text"])
            self.replace_master()
        status = self.wait_servers(job, 3)
        self.assertEqual(status["recoveries"], 0)
        self.assert_as_quiet(job)

    def test_no_memory(self):
        """With one server each would hold all of it, which none can."""
        self.cluster(workers=2, ps=0)
        self.servers = [self.start("ps", f"--master={self.master.address}", "--memory-bytes-max=1600KiB",
                                   f"--checkpoint-dir={self.state_dir}/checkpoints") for _ in range(4)]
        job = self.start_job(**{**self.job_keys, "cluster__ps": 4, "cluster__slice_bytes": "16 KiB"})
        self.wait_done(job, 0.1)
        said = self.set_keys(job, "cluster.ps=1", expect=1)
        self.assertRegex(" ".join(said.split()), r"goes on with 4 parameter servers, for 1 cannot hold it: .*[0-9] (bytes|MB|MiB|KiB)")
        self.wait_done(job, 0.2)
        status = self.status(self.master, job)
        self.assertEqual((len(status["shards"]), status["recoveries"]), (4, 0))
        self.assertIn("ps: 4", status["text"])
        self.assert_as_quiet(job)

    def test_no_place_for_checkpoints(self):
        self.cluster(workers=2, ps=0)
        self.servers = [self.start("ps", f"--master={self.master.address}", f"--checkpoint-dir={self.dir}/elsewhere-{i}") for i in range(2)]
        job = self.start_job(**{**self.job_keys, "cluster__ps": 1})
        said = " ".join(self.set_keys(job, "cluster.ps=2", expect=1).split())
        self.assertIn("moves to other parameter servers by way of a checkpoint", said)
        self.assertTrue(re.search(r"ps-\d could not write a checkpoint", said), said)
        self.ask("cancel", job, "--now")

    def test_what_cannot_be(self):
        self.cluster(workers=2, ps=2)
        job = self.start_job(**{**self.job_keys, "cluster__standby": "follower"})
        self.assertIn("on two servers, and cluster.ps is 1", " ".join(self.set_keys(job, "cluster.ps=1", expect=2).split()))
        self.assertIn("cluster.ps", self.set_keys(job, "cluster.ps=0", expect=2))
        self.assertIn("cluster.ps", self.set_keys(job, "cluster.ps=1024", expect=2))
        self.assertEqual(self.status(self.master, job)["changes"], [])
        self.ask("pause", job)
        self.wait_state(job, "PAUSED")
        self.servers.append(self.start_ps())
        self.set_keys(job, "cluster.ps=3")
        self.wait_for("three servers", lambda: gradus("nodes", "--master", self.master.address).stdout.count("ps-") >= 3)
        self.ask("resume", job)
        self.wait_servers(job, 3)
        self.servers[0].process.send_signal(signal.SIGKILL)
        self.assert_takeover(job)

    def assert_takeover(self, job):
        status = self.wait_end(job)
        self.assertEqual((status["recoveries"], status["takeovers"]), (0, 1))


if __name__ == "__main__":
    main()
