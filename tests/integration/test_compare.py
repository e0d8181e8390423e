# SPDX-License-Identifier: Apache-2.0
"""What is shown of jobs in pictures: gradus compare, one job in several modes, each on a local cluster of its own; event
files of TensorBoard, tables."""

import csv
import html.parser
import io
import json
import os
import re
import signal
import struct
import unittest
import xml.etree.ElementTree

from cluster import ENDLESS, SOURCE, ClusterTest, gradus

SVG = "{http://www.w3.org/2000/svg}"


class Page(html.parser.HTMLParser):
    """The cells of the tables of a page, and what it would load from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.cells, self.elsewhere, self.cell = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elsewhere += [v for k, v in attrs if k in ("src", "href")]
        self.cell = tag in ("td", "th")
        if self.cell:
            self.cells.append("")

    def handle_endtag(self, tag):
        self.cell = False

    def handle_data(self, data):
        if self.cell:
            self.cells[-1] += data


class Compare(ClusterTest):
    def compare(self, *args):
        return gradus("compare", SOURCE + "/examples/digits.yaml", "--state-dir", os.path.join(self.dir, "state"), "-o", os.path.join(self.dir, "out"),
                      *self.job(training__epochs=2), *args, timeout=600)

    def test_modes_beside_each_other(self):
        done = self.compare("--set", "cluster.workers=3", "--set", "training.replicas=3", "--straggler=3", "--pace=2",
                            "--modes=sync,sync+backup,bounded:2,async")
        self.assertEqual(done.returncode, 0, done.stderr)
        modes = ["sync", "sync+backup", "bounded:2", "async"]
        out = os.path.join(self.dir, "out")
        with open(out + "/index.html") as f:
            text = f.read()
        page = Page(text)
        self.assertEqual(page.elsewhere, [])
        self.assertEqual(page.cells[:5], [""] + modes)
        rows = [page.cells[i:i + 5] for i in range(0, len(page.cells), 5)]
        self.assertEqual([r[0] for r in rows if "loss of" not in r[0]],
                         ["", "gradients", "staleness", "throughput", "stragglers", "wall-clock time", "result", "tuning"])
        told = {r[0]: r[1:] for r in rows}
        self.assertEqual(told["staleness"][0], "0")
        self.assertTrue(told["staleness"][3].startswith("staleness "), told)
        for result in told["result"]:
            self.assertRegex(result, r"loss \d.*accuracy 0\.\d")
        with open(out + "/README.md") as f:
            links = re.findall(r"\]\(([^)]*)\)", f.read())
        self.assertEqual(sorted(links + ["README.md", "index.html"]), sorted(os.listdir(out)))
        for link in links:
            root = xml.etree.ElementTree.parse(os.path.join(out, link)).getroot()
            self.assertEqual(root.tag, SVG + "svg")
        charts = xml.etree.ElementTree.parse(out + "/loss-epochs.svg").getroot()
        names = [e.text for e in charts.iter(SVG + "text")]
        for mode in modes:
            self.assertIn(mode, names)
            self.assertEqual(len([e for e in charts.iter(SVG + "title") if e.text.startswith(mode + ": ")]), 2)
        for mode in modes:
            self.assertIn(f"\n{mode}\n", "\n" + done.stdout)

    def test_what_is_refused(self):
        for args, said in ((("--set", "cluster.workers=1"), "--set cluster.workers=4"),
                           (("--modes=sync,asink",), "'asink' is unknown; allowed: sync, sync+backup"),
                           (("--straggler=0.5",), "straggler"),
                           (("--modes=bounded:0",), "bounded with 0 would run in lockstep")):
            done = self.compare("--set", "cluster.workers=3", *args)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr.replace("\n", " "))
            self.assertFalse(os.path.exists(self.dir + "/out"))


class Events(ClusterTest):
    """Evaluations for TensorBoard."""

    def files(self, directory):
        found = {}
        for path, _, names in os.walk(os.path.join(self.dir, directory)):
            for name in names:
                with open(os.path.join(path, name), "rb") as f:
                    found[os.path.relpath(os.path.join(path, name), os.path.join(self.dir, directory))] = f.read()
        return found

    def test_while_it_runs_and_afterwards(self):
        state = os.path.join(self.dir, "state")
        done = gradus("run", SOURCE + "/examples/digits.yaml", "--state-dir", state, "--tensorboard",
                      self.dir + "/live", *self.job(training__epochs=3))
        self.assertEqual(done.returncode, 0, done.stderr)
        live = self.files("live")
        self.assertEqual(sorted(os.path.dirname(name) for name in live), ["digits-1/test", "digits-1/train"])
        for data in live.values():
            self.assertEqual(data.count(b"accuracy"), 3)
            self.assertIn(b"brain.Event:2", data)
        done = gradus("export", "--format", "tensorboard", "digits-1", self.dir + "/after", "--state-dir", state)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 evaluations of job digits-1", done.stdout)
        self.assertEqual(self.files("after"), live)
        for args in (("--format", "tensorboard", "digits-1"), ("--format", "tensorboard", "--bare", "digits-1", "out"),
                     ("--from", state, "out.csv"), ("--average", "digits-1", "out.csv")):
            done = gradus("export", *args, "--state-dir", state)
            self.assertEqual(done.returncode, 2, done.stderr)

    def board(self, directory):
        """What counts in the only event file of a directory, as records by their steps; and how often it went back."""
        (name,) = os.listdir(directory)
        with open(os.path.join(directory, name), "rb") as f:
            data = f.read()
        at, live, restarts = 0, [], 0
        while at < len(data):
            (n,) = struct.unpack_from("<Q", data, at)
            event = data[at + 12:at + 12 + n]
            at += n + 16
            if b"brain.Event:2" in event:
                continue
            step = self.varint(event[10:]) if event[9:10] == b"\x10" else 0  # behind the time, 9 bytes
            if event.endswith(b"\x3a\x02\x08\x01"):  # SessionLog, START
                restarts += 1
                live = [record for record in live if record[0] < step]
            else:
                live.append((step, event))
        self.assertEqual(at, len(data))
        return live, restarts

    @staticmethod
    def varint(data):
        value = 0
        for i, byte in enumerate(data):
            value |= (byte & 127) << (7 * i)
            if byte < 128:
                return value
        return value

    def test_the_master_writes_them(self):
        os.mkdir(self.dir + "/jobs")
        with open(SOURCE + "/examples/digits.yaml", encoding="utf-8") as f:
            text = f.read().replace("\ntraining:\n", "\ntraining:\n  tensorboard: ../events\n")
        with open(self.dir + "/jobs/digits.yaml", "w", encoding="utf-8") as f:
            f.write(text)
        state = os.path.join(self.dir, "state")
        done = gradus("run", self.dir + "/jobs/digits.yaml", "--state-dir", state, *self.job(training__epochs=3))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\ntensorboard", done.stdout)
        done = gradus("export", "--format", "tensorboard", "digits-1", self.dir + "/after", "--state-dir", state)
        self.assertEqual(done.returncode, 0, done.stderr)
        # It is ready when the job has ended, or a moment later at most.
        for part in ("train", "test"):
            self.wait_for("events", lambda part=part: os.path.isdir(f"{self.dir}/events/digits-1/{part}") and
                          self.board(f"{self.dir}/events/digits-1/{part}")[0] == self.board(f"{self.dir}/after/digits-1/{part}")[0])

    def test_a_master_that_was_killed_writes_on(self):
        args = ("--tensorboard-root=" + self.dir,)
        master, _, _ = self.start_cluster(1, 1, *args)
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, "--set",
                      f"training.tensorboard={self.dir}/events", "--set", "training.checkpoint_every=1 epoch",
                      *self.job(training__epochs=ENDLESS))
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        directory = f"{self.dir}/events/{job}/test"
        self.wait_for("events", lambda: os.path.isdir(directory) and len(self.board(directory)[0]) >= 2)
        before = self.board(directory)[0][0]
        master.stop(signal.SIGKILL)
        master = self.start("master", f"--state-dir={self.dir}/cluster", *args, f"--listen={master.address}")
        reached = self.board(directory)[0][-1][0]
        self.wait_for("more events", lambda: self.board(directory)[0][-1][0] > reached)
        done = gradus("cancel", job, "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        gradus("watch", job, "--master", master.address)
        done = gradus("export", "--format", "tensorboard", job, self.dir + "/after", "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("train", "test"):
            self.wait_for("all events", lambda part=part: self.board(f"{self.dir}/events/{job}/{part}")[0] ==
                          self.board(f"{self.dir}/after/{job}/{part}")[0])
        self.assertIn(before, self.board(directory)[0])

    def test_what_the_master_does_not_write(self):
        """The reason is told, and the job ends well."""
        master, _, _ = self.start_cluster(1, 1, "--tensorboard-root=" + self.dir + "/boards")
        os.mkdir(self.dir + "/boards")
        os.symlink("/", self.dir + "/boards/link")
        with open(self.dir + "/boards/file", "w"):
            pass
        for path, said in ((self.dir + "/elsewhere", "is not below"), (self.dir + "/boards/link" + self.dir + "/x", "is not below"),
                           (self.dir + "/boards/file", "boards/file")):
            done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, "--watch", "--set",
                          "training.tensorboard=" + path, *self.job(training__epochs=1), "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            job = json.loads(done.stdout)["id"]
            self.wait_for("a reason", lambda job=job: self.status(master, job)["tensorboard"])
            self.assertIn(said, self.status(master, job)["tensorboard"])
            self.assertIn("tensorboard ", gradus("status", job, "--master", master.address).stdout)
        self.assertFalse(os.path.exists(self.dir + "/x") or os.path.exists(self.dir + "/elsewhere"))
        for path in ("s3://bucket/x", "a\nb"):
            done = gradus("validate", SOURCE + "/examples/digits.yaml", "--set", "training.tensorboard=" + path, *self.job())
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("training.tensorboard", done.stderr)

    def test_as_a_table(self):
        state = os.path.join(self.dir, "state")
        done = gradus("run", SOURCE + "/examples/digits.yaml", "--state-dir", state, "--json", *self.job(training__epochs=3))
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)["evaluations"]
        done = gradus("export", "--format", "csv", "digits-1", "-", "--state-dir", state)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual(list(rows[0])[:4], ["step", "epoch", "wall_time", "train_loss"])
        self.assertEqual(len(rows), len(told))
        for row, e in zip(rows, told):
            self.assertEqual(row["step"], e["step"])
            self.assertEqual(float(row["epoch"]), e["epoch"])
            self.assertEqual(round(float(row["wall_time"]) * 1000), int(e["timeMs"]))
            for part in ("train", "test"):
                self.assertEqual({m["name"]: float(row[f"{part}_{m['name']}"]) for m in e[part]},
                                 {m["name"]: m["value"] for m in e[part]})
        done = gradus("export", "digits-1", self.dir + "/out.csv", "--state-dir", state)  # by its name
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.dir + "/out.csv", encoding="utf-8", newline="") as f:
            self.assertEqual(list(csv.DictReader(f)), rows)

    def test_as_a_table_of_a_job_that_runs(self):
        master, _, _ = self.start_cluster()
        job = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, *self.job(training__epochs=ENDLESS)).stdout.strip()
        self.wait_for("an evaluation", lambda: json.loads(gradus("status", job, "--json", "--master", master.address).stdout)["evaluations"])
        done = gradus("export", "--format", "csv", job, "-", "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(list(csv.DictReader(io.StringIO(done.stdout)))), 0)
        done = gradus("cancel", job, "--now", "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_directory_that_cannot_be_written_ends_nothing(self):
        with open(self.dir + "/file", "w"):
            pass
        done = gradus("run", SOURCE + "/examples/digits.yaml", "--state-dir", self.dir + "/state", "--tensorboard",
                      self.dir + "/file", *self.job(training__epochs=1))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("--tensorboard: "), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
