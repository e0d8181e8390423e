# SPDX-License-Identifier: Apache-2.0
"""Event files of jobs: what TensorBoard makes of them, where it is installed (pip), and directories that cannot be written."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import unittest
import urllib.request

from cluster import ENDLESS, SOURCE, ClusterTest, gradus
from test_storage import SmallDisk

TENSORBOARD = shutil.which("tensorboard")
RECORDS = 2000  # that ClusterTest trains on


class Board:
    """TensorBoard itself, which shows a directory."""

    def __init__(self, test, directory):
        self.log = os.path.join(test.dir, "tensorboard.log")
        with open(self.log, "w") as log:
            # Its own loader in Python: it reads the files again whenever somebody asks.
            process = subprocess.Popen([TENSORBOARD, "--logdir", directory, "--host=127.0.0.1", "--port=0", "--load_fast=false",
                                        "--reload_interval=1"], stdout=log, stderr=log)

        def end():
            process.send_signal(signal.SIGKILL)
            process.wait()
        test.addCleanup(end)
        self.address = test.wait_for("tensorboard", self.listens)

    def listens(self):
        with open(self.log) as f:
            found = re.search(r"at (http://127\.0\.0\.1:\d+)/", f.read())
        return found and found.group(1)

    def ask(self, path, **body):
        request = urllib.request.Request(f"{self.address}/data/{path}", json.dumps(body).encode() if body else None, {"Content-Type": "application/json"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as answer:
            return json.load(answer)

    def sessions(self):
        """The rows of its HPARAMS tab: {job: (status, {key: value}, {"test.loss": value})}"""
        found = self.ask("plugin/hparams/session_groups", experimentName="", startIndex=0, sliceSize=100,
                         allowedStatuses=["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"])
        return {group["name"]: (group["sessions"][0]["status"], group["hparams"],
                                {f"{m['name']['group']}.{m['name']['tag']}": m["value"] for m in group["metricValues"]})
                for group in found["sessionGroups"]}


def read_safetensors(path):
    """{name: values} of a file with floats alone."""
    with open(path, "rb") as f:
        data = f.read()
    (n,) = struct.unpack_from("<Q", data)
    return {name: struct.unpack(f"<{(t['data_offsets'][1] - t['data_offsets'][0]) // 4}f", data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for name, t in json.loads(data[8:8 + n]).items() if name != "__metadata__"}


def event_records(data):
    """The events of a file, packed."""
    at, found = 0, []
    while at < len(data):
        (n,) = struct.unpack_from("<Q", data, at)
        found.append(data[at + 12:at + 12 + n])
        at += n + 16
    return found


def last_metrics(job):
    """As TensorBoard calls those of the last evaluation, and as it keeps numbers: in 32 bits."""
    last = job["evaluations"][-1]
    told = {f"{part}.{m['name']}": m["value"] for part in ("train", "test") for m in last[part]}
    told.update({f"{part}.epoch": last["epoch"] for part in ("train", "test")})
    return {name: struct.unpack("f", struct.pack("f", value))[0] for name, value in told.items()}


class BoardTest(ClusterTest):
    def files(self, directory):
        found = {}
        for path, _, names in os.walk(os.path.join(self.dir, directory)):
            for name in names:
                with open(os.path.join(path, name), "rb") as f:
                    found[os.path.relpath(os.path.join(path, name), os.path.join(self.dir, directory))] = f.read()
        return found


class TensorBoard(BoardTest):
    def submit(self, master, *sets, **more):
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address,
                      *[arg for item in sets for arg in ("--set", item)], *self.job(**more))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    @unittest.skipUnless(TENSORBOARD, "no tensorboard is installed")
    def test_what_tensorboard_shows(self):
        boards = self.dir + "/boards"
        master, _, _ = self.start_cluster(1, 1, "--tensorboard-root=" + self.dir)
        changed = self.submit(master, f"training.tensorboard={boards}", training__epochs=ENDLESS)
        self.wait_for("an evaluation", lambda: self.status(master, changed)["evaluations"])
        done = gradus("set", changed, "update.learning_rate=0.25", "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = gradus("cancel", changed, "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        gradus("watch", changed, "--master", master.address)
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, "--watch", "--set", "update.rule=momentum", *self.job())
        self.assertEqual(done.returncode, 0, done.stderr)
        exported = changed.replace("-1", "-2")
        done = gradus("export", "--format", "tensorboard", exported, boards, "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)

        jobs = {job: json.loads(gradus("status", job, "--json", "--master", master.address).stdout) for job in (changed, exported)}
        board = Board(self, boards)
        metrics = {job: last_metrics(status) for job, status in jobs.items()}
        self.wait_for("both jobs with their results", lambda: {job: told[2] for job, told in board.sessions().items()} == metrics)
        self.wait_for("the end of the job", lambda: board.sessions()[changed][0] == "STATUS_FAILURE")
        sessions = board.sessions()
        self.assertEqual(sessions[exported][0], "STATUS_SUCCESS")
        for job, rule, rate in ((changed, "adam", 0.25), (exported, "momentum", 0.001)):
            keys = sessions[job][1]
            wanted = {"update.rule": rule, "update.learning_rate": rate, "training.batch_size": 64, "training.mode": "sync", "cluster.workers": 1,
                      "cluster.ps": 1, "model.loss": "softmax_cross_entropy", "model.layers.dense_1.units": 64, "training.drop_last": False}
            self.assertEqual({key: keys.get(key) for key in wanted}, wanted)
            self.assertNotIn("training.tensorboard", keys)
        for part in ("train", "test"):
            for name in ("loss", "accuracy"):
                points = board.ask(f"plugin/scalars/scalars?run={exported}/{part}&tag={name}")
                self.assertEqual([point[1] for point in points], [int(e["step"]) for e in jobs[exported]["evaluations"]])
        experiment = board.ask("plugin/hparams/experiment", experimentName="")
        self.assertEqual({key["name"] for key in experiment["hparamInfos"] if key["differs"]} &
                         {"update.rule", "update.learning_rate", "training.batch_size"}, {"update.rule", "update.learning_rate"})

    def train(self, **sets):
        """Runs a job that leaves a checkpoint of each epoch."""
        return self.run_job(training__checkpoint_every="1 epoch", training__checkpoints_keep__last=0, cluster__ps=2, cluster__partitions=2, **sets)

    def export_histograms(self, out, *more):
        done = gradus("export", "--format", "tensorboard", "--histograms", "digits-1", out, "--state-dir", self.dir + "/state", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @unittest.skipUnless(TENSORBOARD, "no tensorboard is installed")
    def test_histograms_that_tensorboard_shows(self):
        """As many values as each variable has, between its least and its largest, of each checkpoint."""
        self.train(training__epochs=2)
        self.export_histograms(self.dir + "/boards")
        board = Board(self, self.dir + "/boards")
        tags = self.wait_for("tags", lambda: board.ask("plugin/histograms/tags").get("digits-1/parameters"))
        steps = sorted(os.listdir(self.dir + "/state/checkpoints/digits-1"))[1:]  # behind the file of the owner
        self.assertEqual(len(steps), 2)
        for k, step in enumerate(steps):
            out = f"{self.dir}/{step}.safetensors"
            done = gradus("export", "--bare", "--from", f"{self.dir}/state/checkpoints/digits-1/{step}", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            values = read_safetensors(out)
            self.assertEqual(set(tags), set(values))
            for name, floats in values.items():
                point = board.ask(f"plugin/histograms/histograms?run=digits-1/parameters&tag={name}")[k]
                self.assertEqual(point[1], int(step.split("-")[1]))
                filled = [bucket for bucket in point[2] if bucket[2] > 0]
                self.assertAlmostEqual(sum(count for _, _, count in filled), len(floats), delta=1e-3)
                self.assertLessEqual(filled[0][0], min(floats) + 1e-6)
                self.assertGreaterEqual(filled[-1][1], max(floats) - 1e-6)

    @unittest.skipUnless(TENSORBOARD, "no tensorboard is installed")
    def test_histograms_of_gradients(self):
        """That of the last update before each checkpoint. Epochs are of one step here, so two checkpoints tell what it was; and it is
        the same for other workers and servers."""
        boards = {}
        for nodes in (1, 2):
            self.run_job(state=f"state{nodes}", training__checkpoint_every="1 epoch", training__checkpoints_keep__last=0, cluster__ps=nodes,
                         cluster__workers=nodes, cluster__partitions=nodes, training__replicas=2, training__batch_size=RECORDS // 2,
                         update__rule="sgd", update__learning_rate=1, training__epochs=3, training__tensorboard_histograms="true")
            done = gradus("export", "--format", "tensorboard", "--histograms", "digits-1", f"{self.dir}/boards{nodes}", "--state-dir", f"{self.dir}/state{nodes}")
            self.assertEqual(done.returncode, 0, done.stderr)
            board = Board(self, f"{self.dir}/boards{nodes}")
            tags = self.wait_for("tags", lambda: board.ask("plugin/histograms/tags").get("digits-1/gradients"))
            boards[nodes] = {tag: [point[1:] for point in board.ask(f"plugin/histograms/histograms?run=digits-1/gradients&tag={tag}")] for tag in tags}
        self.assertEqual(boards[1], boards[2])
        values = []
        for step in (1, 2, 3):
            out = f"{self.dir}/{step}.safetensors"
            done = gradus("export", "--bare", "--from", f"{self.dir}/state1/checkpoints/digits-1/step-{step:09}", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            values.append(read_safetensors(out))
        self.assertEqual(set(boards[1]), set(values[0]))
        for tag, points in boards[1].items():
            self.assertEqual([step for step, _ in points], [1, 2, 3])
            for (_, buckets), before, after in zip(points[1:], values, values[1:]):
                gradient = [old - new for old, new in zip(before[tag], after[tag])]
                filled = [bucket for bucket in buckets if bucket[2] > 0]
                self.assertAlmostEqual(sum(count for _, _, count in filled), len(gradient), delta=1e-3)
                self.assertAlmostEqual(filled[0][0], min(gradient), delta=1e-6)
                self.assertAlmostEqual(filled[-1][1], max(gradient), delta=1e-6)
                for left, right, count in filled:  # TensorBoard makes 30 of ours, and spreads what is in one
                    self.assertAlmostEqual(count, sum(left <= g < right for g in gradient), delta=0.05 * len(gradient) + 1)

    def test_the_master_writes_histograms(self):
        """Of checkpoints while the job runs, and the last one: what is exported of those that are kept is in its file, too."""
        master, _, _ = self.start_cluster(1, 1, "--tensorboard-root=" + self.dir)
        job = self.submit(master, f"training.tensorboard={self.dir}/boards", "training.checkpoint_every=1 epoch", training__epochs=ENDLESS)
        self.wait_for("evaluations", lambda: len(self.files("boards")) == 3)
        done = gradus("set", job, "training.tensorboard_histograms=true", "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)

        def histograms(run="parameters"):
            return b"".join(data for name, data in self.files("boards").items() if f"/{run}/" in name)
        self.wait_for("histograms", lambda: histograms().count(b"dense_1.kernel") >= 2)
        self.wait_for("those of gradients", lambda: histograms("gradients").count(b"dense_1.kernel") >= 2)
        done = gradus("cancel", job, "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        gradus("watch", job, "--master", master.address)
        done = gradus("export", "--format", "tensorboard", "--histograms", job, self.dir + "/after", "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        (last,) = (data for name, data in self.files("after").items() if "/parameters/" in name)
        self.wait_for("the last histograms", lambda: event_records(histograms())[-1] == event_records(last)[-1])

    def test_histograms_are_there_once(self):
        self.train(training__epochs=2)
        said = self.export_histograms(self.dir + "/boards")
        self.assertIn("2 evaluations and histograms of 2 checkpoints of job digits-1", said)
        first = self.files("boards")
        self.assertEqual(sorted(os.path.dirname(name) for name in first), ["digits-1"] + ["digits-1/" + run for run in ("parameters", "test", "train")])
        self.export_histograms(self.dir + "/boards")
        self.assertEqual(self.files("boards"), first)
        (name,) = (name for name in first if "/parameters/" in name)
        self.assertEqual(first[name].count(b"dense_1.kernel"), 2)
        with open(f"{self.dir}/boards/{name}", "r+b") as f:  # somebody was killed while he wrote
            f.truncate(len(first[name]) - 100)
        shutil.rmtree(f"{self.dir}/state/checkpoints/digits-1/" + sorted(os.listdir(self.dir + "/state/checkpoints/digits-1"))[1])
        self.assertIn("histograms of 1 checkpoint of", self.export_histograms(self.dir + "/boards"))
        self.assertEqual(self.files("boards"), first)  # that of the checkpoint that is gone stays
        for args in (("--histograms", "digits-1", "out.safetensors"), ("--histograms", "--format", "csv", "digits-1", "-")):
            done = gradus("export", *args, "--state-dir", self.dir + "/state")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--histograms is for TensorBoard", done.stderr)

    def test_a_full_disk_ends_no_job(self):
        """The reason is told; with room again the files become whole."""
        disk = SmallDisk(self, self.dir + "/disk", "64k")
        disk.fill()
        master, _, _ = self.start_cluster(1, 1, "--tensorboard-root=" + disk.path)
        job = self.submit(master, f"training.tensorboard={disk.path}/boards", training__epochs=ENDLESS)
        self.wait_for("a reason", lambda: "No space left on device" in self.status(master, job)["tensorboard"])
        self.assertEqual(self.status(master, job)["state"], "RUNNING")
        disk.make_room()
        self.wait_for("no reason", lambda: not self.status(master, job)["tensorboard"])
        done = gradus("cancel", job, "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        gradus("watch", job, "--master", master.address)
        done = gradus("export", "--format", "tensorboard", job, self.dir + "/after", "--master", master.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.wait_for("the same files", lambda: self.files("disk/boards") == self.files("after"))
        self.assertEqual(sorted(os.path.dirname(name) for name in self.files("after")), [job, job + "/test", job + "/train"])

    def test_a_path_that_means_nothing_to_the_master(self):
        master, _, _ = self.start_cluster(1, 1)
        job = self.submit(master, training__epochs=ENDLESS)
        for path in ("boards", "/boards/../etc"):
            done = gradus("set", job, "training.tensorboard=" + path, "--master", master.address)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"training.tensorboard={path}: it is a directory on the master's host; allowed: an absolute path without '..'",
                          " ".join(done.stderr.split()))
        with open(SOURCE + "/examples/digits.yaml") as f:
            text = f.read()
        client = master.client()
        submit = client.channel.unary_unary("/gradus.v1.Jobs/Submit", request_serializer=lambda m: m.SerializeToString(),
                                            response_deserializer=lambda data: data)
        with self.assertRaises(client.error) as refused:
            submit(client.protos["gradus.v1.SubmitRequest"](text=text, sets=["training.tensorboard=boards"]), timeout=60)
        self.assertEqual(refused.exception.code().name, "INVALID_ARGUMENT")
        self.assertIn("training.tensorboard: 'boards' is a directory on the master's host", refused.exception.details())


class Events(BoardTest):
    """Files of evaluations, byte by byte."""

    def test_while_it_runs_and_afterwards(self):
        state = os.path.join(self.dir, "state")
        done = gradus("run", SOURCE + "/examples/digits.yaml", "--state-dir", state, "--tensorboard",
                      self.dir + "/live", *self.job(training__epochs=3))
        self.assertEqual(done.returncode, 0, done.stderr)
        live = self.files("live")
        self.assertEqual(sorted(os.path.dirname(name) for name in live), ["digits-1", "digits-1/test", "digits-1/train"])
        for name, data in live.items():
            self.assertEqual(data.count(b"accuracy"), 1 if os.path.dirname(name) == "digits-1" else 3)
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
        self.wait_for("events", lambda: os.path.isdir(directory) and os.listdir(directory) and len(self.board(directory)[0]) >= 2)
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

    def test_a_directory_that_cannot_be_written_ends_nothing(self):
        with open(self.dir + "/file", "w"):
            pass
        done = gradus("run", SOURCE + "/examples/digits.yaml", "--state-dir", self.dir + "/state", "--tensorboard",
                      self.dir + "/file", *self.job(training__epochs=1))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("--tensorboard: "), 1, done.stderr)

if __name__ == "__main__":
    unittest.main()
