# SPDX-License-Identifier: Apache-2.0
"""gradus.Client with a command that writes down how it is called, and with the real one where no master is needed."""

import io
import json
import math
import os
import re
import stat
import sys
import tempfile
import unittest
from unittest import mock

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path[:0] = [SOURCE + "/python"]
try:
    import numpy  # noqa: the package wants it
except ImportError:
    print("skipped: NumPy is not installed")
    sys.exit(77)

import gradus
from gradus import messages

SCRIPT = """#!{python}
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
with open(here + "/calls", "a") as f:
    f.write(json.dumps([sys.argv[1:], sys.stdin.read()]) + "\\n")
answers = json.load(open(here + "/answers"))
answer = answers.pop(0)
json.dump(answers, open(here + "/answers", "w"))
sys.stdout.write(answer.get("stdout", ""))
sys.stderr.write(answer.get("stderr", ""))
sys.exit(answer.get("code", 0))
"""


class Calls(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gradus-test-")
        self.command = os.path.join(self.dir, "gradus")
        with open(self.command, "w", encoding="utf-8") as f:
            f.write(SCRIPT.format(python=sys.executable))
        os.chmod(self.command, stat.S_IRWXU)

    def tearDown(self):
        for name in os.listdir(self.dir):
            os.unlink(os.path.join(self.dir, name))
        os.rmdir(self.dir)

    def client(self, *answers, **options):
        with open(self.dir + "/answers", "w", encoding="utf-8") as f:
            json.dump([a if isinstance(a, dict) and "code" in a else {"stdout": json.dumps(a)} for a in answers], f)
        return gradus.Client(command=self.command, **options)

    def calls(self):
        with open(self.dir + "/calls", encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def test_submit(self):
        client = self.client({"job": "a-1"}, {"job": "b-1"}, master="h:1", arguments=["--tls-ca=x"])
        self.assertEqual(client.submit("job.yaml", {"training.epochs": 3, "data.dir": "/d", "training.overlap": True},
                                       request_id="n"), "a-1")
        self.assertEqual(client.submit({"name": "b", "update": {"rule": "sgd"}}), "b-1")
        common = ["submit", "--json", "--tls-ca=x", "--master=h:1"]
        first, second = self.calls()
        self.assertEqual(first, [common + ["--set", "training.epochs=3", "--set", "data.dir=/d", "--set", "training.overlap=true",
                                           "--request-id=n", "job.yaml"], ""])
        self.assertEqual(second[0], common + ["-"])
        self.assertEqual(json.loads(second[1]), {"name": "b", "update": {"rule": "sgd"}})

    def test_the_others(self):
        client = self.client({"jobs": [{"id": "a-1", "stateDir": "/s"}], "more": False}, {"state": "RUNNING"}, None,
                             {"changes": [{"timeMs": "5"}]}, {"file": "x"}, {"state": "PENDING"}, {"state": "PENDING"}, state_dir="/s")
        self.assertEqual(client.list(5), [{"job": "a-1", "state_dir": "/s"}])
        self.assertEqual(client.status("a-1"), {"state": "RUNNING"})
        client.cancel("a-1", now=True)
        self.assertEqual(client.set("a-1", {"training.mode": "async"}), {"changes": [{"time_ms": 5}]})
        self.assertEqual(client.export("a-1", "x"), {"file": "x"})
        self.assertEqual(client.resume("a-1"), {"state": "PENDING"})
        self.assertEqual(client.resume("a-1", {"training.epochs": 20}), {"state": "PENDING"})
        self.assertEqual([c[0] for c in self.calls()], [
            ["list", "--json", "--state-dir=/s", "--limit=5"], ["status", "--json", "--state-dir=/s", "a-1"],
            ["cancel", "--json", "--state-dir=/s", "--now", "a-1"], ["set", "--json", "--state-dir=/s", "a-1", "training.mode=async"],
            ["export", "--json", "--state-dir=/s", "a-1", "x"], ["resume", "--json", "--state-dir=/s", "a-1"],
            ["resume", "--json", "--state-dir=/s", "--set", "training.epochs=20", "a-1"]])

    def test_a_job_in_values_of_python(self):
        metrics = [{"name": "loss", "value": 0.25}, {"name": "auc", "value": "NaN"}]
        job = self.client({
            "id": "7", "state": "RUNNING", "step": "9007199254740993", "stepsTotal": "-1", "epoch": 1.5, "train": [], "test": metrics,
            "examplesPerSecond": "Infinity", "testConfusion": [50, 3, 2, 45.5], "staleness": ["3", "0"], "version": "0.1",
            "evaluations": [{"step": "4", "train": metrics[:1], "trainPart": False}], "best": {"keptStep": "4"}, "waiting": "NOT_WAITING",
            "shards": [{"ps": "11", "ledger": {"epoch": "2", "done": [1]}}]}).status("7")
        self.assertTrue(math.isnan(job["metrics"]["test"].pop("auc")))
        self.assertEqual(job, {
            "job": "7", "state": "RUNNING", "steps": 2 ** 53 + 1, "steps_total": -1, "epochs": 1.5,
            "metrics": {"train": {}, "test": {"loss": 0.25, "confusion_matrix": [[50, 3], [2, 45.5]]}},
            "examples_per_second": math.inf, "staleness": [3, 0], "version": "0.1",
            "evaluations": [{"step": 4, "train": {"loss": 0.25}, "train_part": False}], "best": {"kept_step": 4},
            "waiting": "NOT_WAITING", "shards": [{"ps": "11", "ledger": {"epoch": 2, "done": [1]}}]})

    def test_all_numbers_of_the_protocol_are_known(self):
        """Of the messages that commands print."""
        types = {}  # message: {field: (number, type)}
        for file in ("types", "jobs"):
            with open(os.path.join(SOURCE, f"proto/gradus/v1/{file}.proto"), encoding="utf-8") as f:
                for name, body in re.findall(r"^message (\w+) \{$(.*?)^\}$", f.read(), re.M | re.S):
                    types[name] = {field: type for type, field, number in
                                   re.findall(r"^  (?:repeated )?(\w+) (\w+) = (\d+)", body, re.M) if int(number) < 100}
        whole, fractions, seen = set(), set(), set()
        todo = ["ListJobsResponse", "NodesResponse", "TablesResponse", "CheckpointJobResponse"]
        while todo:
            name = todo.pop()
            seen.add(name)
            whole |= {field for field, type in types[name].items() if type.endswith("64")}
            fractions |= {field for field, type in types[name].items() if type in ("double", "float")}
            todo += [type for type in types[name].values() if type in types and type not in seen]
        self.assertLessEqual({"Job", "Ledger", "HotKey"}, seen)
        self.assertEqual((set(messages.WHOLE), set(messages.FRACTIONS)), (whole, fractions))

    def test_watch(self):
        states = [("queued", 0), ("running", 1), ("running", 1), ("running", 2), ("succeeded", 2)]
        client = self.client(*({"state": s, "step": str(n)} for s, n in states))
        self.assertEqual([(j["state"], j["steps"]) for j in client.watch("a-1", 0)],
                         [states[0], states[1], states[3], states[4]])
        client = self.client({"state": "failed", "reason": "no such file"})
        with self.assertRaisesRegex(gradus.CommandError, "^a-1: failed: no such file$"):
            client.wait("a-1", 0)
        self.assertEqual(self.client({"state": "succeeded", "step": "9"}).wait("a-1")["steps"], 9)

    def test_watch_while_the_master_is_away(self):
        away = {"code": 4, "stderr": "gradus: 127.0.0.1:7000: not connected\n"}
        clock = [100.0]  # a look at a master that is away takes five seconds

        def ask(job):
            try:
                return status(job)
            except gradus.CommandError:
                clock[0] += 5
                raise

        running, more, ended = ({"state": s, "step": n} for s, n in (("running", "1"), ("running", "2"), ("succeeded", "2")))
        with mock.patch("time.monotonic", lambda: clock[0]):
            # Each absence has fifteen seconds of its own.
            client = self.client(running, away, away, more, away, away, ended)
            status, client.status = client.status, ask
            self.assertEqual([(j["state"], j["steps"]) for j in client.watch("a-1", 0)],
                             [("running", 1), ("running", 2), ("succeeded", 2)])
            client = self.client(running, away, away, away, away, ended)
            status, client.status = client.status, ask
            with self.assertRaisesRegex(gradus.CommandError, "not connected$") as caught:
                client.wait("a-1", 0)
            self.assertEqual((caught.exception.code, clock[0]), (4, 135))
            # A master that was never there is told at once, and so is what time does not mend.
            client = self.client(away, ended)
            with self.assertRaisesRegex(gradus.CommandError, "not connected$"):
                client.follow("a-1", io.StringIO(), 0)
            client = self.client(running, {"code": 5, "stderr": "gradus: no job a-1\n"}, ended)
            with self.assertRaisesRegex(gradus.CommandError, "no job a-1$"):
                client.wait("a-1", 0)

    def test_errors(self):
        row = {"file": "job.yaml", "line": 2, "column": 7, "key": "update.rule", "message": "unknown"}
        client = self.client({"code": 2, "stdout": json.dumps({"status": "invalid", "errors": [row]})},
                             {"code": 4, "stderr": "gradus: cannot connect\n"}, {"code": 1})
        with self.assertRaises(gradus.CommandError) as caught:
            client.submit("job.yaml")
        self.assertEqual((str(caught.exception), caught.exception.code, caught.exception.errors),
                         ("job.yaml:2:7: update.rule: unknown", 2, [row]))
        with self.assertRaisesRegex(gradus.CommandError, "^gradus: cannot connect$"):
            client.list()
        with self.assertRaisesRegex(gradus.CommandError, "^gradus list ended with code 1$"):
            client.list()

    def test_no_command(self):
        before = dict(os.environ)
        try:
            os.environ["GRADUS_BIN"] = "/nowhere"
            with self.assertRaisesRegex(gradus.NoWorkerError, "no command gradus"):
                gradus.Client()
        finally:
            os.environ.clear()
            os.environ.update(before)
        plain = os.path.join(self.dir, "plain")
        with open(plain, "w", encoding="utf-8"):
            pass
        for path in ("/nowhere/gradus", self.dir, plain):
            with self.assertRaisesRegex(gradus.NoWorkerError, f"^{path}: no such command$"):
                gradus.Client(command=path)
        before = os.environ["PATH"]
        try:  # a name, as a shell would take it
            os.environ["PATH"] = self.dir
            self.assertEqual(gradus.Client(command="gradus").command, self.command)
        finally:
            os.environ["PATH"] = before


@unittest.skipUnless(os.environ.get("GRADUS_BIN"), "GRADUS_BIN names no commands")
class RealCommand(unittest.TestCase):
    def test_wrong_jobs(self):
        client = gradus.Client("127.0.0.1:1")
        with self.assertRaisesRegex(gradus.CommandError, "(?m)^-:1:15: colour: unknown key"):
            client.submit({"name": "x", "colour": "red"})
        with self.assertRaises(gradus.CommandError) as caught:
            client.submit("/nowhere.yaml")
        self.assertEqual(caught.exception.code, 5)
        self.assertIn("/nowhere.yaml", str(caught.exception))


if __name__ == "__main__":
    unittest.main(verbosity=2)
