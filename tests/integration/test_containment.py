# SPDX-License-Identifier: Apache-2.0
"""What somebody who may submit jobs gets at through a worker: data files below its roots, and nothing of what is in them.
And what somebody who can connect makes a process hold: so much, and the others work on."""

import contextlib
import os
import re
import socket
import sqlite3
import unittest
import urllib.request

from cluster import SOURCE, ClusterTest, gradus, read_jobs

JOB = """name: contained
data:
  dir: DIR
  train:
    file: FILE
  test_fraction: 0.2
  header: false
  label: -1
model:
  layers:
    - dense: {units: 2}
  loss: softmax_cross_entropy
update: {rule: sgd, learning_rate: 0.05}
training: {batch_size: 4, epochs: 1}
cluster: {workers: 1, ps: 1}
"""


class DataRoots(ClusterTest):
    model = {}

    def setUp(self):
        super().setUp()
        self.root, self.outside = os.path.join(self.dir, "data"), os.path.join(self.dir, "data-not")
        os.mkdir(self.root)
        os.mkdir(self.outside)
        good = "".join(f"{i % 7},{i % 3},{i % 2}\n" for i in range(40))
        for directory, name, text in ((self.root, "good.csv", good), (self.outside, "good.csv", good),
                                      (self.root, "bad.csv", good + "hush-hush,1,1\n"),
                                      (self.outside, "secret", good)):
            with open(os.path.join(directory, name), "w") as f:
                f.write(text)
        os.symlink(os.path.join(self.outside, "secret"), os.path.join(self.root, "link.csv"))
        os.symlink(self.outside, os.path.join(self.root, "there"))
        # a name of the root that is a link is the root
        os.symlink(self.root, os.path.join(self.dir, "alias"))
        self.master = self.start("master", f"--state-dir={self.dir}/state")
        self.start("ps", f"--master={self.master.address}", f"--checkpoint-dir={self.dir}/state/checkpoints")
        self.start("worker", f"--master={self.master.address}", f"--data-root=[{self.dir}/alias, s3://bucket/prefix]")

    def end_of(self, directory, file):
        path = os.path.join(self.dir, "job.yaml")
        with open(path, "w") as f:
            f.write(JOB.replace("DIR", directory).replace("FILE", file))
        done = gradus("submit", path, "--master", self.master.address, "--watch", "--json")
        return done.stdout + done.stderr

    def log(self):
        with open(os.path.join(self.dir, "worker-2.log")) as f:
            return f.read()

    def test_data_outside_are_refused(self):
        self.assertIn("SUCCEEDED", self.end_of(self.root, "good.csv"))
        refusal = f"outside of what this node reads (data_root): {self.dir}/alias, s3://bucket/prefix"
        for directory, file in ((self.outside, "good.csv"), (self.root, "link.csv"), (self.root, "there/good.csv"),
                                (self.root, "../data-not/good.csv"), (self.root, "there/g*"), (self.outside, "none"),
                                ("/etc", "passwd"), ("/etc", "pass*"), ("s3://bucket/prefix-not", "x.csv"),
                                (self.root, "[good.csv, link.csv]")):
            with self.subTest(directory=directory, file=file):
                said = self.end_of(directory, file)
                self.assertIn(refusal, said)
                self.assertIn("FAILED", said)
        self.assertIn("SUCCEEDED", self.end_of(self.root, "there/../data/good.csv"))

    def test_cells_are_not_quoted(self):
        said = self.end_of(self.root, "bad.csv")
        self.assertIn("bad.csv:41: column 0: [not shown]", said)
        self.assertNotIn("hush", said)
        self.assertNotIn("hush", self.log())


def resident_mib(service):
    with open(f"/proc/{service.process.pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024


def flood(address, count):
    """Connections that say nothing, as many as can be had."""
    host, port = address.rsplit(":", 1)
    made = []
    for _ in range(count):
        s = socket.socket()
        s.settimeout(20)
        try:
            s.connect((host, int(port)))
        except OSError:
            s.close()
            break
        made.append(s)
    return made


def ended(connections):
    """How many of them the other side has closed."""
    count = 0
    for s in connections:
        s.setblocking(False)
        try:
            count += s.recv(1000) == b""
        except BlockingIOError:
            pass
        except OSError:
            count += 1
    return count


class Limits(ClusterTest):
    model = {}

    def end(self, connections):
        for s in connections:
            s.close()

    def list_jobs(self, address):
        return gradus("list", "--master", address).returncode

    def page(self, service, path):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{service.http}{path}", timeout=120) as answer:
            return answer.read().decode()

    def test_connections_beyond_the_limit_are_closed(self):
        master = self.start("master", f"--state-dir={self.dir}/state", "--connections-max=64")
        self.assertIsNone(master.job("none-1"))  # a connection that is kept
        before = resident_mib(master)
        crowd = flood(master.address, 700)
        self.wait_for("the limit", lambda: ended(crowd) > 200)
        self.assertIsNone(master.job("none-1"))
        self.assertEqual(self.page(master, "/healthz"), "ok\n")
        self.assertGreater(int(re.search(r"gradus_connections_refused_total (\d+)", self.page(master, "/metrics"))[1]), 200)
        self.assertLess(resident_mib(master) - before, 100)
        with open(master.log.name) as f:
            self.assertIn("event=connections_full", f.read())
        self.end(crowd)
        self.wait_for("room", lambda: self.list_jobs(master.address) == 0)

    def test_jobs_that_ended_long_ago_are_forgotten(self):
        """Their rows go: too many of them, or too old ones; over restarts, and no id is given again."""
        state = f"{self.dir}/state"

        def started(*args):
            return self.start("master", f"--state-dir={state}", "--finished-max=2", *args)

        def ended(master, count):
            for _ in range(count):
                done = gradus("submit", SOURCE + "/examples/digits.yaml", "--set", f"data.dir={self.dir}", "--master",
                              master.address)
                self.assertEqual(done.returncode, 0, done.stderr)
                job = re.search(r"digits-\d+", done.stdout)[0]
                self.assertEqual(gradus("cancel", job, "--master", master.address).returncode, 0)
            return job

        def sql(text):
            with contextlib.closing(sqlite3.connect(state + "/master.db")) as db, db:
                return [row[0] for row in db.execute(text)]

        def jobs(master):
            return [job["job"] for job in read_jobs(gradus("list", "--json", "--master", master.address).stdout)]
        master = started("--finished-rows-max=3")
        self.assertEqual(ended(master, 6), "digits-6")
        self.assertEqual(sorted(jobs(master)), ["digits-5", "digits-6"])
        master.stop()
        master = started("--finished-rows-max=3")  # within the hour all stay
        self.assertEqual(len(sql("SELECT id FROM job")), 6)
        master.stop()
        sql("UPDATE job SET ended_ms = ended_ms - 7200000 + number")
        master = started("--finished-rows-max=3")
        self.assertEqual(sql("SELECT id FROM job ORDER BY number"), ["digits-4", "digits-5", "digits-6"])
        self.assertEqual(sorted(jobs(master)), ["digits-5", "digits-6"])
        self.assertEqual(gradus("status", "digits-4", "--master", master.address).returncode, 0)
        gone = gradus("status", "digits-3", "--master", master.address)
        self.assertIn("no job digits-3", gone.stderr)
        with open(master.log.name) as f:
            self.assertIn("event=jobs_forgotten jobs=3 ", f.read())
        master.stop()
        sql("DELETE FROM job")  # whatever was forgotten in the meantime
        sql("INSERT OR REPLACE INTO text VALUES('number:digits', '6')")
        master = started("--finished-rows-age=1h")
        self.assertEqual(jobs(master), [])
        self.assertEqual(ended(master, 1), "digits-7")

    def test_a_process_without_descriptors_keeps_its_port(self):
        """gRPC's core alone closes the port for good when a connection finds no free descriptor."""
        master = self.start("master", f"--state-dir={self.dir}/state", limits=(200, 200))
        with open(master.log.name) as f:
            self.assertIn("event=connections_limited", f.read())
        crowd = flood(master.address, 400)
        self.wait_for("the limit", lambda: ended(crowd) > 150)
        self.assertEqual(self.page(master, "/healthz"), "ok\n")
        self.end(crowd)
        self.wait_for("room", lambda: self.list_jobs(master.address) == 0)

    def test_a_thousand_silent_connections_keep_nobody_out(self):
        master = self.start("master", f"--state-dir={self.dir}/state")
        for _ in range(3):
            crowds = flood(master.address, 1000), flood(master.http, 300)
            self.assertEqual(len(crowds[0]), 1000)
            self.assertEqual(self.list_jobs(master.address), 0)
            self.assertEqual(self.page(master, "/healthz"), "ok\n")
            beside = ended(crowds[0]) == 0
            for crowd in crowds:
                self.wait_for("the end of all of them", lambda c=crowd: ended(c) == len(c))
                self.end(crowd)
            self.assertEqual(self.list_jobs(master.address), 0)
            if beside:  # else a machine stood still until they were sent away
                return
        self.fail("nobody was answered beside them")

    def test_calls_beyond_the_limit_are_refused(self):
        """Streams that stay open, of a client that asks for nothing else."""
        import grpc
        master = self.start("master", f"--state-dir={self.dir}/state", "--calls-max=100")
        options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
        channels = [grpc.insecure_channel(master.address, options) for _ in range(3)]
        calls = [channels[i % 2].unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=120) for i in range(150)]
        self.wait_for("refusals", lambda: sum(c.done() for c in calls) >= 50)
        over = [c for c in calls if c.done()]
        self.assertEqual({(c.code().name, c.details()) for c in over},
                         {("RESOURCE_EXHAUSTED", "this server has 100 calls in hand and takes no more")})
        self.assertEqual(len(over), 50)
        # A call that is refused ends for its client first.
        self.wait_for("as many calls as there may be", lambda: "\ngradus_rpc_calls 100\n" in self.page(master, "/metrics"))
        check = channels[2].unary_unary("/grpc.health.v1.Health/Check")
        self.assertFalse(self.answers(check))
        for call in calls:
            call.cancel()
        self.wait_for("room", lambda: self.answers(check))
        for channel in channels:
            channel.close()

    def answers(self, check):
        import grpc
        try:
            check(b"", timeout=10)
            return True
        except grpc.RpcError:
            return False


if __name__ == "__main__":
    unittest.main()
