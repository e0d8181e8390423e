# SPDX-License-Identifier: Apache-2.0
"""gradus logs: the lines of all nodes of a job, on real processes: of one that runs, that has ended, of nodes that died, and what
a program of the user's prints, whatever that is."""

import json
import os
import re
import signal
import subprocess
import sys
import unittest

from cluster import BIN, ENDLESS, SOURCE, gradus
from test_cli import on_terminal
from test_programs import NUMPY, ProgramTest

SECRET = "hunter2hunter2"
DIGITS = os.path.join(SOURCE, "examples/digits.yaml")
LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  (\S+)  (DEBUG|INFO |WARN |ERROR)  \S+")


class Logs(ProgramTest):
    def logs(self, *args, expect=0):
        done = gradus("logs", *args, "--master", self.master.address)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done

    def lines(self, job, *args):
        return [json.loads(line) for line in self.logs(job, *args, "--json").stdout.splitlines()]

    def digits(self, epochs):
        sets = {"data.dir": self.shared + "/digits", "training.epochs": epochs, "cluster.workers": 2, "cluster.ps": 1,
                "training.replicas": 2, "training.checkpoint_within": "1h"}
        done = gradus("submit", DIGITS, *[word for key, value in sets.items() for word in ("--set", f"{key}={value}")],
                      "--master", self.master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def wait_lines(self, job, nodes):
        self.wait_for(f"lines of {nodes}", lambda: nodes <= {line["node"] for line in self.lines(job)})

    def test_a_job_from_its_beginning_to_its_end(self):
        self.master, _, workers = self.start_cluster(1, 2)
        job = self.digits(ENDLESS)
        self.wait_lines(job, {"master", "ps-1", "worker-1", "worker-2"})
        text = self.logs(job).stdout
        for line in text.splitlines():
            self.assertRegex(line, LINE)
        self.assertEqual({LINE.match(line).group(1) for line in self.logs(job, "worker-1").stdout.splitlines()}, {"worker-1"})
        self.assertIn("INFO   job_taken", text)
        times = [int(line["timeMs"]) for line in self.lines(job)]
        self.assertEqual(times, sorted(times))
        last = self.lines(job, "--tail", "1")
        self.assertEqual(len(last), 1)
        self.assertEqual(set(last[0]), {"timeMs", "node", "level", "event", "text", "lost"})
        self.assertIn("no job nobody-1", self.logs("nobody-1", expect=5).stderr)
        self.assertIn("no node ps-9", self.logs(job, "ps-9", expect=5).stderr)
        self.start("worker", f"--master={self.master.address}", "--name=idle")
        self.assertIn(f"node idle is not one of job {job}", self.logs(job, "idle", expect=1).stderr)

        workers[1].stop(signal.SIGKILL)
        self.wait_for("the death", lambda: "has died" in self.logs(job).stderr)
        self.assertTrue(self.lines(job, "worker-2"))

        follows = subprocess.Popen([os.path.join(BIN, "gradus"), "logs", job, "-f", "--json", "--master", self.master.address],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(follows.kill)
        first = follows.stdout.readline()
        gradus("cancel", job, "--master", self.master.address)
        rest, said = follows.communicate(timeout=120)
        self.assertEqual(follows.returncode, 0, said)
        seen = [json.loads(line) for line in [first, *rest.splitlines()]]
        self.assertTrue(any("to=CANCELLED" in line["text"] for line in seen))
        self.assertTrue(any(line["event"] == "job_dropped" and line["node"] == "worker-1" for line in seen))
        key = [(line["node"], line["timeMs"], line["event"], line["text"]) for line in seen]
        self.assertEqual(len(key), len(set(key)))
        self.assertEqual(self.logs(job, "-f").returncode, 0)  # of a job that has ended: what there is

    def test_a_master_that_was_started_again_says_so(self):
        self.master, _, _ = self.start_cluster(1, 2)
        job = self.digits(1)
        self.wait_for("the end", lambda: self.master.job(job)["state"] == "SUCCEEDED")
        self.master.stop(signal.SIGKILL)
        self.master = self.start("master", f"--state-dir={self.dir}/cluster")
        done = self.logs(job)
        self.assertEqual(done.stdout, "")
        self.assertIn("no lines are kept", done.stderr)
        self.master.stop()
        done = gradus("logs", job, "--state-dir", f"{self.dir}/cluster")
        self.assertEqual(done.returncode, 1)
        self.assertIn("does not run any more", " ".join(done.stderr.split()))

    def test_a_run_that_ended_says_where_its_logs_are(self):
        begun = []
        for _ in range(2):  # each run has a directory of its own, maybe in the same second
            run = self.start_run(name="kunden", data__dir=self.shared + "/digits", training__epochs=1)
            out, said = run.communicate(timeout=600)
            begun.append((json.loads(out)["id"], re.search(r"^logs in (\S+)$", said, re.M).group(1)))
        for job, directory in begun:
            done = gradus("logs", job, "--state-dir", f"{self.dir}/state")
            self.assertEqual(done.returncode, 1)
            self.assertTrue(done.stderr.rstrip().endswith(directory), (directory, done.stderr))
        for command in (("logs",), ("status",), ("predict", "--data", "-")):
            done = gradus(command[0], "kunden", *command[1:], "--state-dir", f"{self.dir}/state")
            self.assertEqual(done.returncode, 5)
            self.assertIn(f"perhaps {begun[1][0]} is meant", " ".join(done.stderr.split()))

    @unittest.skipUnless(NUMPY, "numpy is not installed")
    def test_what_a_program_prints(self):
        script = os.path.join(self.dir, "talks.py")
        with open(script, "w", encoding="utf-8") as f:
            f.write("import sys\n"
                    "print('\\x1b[2Jclear\\x9b2J', 'und K\\u00f6ln')\n"
                    "print('time=now level=error event=forged job=other-1')\n"
                    f"print('password={SECRET}', file=sys.stderr)\n"
                    "print('y' * 5000)\n"
                    "print('no end', end='', flush=True)\n")
        program = self.numpy()
        command = f"""sh -c 'PYTHONIOENCODING=utf-8 {sys.executable} {script}; exec {program}'"""
        self.cluster(1, 1, command)
        job = self.submit(training__epochs=ENDLESS)
        self.wait_for("its last line", lambda: any("yyy" in line["text"] for line in self.lines(job)))
        printed = [line for line in self.lines(job, "worker-1") if line["event"] == "printed"]
        everything = self.logs(job).stdout
        self.assertFalse(re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", everything))
        self.assertNotIn(SECRET, everything + json.dumps(printed))
        texts = [line["text"] for line in printed]
        self.assertTrue(any("clear" in text and "Köln" in text for text in texts), texts)
        self.assertIn("time=now level=error event=forged job=other-1", texts)
        self.assertTrue(all(line["level"] == "INFO" and line["node"] == "worker-1" for line in printed))
        self.assertEqual("".join(text for text in texts if set(text) == {"y"}), "y" * 5000)
        with open(next(s.log.name for s in self.services if "worker" in os.path.basename(s.log.name)), encoding="utf-8") as f:
            self.assertIn(SECRET, f.read())  # the node's own log has all
        shown, _ = on_terminal(os.path.join(BIN, "gradus"), "logs", job, "--master", self.master.address, columns=80)
        self.assertIn("clear", shown)
        for line in shown.splitlines():
            self.assertTrue(len(line) <= 80 or len(line.split()) == 1, line)


if __name__ == "__main__":
    unittest.main(verbosity=2)
