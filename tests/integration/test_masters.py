# SPDX-License-Identifier: Apache-2.0
"""Two masters with one store in etcd: one leads and the other one takes over, whatever is killed."""

import os
import re
import signal
import subprocess
import time
import unittest
import urllib.error
import urllib.request

from cluster import BIN, PATIENCE, Jobs, gradus, read_jobs, read_watched
from etcd import PROGRAM, Etcd, HeldPort, Way
from faults import Digits, FaultTest, main

LEASE_S = 10  # longer than a machine stands still: who leads is to end only where a test wants it


class Master:
    """A process of gradus-master that may stand by: nobody waits until it is ready."""

    def __init__(self, test, number, *args):
        self.number, self.args, self.dir = number, args, test.dir
        self.port, self.http_port = HeldPort(), HeldPort()
        self.address, self.http = self.port.address, self.http_port.address
        self.jobs = self.process = None
        self.starts = 0
        self.start()

    def start(self):
        self.starts += 1
        self.log_name = f"{self.dir}/master-{self.number}-{self.starts}.log"
        with open(self.log_name, "w") as log:
            self.process = subprocess.Popen(
                [os.path.join(BIN, "gradus-master"), f"--listen={self.address}", f"--http-listen={self.http}", "--exit-with-parent",
                 f"--state-dir={self.dir}/state", *self.args], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def log(self):
        with open(self.log_name) as f:
            return f.read()

    def ready(self):
        """What /readyz says; None: nobody answers."""
        try:
            return urllib.request.urlopen(f"http://{self.http}/readyz", timeout=60).read().decode()
        except urllib.error.HTTPError as e:
            return e.read().decode()
        except OSError:
            return None  # nobody listens there yet

    def client(self):
        if self.jobs is None:
            self.jobs = Jobs(self.address)
        return self.jobs

    def job(self, name):
        return self.client().get(name)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, how=signal.SIGKILL):
        if self.jobs is not None:
            self.jobs.close()
            self.jobs = None
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(60 * PATIENCE)

    def close(self):
        self.stop()
        self.port.close()
        self.http_port.close()


@unittest.skipIf(PROGRAM is None, "etcd is not installed (script/bootstrap)")
class Masters(Digits, FaultTest):
    def setUp(self):
        super().setUp()
        self.etcd = Etcd()
        self.masters = []
        self.state_dir = self.dir + "/cluster"

    def tearDown(self):
        for master in self.masters:
            master.close()
        super().tearDown()
        self.etcd.close()

    def start_master(self, *args, way=None):
        """way: to etcd."""
        store = f"etcd://{way.address}/gradus" if way else self.etcd.url()
        master = Master(self, len(self.masters), f"--store={store}", f"--lead-lease={LEASE_S}s",
                        f"--checkpoint-dir={self.state_dir}/checkpoints", *args)
        self.masters.append(master)
        return master

    def wait_leads(self, master):
        self.wait_for("a master that leads", lambda: master.ready() == "ok\n")
        self.master = master
        return master

    def two(self, way=None):
        """way: of the one that leads."""
        self.wait_leads(self.start_master(way=way))
        self.start_master()
        self.wait_for("a master that stands by", lambda: "the leader is " + self.masters[0].address in (self.masters[1].ready() or ""))

    def both(self):
        return ",".join(m.address for m in self.masters)

    def cluster(self, workers, ps=2, way=None):
        self.two(way)
        self.servers = [self.start("ps", f"--master={self.both()}", f"--checkpoint-dir={self.state_dir}/checkpoints")
                        for _ in range(ps)]
        self.workers = [self.start("worker", f"--master={self.both()}", f"--slow-down={self.slow_down}") for _ in range(workers)]

    def wait_goes_on(self, job, steps):
        """Until the master that leads has heard how far the job is: further than it was."""
        self.wait_for("steps", lambda: (lambda s: s and s["state"] == "RUNNING" and s["steps"] > steps)(self.now(job)))

    def kill_the_leader(self, job):
        """kill -9; seconds until the next master leads, and until the job goes on there."""
        steps = self.now(job)["steps"]
        next_master = next(m for m in self.masters if m is not self.master)
        killed, begin = self.master, time.monotonic()
        killed.kill()
        self.wait_leads(next_master)
        leads = time.monotonic()
        self.wait_goes_on(job, steps)
        print(f"\n# leads after {leads - begin:.2f} s, goes on after {time.monotonic() - begin:.2f} s; lease {LEASE_S} s")
        return killed

    # ---- a job goes on ----

    def goes_on(self, **keys):
        self.cluster(workers=2)
        job = self.start_job(cluster__workers=2, cluster__ps=2, cluster__partitions=2, **keys)
        self.wait_done(job, 0.2)
        self.kill_the_leader(job).start()
        self.wait_done(job, 0.5)
        status = self.wait_end(job)
        self.assertEqual((status["recoveries"], status["adoptions"]), (0, 1))
        self.assert_each_record_once(status)
        for node in (*self.workers, *self.servers):
            self.assertEqual(len(re.findall(r"\bjoined\b", self.log_of(node))), 1)
        return job, status

    def test_a_sync_job_has_the_same_bits(self):
        job, status = self.goes_on(training__replicas=4)
        epochs = int(status["epochs"])
        plain = self.quiet("plain", training__epochs=epochs, training__replicas=4)
        out = self.dir + "/after.safetensors"
        done = gradus("export", f"{self.state_dir}/checkpoints/{job}", out, "--bare")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, "rb") as f:
            self.assertEqual(f.read(), self.export(plain["job"], "plain"))

    def test_an_async_job(self):
        self.goes_on(training__mode="async")

    def test_a_leader_that_stands_still(self):
        """When it goes on it finds that it does not lead any more, and ends."""
        self.cluster(workers=1, ps=1)
        job = self.start_job(training__mode="async", cluster__workers=1, cluster__ps=1)
        old, new = self.masters
        steps = self.now(job)["steps"]
        old.process.send_signal(signal.SIGSTOP)
        self.wait_leads(new)
        self.wait_goes_on(job, steps)
        old.process.send_signal(signal.SIGCONT)
        self.assert_ends_at_once(old)
        old.start()
        self.wait_for("it to stand by", lambda: "the leader is " + new.address in (old.ready() or ""))
        status = self.wait_end(job)
        self.assertEqual((status["recoveries"], status["adoptions"]), (0, 1))
        self.assert_each_record_once(status)

    def assert_ends_at_once(self, master):
        """What it believes is of the past: from then on it does nothing, not even to end in order."""
        self.assertEqual(master.process.wait(60 * PATIENCE), 1)
        after = master.log().split("event=lead_lost", 1)[1]
        self.assertIn("does not lead any more", after)
        self.assertNotIn("event=failed", after)

    def test_a_leader_that_etcd_does_not_hear(self):
        """It still reaches its nodes: it leaves them to the next one."""
        way = Way(self.etcd.client.address)
        self.addCleanup(way.close)
        self.cluster(workers=1, ps=1, way=way)
        job = self.start_job(training__mode="async", cluster__workers=1, cluster__ps=1)
        old, new = self.masters
        steps = self.now(job)["steps"]
        way.cut()
        self.wait_leads(new)
        self.assert_ends_at_once(old)
        self.wait_goes_on(job, steps)
        status = self.wait_end(job)
        self.assertEqual((status["recoveries"], status["adoptions"]), (0, 1))
        self.assert_each_record_once(status)

    def test_etcd_is_away(self):
        """For longer than the lease: the master ends, waits when it is started again, and the job goes on."""
        self.cluster(workers=1, ps=1)
        job = self.start_job(training__mode="async", cluster__workers=1, cluster__ps=1)
        steps = self.now(job)["steps"]
        self.etcd.kill()
        for master in self.masters[1:]:
            master.stop()
        self.assertEqual(self.master.process.wait(60 * PATIENCE), 1)
        self.assertIn("lead_lost", self.master.log())
        self.master.start()
        self.wait_for("it to wait", lambda: "the store does not answer" in (self.master.ready() or ""))
        self.etcd.start()
        self.wait_leads(self.master)
        self.wait_goes_on(job, steps)
        status = self.wait_end(job)
        self.assertEqual((status["recoveries"], status["adoptions"]), (0, 1))
        self.assert_each_record_once(status)

    # ---- who is asked ----

    def test_a_standby_names_the_leader(self):
        import grpc
        self.two()
        leader, standby = self.masters
        with grpc.insecure_channel(standby.address) as channel:
            with self.assertRaises(grpc.RpcError) as refused:
                channel.unary_unary("/gradus.v1.Jobs/List")(b"", timeout=60)
        self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertIn("the leader is " + leader.address, refused.exception.details())
        self.assertIn(("gradus-leader", leader.address), list(refused.exception.trailing_metadata()))
        for page, words in (("/livez", "ok"), ("/startupz", "ok"), ("/readyz", leader.address), ("/api/v1/jobs", leader.address)):
            try:
                said = urllib.request.urlopen(f"http://{standby.http}{page}", timeout=60).read().decode()
            except urllib.error.HTTPError as e:
                self.assertEqual(e.code, 503)
                said = e.read().decode()
            self.assertIn(words, said, page)
        self.assertEqual(self.ask(standby.address), [])  # it is followed
        self.assertEqual(self.ask(f"{standby.address},{leader.address}"), [])
        held = HeldPort()
        self.assertEqual(self.ask(f"{held.address},{leader.address}"), [])  # nobody is there
        held.close()
        self.assertEqual(standby.stop(signal.SIGTERM), 0)
        with open(f"{self.dir}/state/master.address") as f:  # the leader's, of the same state directory
            self.assertEqual(f.read(), leader.address + "\n")

    def ask(self, masters):
        done = gradus("list", "--json", "--master", masters)
        self.assertEqual(done.returncode, 0, done.stderr)
        return read_jobs(done.stdout)

    def test_an_orderly_end_hands_over(self):
        self.two()
        first, second = self.masters
        job = gradus("submit", self.file, "--master", self.both(), *self.sets())
        self.assertEqual(job.returncode, 0, job.stderr)
        self.assertEqual(first.stop(signal.SIGTERM), 0)
        self.wait_leads(second)
        self.assertEqual([j["job"] for j in self.ask(self.both())], [job.stdout.strip()])

    def test_a_watcher_stays(self):
        self.cluster(workers=1, ps=1)
        job = self.start_job(training__mode="async", cluster__workers=1, cluster__ps=1)
        watch = subprocess.Popen([os.path.join(BIN, "gradus"), "watch", job, "--json", "--master", self.both()],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(watch)
        self.kill_the_leader(job)
        self.wait_end(job)
        out, err = watch.communicate(timeout=60 * PATIENCE)
        self.assertEqual(watch.returncode, 0, err)
        self.assertEqual(read_watched(out)[1]["state"], "SUCCEEDED")

    # ---- settings ----

    def test_tls(self):
        tls = self.dir + "/tls"
        done = gradus("certificates", "init", tls, "--hosts", "127.0.0.1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.etcd.close()
        self.etcd = Etcd("--cert-file", tls + "/node.crt", "--key-file", tls + "/node.key", "--trusted-ca-file", tls + "/ca.crt",
                         "--client-cert-auth")
        more = f"--store-tls-ca={tls}/ca.crt", f"--store-tls-cert={tls}/node.crt", f"--store-tls-key={tls}/node.key"
        self.wait_leads(self.start_master(*more))
        plain = self.start_master()
        self.wait_for("it to be refused", lambda: "the store does not answer" in (plain.ready() or ""))

    def test_user_and_password(self):
        """etcd knows the masters by them; a token that is over is fetched anew, by what is in the file then."""
        credentials = self.dir + "/credentials"

        def write(text):
            with open(credentials, "w") as f:
                f.write(text)

        self.etcd.ask_for_users("gradus", "first:secret", "/gradus/")
        nobody = self.start_master()
        self.wait_for("it to be asked for", lambda: "--store-credentials" in (nobody.ready() or ""))
        nobody.stop()
        write("gradus:anything\n")
        master = self.start_master(f"--store-credentials={credentials}")
        self.wait_for("it to be refused", lambda: "authentication failed" in (master.ready() or ""))
        write("gradus:first:secret\n")
        self.wait_leads(master)
        self.assertEqual(self.submit_one(master), "digits-1")
        write("gradus:second secret\n")
        self.etcd.set_password("gradus", "second secret")
        self.assertEqual(self.submit_one(master), "digits-2")
        self.assertNotIn("secret", master.log())
        self.assertNotIn("anything", master.log())
        self.assertEqual(master.starts, 1)

    def submit_one(self, master):
        done = gradus("submit", self.file, "--master", master.address, *self.sets())
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_etcd_is_full(self):
        """Nothing new is taken until it has room again, and then by itself."""
        self.etcd.close()
        self.etcd = Etcd("--quota-backend-bytes", str(16 << 20))
        master = self.wait_leads(self.start_master())
        self.assertEqual(self.submit_one(master), "digits-1")
        self.assertIn("database space exceeded", self.etcd.fill("/junk/"))
        done = gradus("submit", self.file, "--master", master.address, *self.sets())
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("database space exceeded", done.stderr)
        self.wait_for("it to say so", lambda: "database space exceeded" in (master.ready() or ""))
        self.etcd.make_room("/junk/")
        self.wait_for("room", lambda: gradus("submit", self.file, "--master", master.address, *self.sets()).returncode == 0)
        self.wait_for("a master that is ready", lambda: master.ready() == "ok\n")
        self.assertEqual(master.starts, 1)

    def test_jobs_move_from_a_state_directory(self):
        """With the next master, which adopts them; not while another one has the directory."""
        directory = self.state_dir + "/old"
        old = self.master = self.start("master", f"--state-dir={directory}", f"--checkpoint-dir={self.state_dir}/checkpoints")
        master = self.start_master(f"--store-import={directory}")
        self.assertEqual(master.process.wait(60 * PATIENCE), 1)
        self.assertIn("in use by", master.log())
        both = f"--master={old.address},{master.address}"
        self.servers = [self.start("ps", both, f"--checkpoint-dir={self.state_dir}/checkpoints")]
        self.workers = [self.start("worker", both, f"--slow-down={self.slow_down}")]
        job = self.start_job(cluster__workers=1, cluster__ps=1)
        self.wait_done(job, 0.2)
        steps = self.now(job)["steps"]
        self.assertEqual(old.stop(), 0)
        master.start()
        self.wait_leads(master)
        self.wait_goes_on(job, steps)
        self.assertIn("event=store_imported", master.log())
        self.assertTrue(os.path.exists(directory + "/master.db.moved"))
        status = self.wait_end(job)
        self.assertEqual((status["recoveries"], status["adoptions"]), (0, 1))
        self.assert_each_record_once(status)

    def test_wrong_settings(self):
        for args, words in ((["--store=etcd://127.0.0.1:1"], "the prefix of the keys is missing"),
                            (["--store=etcd://127.0.0.1:1/x"], "--store needs --checkpoint-dir"),
                            (["--store-tls-ca=x"], "need --store"),
                            (["--store-credentials=x"], "need --store"),
                            (["--store-import=x"], "need --store"),
                            (["--store=etcd://h:1/x", "--checkpoint-dir=c", "--store-credentials=/nowhere"], "/nowhere"),
                            (["--store=etcd://h:1/x", "--checkpoint-dir=c", f"--store-credentials={__file__}"],
                             "expected one line, USER:PASSWORD"),
                            (["--store=etcd://h:1/x", "--checkpoint-dir=c", "--store-tls-ca=/nowhere"], "/nowhere"),
                            (["--store=zoo://h:1/x", "--checkpoint-dir=c"], "no such kind of store")):
            done = subprocess.run([os.path.join(BIN, "gradus-master"), *args], capture_output=True, text=True, timeout=60 * PATIENCE)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, " ".join(done.stderr.split()))


if __name__ == "__main__":
    main()
