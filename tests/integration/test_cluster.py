# SPDX-License-Identifier: Apache-2.0
"""The whole path: gradus run with real processes, in every mode, with deaths and interruptions."""

import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import threading
import time
import unittest
import unittest.mock
import urllib.error
import urllib.request

from cluster import BIN, ENDLESS, SLOW_DOWN, SOURCE, TIMEOUT, ClusterTest, gradus, read_job, read_jobs, read_message, read_watched


class Train(ClusterTest):
    def test_sync_is_the_same_bits_however_it_is_spread(self):
        results = {}
        for workers, ps, partitions in ((1, 1, 1), (2, 2, 2), (4, 3, 3)):
            state = f"w{workers}p{ps}"
            result = self.run_job(state, training__replicas=4, training__batch_size=16,
                                  cluster__workers=workers, cluster__ps=ps, cluster__partitions=partitions)
            self.assertEqual(result["state"], "SUCCEEDED")
            self.assertEqual(result["steps"], 2 * 32)  # ceil(2000 / 64) steps an epoch
            self.assertEqual(result["epochs"], 2)
            merged = self.export(result["job"], state)
            results[state] = (hashlib.sha256(merged).hexdigest(), result["metrics"]["test"])
        self.assertEqual(len(set(r[0] for r in results.values())), 1, results)
        self.assertEqual(len(set(json.dumps(r[1]) for r in results.values())), 1, results)

    def test_async_applies_every_record(self):
        result = self.run_job(training__mode="async", cluster__workers=2, cluster__ps=2, training__epochs=3)
        self.assertEqual(result["state"], "SUCCEEDED")
        self.assertEqual(result["steps"], 3 * 32)
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.6)

    def test_bounded(self):
        result = self.run_job(training__mode="bounded", training__staleness=1, cluster__workers=3,
                              training__batch_size=16)
        self.assertEqual(result["state"], "SUCCEEDED")
        self.assertEqual(result["steps"], 2 * 125)

    def test_steps_and_checkpoints(self):
        result = self.run_job(training__epochs=0, training__steps=25, training__checkpoint_every=10,
                              training__evaluate_every=5)
        self.assertEqual(result["steps"], 25)
        directory = os.path.dirname(result["checkpoint"])
        self.assertEqual(sorted(os.listdir(directory)),
                         ["owner", "step-000000010", "step-000000020", "step-000000025"])
        self.assertTrue(os.path.isabs(result["checkpoint"]))
        done = gradus("evaluate", result["checkpoint"], "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        measured = json.loads(done.stdout)["metrics"]
        for name, value in result["metrics"]["test"].items():
            self.assertAlmostEqual(measured[name], value, places=5)

    def test_export_is_plain_safetensors(self):
        result = self.run_job(training__epochs=0, training__steps=3, model__layers__1__units=256)
        data = self.export(result["job"])
        (size,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + size])
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        self.assertEqual(tensors["dense_1.kernel"]["shape"], [784, 256])
        self.assertEqual(tensors["dense_1.kernel"]["dtype"], "F32")
        end = max(entry["data_offsets"][1] for entry in tensors.values())
        self.assertEqual(len(data), 8 + size + end)

    def test_several_runs_share_a_state_directory(self):
        first = self.run_job(training__epochs=0, training__steps=2)
        second = self.run_job(training__epochs=0, training__steps=2)
        self.assertEqual([first["job"], second["job"]], ["digits-1", "digits-2"])
        self.assertEqual(self.export("digits-1"), self.export("digits-2"))

    def test_what_cannot_fit_is_not_started(self):
        done = gradus(*self.run_args(SOURCE + "/examples/digits.yaml", "none", training__replicas=64,
                                     cluster__workers=64, model__layers__1__units=256, model__layers__2__units=2700000))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("--overcommit", done.stderr)
        self.assertRegex(done.stderr, r"worker +the process")
        self.assertFalse(os.path.exists(os.path.join(self.dir, "none")))
        plan = gradus("plan", SOURCE + "/examples/digits.yaml", "--json", *self.job())
        self.assertTrue(json.loads(plan.stdout)["one_host"]["fits"], plan.stdout)


def cpu_flags():
    with open("/proc/cpuinfo") as f:
        found = re.search(r"^flags\s*: (.*)$", f.read(), re.M)
    return found.group(1).split() if found else []


@unittest.skipUnless({"avx2", "fma"} <= set(cpu_flags()), "this processor has no AVX2")
class Kernels(ClusterTest):
    """OpenBLAS may not know a processor; programs that compute still use what it has."""

    # All with AVX2; any other name is that of kernels for older processors.
    GOOD = {"Haswell", "Zen", "Excavator", "SkylakeX", "Cooperlake", "SapphireRapids"}

    def setUp(self):
        super().setUp()
        patch = unittest.mock.patch.dict(os.environ)
        patch.start()
        self.addCleanup(patch.stop)
        os.environ.pop("OPENBLAS_CORETYPE", None)

    def kernels(self, directory):
        """Of each worker that has logged into the directory."""
        found = []
        for parent, _, names in os.walk(directory):
            for name in (n for n in names if n.endswith(".log")):
                with open(os.path.join(parent, name)) as f:
                    found += re.findall(r"level=(\w+) service=worker event=matrix_library kernels=(\w+)", f.read())
        return found

    def test_a_run_computes_with_good_ones(self):
        self.run_job(cluster__workers=2, training__epochs=1)
        (level, first), second = self.kernels(self.dir + "/state")
        self.assertEqual((level, first), second)
        self.assertEqual(level, "info")
        self.assertIn(first, self.GOOD)

    def test_who_sets_the_variable_has_chosen(self):
        os.environ["OPENBLAS_CORETYPE"] = "Haswell"
        self.run_job("haswell", training__epochs=1)
        self.assertEqual(self.kernels(self.dir + "/haswell"), [("info", "Haswell")])
        os.environ["OPENBLAS_CORETYPE"] = "Nehalem"
        self.run_job("nehalem", training__epochs=1)
        self.assertEqual(self.kernels(self.dir + "/nehalem"), [("warn", "Nehalem")])

    def test_the_process_stays_the_same(self):
        master, _, (worker,) = self.start_cluster(ps=0)
        with open(f"/proc/{worker.process.pid}/comm") as f:
            self.assertEqual(f.read(), "gradus-worker\n")
        self.assertEqual(os.path.realpath(f"/proc/{worker.process.pid}/exe"), os.path.realpath(BIN + "/gradus-worker"))
        self.assertEqual(worker.stop(), 0)
        self.assertIn(self.kernels(self.dir)[0][1], self.GOOD)

    def loaded(self, *command, **options):
        """Which kernels OpenBLAS chose, each time it was loaded while the command ran."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "OPENBLAS_VERBOSE": "2"}, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.findall(r"^Core: (\w+)$", done.stderr, re.M)

    def test_only_who_computes_starts_again(self):
        evaluate = self.loaded(BIN + "/gradus", "evaluate", "--help")
        self.assertIn(evaluate[-1], self.GOOD)
        self.assertEqual(self.loaded(BIN + "/gradus", "version"), evaluate[:1])
        self.assertLessEqual(len(evaluate), 2)

    def test_a_program_that_cannot_start_again_goes_on(self):
        """Its file is gone; and the dynamic loader was started with the program as its argument."""
        path = shutil.copy(BIN + "/gradus-worker", self.dir)
        with open(path, "rb") as f:
            os.unlink(path)
            first = self.loaded("gradus-worker", "--help", executable=f"/proc/self/fd/{f.fileno()}",
                                pass_fds=(f.fileno(),))
        self.assertEqual(len(first), 1)
        with open(BIN + "/gradus-worker", "rb") as f:
            loader = re.search(rb"/lib[\w/]*/ld-[\w.-]+", f.read(4096))
        self.assertEqual(self.loaded(loader.group().decode(), BIN + "/gradus-worker", "--help"), first)


class Deaths(ClusterTest):
    def started(self, steps, **sets):
        """A run whose job has made so many steps and goes on."""
        process = self.start_run("killed", training__epochs=ENDLESS, training__evaluate_every="never", slow_down=SLOW_DOWN, **sets)
        self.wait_run("killed", steps)
        return process

    def assert_same(self, result, epochs, **sets):
        plain = self.run_job("plain", training__epochs=epochs, training__evaluate_every="never", **sets)
        self.assertEqual((result["state"], result["steps"]), ("SUCCEEDED", plain["steps"]))
        self.assertEqual(self.export(result["job"], "killed"), self.export(plain["job"], "plain"))

    def test_worker_killed(self):
        sets = {"training__replicas": 4, "training__batch_size": 16, "cluster__workers": 2}
        process = self.started(50, **sets)
        os.kill(self.child(process, "gradus-worker")[0], signal.SIGKILL)
        result, _, epochs = self.end_run(process, "killed", 4)
        self.assert_same(result, epochs, **sets)

    def test_async_worker_killed(self):
        process = self.started(50, training__mode="async", cluster__workers=2)
        os.kill(self.child(process, "gradus-worker")[1], signal.SIGKILL)
        result, _, epochs = self.end_run(process, "killed", 4)
        self.assertEqual(result["steps"], epochs * 32)

    def test_ps_killed(self):
        sets = {"training__checkpoint_every": 50, "cluster__ps": 2}
        process = self.started(60, **sets)
        checkpoint = self.dir + "/killed/checkpoints/digits-1/step-000000050/manifest.json"
        self.wait_for("a checkpoint", lambda: os.path.exists(checkpoint))
        os.kill(self.child(process, "gradus-ps")[0], signal.SIGKILL)
        result, err, epochs = self.end_run(process, "killed", 4)
        self.assertIn("RECOVERING", err)
        self.assert_same(result, epochs, **sets)

    def test_ps_killed_while_the_job_starts(self):
        process = self.start_run(training__epochs=ENDLESS, cluster__ps=2)
        self.wait_log("state", "master.log", "to=STARTING")
        os.kill(self.child(process, "gradus-ps")[0], signal.SIGKILL)
        result, err, epochs = self.end_run(process, "state", 1)
        self.assertEqual(result["steps"], epochs * 32)  # it was started again, and the job with it
        self.assertIn("started again", err)

    def test_the_starter_killed_leaves_no_orphan(self):
        process = self.start_run(training__epochs=ENDLESS, cluster__ps=2, cluster__workers=2)
        self.wait_log("state", "worker-1.log", "data_loaded")
        children = [pid for kind in ("master", "ps", "worker") for pid in self.child(process, "gradus-" + kind)]
        self.assertEqual(len(children), 5)
        process.kill()
        process.communicate()
        self.assert_gone(children)

    def test_interrupt_once_leaves_a_checkpoint(self):
        process = self.start_run(training__epochs=ENDLESS, cluster__workers=2, cluster__ps=2)
        self.wait_run("state", 1)
        children = [pid for kind in ("master", "ps", "worker") for pid in self.child(process, "gradus-" + kind)]
        # Others can look at it through its state directory.
        listed = gradus("list", "--json", "--state-dir", self.dir + "/state")
        self.assertEqual([job["state"] for job in read_jobs(listed.stdout)], ["RUNNING"], listed.stderr)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 3, err)
        listed = gradus("list", "--json", "--state-dir", self.dir + "/state")  # what the master has left
        self.assertEqual([job["state"] for job in read_jobs(listed.stdout)], ["CANCELLED"], listed.stderr)
        result = read_job(out)
        self.assertEqual(result["state"], "CANCELLED")
        self.assertGreater(result["steps"], 0)
        self.assertTrue(os.path.exists(result["checkpoint"] + "/manifest.json"))
        self.assert_gone(children)
        self.export(result["job"])

    def test_a_closed_terminal_leaves_a_checkpoint(self):
        process = self.start_run(training__epochs=ENDLESS)
        self.wait_run("state", 1)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)  # the shell sends one, too
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 3, err)
        self.assertTrue(os.path.exists(read_job(out)["checkpoint"] + "/manifest.json"))

    def test_who_was_told_not_to_hear_it_does_not(self):
        process = self.start_run(training__epochs=ENDLESS, before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_run("state", 1)
        process.send_signal(signal.SIGHUP)
        result, err, _ = self.end_run(process, "state", 2)
        self.assertEqual(result["state"], "SUCCEEDED", err)

    def test_a_suspended_run_stops_as_a_whole(self):
        process = self.start_run(training__epochs=ENDLESS)
        self.wait_run("state", 1)
        children = [pid for kind in ("master", "ps", "worker") for pid in self.child(process, "gradus-" + kind)]
        process.send_signal(signal.SIGTSTP)
        for pid in (process.pid, *children):
            self.wait_for(f"{pid} stops", lambda pid=pid: process_state(pid) == "T")
        process.send_signal(signal.SIGCONT)
        for pid in children:
            self.wait_for(f"{pid} goes on", lambda pid=pid: process_state(pid) != "T")
        result, err, _ = self.end_run(process, "state", 2)
        self.assertEqual(result["state"], "SUCCEEDED", err)

    def test_async_interrupt(self):
        process = self.start_run(training__epochs=ENDLESS, training__mode="async", cluster__workers=2)
        self.wait_run("state", 1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 3, err)
        self.assertTrue(os.path.exists(read_job(out)["checkpoint"] + "/manifest.json"))

    def test_interrupt_twice_stops_at_once(self):
        process = self.start_run(training__epochs=ENDLESS)
        self.wait_run("state", 1)  # one that has made no step is cancelled at once
        children = [pid for kind in ("master", "ps", "worker") for pid in self.child(process, "gradus-" + kind)]
        for child in self.child(process, "gradus-worker"):
            os.kill(child, signal.SIGSTOP)  # the first is not done before the second comes
        process.send_signal(signal.SIGINT)
        while "Ctrl-C again" not in process.stderr.readline():  # the first was seen
            self.assertIsNone(process.poll())
        time.sleep(0.3)  # a second one that comes at once would be the same one
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130)
        self.assert_gone(children)

    def test_terminated_twice_at_once_is_terminated_once(self):
        """What `timeout` does: a signal for its child, and one for the group that the child is in."""
        for attempt in range(5):
            process = self.start_run(f"state-{attempt}", training__epochs=ENDLESS)
            self.wait_run(f"state-{attempt}", 1)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=TIMEOUT)
            if process.returncode == 3:  # else one of them stood still meanwhile, and the second was another one
                break
        self.assertEqual(process.returncode, 3, err)
        self.assertTrue(os.path.exists(read_job(out)["checkpoint"] + "/manifest.json"))


def says(service, check):
    try:
        with urllib.request.urlopen(f"http://{service.http}/{check}", timeout=120) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def process_state(pid):
    """The letter that ps(1) shows: T is stopped."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


class Services(ClusterTest):
    def submit(self, master, *extra, **sets):
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, *self.job(**sets),
                      *extra)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def watch(self, master, job):
        done = gradus("watch", job, "--json", "--master", master.address)
        self.assertTrue(done.stdout, done.stderr)
        return done.returncode, read_watched(done.stdout)[1]

    def test_jobs_wait_queue_and_run_together(self):
        master, _, _ = self.start_cluster(ps=1, workers=1)
        big = self.submit(master, cluster__workers=2)
        self.wait_for("1 more worker in its reason", lambda: (
            lambda s: s["state"] == "PENDING" and "1 more worker" in s["reason"])(self.status(master, big)))
        small = self.submit(master, training__epochs=1)
        self.assertEqual(self.watch(master, small)[0], 0)  # the big one does not hold it up
        self.assertEqual(master.job(big)["state"], "PENDING")
        self.start("worker", f"--master={master.address}")
        code, result = self.watch(master, big)
        self.assertEqual((code, result["state"]), (0, "SUCCEEDED"))
        self.start("worker", f"--master={master.address}")
        self.start("worker", f"--master={master.address}")
        jobs = [self.submit(master, cluster__workers=2, training__epochs=4) for _ in range(3)]
        for job in jobs:
            self.assertEqual(self.watch(master, job)[1]["state"], "SUCCEEDED")

    def test_train_metrics_where_many_epochs_pass_between_two_reports(self):
        small = os.path.join(self.dir, "small")
        self.assertEqual(gradus("generate", "digits", "--out", small, "--train", "64", "--test", "32").returncode, 0)
        master, _, _ = self.start_cluster(ps=1, workers=1, slow_down=1)
        for away in (False, True):  # the master, for many epochs
            job = self.submit(master, "--set", f"data.dir={small}", training__epochs=1200, training__batch_size=32,
                              training__evaluate_every="600 epochs")
            if away:
                self.wait_for("a step", lambda: master.job(job)["steps"] > 0)
                master.process.send_signal(signal.SIGSTOP)
                time.sleep(2)
                master.process.send_signal(signal.SIGCONT)
            self.assertEqual(self.watch(master, job)[0], 0)
            evaluations = self.status(master, job)["evaluations"]
            self.assertEqual([e["epoch"] for e in evaluations], [600, 1200])
            for evaluation in evaluations:
                self.assertIn("loss", evaluation["train"], evaluations)

    def test_nodes_join_in_any_order_and_services_answer(self):
        master, servers, workers = self.start_cluster(ps=2, workers=2)
        nodes = self.wait_for("four nodes", lambda: (
            lambda n: n if len(n) == 4 else None)(read_message(gradus("nodes", "--json", "--master", master.address).stdout)["nodes"]))
        self.assertEqual(sorted(n["role"] for n in nodes), ["PS", "PS", "WORKER", "WORKER"])
        for service in (master, *servers, *workers):
            page = urllib.request.urlopen(f"http://{service.http}/metrics", timeout=120).read().decode()
            self.assertIn("gradus_", page)
            for check in ("healthz", "livez", "startupz"):
                answer = urllib.request.urlopen(f"http://{service.http}/{check}", timeout=120)
                self.assertEqual(answer.status, 200, check)
            # The master lists a node before that has read the answer to its request to join.
            self.wait_for("a service that is ready", lambda s=service: says(s, "readyz")[0] == 200)
        for service in (*workers, *servers, master):
            self.assertEqual(service.stop(), 0)

    def test_a_node_is_ready_when_the_master_knows_it(self):
        """It is alive and well before, and stays so when the master goes: nobody should start it again."""
        lonely = [self.start("ps", "--master=127.0.0.1:1", f"--checkpoint-dir={self.dir}/lonely"),
                  self.start("worker", "--master=127.0.0.1:1")]
        for node, who in zip(lonely, ("server", "worker")):
            self.assertEqual(says(node, "readyz"), (503, f"the master does not know this {who} yet\n"))
            for check in ("livez", "startupz", "healthz"):
                self.assertEqual(says(node, check), (200, "ok\n"), check)
        master, servers, workers = self.start_cluster()
        for node in (*servers, *workers):
            self.wait_for("a node that is ready", lambda n=node: says(n, "readyz")[0] == 200)
        self.assertEqual(master.stop(), 0)
        for node in (*servers, *workers):
            self.assertEqual(says(node, "livez"), (200, "ok\n"))

    def test_the_master_remembers(self):
        """Another host has its directory; nodes that look for the old one are gone."""
        master, servers, workers = self.start_cluster()
        job = self.submit(master, training__epochs=1)
        self.assertEqual(self.watch(master, job)[0], 0)
        running = self.submit(master, training__epochs=ENDLESS, training__checkpoint_every=20,
                              training__evaluate_every="never")
        saved = self.wait_for("a checkpoint", lambda: master.job(running)["checkpoint"])
        master.stop(signal.SIGKILL)
        for node in (*servers, *workers):
            node.stop(signal.SIGKILL)
        again = self.start("master", f"--state-dir={self.dir}/cluster")
        self.wait_for("what becomes of it", lambda: "was lost" in self.status(again, running)["reason"])
        listed = read_jobs(gradus("list", "--json", "--master", again.address).stdout)
        states = {entry["job"]: entry["state"] for entry in listed}
        self.assertEqual(states, {job: "SUCCEEDED", running: "RECOVERING"})
        self.assertIn("was lost", [e["reason"] for e in listed if e["job"] == running][0])
        self.start("ps", f"--master={again.address}", f"--checkpoint-dir={self.dir}/cluster/checkpoints")
        self.start("worker", f"--master={again.address}")
        status = self.wait_for("RUNNING", lambda: (
            lambda s: s if s["state"] == "RUNNING" else None)(self.status(again, running)))
        self.assertEqual(status["recoveries"], 1)
        self.assertGreaterEqual(status["steps"], int(saved.rsplit("-", 1)[1]))
        shown = gradus("status", running, "--master", again.address).stdout
        self.assertIn("\nrecoveries  1 time back to a checkpoint", shown)
        self.assertEqual(gradus("cancel", running, "--now", "--master", again.address).returncode, 0)

    def test_cancel_and_checkpoint_on_request(self):
        master, _, _ = self.start_cluster(ps=2, workers=2)
        job = self.submit(master, training__epochs=ENDLESS, cluster__workers=2, cluster__ps=2)
        self.wait_for("steps", lambda: master.job(job)["steps"] > 0)
        done = gradus("checkpoint", job, "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(os.path.exists(done.stdout.strip() + "/manifest.json"))
        self.assertEqual(master.job(job)["state"], "RUNNING")
        self.assertEqual(gradus("cancel", job, "--master", master.address).returncode, 0)
        code, result = self.watch(master, job)
        self.assertEqual((code, result["state"]), (3, "CANCELLED"))
        again = self.submit(master, training__epochs=1)  # the nodes are free again
        self.assertEqual(self.watch(master, again)[0], 0)
        third = self.submit(master, training__epochs=ENDLESS)
        self.wait_for("RUNNING", lambda: master.job(third)["state"] == "RUNNING")
        done = gradus("cancel", third, "--now", "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"job {third}: CANCELLED: cancelled at once", done.stdout)
        self.assertEqual(self.watch(master, third)[1]["state"], "CANCELLED")

    def test_checkpoint_while_workers_wait_for_a_slow_one(self):
        master, _, workers = self.start_cluster(ps=2, workers=3)
        job = self.submit(master, training__mode="bounded", training__staleness=1, training__epochs=ENDLESS,
                          training__evaluate_every="never", cluster__workers=3, cluster__ps=2)
        self.wait_for("steps", lambda: master.job(job)["steps"] > 0)
        for worker in workers:
            worker.process.send_signal(signal.SIGSTOP)
            time.sleep(0.3)  # the others run ahead and wait
            asked = threading.Timer(0.3, worker.process.send_signal, (signal.SIGCONT,))
            asked.start()
            done = gradus("checkpoint", job, "--master", master.address, timeout=60)
            asked.join()
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(gradus("cancel", job, "--now", "--master", master.address).returncode, 0)

    def test_little_memory_for_gradients(self):
        """Servers that have room for what a step needs at least: everybody waits, and nothing changes."""
        elements = 784 * 64 + 64 + 64 * 32 + 32 + 32 * 10 + 10
        limit = 3 * (elements * 4 + 65536)  # two that wait for their siblings, and one that comes in
        master = self.start("master", f"--state-dir={os.path.join(self.dir, 'cluster')}")
        server = self.start("ps", f"--master={master.address}", f"--gradient-bytes-max={limit}",
                            f"--checkpoint-dir={os.path.join(self.dir, 'cluster')}/checkpoints")
        for sockets in ("off", "off", "auto", "auto"):  # two of them by TCP, two in shared memory
            self.start("worker", f"--master={master.address}", f"--local-sockets={sockets}")

        def page():
            return urllib.request.urlopen(f"http://{server.http}/metrics", timeout=120).read().decode()

        def run(**more):
            self.wait_for("room", lambda: "gradus_ps_shards 0" in page())  # the last job's shard is closed
            return self.submit(master, **sets, **more)

        sets = {"training__replicas": 4, "training__batch_size": 16, "cluster__workers": 4, "cluster__ps": 1}
        plain = self.run_job(**sets)
        job = run()
        self.assertEqual(self.watch(master, job)[1]["state"], "SUCCEEDED")
        self.assertEqual(self.export(job, "cluster"), self.export(plain["job"]))
        for more in ({"training__mode": "async"}, {"training__mode": "bounded", "training__staleness": 1},
                     {"training__speculate": "true"}):
            job = run(**more)
            self.assertEqual(self.watch(master, job)[1]["state"], "SUCCEEDED", more)
        job = run(training__replicas_to_aggregate=2)  # each may wait, and one comes in
        _, ended = self.watch(master, job)
        self.assertEqual(ended["state"], "FAILED")
        self.assertIn("--gradient-bytes-max is", ended["reason"])
        # Streams of workers end after the job does, as soon as they hear of it.
        self.wait_for("the memory of gradients", lambda: "\ngradus_ps_gradient_bytes 0\n" in page())


if __name__ == "__main__":
    unittest.main(verbosity=2)
