# SPDX-License-Identifier: Apache-2.0
"""`gradus drain NODE`: a node is emptied while its jobs go on, and no step is lost or made again."""

import json
import os
import signal
import subprocess

from cluster import BIN, TIMEOUT, gradus, read_message
from faults import Digits, FaultTest, main


class DrainTest(Digits, FaultTest):
    replicas = {"training__replicas": 4}

    def begin(self, workers=2, ps=2, job_ps=None, **sets):
        self.cluster(workers=workers, ps=ps)
        parts = job_ps or ps
        job = self.start_job(**{"cluster__ps": parts, "cluster__partitions": parts, "cluster__workers": workers,
                                **self.replicas, **sets})
        self.wait_done(job, 0.1)
        return job

    def drain(self, node, *more):
        """Started; ends when the node is empty."""
        process = subprocess.Popen([os.path.join(BIN, "gradus"), "drain", node, "--master", self.master.address, *more],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def ended(self, process, expect=0):
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, expect, out + err)
        return out, err

    def asked(self, node, undo=False):
        """What the node has still, in one call."""
        answer = self.call("DrainNode", "DrainNodeRequest", "DrainNodeResponse", node=node, undo=undo)
        return answer

    def call(self, method, request, response, **fields):
        jobs = self.master.client()
        protos = jobs.protos
        ask = jobs.channel.unary_unary(f"/gradus.v1.Jobs/{method}", request_serializer=lambda m: m.SerializeToString(),
                                       response_deserializer=protos["gradus.v1." + response].FromString)
        return ask(protos["gradus.v1." + request](**fields), timeout=60, wait_for_ready=True)

    def shards(self, job):
        return self.status(self.master, job)["shards"]

    def places(self, job):
        return [shard["ps"] for shard in self.shards(job)]

    def row_of(self, node):
        """Of gradus nodes."""
        out = gradus("nodes", "--master", self.master.address).stdout
        return next(line for line in out.splitlines() if line.split()[0] == node)

    def is_known(self, server):
        """The master knows this process, not only one of its name."""
        nodes = read_message(gradus("nodes", "--json", "--master", self.master.address).stdout)["nodes"]
        return any(n.get("alive") and int(n.get("pid", 0)) == server.process.pid for n in nodes)

    def wait_more(self, job, steps=10):
        before = self.now(job)["steps"]
        self.wait_for("more steps", lambda: self.now(job)["steps"] > before + steps)

    def assert_nothing_lost(self, status):
        self.assertEqual((status.get("recoveries", 0), status.get("takeovers", 0)), (0, 0), status["reason"])

    def assert_as_quiet(self, job, **sets):
        status = self.wait_end(job)
        self.assert_nothing_lost(status)
        quiet = self.quiet("plain", training__epochs=status["epochs"], **self.replicas, **sets)
        self.assertEqual(self.bits(job), self.bits(quiet["job"], "plain"))
        self.assert_learned(status)
        return status

    def assert_each_once(self, job):
        status = self.wait_end(job)
        self.assert_nothing_lost(status)
        self.assert_each_record_once(status)
        self.assert_learned(status)


class Server(DrainTest):
    def drain_first(self, job):
        """The first shard's server is emptied, and ends."""
        node = self.places(job)[0]
        out, _ = self.ended(self.drain(node))
        self.assertIn(f"node {node} is empty", out)
        self.assertNotIn(node, self.places(job))
        self.assertIn("(drained)", self.row_of(node))
        server = next(s for s in self.servers if self.node_of(s) == node)
        self.assertEqual(server.stop(), 0)
        self.wait_more(job)

    def test_sync(self):
        job = self.begin(ps=3, job_ps=2)
        self.drain_first(job)
        self.assertEqual([s.get("backup", "") for s in self.shards(job)], ["", ""])
        self.assert_as_quiet(job)

    def test_the_only_server_of_a_job(self):
        job = self.begin(ps=2, job_ps=1)
        self.drain_first(job)
        self.assert_as_quiet(job)

    def test_onto_the_other_server_of_the_job(self):
        keys = {"update__rule": "lamb", "update__learning_rate": 0.01, "update__clip_global_norm": 1}
        job = self.begin(**keys)
        self.drain_first(job)
        self.assert_as_quiet(job, **keys)

    def test_async(self):
        job = self.begin(workers=3, training__mode="async", training__replicas=0)
        self.drain_first(job)
        self.assert_each_once(job)

    def test_with_standby(self):
        """The backup takes over at once; the one that the node had is made elsewhere."""
        job = self.begin(ps=3, cluster__standby="follower")
        node = self.places(job)[0]
        self.drain_first(job)
        self.wait_for("backups elsewhere", lambda: all(
            s.get("backup") not in (None, "", node) and s["backup_follows"] for s in self.shards(job)))
        self.assert_as_quiet(job)

    def test_a_backup(self):
        """A server that has a backup alone."""
        job = self.begin(ps=3, job_ps=2)
        self.set_keys(job, "cluster.standby=follower")
        self.wait_for("backups", lambda: all(s.get("backup") and s["backup_follows"] for s in self.shards(job)))
        third = next(name for name in (self.node_of(s) for s in self.servers) if name not in self.places(job))
        self.assertIn(third, [s["backup"] for s in self.shards(job)])
        places = self.places(job)
        self.ended(self.drain(third))
        self.wait_for("backups elsewhere", lambda: all(
            s.get("backup") not in (None, "", third) and s["backup_follows"] for s in self.shards(job)))
        self.assertEqual(self.places(job), places)
        self.assert_as_quiet(job)

    def test_every_server_in_turn(self):
        """A rolling restart of a job without backups."""
        job = self.begin(ps=2)
        for i in range(2):
            node = self.node_of(self.servers[i])
            self.ended(self.drain(node))
            self.assertEqual(self.servers[i].stop(), 0)
            self.servers[i] = self.start("ps", f"--master={self.master.address}", f"--listen={self.servers[i].address}",
                                         f"--name={node}", f"--checkpoint-dir={self.state_dir}/checkpoints")
            self.wait_for("it to be known", lambda i=i: self.is_known(self.servers[i]))
            self.assertNotIn("dr", self.row_of(node))
            self.wait_more(job)
        self.assert_as_quiet(job)

    def test_master_killed_meanwhile(self):
        """The command tells the next one."""
        job = self.begin(ps=3, job_ps=2)
        node = self.places(job)[0]
        with self.held():  # nothing moves: a backup follows with the next steps
            drain = self.drain(node)
            self.wait_for("the drain", lambda: "(draining)" in self.row_of(node))
            self.replace_master()
        self.ended(drain)
        self.assertNotIn(node, self.places(job))
        self.assertEqual(self.now(job)["adoptions"], 1)
        self.assert_as_quiet(job)

    def test_json(self):
        job = self.begin(ps=2)
        node = self.places(job)[0]
        out, _ = self.ended(self.drain(node, "--json"))
        self.assertEqual(json.loads(out), {"node": node, "alive": True, "draining": True, "held": []})
        nodes = read_message(gradus("nodes", "--json", "--master", self.master.address).stdout)["nodes"]
        self.assertEqual([n["id"] for n in nodes if n.get("draining")], [node])
        self.assert_as_quiet(job)


class Worker(DrainTest):
    def drain_one(self, job):
        node = self.node_of(self.workers[0])
        self.assertIn(node, self.now(job)["workers"])
        self.ended(self.drain(node))
        self.assertNotIn(node, self.now(job)["workers"])
        self.assertIn("(drained)", self.row_of(node))
        self.assertEqual(self.workers[0].stop(), 0)
        self.wait_more(job)

    def test_others_are_enough(self):
        job = self.begin(workers=2, cluster__workers="1..2")
        self.drain_one(job)
        self.assert_as_quiet(job)

    def test_async(self):
        job = self.begin(workers=3, cluster__workers="2..3", training__mode="async", training__replicas=0)
        self.drain_one(job)
        self.assert_each_once(job)

    def test_one_comes_in_its_place(self):
        job = self.begin(workers=2)
        node = self.node_of(self.workers[0])
        drain = self.drain(node)
        self.wait_for("the reason", lambda: any(
            h.works and "the job needs 2 workers, and no other is free" in h.problem for h in self.asked(node).held))
        self.wait_more(job)
        self.workers.append(self.start_worker())
        self.ended(drain)
        self.wait_used(self.workers[2])
        self.assertEqual(len(self.now(job)["workers"]), 2)
        self.assert_as_quiet(job)


class Ends(DrainTest):
    """SIGTERM: a server waits until what would be lost with it is elsewhere."""

    def end(self, job, **more):
        node = self.places(job)[0]
        server = next(s for s in self.servers if self.node_of(s) == node)
        self.assertEqual(server.stop(), 0)
        self.assertNotIn(node, self.places(job))
        self.assertIn("event=shards_left", self.log_of(server))
        self.wait_more(job)

    def start_ps(self, *more):
        """One that has time to move its shards, however slow the machine is."""
        return self.start("ps", f"--master={self.master.address}", f"--checkpoint-dir={self.state_dir}/checkpoints",
                          "--drain-timeout-ms=10m", *more)

    def test_sync(self):
        job = self.begin(ps=3, job_ps=2)
        self.end(job)
        self.assert_as_quiet(job)

    def test_async(self):
        job = self.begin(workers=3, training__mode="async", training__replicas=0)
        self.end(job)
        self.assert_each_once(job)

    def test_every_server_in_turn(self):
        job = self.begin(ps=2)
        for i in range(2):
            node = self.node_of(self.servers[i])
            self.assertEqual(self.servers[i].stop(), 0)
            self.servers[i] = self.start_ps(f"--listen={self.servers[i].address}", f"--name={node}")
            self.wait_for("the server that was restarted", lambda: self.is_known(self.servers[i]))
            self.wait_more(job)
        self.assert_as_quiet(job)

    def test_nowhere_to_go(self):
        """It leaves at once, and the job goes back to a checkpoint when there is a server."""
        job = self.begin(ps=1)
        self.assertEqual(self.servers[0].stop(), 0)
        self.wait_for("the recovery", lambda: self.now(job)["recoveries"] == 1)
        self.servers[0] = self.start_ps()
        self.wait_for("more steps", lambda: self.now(job)["state"] == "RUNNING")
        self.wait_end(job)

    def test_a_backup_that_follows_takes_over(self):
        job = self.begin(ps=2, cluster__standby="follower")
        self.wait_for("backups", lambda: all(s.get("backup") and s["backup_follows"] for s in self.shards(job)))
        self.assertEqual(self.servers[0].stop(), 0)
        status = self.wait_for("a takeover", lambda: (lambda s: s if s.get("takeovers") else None)(self.status(self.master, job)))
        self.assertEqual(status.get("recoveries", 0), 0)

    def test_a_second_signal(self):
        """It does not wait any more."""
        job = self.begin(ps=2, job_ps=1)
        node = self.places(job)[0]
        server = next(s for s in self.servers if self.node_of(s) == node)
        with self.held():  # nothing moves
            server.process.send_signal(signal.SIGTERM)
            self.wait_for("the drain", lambda: "(draining)" in self.row_of(node))

            def again():  # one that comes within a second is taken for the same
                server.process.send_signal(signal.SIGTERM)
                return server.process.poll() is not None
            self.wait_for("the end", again)
            self.assertEqual(server.process.returncode, 128 + signal.SIGTERM)
        self.wait_for("the recovery", lambda: self.now(job)["recoveries"] == 1)


class Stays(DrainTest):
    def test_nowhere_to_go_and_back(self):
        job = self.begin(ps=1)
        node = self.places(job)[0]
        drain = self.drain(node)
        said = ""
        while "no other server" not in said:  # it says something when it has asked
            line = drain.stdout.readline()
            self.assertNotEqual(line, "", said)
            said += line
        self.wait_more(job)
        drain.send_signal(signal.SIGINT)
        _, err = self.ended(drain, 1)
        self.assertIn(f"job {job}: shard 0; shard 0: there is no other server for it", said)
        self.assertIn(f"gradus drain {node} --undo --master", err)
        self.assertIn("(draining)", self.row_of(node))
        out, _ = self.ended(self.drain(node, "--undo"))
        self.assertIn("is in service", out)
        self.assertNotIn("(", self.row_of(node))
        self.servers.append(self.start_ps())
        self.wait_more(job)
        self.assertEqual(self.places(job), [node])
        self.assert_as_quiet(job)

    def test_goes_when_there_is_a_server(self):
        job = self.begin(ps=1)
        drain = self.drain(self.places(job)[0])
        self.wait_for("the reason", lambda: any("no other server" in h.problem for h in self.asked(self.places(job)[0]).held))
        self.servers.append(self.start_ps())
        self.ended(drain)
        self.assertEqual(self.places(job), [self.node_of(self.servers[1])])
        self.assert_as_quiet(job)

    def test_gets_nothing_new(self):
        job = self.begin(ps=2, job_ps=1)
        other = next(n for n in (self.node_of(s) for s in self.servers) if n not in self.places(job))
        self.ended(self.drain(other))
        second = self.submit(cluster__ps=2, cluster__workers=1)
        reason = self.wait_for("the second job's reason", lambda: (lambda r: r if "drained" in r else None)(self.now(second)["reason"]))
        self.assertIn("1 more parameter server: 1 of 2 free, 1 being drained", reason)
        self.ended(self.drain(other, "--undo"))
        self.wait_for("the reason", lambda: "drained" not in self.now(second)["reason"])
        self.assert_as_quiet(job)
        self.wait_end(second)

    def test_unknown(self):
        self.cluster(workers=1, ps=1)
        out, err = self.ended(self.drain("ps-9"), 5)
        self.assertIn("no node ps-9", err)

    def test_gone(self):
        self.cluster(workers=1, ps=2)
        node = self.node_of(self.servers[0])
        self.assertEqual(self.servers[0].stop(), 0)
        out, _ = self.ended(self.drain(node))
        self.assertIn(f"node {node} is gone", out)


if __name__ == "__main__":
    main()
