# SPDX-License-Identifier: Apache-2.0
"""With `cluster.standby: follower` a parameter server may die: its shards go on elsewhere, and no step is lost."""

import json
import os
import random
import re
import signal
import subprocess

from cluster import BIN, SOURCE, TIMEOUT, gradus
from faults import Digits, FaultTest, main

SILENCE_MS = 1500


class Standby(Digits, FaultTest):
    replicas = {"training__replicas": 4}

    def begin(self, workers=2, ps=2, silence_ms=None, **sets):
        """A cluster, and a job on it whose shards have backups."""
        self.cluster(workers=workers, ps=ps, silence_ms=silence_ms)
        job = self.start_job(**{"cluster__ps": ps, "cluster__partitions": ps, "cluster__workers": workers,
                                "cluster__standby": "follower", **self.replicas, **sets})
        servers = [shard["ps"] for shard in self.shards(job)]
        self.assertEqual(len(set(servers)), ps)
        self.assertEqual(self.backups(job), servers[1:] + servers[:1])
        return job

    def shards(self, job):
        return self.status(self.master, job)["shards"]

    def backups(self, job):
        return [shard.get("backup", "") for shard in self.shards(job)]

    def wait_taken_over(self, job, count=1):
        return self.wait_for("a takeover", lambda: (
            lambda s: s if s.get("takeovers", 0) >= count else None)(self.status(self.master, job)))

    def wait_followed(self, job):
        """Until each shard has a backup that can take over; its shards then."""
        return self.wait_for("backups that follow", lambda: (
            lambda shards: shards if all(s.get("backup") and s["backup_follows"] for s in shards) else None)(self.shards(job)))

    def wait_alone(self, job):
        """Until no shard has a backup any more, and the job goes on; its status then."""
        self.wait_for("shards without backups", lambda: not any(self.backups(job)))
        steps = self.now(job)["steps"]
        return self.wait_for("more steps", lambda: (lambda s: s if s["steps"] > steps + 10 else None)(self.status(self.master, job)))

    def assert_as_quiet(self, job, takeovers, **sets):
        """It has ended as if nothing had happened."""
        status = self.wait_end(job)
        self.assertEqual((status.get("recoveries", 0), status.get("takeovers", 0)), (0, takeovers), status["reason"])
        quiet = self.quiet("plain", training__epochs=status["epochs"], **self.replicas, **sets)
        self.assertEqual(self.bits(job), self.bits(quiet["job"], "plain"))
        self.assert_learned(status)
        return status

    def assert_each_once(self, job, takeovers):
        status = self.wait_end(job)
        self.assertEqual((status.get("recoveries", 0), status.get("takeovers", 0)), (0, takeovers), status["reason"])
        self.assert_each_record_once(status)
        self.assert_learned(status)


class Sync(Standby):
    def kill(self, victim, **sets):
        job = self.begin(**sets)
        self.wait_done(job, random.random() * 0.8)
        name = self.node_of(self.servers[victim])
        self.servers[victim].stop(signal.SIGKILL)
        status = self.wait_taken_over(job)
        self.assertNotIn(name, [shard["ps"] for shard in status["shards"]])
        return job

    def test_the_first_server_killed(self):
        self.assert_as_quiet(self.kill(0), 1)

    def test_the_second_server_killed(self):
        self.assert_as_quiet(self.kill(1), 1)

    def test_sums_over_whole_variables(self):
        keys = {"update__rule": "lamb", "update__learning_rate": 0.01, "update__clip_global_norm": 1, "update__accumulate": 2}
        self.assert_as_quiet(self.kill(0, **keys), 1, **keys)

    def test_a_worker_killed_with_a_server(self):
        job = self.begin()
        self.wait_done(job, 0.4)
        self.servers[1].stop(signal.SIGKILL)
        self.replace_worker(0)
        self.wait_taken_over(job)
        self.assert_as_quiet(job, 1)

    def test_a_server_leaves(self):
        job = self.begin()
        self.wait_done(job, 0.3)
        self.assertEqual(self.servers[0].stop(), 0)
        self.wait_taken_over(job)
        self.assert_as_quiet(job, 1)

    def test_killed_while_checkpoints_are_written(self):
        job = self.begin(training__checkpoint_every="5 steps")
        self.wait_checkpoint(job)
        self.servers[0].stop(signal.SIGKILL)
        self.wait_taken_over(job)
        before = self.now(job)["checkpoint"]
        self.wait_for("another checkpoint", lambda: self.now(job)["checkpoint"] != before)
        self.assert_as_quiet(job, 1)

    def test_a_server_stands_still(self):
        """Its shard is taken over, that of the other one goes on alone, and it has nothing to say when it comes back."""
        job = self.begin(silence_ms=SILENCE_MS)
        self.wait_done(job, 0.2)
        name = self.node_of(self.servers[1])
        self.servers[1].process.send_signal(signal.SIGSTOP)
        self.wait_taken_over(job)
        status = self.wait_alone(job)
        self.assertIn(name, self.log_of(self.master).split("event=backup_lost", 1)[1].splitlines()[0])
        self.servers[1].process.send_signal(signal.SIGCONT)
        self.assertNotIn(name, [shard["ps"] for shard in status["shards"]])
        self.wait_for("its return", lambda: self.node_of(self.servers[1]))
        self.assert_as_quiet(job, 1)

    def test_the_second_loss_goes_back_to_the_checkpoint(self):
        job = self.begin(training__checkpoint_every="5 steps")
        self.wait_checkpoint(job)
        self.servers[0].stop(signal.SIGKILL)
        self.wait_taken_over(job)
        self.servers[0] = self.start_ps()
        self.replace_ps(1)
        self.wait_for("the recovery", lambda: self.now(job)["recoveries"] == 1)
        status = self.wait_done(job, 0)
        self.assertTrue(all(self.backups(job)), status)
        status = self.wait_end(job)
        quiet = self.quiet("plain", training__epochs=status["epochs"], **self.replicas)
        self.assertEqual(self.bits(job), self.bits(quiet["job"], "plain"))


class Refill(Standby):
    """What has lost its backup gets another one, and then the next server may die."""

    def one_after_the_other(self, **sets):
        job = self.begin(**sets)
        self.wait_done(job, 0.2)
        self.servers[0].stop(signal.SIGKILL)
        self.wait_taken_over(job)
        shards = self.shards(job)
        self.assertTrue(all("no other server" in shard["backup_problem"] for shard in shards if not shard["backup"]), shards)
        self.servers[0] = self.start_ps()
        name = self.node_of(self.servers[0])
        self.assertEqual([shard["backup"] for shard in self.wait_followed(job)], [name, name])
        self.servers[1].stop(signal.SIGKILL)
        self.wait_taken_over(job, 3)
        self.assertEqual([shard["ps"] for shard in self.shards(job)], [name, name])
        return job

    def set(self, job, value):
        done = gradus("set", job, f"cluster.standby={value}", "--master", self.master.address)
        self.assertEqual(done.returncode, 0, done.stderr)


class SyncRefill(Refill):
    def test_one_after_the_other(self):
        self.assert_as_quiet(self.one_after_the_other(), 3)

    def test_sums_and_slots(self):
        keys = {"update__rule": "lamb", "update__learning_rate": 0.01, "update__clip_global_norm": 1, "update__accumulate": 2}
        self.assert_as_quiet(self.one_after_the_other(**keys), 3, **keys)

    def test_beside_checkpoints_and_evaluations(self):
        job = self.one_after_the_other(training__checkpoint_every="7 steps", training__evaluate_every="5 steps")
        before = self.now(job)["checkpoint"]
        self.wait_for("another checkpoint", lambda: self.now(job)["checkpoint"] != before)
        self.assert_as_quiet(job, 3)

    def test_four_servers_until_one_is_left(self):
        """Those that are left have each other's backups."""
        job = self.begin(ps=4)
        self.wait_done(job, 0.1)
        for i in range(3):
            self.wait_followed(job)
            lost = self.status(self.master, job).get("takeovers", 0)
            name = self.node_of(self.servers[i])
            lost += sum(shard["ps"] == name for shard in self.shards(job))
            self.servers[i].stop(signal.SIGKILL)
            self.wait_taken_over(job, lost)
        self.assert_as_quiet(job, lost)

    def test_its_server_is_killed(self):
        """The new one, at any moment: the job does not notice."""
        job = self.begin(training__checkpoint_every="5 steps")
        self.wait_done(job, 0.2)
        self.servers[0].stop(signal.SIGKILL)
        self.wait_taken_over(job)
        for _ in range(3):
            server = self.start_ps()
            self.wait_for("its backup", lambda: any(self.backups(job)))
            server.stop(signal.SIGKILL)
            self.wait_for("its loss", lambda: not any(self.backups(job)))
        self.servers[0] = self.start_ps()
        self.wait_followed(job)
        self.servers[1].stop(signal.SIGKILL)
        self.wait_taken_over(job, 3)
        self.assert_as_quiet(job, 3)

    def test_the_master_is_killed_meanwhile(self):
        job = self.begin()
        self.wait_done(job, 0.2)
        self.servers[0].stop(signal.SIGKILL)
        self.wait_taken_over(job)
        self.servers[0] = self.start_ps()
        self.wait_for("a backup", lambda: any(self.backups(job)))
        self.replace_master()
        self.wait_for("the adoption", lambda: self.now(job)["adoptions"] == 1 and self.now(job)["state"] == "RUNNING")
        self.wait_followed(job)
        self.servers[1].stop(signal.SIGKILL)
        self.wait_taken_over(job, 3)
        self.assert_as_quiet(job, 3)

    def test_set_while_it_runs(self):
        self.cluster(workers=2)
        job = self.start_job(**{"cluster__ps": 2, "cluster__partitions": 2, "cluster__workers": 2, **self.replicas})
        self.wait_done(job, 0.1)
        self.assertEqual(self.backups(job), ["", ""])
        self.set(job, "follower")
        self.wait_followed(job)
        self.set(job, "none")
        self.assertEqual(self.backups(job), ["", ""])
        self.set(job, "follower")
        self.wait_followed(job)
        self.servers[1].stop(signal.SIGKILL)
        self.wait_taken_over(job)
        self.set(job, "none")
        done = gradus("set", job, "cluster.standby=follower", "--master", self.master.address)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("two parameter servers, and 1 is alive", done.stderr)
        self.servers[1] = self.start_ps()
        self.node_of(self.servers[1])
        self.set(job, "follower")
        self.wait_followed(job)
        self.servers[0].stop(signal.SIGKILL)
        self.wait_taken_over(job, 3)
        self.assert_as_quiet(job, 3)


class OtherModesRefill(Refill):
    replicas = {}

    def test_async(self):
        self.assert_each_once(self.one_after_the_other(workers=3, training__mode="async"), 3)

    def test_async_with_delay_compensation(self):
        self.assert_each_once(self.one_after_the_other(workers=3, training__mode="async", training__staleness_policy="delay_compensation"), 3)

    def test_bounded_with_clips_by_norm(self):
        self.assert_each_once(self.one_after_the_other(workers=3, training__mode="bounded", training__staleness=2, update__clip_norm=1), 3)

    def test_sync_without_the_last_replica(self):
        status = self.wait_end(self.one_after_the_other(workers=3, training__replicas=3, training__replicas_to_aggregate=2))
        self.assertEqual((status.get("recoveries", 0), status.get("takeovers", 0)), (0, 3), status["reason"])
        self.assert_learned(status)


class Rolling(Standby):
    """Each process of the cluster is ended in order and started again, where it was and under its name, the next one when all is back."""

    programs = BIN  # of what is started again

    def again(self, old, kind, *args):
        name = self.node_of(old)
        self.assertEqual(old.stop(), 0)
        return self.start(kind, f"--master={self.master.address}", f"--listen={old.address}", f"--name={name}", *args,
                          programs=self.programs)

    def wait_as_written(self, job):
        """By the command of docs/operations.md; then servers say that they are ready."""
        with open(SOURCE + "/docs/operations.md") as f:
            command = re.search(r"^ +(gradus nodes --wait .*)$", f.read(), re.M).group(1)
        subprocess.run(["bash", "-c", command], check=True, timeout=TIMEOUT, stdout=subprocess.DEVNULL,
                       env={**os.environ, "GRADUS_MASTER": self.master.address, "PATH": BIN + ":" + os.environ["PATH"]})
        self.assertEqual(self.now(job)["state"], "RUNNING")
        self.assertTrue(all(shard["backup_follows"] for shard in self.shards(job)))
        for server in self.servers:
            self.wait_for("a server that is ready", lambda server=server: subprocess.run(
                [BIN + "/gradus-ps", "--probe", server.http + "/readyz"], capture_output=True).returncode == 0)

    def restart_all(self, ps, workers=2, **sets):
        """Of a job that runs meanwhile; how many shards were taken over."""
        job = self.begin(workers=workers, ps=ps, **sets)
        self.wait_done(job, 0.1)
        for i in range(ps):
            name = self.node_of(self.servers[i])
            taken = self.status(self.master, job).get("takeovers", 0) + sum(shard["ps"] == name for shard in self.shards(job))
            self.servers[i] = self.again(self.servers[i], "ps", f"--checkpoint-dir={self.state_dir}/checkpoints")
            self.wait_as_written(job)
            self.assertEqual(self.status(self.master, job).get("takeovers", 0), taken)
        for i in range(workers):
            self.workers[i] = self.again(self.workers[i], "worker", f"--slow-down={self.slow_down}")
            self.wait_used(self.workers[i])
        self.assertEqual(self.master.stop(), 0)
        self.master = self.start("master", *self.master_args, f"--listen={self.master.address}", programs=self.programs)
        self.wait_as_written(job)
        self.assertEqual(self.now(job)["adoptions"], 1)
        return job, taken

    def test_sync_two_servers(self):
        self.assert_as_quiet(*self.restart_all(2))

    def test_sync_three_servers(self):
        keys = {"update__rule": "lamb", "update__learning_rate": 0.01, "update__clip_global_norm": 1}
        self.assert_as_quiet(*self.restart_all(3, **keys), **keys)

    def test_async(self):
        self.assert_each_once(*self.restart_all(3, workers=3, training__mode="async", training__replicas=0))

    def test_bounded(self):
        self.assert_each_once(*self.restart_all(2, workers=3, training__mode="bounded", training__staleness=2, training__replicas=0))


class Upgrade(Rolling):
    """The same, and what is started again is of the next release, which the others meet meanwhile."""

    programs = os.path.join(BIN, "next")

    def restart_all(self, *args, **sets):
        job, taken = super().restart_all(*args, **sets)
        nodes = json.loads(gradus("nodes", "--json", "--master", self.master.address).stdout)["nodes"]
        versions = {subprocess.run([f"{where}/gradus-ps", "--version"], capture_output=True, text=True).stdout.split()[1]
                    for where in (BIN, self.programs)}
        self.assertEqual(len(versions), 2)
        self.assertEqual({node["version"] for node in nodes if node["alive"]}, {max(versions, key=len)})
        return job, taken


class Master(Standby):
    def test_started_again_before_a_server_dies(self):
        job = self.begin()
        self.wait_done(job, 0.2)
        self.replace_master()
        self.wait_for("the adoption", lambda: self.now(job)["adoptions"] == 1 and self.now(job)["state"] == "RUNNING")
        self.servers[0].stop(signal.SIGKILL)
        self.wait_taken_over(job)
        self.assert_as_quiet(job, 1)

    def test_started_again_after_a_takeover(self):
        job = self.begin()
        self.wait_done(job, 0.2)
        self.servers[1].stop(signal.SIGKILL)
        self.wait_taken_over(job)
        self.replace_master()
        self.wait_for("the adoption", lambda: self.now(job)["adoptions"] == 1 and self.now(job)["state"] == "RUNNING")
        self.assert_as_quiet(job, 1)


class OtherModes(Standby):
    replicas = {}

    def kill(self, **sets):
        job = self.begin(workers=3, **sets)
        self.wait_done(job, random.random() * 0.8)
        self.servers[random.randrange(2)].stop(signal.SIGKILL)
        self.wait_taken_over(job)
        return job

    def test_async(self):
        self.assert_each_once(self.kill(training__mode="async"), 1)

    def test_bounded(self):
        self.assert_each_once(self.kill(training__mode="bounded", training__staleness=2), 1)

    def test_async_with_clips_by_norm(self):
        self.assert_each_once(self.kill(training__mode="async", update__clip_norm=1, training__staleness_policy="max_staleness",
                                        training__max_staleness=2), 1)

    def test_async_with_delay_compensation(self):
        self.assert_each_once(self.kill(training__mode="async", training__staleness_policy="delay_compensation"), 1)

    def test_bounded_with_a_rule_that_wants_what_was_read(self):
        self.assert_each_once(self.kill(training__mode="bounded", training__staleness=2, update__rule="dc_asgd", update__learning_rate=0.1), 1)

    def test_sync_without_the_last_replica(self):
        job = self.kill(training__replicas=3, training__replicas_to_aggregate=2)
        status = self.wait_end(job)
        self.assertEqual((status.get("recoveries", 0), status.get("takeovers", 0)), (0, 1), status["reason"])
        self.assert_learned(status)


class Refused(Standby):
    def refused(self, *words, **sets):
        done = gradus("validate", self.file, *self.sets(**{"cluster__ps": 2, "cluster__standby": "follower", **sets}))
        self.assertEqual(done.returncode, 2, done.stdout)
        text = " ".join(done.stderr.split())
        self.assertIn("cluster.standby: ", text)
        for word in words:
            self.assertIn(word, text)

    def test_one_server(self):
        self.refused("on two servers, and cluster.ps is 1", cluster__ps=1)


if __name__ == "__main__":
    main()
