# SPDX-License-Identifier: Apache-2.0
"""Models of users' own on real clusters: programs in C, NumPy and PyTorch end with the same bits on any cluster, whatever is
killed, and their mistakes are said and contained."""

import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import unittest

from cluster import BIN, ENDLESS, SLOW_DOWN, SOURCE, ClusterTest, alive, children_of, gradus, read_job, records_applied

FINAL = ("SUCCEEDED", "FAILED", "CANCELLED")
NUMPY = importlib.util.find_spec("numpy") is not None
TORCH = NUMPY and importlib.util.find_spec("torch") is not None
TRAIN = 2000  # of numpy_program.py
EPOCHS = 6
JOB = """name: mine
model: {program: numpy, metrics: [accuracy]}
update: {rule: adam, learning_rate: 0.02}
training: {mode: sync, batch_size: 50, replicas: 4, epochs: %d, seed: 3, evaluate_every: 1 epoch}
cluster: {workers: 1, ps: 1}
""" % EPOCHS

# A plug-in whose open() fails, under a name and of a version that are given.
FAILS = """#include <gradus/compute.h>
#include <string.h>
static int fails(const struct gradus_job *j, void **m, struct gradus_description *d, char *why)
{
    strcpy(why, "this machine has no such model");
    return j == NULL || m == NULL || d == NULL ? 2 : 1;
}
static int computes(void *m, const struct gradus_work *w, struct gradus_result *r, char *why)
{
    return m == NULL && w == NULL && r == NULL && why == NULL;
}
const struct gradus_compute NAME = {.abi = VERSION, .open = fails, .compute = computes};
"""

ENDS = """#include <gradus/worker.h>
#include <stdio.h>
int main(void)
{
    struct gradus_worker *worker = NULL;
    struct gradus_work work;
    if (gradus_worker_open("ends", &worker) != 0 || gradus_worker_next(worker, &work) != 0) {
        return 4;
    }
    return fputs("no such licence", stderr) < 0 ? 5 : 3;
}
"""


class ProgramTest(ClusterTest):
    model = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.environ.pop("GRADUS_BIN", None)  # the worker says where it is
        os.environ["PYTHONPATH"] = os.path.join(SOURCE, "python")

    def setUp(self):
        super().setUp()
        self.pids = os.path.join(self.dir, "pids")
        os.mkdir(self.pids)
        self.file = os.path.join(self.dir, "job.yaml")
        with open(self.file, "w", encoding="utf-8") as f:
            f.write(JOB)

    def tearDown(self):
        for service in self.services:
            service.stop(signal.SIGKILL)
        self.assert_gone(self.programs())  # a program ends with its worker
        super().tearDown()

    def job(self, **sets):
        return [part for key, value in sets.items() for part in ("--set", f"{key.replace('__', '.')}={value}")]

    def programs(self):
        """Process ids of all programs that were started, those that run."""
        return [int(name) for name in os.listdir(self.pids) if alive(int(name))]

    def numpy(self, *options):
        return shlex.join([sys.executable, "-B", os.path.join(SOURCE, "tests/integration/numpy_program.py"), self.pids, *options])

    def run_program(self, command, state, file=None, expect=0, **sets):
        done = gradus(*self.run_args(file or self.file, state, "--worker", command, **sets))
        self.assertEqual(done.returncode, expect, done.stderr + done.stdout)
        return read_job(done.stdout)

    def bits(self, job, state):
        return hashlib.sha256(self.export(job, state)).hexdigest()

    def as_in_the_manual(self, number, state):
        """What a script of the way back to PyTorch prints, after the command before it, both as they stand there."""
        with open(SOURCE + "/docs/python.md", encoding="utf-8") as f:
            text = f.read().split("\n### Back to PyTorch\n")[1].split("\n## ")[0]
        command = re.findall(r"\n    (gradus export .*)\n", text)[number]
        script = re.findall(r"\n```python\n(.*?)```\n", text, re.S)[number]
        place = os.path.join(self.dir, "reader")
        os.mkdir(place)
        os.symlink(self.shared + "/digits", place + "/digits")
        own = dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}", PYTHONPATH=f"{SOURCE}/python:{SOURCE}/examples/pytorch")
        for line in [*shlex.split(command), "--state-dir", os.path.join(self.dir, state)], [sys.executable, "-B", "-c", script]:
            done = subprocess.run(line, cwd=place, env=own, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def same_bits(self, command, job, file=None, **sets):
        """The result, which is that of 1 + 1, 2 + 2 and 4 + 3 workers and servers."""
        results, bits = [], []
        for workers, ps in (1, 1), (2, 2), (4, 3):
            state = f"{workers}-{ps}"
            results.append(self.run_program(command, state, file, cluster__workers=workers, cluster__ps=ps,
                                            cluster__partitions=ps, training__replicas=4, **sets))
            bits.append(self.bits(job, state))
        self.assertEqual(bits[1:], bits[:1] * 2)
        self.assertEqual([r["metrics"] for r in results[1:]], [results[0]["metrics"]] * 2)
        return results[0], bits[0]

    # ---- a cluster by hand ----

    def cluster(self, workers, ps, command, *worker_flags):
        state = os.path.join(self.dir, "cluster")
        self.master = self.start("master", f"--state-dir={state}")
        self.server = lambda: self.start("ps", f"--master={self.master.address}", f"--checkpoint-dir={state}/checkpoints")
        self.servers = [self.server() for _ in range(ps)]
        self.worker = lambda: self.start("worker", f"--master={self.master.address}", f"--program={command}", *worker_flags)
        return [self.worker() for _ in range(workers)]

    def submit(self, **sets):
        done = gradus("submit", self.file, "--master", self.master.address, *self.job(**sets))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def wait_part(self, job, part):
        """Until it runs and so much of the job's file is done."""
        def reached():
            now = self.master.job(job)
            self.assertNotIn(now["state"], FINAL, now["reason"])
            return now["state"] == "RUNNING" and now["steps"] > 0 and now["epochs"] >= part * EPOCHS
        self.wait_for(f"{part} of the steps", reached, 90)

    def give_end(self, job):
        """To one without: how many epochs it has then."""
        workers = [s.process.pid for s in self.services if "worker" in os.path.basename(s.log.name) and s.process.poll() is None]
        return self.end_job(self.master.client(), job, workers, EPOCHS)

    def assert_same(self, job, command, epochs):
        """As of one worker and one server that nothing happened to."""
        result = self.run_program(command, "quiet", training__epochs=epochs)
        self.assertEqual(self.bits(job, "cluster"), self.bits(result["job"], "quiet"))
        self.assertEqual(self.status(self.master, job)["metrics"]["test"], result["metrics"]["test"])

    def replace_server(self, i, job):
        """kill -9 of a server, and another in its place, with which the job starts again."""
        before = self.master.job(job)["recoveries"]
        self.servers[i].stop(signal.SIGKILL)
        self.servers[i] = self.server()
        self.wait_for("the recovery", lambda: self.master.job(job)["recoveries"] > before)

    def wait_end(self, job, state="SUCCEEDED"):
        self.wait_for("the end of the job", lambda: self.master.job(job)["state"] in FINAL, 200)
        status = self.status(self.master, job)
        self.assertEqual(status["state"], state, status["reason"])
        return status

    # ---- with a program of NumPy ----

    def killed_and_the_same(self):
        workers = self.cluster(3, 2, self.numpy("--sleep-ms=20"))
        job = self.submit(training__epochs=ENDLESS, cluster__workers=3, cluster__ps=2, cluster__partitions=2)
        for part in 0.1, 0.3:  # programs alone
            self.wait_part(job, part)
            os.kill(self.programs()[0], signal.SIGKILL)
        for part in 0.5, 0.7:  # workers, and with them their programs
            self.wait_part(job, part)
            workers.pop(0).stop(signal.SIGKILL)
            self.worker()
        epochs = self.give_end(job)
        self.wait_end(job)
        self.assert_same(job, self.numpy(), epochs)

    def killed_in_async(self, **sets):
        """What became of it, and its epochs."""
        workers = self.cluster(3, 2, self.numpy("--sleep-ms=20"))
        job = self.submit(training__mode="async", training__epochs=ENDLESS, cluster__workers=3, cluster__ps=2, cluster__partitions=2, **sets)
        self.wait_part(job, 0.2)
        os.kill(self.programs()[0], signal.SIGKILL)
        self.wait_part(job, 0.5)
        workers[0].stop(signal.SIGKILL)
        self.worker()
        epochs = self.give_end(job)
        return self.wait_end(job), epochs


class InC(ProgramTest):
    def test_the_example(self):
        """Built out of tree, with one header and one library."""
        directory = os.path.join(SOURCE, "examples/worker-program")
        subprocess.run(["make", "-C", directory, f"GRADUS_INCLUDE={SOURCE}/include", f"GRADUS_LIB={os.path.dirname(BIN)}/lib",
                        "CFLAGS=-O2 -Wall -Wextra -Werror", f"OUT={self.dir}"], check=True, capture_output=True)
        result, _ = self.same_bits(f"{self.dir}/logistic", "logistic-program-1", directory + "/logistic.yaml")
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.98)

    def plug_in(self, name="plane", source=SOURCE + "/examples/compute-plugin/plane.c", symbol="gradus_compute", version=1):
        """The directory with it, built out of tree with one command of plain cc."""
        directory = os.path.join(self.dir, "plug ins")
        os.makedirs(directory, mode=0o755, exist_ok=True)
        subprocess.run(["cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fPIC", "-shared",
                        f"-DNAME={symbol}", f"-DVERSION={version}", "-I", os.path.join(SOURCE, "include"), "-o",
                        os.path.join(directory, name + ".so"), source, "-lm"], check=True)
        return directory

    def test_a_plug_in(self):
        """By a command of `gradus run`, and by a setting of workers, of which one is killed, as are the processes beside them."""
        self.file = os.path.join(SOURCE, "examples/compute-plugin/plane.yaml")
        directory = self.plug_in()
        command = shlex.join([os.path.join(BIN, "gradus-worker"), "compute", directory])
        result, bits = self.same_bits(command, "plane-1", self.file)
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.97)
        state = os.path.join(self.dir, "cluster")
        self.master = self.start("master", f"--state-dir={state}")
        self.start("ps", f"--master={self.master.address}", f"--checkpoint-dir={state}/checkpoints")
        def worker():
            return self.start("worker", f"--master={self.master.address}", f"--compute-dir={directory}", f"--slow-down={SLOW_DOWN}")
        workers = [worker(), worker()]
        job = self.submit(training__epochs=ENDLESS, training__replicas=4)
        self.wait_for("steps", lambda: self.master.job(job)["steps"] >= 5)
        for pid in children_of(workers[0].process.pid):
            os.kill(pid, signal.SIGKILL)
        workers[1].stop(signal.SIGKILL)
        worker()
        at = self.master.job(job)["steps"]
        self.wait_for("more steps", lambda: self.master.job(job)["steps"] > at + 5)
        epochs = self.end_job(self.master.client(), job, [], 3)
        self.wait_end(job)
        result = self.run_program(command, "quiet", self.file, training__epochs=epochs, training__replicas=4)
        self.assertEqual(self.bits(job, "cluster"), self.bits(result["job"], "quiet"))

    def test_validate(self):
        """Its job file, and data that it has."""
        plane = SOURCE + "/examples/compute-plugin/plane.yaml"
        done = gradus("validate", plane)
        self.assertEqual((done.returncode, done.stdout), (0, f"{plane} is valid; the model is program 'plane' of the workers\n"))
        with open(os.path.join(self.dir, "rate.csv"), "w", encoding="ascii") as f:
            f.write("a,b,stars\n1,2,3\n4,5,7\n")
        file = os.path.join(self.dir, "rate.yaml")
        with open(file, "w", encoding="ascii") as f:
            f.write("name: rate\ndata: {train: {file: rate.csv}, label: stars}\nmodel: {program: rate, metrics: [rmse]}\n"
                    "update: {rule: sgd, learning_rate: 1}\n")
        done = gradus("validate", file)
        self.assertEqual((done.returncode, done.stdout),
                         (0, f"{file} is valid, and its data can be read; the model is program 'rate' of the workers\n"))
        done = gradus("validate", file, "--json")
        self.assertEqual((json.loads(done.stdout)["status"], json.loads(done.stdout)["checked_against"]), ("valid", "data"))
        done = gradus("validate", file, "--set", "data.label=other")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn('data.label names column "other"', done.stderr)
        done = gradus("validate", file, "--set", "data.dir=/nowhere")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("is valid; not checked against its data: ", done.stdout)

    def test_plug_ins_that_cannot_be(self):
        source = os.path.join(self.dir, "fails.c")
        with open(source, "w", encoding="ascii") as f:
            f.write(FAILS)
        directory = self.plug_in("open", source)
        self.plug_in("abi", source, version=2)
        self.plug_in("symbol", source, symbol="other")
        os.chmod(shutil.copy(os.path.join(directory, "abi.so"), os.path.join(directory, "others.so")), 0o666)
        with open(os.path.join(directory, "text.so"), "w", encoding="ascii") as f:
            f.write("no shared object")
        command = shlex.join([os.path.join(BIN, "gradus-worker"), "compute", directory])
        for name, words in (("abi", "it has ABI version 2; this program knows 1"), ("symbol", "it does not define gradus_compute"),
                            ("others", "that not everybody may write"), ("text", "it cannot be loaded"),
                            ("nothing", "there is no such plug-in"), ("open", "this machine has no such model")):
            result = self.run_program(command, name, SOURCE + "/examples/compute-plugin/plane.yaml", expect=1, model__program=name)
            self.assertIn(words, result["reason"])

    def test_commands_that_cannot_be(self):
        for command, words in (("/nowhere/program", "exit code 127"), ("true", "exit code 0")):
            log = os.path.join(self.dir, "wrong.log")
            master = self.start("master", f"--state-dir={self.dir}/{command.replace('/', '')}")
            done = subprocess.run([os.path.join(BIN, "gradus-worker"), f"--master={master.address}", "--listen=127.0.0.1:0",
                                   f"--program={command}"], capture_output=True, text=True, timeout=120)
            self.assertNotEqual(done.returncode, 0, log)
            self.assertIn(words, done.stderr)

    def test_what_a_program_printed_before_it_ended_is_told_once(self):
        for name, command in (("before", ["sh", "-c", "echo no such licence >&2; exit 3"]), ("model", self.ends_when_asked())):
            done = gradus(*self.run_args(self.file, name, "--worker", shlex.join(command)))
            self.assertEqual(done.returncode, 1, done.stderr)
            told = read_job(done.stdout)["reason"] if name == "model" else done.stderr
            self.assertIn("it ended with exit code 3, and printed last:", told)
            self.assertEqual(told.splitlines().count("no such licence"), 1, told)

    def ends_when_asked(self):
        """A program that opens its worker and ends when a job asks it for the model."""
        source = os.path.join(self.dir, "ends.c")
        with open(source, "w", encoding="ascii") as f:
            f.write(ENDS)
        lib = os.path.join(os.path.dirname(BIN), "lib")
        subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", "-I", SOURCE + "/include", "-o", source[:-2], source, "-L", lib,
                        "-lgradus", f"-Wl,-rpath,{lib}"], check=True)
        return [source[:-2]]

    def test_a_job_without_its_program(self):
        done = gradus(*self.run_args(self.file, "state"))
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("--worker", done.stderr)


@unittest.skipUnless(NUMPY, "NumPy is not installed")
class InNumpy(ProgramTest):
    def start_late(self, go):
        """gradus run with a program that begins once there is a file; it has said that it waits for it."""
        command = shlex.join(["sh", "-c", f"while [ ! -e {go} ]; do sleep 0.1; done; exec {self.numpy()}"])
        run = subprocess.Popen([os.path.join(BIN, "gradus"), *self.run_args(self.file, "late", "--worker", command)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(run)
        self.assertIn("waiting for worker 1, which is not ready yet; its log is ", run.stderr.readline())
        return run

    def test_a_program_that_begins_late_is_waited_for(self):
        go = os.path.join(self.dir, "go")
        run = self.start_late(go)
        with open(go, "w", encoding="utf-8"):
            pass
        out, err = run.communicate(timeout=120)
        self.assertEqual((run.returncode, read_job(out)["state"]), (0, "SUCCEEDED"), err)

    def test_ctrl_c_ends_the_waiting(self):
        run = self.start_late(os.path.join(self.dir, "go"))
        children = children_of(run.pid)
        self.assertGreaterEqual(len(children), 3)  # and what the program is by now
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130, err)
        self.assertIn("stopped before worker 1 was ready", json.loads(out)["errors"][0]["message"])
        self.assert_gone(children)

    def test_bits_are_the_same_on_any_cluster_and_whatever_is_killed(self):
        result, _ = self.same_bits(self.numpy(), "mine-1")
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.9)
        self.killed_and_the_same()

    def test_async_counts_every_record_once(self):
        status, epochs = self.killed_in_async()
        self.assertEqual([records_applied(s["ledger"]) for s in status["shards"]], [epochs * TRAIN] * 2)
        self.assertEqual([s["examples"] for s in status["shards"]], [epochs * TRAIN] * 2)
        self.assertEqual(status["recoveries"], 0)
        self.assertGreater(status["metrics"]["test"]["accuracy"], 0.9)

    def test_the_last_batch_of_an_epoch_may_be_left_out(self):
        """32 records of 2000 in batches of 48, in sync and async, of programs and of layers."""
        sets = {"training__batch_size": 48, "training__drop_last": "true"}
        whole = TRAIN - TRAIN % 48
        result, _ = self.same_bits(self.numpy(), "mine-1", **sets)
        self.assertEqual((result["examples"], result["left_out"], result["epochs"]), (EPOCHS * whole, TRAIN - whole, EPOCHS))
        self.assertEqual(result["steps"], EPOCHS * -(-whole // 48 // 4))
        status, epochs = self.killed_in_async(**sets)
        self.assertEqual([records_applied(s["ledger"]) for s in status["shards"]], [epochs * whole] * 2)
        self.assertEqual([s["examples"] for s in status["shards"]], [epochs * whole] * 2)
        done = gradus("status", status["job"], "--master", self.master.address)
        self.assertIn("\nleft out    32 records of each epoch (training.drop_last)\n", done.stdout)
        result = self.run_job("layers", training__epochs=2, cluster__workers=2, data__dir=self.shared + "/digits", **sets)
        self.assertEqual((result["examples"], result["left_out"], result["epochs"]), (2 * whole, TRAIN - whole, 2))

    def test_norms_of_a_program_in_async(self):
        """Where pushes bring the norms of whole gradients, which a worker computes."""
        result = self.run_program(self.numpy(), "norms", training__mode="async", cluster__workers=2, cluster__ps=2,
                                  cluster__partitions=2, update__clip_global_norm="0.5")
        self.assertEqual((result["examples"], result["recoveries"]), (EPOCHS * TRAIN, 0))
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.9)

    def test_a_program_that_begins_with_other_values(self):
        """It is refused, with the variable; the job goes on without it."""
        self.cluster(1, 1, self.numpy("--sleep-ms=20"))
        job = self.submit(training__epochs=ENDLESS, cluster__workers="1..2")
        self.wait_part(job, 0.1)
        self.start("worker", f"--master={self.master.address}", f"--program={self.numpy('--what=begin')}")
        words = "variable 1, bias: its initial values are not those that the first worker of the job told (1 of 3 variables differ)"
        def refused():
            with open(self.master.log.name, encoding="utf-8") as f:
                return words in f.read()
        self.wait_for("the refusal", refused)
        self.give_end(job)
        self.wait_end(job)

    def test_a_mistake_in_a_program_ends_the_job_and_nothing_else(self):
        self.cluster(2, 1, self.numpy("--what=raise", "--sleep-ms=5"))
        for _ in range(2):
            job = self.submit(cluster__workers=2)
            status = self.wait_end(job, "FAILED")
            self.assertIn("ValueError: this batch has a mistake in it", status["reason"])
            self.assertRegex(status["reason"], r'\n  File ".*numpy_program\.py", line \d+, in ')
            shown = gradus("status", job, "--master", self.master.address).stdout
            self.assertRegex(shown, r'\n {14}File ".*numpy_program\.py", line \d+, in ')
            self.assertIn("\n            ValueError: this batch has a mistake in it", shown)
            self.assertIn("step 5", status["reason"])
        self.assertEqual(len(self.programs()), 2)
        self.assertEqual(len(os.listdir(self.pids)), 2)  # the same processes

    def test_a_mistake_in_an_evaluation_ends_the_job(self):
        """In the last one, too, without which no job ends."""
        self.cluster(2, 1, self.numpy("--what=raise-evaluating"))
        for every in ("5", "never"):
            status = self.wait_end(self.submit(cluster__workers=2, training__evaluate_every=every), "FAILED")
            self.assertIn("ValueError: these test records have a mistake in them", status["reason"])
            self.assertRegex(status["reason"], r'\n  File ".*numpy_program\.py", line \d+, in ')
        self.assertEqual(len(os.listdir(self.pids)), 2)  # the same processes

    def test_a_program_that_was_mended_goes_on(self):
        self.run_program(self.numpy(), "whole", training__checkpoint_every="2 steps")
        workers = self.cluster(1, 1, self.numpy("--what=raise"))
        job = self.submit(cluster__workers=1, training__checkpoint_every="2 steps")
        status = self.wait_end(job, "FAILED")
        self.assertIn("step-00000000", status["checkpoint"])
        workers[0].stop()
        self.start("worker", f"--master={self.master.address}", f"--program={self.numpy()}")
        done = gradus("resume", job, "--json", "--master", self.master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        status = self.wait_end(job)
        self.assertEqual((status["resumes"], status["recoveries"]), (1, 0))
        self.assertIn("FAILED: worker-", status["ended_before"])
        self.assertEqual(self.bits(job, "cluster"), self.bits("mine-1", "whole"))

    def once(self, what, *worker_flags):
        """A program that does this once ends with the same bits."""
        state = self.run_program(self.numpy(), "whole")["state"]
        self.assertEqual(state, "SUCCEEDED")
        before = len(os.listdir(self.pids))
        workers = self.cluster(2, 1, self.numpy(f"--what={what}", f"--once={self.dir}/{what}"), *worker_flags)
        job = self.submit(cluster__workers=2)
        status = self.wait_end(job)
        self.assertEqual(self.bits(job, "cluster"), self.bits("mine-1", "whole"))
        self.assertEqual(len(os.listdir(self.pids)) - before, 3)  # one was started again
        self.assertEqual(status["recoveries"], 0)
        self.assertTrue(all(w.process.poll() is None for w in workers))

    def test_a_program_that_hangs_is_started_again(self):
        self.once("hang", "--program-timeout=8s")  # nobody computes for so long, however busy

    def test_a_program_that_hangs_ends_after_its_worker(self):
        mark = os.path.join(self.dir, "hangs")
        workers = self.cluster(1, 1, self.numpy("--what=hang", f"--once={mark}"))
        self.submit()
        self.wait_for("the program to hang", lambda: os.path.exists(mark))
        hanging = self.programs()
        self.assertEqual(len(hanging), 1)
        workers[0].stop(signal.SIGKILL)
        self.assert_gone(hanging)

    def test_an_interrupted_run_says_that_it_waits_for_a_program_that_hangs(self):
        mark = os.path.join(self.dir, "hangs")
        process = self.start_run(file=self.file, extra=("--worker", self.numpy("--what=hang", f"--once={mark}")))
        self.wait_for("the program to hang", lambda: os.path.exists(mark))
        process.send_signal(signal.SIGINT)
        lines = iter(process.stderr.readline, "")
        line = next(line for line in lines if "waits for Assign on worker-1 for" in line)
        self.assertTrue(line.startswith("Ctrl-C again stops at once; "), line)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130)

    def test_a_program_that_ends_is_started_again(self):
        self.once("exit")

    def test_a_program_that_crashes_is_started_again(self):
        self.once("crash")


@unittest.skipUnless(TORCH, "PyTorch is not installed")
class InPyTorch(ProgramTest):
    def command(self, script):
        return shlex.join([sys.executable, "-B", os.path.join(SOURCE, "examples/pytorch", script), self.shared + "/digits"])

    def test_the_example_of_digits(self):
        result, _ = self.same_bits(self.command("digits.py"), "torch-digits-1", SOURCE + "/examples/pytorch/digits.yaml",
                                   training__epochs=3, training__batch_size=16)
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.85)

    def test_batch_normalisation_and_dropout(self):
        """The other example, on the same small files."""
        result, _ = self.same_bits(self.command("fashion_mnist.py"), "torch-fashion-mnist-1",
                                   SOURCE + "/examples/pytorch/fashion_mnist.yaml", training__epochs=2, training__batch_size=16)
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.8)

    def test_a_trained_module_outside_of_gradus(self):
        """An export, in a new module, answers as the job was evaluated."""
        sys.path[:0] = [os.path.join(SOURCE, "python"), os.path.join(SOURCE, "tests/integration")]
        import torch
        from torch_load_program import Clips
        import gradus.torch
        program = shlex.join([sys.executable, "-B", os.path.join(SOURCE, "tests/integration/torch_load_program.py")])
        result = self.run_program(program, "clips", training__replicas=2, training__batch_size=20, cluster__workers=2, cluster__ps=2,
                                  cluster__partitions=2)
        self.export(result["job"], "clips")
        gradus.torch.seed_all(3)  # as the job: the layer that is not trained is drawn
        net = Clips().model()
        fixed = net.fixed.weight.clone()
        clips, kinds = Clips().dataset("test").tensors

        def measured():
            net.eval()
            with torch.no_grad():
                answers = net(clips)
            return {"loss": torch.nn.functional.cross_entropy(answers, kinds).item(),
                    "accuracy": (answers.argmax(1) == kinds).float().mean().item()}

        told = result["metrics"]["test"]
        self.assertGreater(told["accuracy"], 0.9)
        self.assertLess(measured()["accuracy"], 0.8)
        gradus.torch.load(net, f"{self.dir}/clips-{result['job']}.safetensors")
        for name, value in measured().items():
            self.assertAlmostEqual(value, told[name], delta=2e-6, msg=name)
        self.assertGreater(net.norm.running_mean.abs().min().item(), 0)
        self.assertTrue(torch.equal(net.fixed.weight, fixed))
        self.assertIs(net.again.weight, net.mix.weight)

    def test_the_way_back_of_the_manual(self):
        result = self.run_program(self.command("digits.py"), "digits", SOURCE + "/examples/pytorch/digits.yaml", training__epochs=3,
                                  training__batch_size=16)
        self.assertAlmostEqual(float(self.as_in_the_manual(0, "digits")), result["metrics"]["test"]["accuracy"], delta=1e-6)

    def servers_killed(self, script, **sets):
        """A job whose servers are killed before its first checkpoint and after one, and its epochs. The scripts stay."""
        workers = self.cluster(2, 2, self.command(script), f"--slow-down={SLOW_DOWN}")
        scripts = [children_of(w.process.pid) for w in workers]
        job = self.submit(training__epochs=ENDLESS, training__batch_size=32, training__replicas=2, training__checkpoint_every="2 epochs",
                          cluster__workers=2, cluster__ps=2, cluster__partitions=2, **sets)
        self.wait_part(job, 0.1)
        self.replace_server(0, job)
        self.wait_part(job, 0.5)
        self.wait_for("a checkpoint", lambda: self.master.job(job)["checkpoint"])
        self.replace_server(1, job)
        self.wait_part(job, 0.7)
        epochs = self.give_end(job)
        status = self.wait_end(job)
        self.assertEqual(status["recoveries"], 2)
        self.assertEqual([s["examples"] for s in status["shards"]], [epochs * 2000] * 2)
        self.assertEqual([children_of(w.process.pid) for w in workers], scripts)
        with open(self.master.log.name, encoding="utf-8") as f:
            resumed = [line for line in f if "event=job_resumes" in line]
        self.assertIn("/step-", resumed[-1])
        return job, status, epochs

    def test_servers_killed_in_sync(self):
        """Running statistics and dropout among what has to come back."""
        self.file = SOURCE + "/examples/pytorch/fashion_mnist.yaml"
        job, status, epochs = self.servers_killed("fashion_mnist.py")
        quiet = self.run_program(self.command("fashion_mnist.py"), "quiet", self.file, training__epochs=epochs, training__batch_size=32,
                                 training__replicas=2, cluster__workers=1, cluster__ps=1, cluster__partitions=1)
        self.assertEqual(self.bits(job, "cluster"), self.bits(quiet["job"], "quiet"))
        self.assertEqual(status["metrics"]["test"], quiet["metrics"]["test"])

    def test_servers_killed_in_async(self):
        self.file = SOURCE + "/examples/pytorch/digits.yaml"
        _, status, epochs = self.servers_killed("digits.py", training__mode="async")
        self.assertEqual([records_applied(s["ledger"]) for s in status["shards"]], [epochs * 2000] * 2)
        self.assertGreater(status["metrics"]["test"]["accuracy"], 0.85)

    def test_a_script_becomes_a_worker(self):
        self.master = self.start("master", f"--state-dir={self.dir}/cluster")
        self.start("ps", f"--master={self.master.address}", f"--checkpoint-dir={self.dir}/cluster/checkpoints")
        process = subprocess.Popen(shlex.split(self.command("digits.py")) + ["--master", self.master.address],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, GRADUS_BIN=BIN))
        self.processes.append(process)
        sys.path.insert(0, os.path.join(SOURCE, "python"))
        import gradus as package  # the client, too
        client = package.Client(self.master.address, command=os.path.join(BIN, "gradus"))
        job = client.submit(SOURCE + "/examples/pytorch/digits.yaml",
                            {"cluster.workers": 1, "cluster.ps": 1, "cluster.partitions": 1, "training.epochs": 1})
        states = [now["state"] for now in client.watch(job, 0.1)]
        self.assertEqual(states[-1], "SUCCEEDED", client.status(job)["reason"])
        self.assertEqual(client.list()[0]["job"], job)
        client.export(job, self.dir + "/model.safetensors")
        self.assertGreater(os.path.getsize(self.dir + "/model.safetensors"), 784 * 128 * 4)
        with self.assertRaisesRegex(package.CommandError, "no job nobody-1"):
            client.status("nobody-1")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(120), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
