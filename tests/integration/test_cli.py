# SPDX-License-Identifier: Apache-2.0
"""The client as somebody meets it for the first time: on a terminal of 80 columns, with two runs at once, with the
environment instead of flags, and with commands typed as the program itself suggests them."""

import fcntl
import json
import os
import pty
import re
import select
import shlex
import signal
import stat
import struct
import subprocess
import termios
import time
import unittest
import unittest.mock

from cluster import BIN, ENDLESS, HOME, SOURCE, TIMEOUT, ClusterTest, gradus, read_job, read_jobs, read_watched

DIGITS = SOURCE + "/examples/digits.yaml"
COLUMNS = 80


def on_terminal(*command, columns=COLUMNS, timeout=TIMEOUT, cwd=None):
    """What `command` writes to a terminal of so many columns, and its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True, cwd=cwd)
    os.close(theirs)
    text = b""
    end = time.monotonic() + timeout
    try:
        while time.monotonic() < end:
            if select.select([ours], [], [], 0.2)[0]:
                part = os.read(ours, 65536)
                if not part:
                    break
                text += part
    except OSError:
        pass  # the other end is closed
    finally:
        os.close(ours)
        if process.poll() is None and time.monotonic() >= end:
            process.kill()
    return text.decode(), process.wait(timeout=120)


def shown_lines(text):
    """All lines that stood on the terminal at some time, those that were written over too."""
    lines = re.split(r"\r\n|\r\033\[K|\n", text)
    return [line for line in lines if line]


class Terminal(ClusterTest):
    def test_a_terminal_that_cannot_go_back(self):
        """Of an editor, say: it shows lines alone."""
        with unittest.mock.patch.dict(os.environ, {"TERM": "dumb"}):
            text, code = on_terminal(os.path.join(BIN, "gradus"), "run", DIGITS, *self.job(name="dumb"))
        self.assertEqual(code, 0, text)
        self.assertNotIn("\033", text)
        self.assertNotIn("\r", text.replace("\r\n", "\n"))

    def test_outputs_that_are_no_files(self):
        """A pipe is written into, a link leads to what is replaced, "-" is the standard output."""
        rows, pipe, link = (os.path.join(self.dir, name) for name in ("rows.csv", "pipe", "link"))
        with open(rows, "w", encoding="utf-8") as f:
            f.write("a,y\n1,0\n")
        os.mkfifo(pipe)
        os.symlink("target", link)
        program = os.path.join(BIN, "gradus")
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        for output in pipe, link, "-":
            done = subprocess.run([program, "convert", rows, "--output", output], capture_output=True, timeout=TIMEOUT)
            self.assertEqual(done.returncode, 0, done.stderr)
            if output == "-":
                self.assertIn(b"packed into", done.stderr)
        with open(link, "rb") as f:
            packed = f.read()
        self.assertEqual((os.read(reader, 65536), done.stdout), (packed, packed))
        os.close(reader)
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode) and os.path.islink(link))

    def test_one_answer_to_more_servers_than_partitions(self):
        rows, job = os.path.join(self.dir, "rows.csv"), os.path.join(self.dir, "job.yaml")
        with open(rows, "w", encoding="utf-8") as f:
            f.write("a,y\n" + "1,0\n2,1\n" * 20)
        with open(job, "w", encoding="utf-8") as f:
            f.write("name: few\ndata: {train: {file: rows.csv}, label: y}\n"
                    "model: {layers: [dense: {units: 1}], loss: sigmoid_cross_entropy}\n"
                    "update: {rule: sgd, learning_rate: 0.1}\ntraining: {epochs: 1, batch_size: 4}\ncluster: {ps: 6}\n")
        for command in ["validate"], ["plan"], ["run", "--state-dir", os.path.join(self.dir, "state")]:
            done = gradus(*command, job, "--set", f"data.dir={self.dir}")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("partitions cannot fill 6 parameter servers", " ".join(done.stderr.split()), command)

    def test_a_damaged_checkpoint_is_told(self):
        """Who asks for the newest and gets the one before hears so."""
        self.run_job(training__epochs=2, training__checkpoint_every="1 epoch")
        checkpoints = os.path.join(self.dir, "state", "checkpoints", "digits-1")
        newest = sorted(name for name in os.listdir(checkpoints) if name.startswith("step-"))[-1]
        shard = [name for name in os.listdir(os.path.join(checkpoints, newest)) if name.endswith(".safetensors")][0]
        with open(os.path.join(checkpoints, newest, shard), "w", encoding="utf-8") as f:
            f.write("x" * 130)
        out = os.path.join(self.dir, "out.safetensors")
        for command in ["evaluate", checkpoints, "--set", f"data.dir={self.shared}/digits"], ["export", "--from", checkpoints, out]:
            done = gradus(*command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("warning: ", done.stderr)
            self.assertIn(newest, done.stderr)
            self.assertIn("the one before it is taken", " ".join(done.stderr.split()))

    def test_all_or_an_error(self):
        """What is longer than a buffer is lost in its middle, too."""
        with open("/dev/full", "wb") as full:
            for command in ["schema", "--json"], ["rules", "--json"], ["rules"], ["--help"], ["roles"]:
                done = subprocess.run([os.path.join(BIN, "gradus"), *command], stdout=full, stderr=subprocess.PIPE, timeout=TIMEOUT)
                self.assertEqual((done.returncode, done.stderr), (1, b"gradus: cannot write to stdout\n"), command)

    def assert_fits(self, text, columns=COLUMNS):
        for line in shown_lines(text):
            self.assertNotIn("\033", line)
            if "/" in line and len(line.split()) <= 2:
                continue  # a path has to stay in one piece to be copied
            self.assertLessEqual(len(line), columns, repr(line))

    def test_run_and_what_comes_after_it(self):
        gradus_path = os.path.join(BIN, "gradus")
        sets = self.job(name="terminal", training__epochs=400, cluster__workers=2, cluster__ps=2,
                        training__evaluate_every="200 epochs")  # seconds also on a fast machine
        text, code = on_terminal(gradus_path, "run", DIGITS, *sets)
        self.assertEqual(code, 0, text)
        self.assert_fits(text)
        moving = [line for line in shown_lines(text) if re.match(r"(RUNNING  )?epoch +[\d.]+/400 ", line)]
        self.assertTrue(any("examples/s" in line and " left" in line for line in moving), moving)
        for line in moving:  # whole parts, no part of a number
            self.assertNotIn("…", line)
        # An evaluation has a line for each kind of data, numbers below numbers.
        self.assertRegex(text, r"epoch 400\.00  step +\d+  train  loss [\d.e-]+  accuracy [\d.]+\r\n"
                               r" {28}test   loss [\d.]+  accuracy [\d.]+\r\n")
        for command in ("list", "status terminal-1", "evaluate terminal-1", "watch terminal-1", "rules", "schema",
                        "rules lamb", f"plan {DIGITS} --set data.dir={self.shared}/digits --set cluster.ps=2",
                        f"validate {DIGITS} --set data.dir={self.shared}/digits", f"validate {DIGITS}",
                        "status none-1", "cancel terminal-1", "nonsense", "export terminal-1", "run none.yaml",
                        "submit " + DIGITS + " --master 127.0.0.1:1 --set data.dir=/x"):
            with self.subTest(command), unittest.mock.patch.dict(os.environ, GRADUS_TIMEOUT="1s"):  # nobody runs there
                text, code = on_terminal(gradus_path, *command.split(), cwd="/")
                self.assert_fits(text)
                self.assertIn(code, (0, 1, 2, 4, 5), text)
        self.assertIn("TIME OF A STEP", on_terminal(gradus_path, "status", "terminal-1")[0])

    def test_help(self):
        names = re.findall(r"^  ([a-z]+) +[A-Z]", gradus("--help").stdout, re.M)
        self.assertGreater(len(names), 15)
        commands = [["gradus", "--help"], *(["gradus", name, "--help"] for name in names),
                    *([f"gradus-{kind}", "--help"] for kind in ("master", "ps", "worker"))]
        for program, *args in commands:
            text = subprocess.run([os.path.join(BIN, program), *args], capture_output=True, text=True).stdout
            self.assertIn("Usage:", text)
            for line in text.splitlines():
                self.assertLessEqual(len(line), COLUMNS, (program, args))

    def test_waiting_jobs(self):
        master, _, _ = self.start_cluster()
        gradus_path = os.path.join(BIN, "gradus")
        done = gradus("submit", DIGITS, "--master", master.address, *self.job(cluster__workers=50))
        self.assertIn("waits for 49 more workers", done.stderr)
        self.assertIn("the cluster has 1 worker and 1 parameter server", done.stderr)
        text, _ = on_terminal(gradus_path, "list", "--master", master.address)
        self.assert_fits(text)
        self.assertIn("waits for 49 more workers", text)
        text, _ = on_terminal(gradus_path, "status", done.stdout.strip(), "--master", master.address)
        self.assert_fits(text)


class Runs(ClusterTest):
    def run_default(self, *extra, cwd=None, **sets):
        process = subprocess.Popen([os.path.join(BIN, "gradus"), "run", DIGITS, "--json", *self.job(**sets), *extra],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd)
        self.processes.append(process)
        return process

    def test_two_runs_at_once(self):
        runs = [self.run_default(name=f"both{i}", training__epochs=20) for i in range(3)]
        results = []
        for process in runs:
            out, err = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 0, err)
            results.append(read_job(out))
        dirs = {os.path.dirname(os.path.dirname(os.path.dirname(r["checkpoint"]))) for r in results}
        self.assertEqual(dirs, {HOME + "/gradus", HOME + "/gradus/run-2", HOME + "/gradus/run-3"})
        listed = {job["job"]: job for job in read_jobs(gradus("list", "--json").stdout)}
        for result in results:  # wherever it lies
            job = result["job"]
            self.assertEqual(listed[job]["state"], "SUCCEEDED")
            self.assertIn(listed[job]["state_dir"], dirs)
            done = gradus("status", job, "--json")
            self.assertEqual(read_job(done.stdout)["steps"], result["steps"], done.stderr)
            measured = gradus("evaluate", job, "--json")
            self.assertEqual(json.loads(measured.stdout)["checkpoint"], result["checkpoint"], measured.stderr)
            out = os.path.join(self.dir, job)
            self.assertEqual(gradus("export", job, out, "--bare").returncode, 0)

    def test_logs_as_json(self):
        process = subprocess.Popen([os.path.join(BIN, "gradus"), "run", DIGITS, "--json",
                                    *self.job(name="logs", training__epochs=1)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "GRADUS_LOG_FORMAT": "json"})
        self.processes.append(process)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        directory = re.search(r"logs in (.*)", err)[1]
        events = set()
        for name in os.listdir(directory):
            with open(os.path.join(directory, name), encoding="utf-8") as log:
                for line in log:
                    fields = json.loads(line)
                    self.assertLessEqual({"time", "level", "service", "event"}, set(fields), line)
                    events.add(fields["event"])
        self.assertLessEqual({"job_state", "checkpoint"}, events)

    def test_found_again_wherever_it_was(self):
        state = os.path.join(self.dir, "elsewhere")
        process = self.run_default("--state-dir", state, name="elsewhere", training__epochs=1)
        self.assertEqual(process.wait(timeout=120), 0)
        done = gradus("status", "elsewhere-1")
        self.assertIn(f"state dir   {state} (no master runs there now)\n", done.stdout, done.stderr)
        self.assertEqual(read_watched(gradus("watch", "elsewhere-1", "--json").stdout)[1]["state"], "SUCCEEDED")
        refused = gradus("cancel", "elsewhere-1")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("no master runs in", refused.stderr)
        missing = gradus("status", "elsewhere-2")
        self.assertEqual(missing.returncode, 5)
        self.assertIn(state, missing.stderr)  # where it looked
        self.assertIn("--state-dir", missing.stderr)  # what to type

    def test_what_a_killed_run_has_left(self):
        """The next one trains its own job; the other waits until somebody says what becomes of it."""
        state = ("--state-dir", os.path.join(self.dir, "left"))
        for name in "first", "second":
            process = self.run_default(*state, name=name, training__epochs=ENDLESS, training__checkpoint_every="1 epoch")
            self.wait_for("a checkpoint", lambda name=name: read_job(
                gradus("status", f"{name}-1", "--json", *state).stdout or "{}").get("checkpoint"))
            children = [pid for kind in ("master", "ps", "worker") for pid in self.child(process, "gradus-" + kind)]
            process.kill()
            process.communicate()
            self.assert_gone(children)
        listed = {job["job"]: job for job in read_jobs(gradus("list", "--json", *state).stdout)}
        self.assertEqual({job["state"] for job in listed.values()}, {"PENDING"})  # nothing runs
        process = self.run_default(*state, name="third", training__epochs=1)
        _, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 0, err)
        told = " ".join(err.split())
        self.assertIn("unfinished from earlier runs: ", told)
        for name in "first-1", "second-1":
            self.assertIn(name, told)
        done = gradus("cancel", "first-1", *state)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("CANCELLED", done.stdout)
        again = gradus("cancel", "first-1", *state)
        self.assertEqual(again.returncode, 1, again.stderr)
        epochs = int(listed["second-1"]["epochs"]) + 2
        done = gradus("resume", "second-1", "--set", f"training.epochs={epochs}", "--json", *state)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read_job(done.stdout)["state"], "SUCCEEDED")
        states = {job["job"]: job["state"] for job in read_jobs(gradus("list", "--json", *state).stdout)}
        self.assertEqual(states, {"first-1": "CANCELLED", "second-1": "SUCCEEDED", "third-1": "SUCCEEDED"})

    def test_losses_are_told(self):
        """Each is a line of its own: what a progress line says is overwritten by the next one."""
        process = self.run_default(name="losses", training__epochs=ENDLESS, cluster__workers=2, training__checkpoint_every="never")

        def job():
            return read_job(gradus("status", "losses-1", "--json").stdout or "{}")

        self.wait_for("the job", lambda: job().get("steps", 0) > 0)
        self.assertEqual(gradus("checkpoint", "losses-1").returncode, 0)
        self.wait_for("the checkpoint", lambda: job().get("checkpoint"))
        reached = job()["steps"]  # the one checkpoint is of this step at most
        self.wait_for("steps behind the checkpoint", lambda: job()["steps"] > reached)
        os.kill(self.child(process, "gradus-worker")[0], signal.SIGKILL)
        self.wait_for("a new worker", lambda: len(job()["workers"]) == 2 and "worker-3" in job()["workers"])
        os.kill(self.child(process, "gradus-ps")[0], signal.SIGKILL)
        self.wait_for("the recovery", lambda: job()["recoveries"] == 1 and job()["state"] == "RUNNING")
        self.assertEqual(gradus("cancel", "losses-1").returncode, 0)
        _, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 3, err)
        for line in (r"step \d+: worker-[12] is gone; [12] worker", r"step \d+: worker-3 joined; 2 workers", r"recovery 1 at step \d+, epoch",
                     r"back to step \d+ of \d+: what came after it is trained again", r"step \d+: ps-1 is gone", r"step \d+: ps-2 joined; 1 ps"):
            self.assertRegex(err, line)

    def test_while_it_runs(self):
        process = self.run_default(name="going", training__epochs=ENDLESS)
        self.wait_for("the job", lambda: "RUNNING" in gradus("status", "going-1").stdout)
        self.assertEqual(gradus("cancel", "going-1").returncode, 0)
        self.assertEqual(process.wait(timeout=120), 3)

    def test_all_places_of_one_name(self):
        """Nobody but the user knows which is meant: no command takes one of them."""
        for place in "one", "two":
            process = self.run_default("--state-dir", f"{self.dir}/{place}", name="twice", training__epochs=1)
            self.assertEqual(process.wait(timeout=120), 0)
        digits = os.path.join(self.shared, "digits/t10k-images-idx3-ubyte.gz")
        for command in (("status",), ("watch",), ("evaluate",), ("export", "out"), ("predict", "--data", digits), ("cancel",), ("rm",),
                        ("resume",), ("set", "training.epochs=3"), ("checkpoint",), ("table",), ("pause",)):
            refused = gradus(command[0], "twice-1", *command[1:])
            self.assertEqual(refused.returncode, 2, command)
            told = " ".join(refused.stderr.split())
            self.assertIn(f"2 places have a job twice-1; say which one is meant: --state-dir {self.dir}/two, "
                          f"--state-dir {self.dir}/one", told)
        self.assertEqual(gradus("status", "twice-1", "--state-dir", f"{self.dir}/one").returncode, 0)

    def test_runs_of_one_name_at_once(self):
        self.assertEqual(self.run_default(name="same", training__epochs=1).wait(timeout=120), 0)
        runs = [self.run_default(name="same", training__epochs=20) for _ in range(3)]
        jobs = set()
        for process in runs:
            out, err = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 0, err)
            jobs.add(read_job(out)["job"])
        self.assertEqual(jobs, {"same-2", "same-3", "same-4"})
        for job in jobs:
            self.assertEqual(gradus("status", job).returncode, 0)

    def test_jobs_are_removed(self):
        """Where no master runs, and where one does: what has ended, and no number is given twice."""
        state = ("--state-dir", os.path.join(self.dir, "removed"))
        self.assertEqual(self.run_default(*state, name="gone", training__epochs=1).wait(timeout=120), 0)
        directory = os.path.join(self.dir, "removed/checkpoints/gone-1")
        done = gradus("rm", "gone-1", *state)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"its checkpoints stay in {directory}", done.stdout)
        self.assertTrue(os.listdir(directory))
        self.assertEqual(gradus("status", "gone-1", *state).returncode, 5)
        process = self.run_default(*state, name="gone", training__epochs=ENDLESS)
        self.wait_for("the job", lambda: "RUNNING" in gradus("status", "gone-2", *state).stdout)
        refused = gradus("rm", "gone-2", *state)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("job gone-2 is RUNNING; only a job that has ended is removed", " ".join(refused.stderr.split()))
        self.assertEqual(gradus("cancel", "gone-2", *state).returncode, 0)
        self.assertEqual(process.wait(timeout=TIMEOUT), 3)
        done = gradus("rm", "gone-2", "--checkpoints", "--json", *state)
        self.assertEqual(json.loads(done.stdout), {"checkpoints": ""}, done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.dir, "removed/checkpoints/gone-2")))
        out, err = self.run_default(*state, name="gone", training__epochs=1).communicate(timeout=TIMEOUT)
        self.assertEqual(read_job(out)["job"], "gone-3", err)

    def test_a_state_directory_in_use(self):
        state = os.path.join(self.dir, "used")
        master = self.start("master", f"--state-dir={state}")
        process = self.run_default("--state-dir", state)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1)
        self.assertIn(f"state directory {state} is in use by gradus-master with process id {master.process.pid}", err)
        self.assertIn("--state-dir DIR", err)
        self.assertNotIn("level=", err)  # no line of a log

    def test_relative_data(self):
        process = self.run_default("--set", "data.dir=digits", cwd=self.shared, name="relative", training__epochs=1)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn(f"dir: {self.shared}/digits", read_job(gradus("status", "relative-1", "--json").stdout)["text"])
        self.assertEqual(gradus("evaluate", "relative-1").returncode, 0)  # from another directory

    def job_in(self, folder, data):
        """A job file in a folder of this test's directory, and its data in another one or the same."""
        for name in folder, data:
            os.makedirs(os.path.join(self.dir, name), exist_ok=True)
        with open(os.path.join(self.dir, data, "rows.csv"), "w", encoding="utf-8") as f:
            f.write("a,b,y\n" + "".join(f"{i % 7},{i % 3},{i % 2}\n" for i in range(64)))
        path = os.path.join(folder, "job.yaml")
        with open(os.path.join(self.dir, path), "w", encoding="utf-8") as f:
            f.write("name: rows\ndata: {train: {file: rows.csv}, label: y}\nmodel: {layers: [{dense: {units: 2}}], "
                    "loss: softmax_cross_entropy}\nupdate: {rule: sgd}\ntraining: {batch_size: 8, epochs: 1}\n")
        return path

    def test_relative_paths_start_from_the_job_file(self):
        def check(*command):
            return subprocess.run([os.path.join(BIN, "gradus"), *command], capture_output=True, text=True, timeout=TIMEOUT, cwd=self.dir)

        path = self.job_in("jobs", "jobs")
        done = check("validate", path)
        self.assertIn("is valid and fits its data", done.stdout, done.stderr)
        self.assertEqual(done.stderr, "")
        done = check("run", path, "--state-dir", "state")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"dir: {self.dir}/jobs\n", read_job(check("status", "rows-1", "--json", "--state-dir", "state").stdout)["text"])
        self.assertEqual(check("validate", path, "--set", "data.dir=jobs").stderr, "")  # typed here
        # Where only the old way finds it, from the working directory, that is said.
        path = self.job_in("other", ".")
        for command in ("validate", path), ("run", path, "--state-dir", "state"):
            done = check(*command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"warning: relative paths of {path} start from its own directory", " ".join(done.stderr.split()))
        self.assertNotIn("warning", check("validate", path, "--set", "data.dir=.").stderr)

    def test_settings_of_the_environment(self):
        """Those of one process do not reach the others; those of all do."""
        with unittest.mock.patch.dict(os.environ, GRADUS_LISTEN="127.0.0.1:1", GRADUS_ADVERTISE="nowhere:1", GRADUS_NAME="same",
                                      GRADUS_CHECKPOINT_DIR="/nowhere", GRADUS_CONFIG="/no/such.yaml", GRADUS_MASTER="nowhere:1",
                                      GRADUS_LOG_LEVEL="debug"):
            process = self.run_default(name="variables", training__epochs=1, cluster__ps=2)
            out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 0, err)
        self.assertTrue(read_job(out)["checkpoint"].startswith(HOME))


class Cluster(ClusterTest):
    def submit(self, master, *extra, env=None, **sets):
        return subprocess.run([os.path.join(BIN, "gradus"), "submit", DIGITS, *self.job(**sets), *extra],
                              capture_output=True, text=True, timeout=120, env={**os.environ, **(env or {})})

    def test_the_environment_names_the_master(self):
        master, _, _ = self.start_cluster()
        env = {"GRADUS_MASTER": master.address}
        done = self.submit(master, env=env, training__epochs=1)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        self.assertIn(f"`gradus watch {job}` ", done.stderr)  # enough where the variable is set
        watched = subprocess.run([os.path.join(BIN, "gradus"), "watch", job, "--json"], capture_output=True, text=True,
                                 timeout=120, env={**os.environ, **env})
        self.assertEqual(watched.returncode, 0, watched.stderr)
        events, ended = read_watched(watched.stdout)
        self.assertEqual(ended["state"], "SUCCEEDED")
        self.assertEqual([e["evaluation"]["step"] for e in events if e["event"] == "evaluation"],
                         [e["step"] for e in ended["evaluations"]] if len(events) > 1 else [])  # else it had ended before
        self.assertEqual([e["event"] for e in events].count("end"), 1)
        # What is typed goes before it.
        done = subprocess.run([os.path.join(BIN, "gradus"), "list", "--json", "--state-dir", self.dir + "/cluster"],
                              capture_output=True, text=True, timeout=120,
                              env={**os.environ, "GRADUS_MASTER": "127.0.0.1:1"})
        self.assertEqual([entry["job"] for entry in read_jobs(done.stdout)], [job], done.stderr)

    def test_hints_work_as_typed(self):
        master, _, _ = self.start_cluster()
        done = self.submit(master, "--master", master.address, training__epochs=ENDLESS)
        job = done.stdout.strip()
        hint = re.search(r"`gradus (watch [^`]+)`", done.stderr).group(1)
        watching = subprocess.Popen([os.path.join(BIN, "gradus"), *shlex.split(hint)], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
        self.processes.append(watching)
        self.wait_for("steps", lambda: master.job(job)["steps"] > 0)
        # Until it has said something of the job, the signal would end it as it does any program.
        ready, _, _ = select.select([watching.stderr, watching.stdout], [], [], 60)
        self.assertTrue(ready)
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=120)
        self.assertEqual(watching.returncode, 130, err)
        hint = re.search(r"`gradus (cancel [^`]+)` stops it", err).group(1)
        done = gradus(*shlex.split(hint))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.wait_for("the end", lambda: master.job(job)["state"] == "CANCELLED")

    def test_more_workers_than_there_are(self):
        master, _, _ = self.start_cluster(workers=2)
        done = self.submit(master, "--master", master.address, training__epochs=ENDLESS, cluster__workers=2)
        job = done.stdout.strip()
        self.wait_for("steps", lambda: master.job(job)["steps"] > 0)
        done = gradus("set", job, "cluster.workers=9", "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("asks for 9 workers, and the cluster has 2 workers", done.stderr)
        self.assertIn("it goes on with 2", done.stderr)
        gradus("cancel", job, "--now", "--master", master.address)

    def test_relative_data_is_told(self):
        master, _, _ = self.start_cluster()
        done = subprocess.run([os.path.join(BIN, "gradus"), "submit", DIGITS, "--master", master.address, *self.job(),
                               "--set", "data.dir=digits"], capture_output=True, text=True, timeout=120, cwd=self.shared)
        self.assertIn(f"data.dir is digits here and sent as {self.shared}/digits", done.stderr)
        job = self.status(master, done.stdout.strip())
        self.assertIn(f"dir: {self.shared}/digits", job["text"])
        # What was not typed is where the job file is, also when the data are on the workers' machines alone.
        path = os.path.join(self.dir, "far.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write("name: far\ndata: {dir: sub, train: {file: rows.csv}}\nmodel: {layers: [{dense: {units: 2}}], "
                    "loss: softmax_cross_entropy}\nupdate: {rule: sgd}\ntraining: {batch_size: 8, epochs: 1}\n")
        done = gradus("submit", path, "--master", master.address)
        self.assertIn(f"relative paths of {path} start from {self.dir}/sub: the workers look there", " ".join(done.stderr.split()))
        self.assertIn(f"dir: {self.dir}/sub\n", self.status(master, done.stdout.strip())["text"])

    def test_jobs_are_removed(self):
        master, _, _ = self.start_cluster()
        to = ("--master", master.address)
        job = read_job(self.submit(master, *to, "--watch", "--json", training__epochs=1).stdout)["job"]
        done = gradus("rm", job, "--checkpoints", *to)
        self.assertEqual((done.returncode, done.stdout), (0, "removed\n"), done.stderr)
        self.assertEqual(gradus("rm", job, *to).returncode, 5)
        self.assertNotIn(job, gradus("list", *to).stdout)

    def test_one_request_is_one_job(self):
        """Who was interrupted submits again and follows the same job."""
        master, _, _ = self.start_cluster()
        again = ("--master", master.address, "--request-id=nightly", *self.job(training__epochs=1))
        first = gradus("submit", DIGITS, *again)
        self.assertEqual(first.returncode, 0, first.stderr)
        followed = gradus("submit", DIGITS, *again, "--watch")
        self.assertEqual(followed.returncode, 0, followed.stderr)
        self.assertIn(f"job {first.stdout.strip()} submitted", followed.stderr)
        other = gradus("submit", DIGITS, *again[:2], "--request-id=weekly", *again[3:])
        self.assertNotEqual(other.stdout, first.stdout)

    def test_settings_of_a_service(self):
        for kind in ("master", "ps", "worker"):
            done = subprocess.run([os.path.join(BIN, f"gradus-{kind}"), "--print-config", "--grace-ms=1s"],
                                  capture_output=True, text=True, timeout=120,
                                  env={**os.environ, "GRADUS_HTTP_LISTEN": "127.0.0.1:8080", "GRADUS_GRACE_MS": "9s",
                                       "GRADUS_LISTNE": "x"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn('http_listen: "127.0.0.1:8080"  # GRADUS_HTTP_LISTEN\n', done.stdout)
            self.assertIn("grace_ms: 1s  # --grace-ms\n", done.stdout)
            self.assertIn("did you mean GRADUS_LISTEN?", done.stderr)
            # One address is everybody's default.
            self.assertIn(('listen: ' if kind == "master" else 'master: ') + '"127.0.0.1:7000"  # default\n',
                          done.stdout)

    def test_nobody_is_there(self):
        self.in_vain("submit", DIGITS, "--master", "127.0.0.1:1", *self.job(), words=["127.0.0.1:1"])
        done = gradus("nodes", "--state-dir", self.dir)
        self.assertEqual(done.returncode, 5)
        self.assertIn(f"gradus-master --state-dir {self.dir}", done.stderr)


class Texts(unittest.TestCase):
    def test_the_job_file_of_the_first_job(self):
        with open(SOURCE + "/docs/first-job.md") as f:
            shown = re.search(r"^```yaml\n(.*?)^```", f.read(), re.M | re.S).group(1)
        with open(DIGITS) as f:
            self.assertEqual(shown, f.read())

    def test_words_of_other_programs(self):
        for word, hint in (("train", "gradus run JOB.yaml"), ("ls", "gradus list"), ("ps", "gradus nodes"), ("jobs", "gradus list"),
                           ("stop", "gradus cancel JOB"), ("delete", "gradus rm JOB"), ("lst", "gradus list")):
            done = gradus(word)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"`{hint}", done.stderr)

    def test_flags_that_messages_name(self):
        """Each is one that some program has."""
        names = re.findall(r"^  ([a-z]+) +[A-Z]", gradus("--help").stdout, re.M)
        helps = [gradus(name, "--help").stdout for name in names]
        for kind in "master", "ps", "worker", "serve":
            helps.append(subprocess.run([os.path.join(BIN, "gradus-" + kind), "--help"], capture_output=True, text=True).stdout)
        known = {flag for text in helps for found in re.findall(r"^ +--(\[no-\])?([a-z0-9-]+)", text, re.M)
                 for flag in ([found[1], "no-" + found[1]] if found[0] else [found[1]])}
        known |= {"help", "man-page"}  # the latter is for the build alone
        named = {}
        for room in "common", "services":
            for folder, _, files in os.walk(os.path.join(SOURCE, room)):
                for file in (name for name in files if name.endswith((".c", ".h"))):
                    with open(os.path.join(folder, file), encoding="utf-8") as f:
                        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
                    for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text):
                        for flag in re.findall(r"(?:^|[^a-zA-Z0-9-])--([a-z][a-z0-9-]*)", literal):
                            named.setdefault(flag.rstrip("-"), file)
        self.assertGreater(len(named), 30)
        self.assertEqual({flag: file for flag, file in named.items() if flag not in known}, {})

    def test_help_begins_with_the_command(self):
        """How the master is reached is the same for all commands, and stands behind what this one does."""
        text = gradus("list", "--help").stdout
        order = [text.index(part) for part in ("--limit", "Examples:", "Where the master is", "--tls-cert", "--token-file")]
        self.assertEqual(order, sorted(order))
        self.assertIn("Where the master is", text.replace("\n", " "))
        self.assertNotIn("Where the master is", gradus("run", "--help").stdout)
        self.assertIn("~/.local/state; without HOME ./gradus-state;", " ".join(gradus("run", "--help").stdout.split()))

    def test_the_usual_port(self):
        done = gradus("list", "--master", "127.0.0.9", "--timeout", "100ms")
        self.assertIn("127.0.0.9:7000", done.stderr)

    def test_errors_as_json(self):
        text = "name: x\ndata: {train: {fil: a}}\nupdate: {rule: adm}\n"
        done = gradus("validate", "-", "--json", "--set", "training.epochs=x", stdin=text)
        self.assertEqual(done.returncode, 2)
        result = json.loads(done.stdout)
        self.assertEqual(result["status"], "invalid")
        found = {error["key"]: (error["file"], error["line"], error["column"]) for error in result["errors"]}
        self.assertEqual(found["model"], ("-", 1, 1))
        self.assertEqual(found["data.train.fil"], ("-", 2, 16))
        self.assertEqual(found["update.rule"], ("-", 3, 16))
        self.assertEqual(found["training.epochs"], ("--set training.epochs=x", None, None))
        self.assertTrue(all(error["message"] for error in result["errors"]))
        done = gradus("validate", "/no/such.yaml", "--json")
        self.assertEqual(done.returncode, 5)
        self.assertIn("/no/such.yaml", json.loads(done.stdout)["errors"][0]["message"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
