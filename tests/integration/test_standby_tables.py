# SPDX-License-Identifier: Apache-2.0
"""Jobs with sparse tables and `cluster.standby: follower`: a server may die, and rows, slots and what admission counts go on elsewhere."""

import json
import signal

from cluster import gradus
from faults import main
from test_standby import Standby
from test_tables import Clicks


class Tables(Clicks, Standby):
    """Whose tables admit and evict at every version."""

    def kill(self, victim=0, done=0.4, **sets):
        job = self.begin(**sets)
        self.wait_done(job, done)
        self.servers[victim].stop(signal.SIGKILL)
        self.wait_taken_over(job)
        return job

    def one_after_the_other(self, **sets):
        """Both of the servers are killed, the second one when the shards have followed to a third."""
        job = self.kill(0, 0.2, **sets)
        self.servers[0] = self.start_ps()
        self.wait_followed(job)
        self.servers[1].stop(signal.SIGKILL)
        self.wait_taken_over(job, 3)
        return job


class TablesSync(Tables):
    def test_the_first_server_killed(self):
        self.assert_as_quiet(self.kill(0), 1)

    def test_the_second_server_killed_with_clips_by_norm(self):
        keys = {"update__clip_norm": 0.5, "update__clip_global_norm": 1}
        self.assert_as_quiet(self.kill(1, **keys), 1, **keys)

    def test_one_after_the_other(self):
        self.assert_as_quiet(self.one_after_the_other(), 3)

    def test_killed_while_checkpoints_and_deltas_are_written(self):
        keys = {"training__checkpoint_every": "5 steps", "training__checkpoint_full_every": 3}
        job = self.begin(**keys)
        for _ in range(4):
            self.wait_checkpoint(job)
        self.servers[0].stop(signal.SIGKILL)
        self.wait_taken_over(job)
        before = self.now(job)["checkpoint"]
        self.wait_for("another checkpoint", lambda: self.now(job)["checkpoint"] != before)
        self.assert_as_quiet(job, 1)

    def test_set_while_it_runs(self):
        self.cluster(workers=2)
        job = self.start_job(**{"cluster__ps": 2, "cluster__partitions": 2, "cluster__workers": 2, **self.replicas})
        self.wait_done(job, 0.2)
        done = gradus("set", job, "cluster.standby=follower", "--master", self.master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.wait_followed(job)
        done = gradus("table", job, "--json", "--master", self.master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)["shards"]), 2)  # rows of backups are not counted again
        self.servers[1].stop(signal.SIGKILL)
        self.wait_taken_over(job)
        self.assert_as_quiet(job, 1)


class TablesOtherModes(Tables):
    replicas = {}

    def test_async(self):
        self.assert_each_once(self.kill(workers=3, training__mode="async"), 1)

    def test_bounded_one_after_the_other(self):
        self.assert_each_once(self.one_after_the_other(workers=3, training__mode="bounded", training__staleness=2), 3)


if __name__ == "__main__":
    main()
