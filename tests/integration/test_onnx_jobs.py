# SPDX-License-Identifier: Apache-2.0
"""Jobs whose model is the graph of an ONNX file: the same bits on any cluster and with a killed worker, evaluated and asked
like any other, and files that are wrong, or differ between workers, are refused."""

import hashlib
import os
import random
import shutil
import signal
import subprocess
import unittest

import onnx_bytes as onnx
from cluster import BIN, ENDLESS, ClusterTest, gradus

JOB = """name: imported
data:
  train: {file: train-images-idx3-ubyte.gz, labels: train-labels-idx1-ubyte.gz}
  test: {file: t10k-images-idx3-ubyte.gz, labels: t10k-labels-idx1-ubyte.gz}
model: {onnx: net.onnx, loss: softmax_cross_entropy, metrics: [accuracy]}
update: {rule: adam, learning_rate: 0.002}
training: {mode: sync, batch_size: 50, replicas: 2, epochs: 2, evaluate_every: 1 epoch}
cluster: {workers: 1, ps: 1}
"""
FINAL = ("SUCCEEDED", "FAILED", "CANCELLED")


class OnnxTest(ClusterTest):
    model = {}

    def setUp(self):
        super().setUp()
        self.file = self.write("job.yaml", JOB.encode())
        self.data = os.path.join(self.dir, "data")
        shutil.copytree(self.shared + "/digits", self.data)

    def write(self, name, data):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def job(self, **sets):
        base = {"data.dir": self.data}
        base.update({key.replace("__", "."): value for key, value in sets.items()})
        return [item for key, value in base.items() for item in ("--set", f"{key}={value}")]

    def bits(self, state):
        return hashlib.sha256(self.export("imported-1", state)).hexdigest()

    def with_killed_worker(self):
        master, _, workers = self.start_cluster(ps=2, workers=2)
        done = gradus("submit", self.file, "--master", master.address, *self.job(cluster__workers=2, cluster__ps=2,
                                                                                 training__epochs=ENDLESS))
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        self.wait_for("some steps", lambda: master.job(job)["steps"] >= 4)
        workers[0].stop(signal.SIGKILL)
        epochs = self.end_job(master.client(), job, [workers[1].process.pid], 2)
        self.wait_for("the end", lambda: master.job(job)["state"] in FINAL, 120)
        self.assertEqual(self.status(master, job)["state"], "SUCCEEDED")
        return epochs

    def same_bits(self):
        result = self.run_job("1-1", self.file)
        bits = self.bits("1-1")
        other = self.run_job("2-2", self.file, cluster__workers=2, cluster__ps=2, cluster__partitions=2)
        self.assertEqual(self.bits("2-2"), bits)
        self.assertEqual(other["metrics"], result["metrics"])
        self.run_job("quiet", self.file, training__epochs=self.with_killed_worker())
        self.assertEqual(self.bits("cluster"), self.bits("quiet"))
        return result

    def test_bits_of_linear_layers_with_dropout(self):
        self.write("data/net.onnx", onnx.mlp(dropout=0.1, softmax=True))
        result = self.same_bits()
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.6)
        state = ("--state-dir", os.path.join(self.dir, "1-1"))
        evaluated = gradus("evaluate", "imported-1", "--json", *state)
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        self.assertIn(f'"accuracy":{result["metrics"]["test"]["accuracy"]}', evaluated.stdout.replace(": ", ":"))
        out = os.path.join(self.dir, "answers.csv")
        done = gradus("predict", "imported-1", "--data", self.data + "/t10k-images-idx3-ubyte.gz", "--out", out, *state)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, encoding="utf-8") as f:
            lines = [line.split(",") for line in f]
        self.assertEqual(len(lines), 501)
        self.assertAlmostEqual(sum(float(x) for x in lines[1][1:]), 1, 4)

    def test_bits_of_convolutions_with_statistics(self):
        self.write("data/net.onnx", onnx.cnn((4, 6)))
        result = self.same_bits()
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.6)

    def test_numbers_of_rows(self):
        """Numbers that are scaled, as columns are without a word, name other rows, and no row at all."""
        draw = random.Random(1)
        rows = [(draw.randrange(20), draw.randrange(20)) for _ in range(600)]
        for name, more in (("data/train.csv", []), ("data/far.csv", [(3, 99)])):
            self.write(name, ("a,b,label\n" + "".join(f"{a},{b},{a % 2}\n" for a, b in rows + more)).encode())
        self.write("data/net.onnx", onnx.embedding())
        file = self.write("ids.yaml", b"""name: ids
data: {train: {file: train.csv}, test: {file: train.csv}, label: label}
model: {onnx: net.onnx, loss: softmax_cross_entropy, metrics: [accuracy]}
update: {rule: adam, learning_rate: 0.05}
training: {batch_size: 50, epochs: 40}
cluster: {workers: 1, ps: 1}
""")
        done = gradus("validate", file, *self.job())
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertRegex(done.stderr, r"train record 0 \(from 0\): feature 0 is -?[0-9.]+, and the input of model.onnx takes whole numbers; "
                                      r"data.scale: none would fit")
        done = gradus(*self.run_args(file, "scaled"))
        self.assertEqual(done.returncode, 2, done.stderr)
        result = self.run_job("whole", file, data__scale="none")
        self.assertGreater(result["metrics"]["test"]["accuracy"], 0.9)
        done = gradus(*self.run_args(file, "far", data__scale="none", data__train="{file: far.csv}"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("a number of a row that a Gather of model.onnx does not have", " ".join((done.stdout + done.stderr).split()))

    def test_what_is_not_trained_stays(self):
        self.write("data/net.onnx", onnx.mlp())
        self.run_job("some", self.file, model__trainable="fc1.*", training__epochs=1)
        names = self.export("imported-1", "some")[:2000]
        self.assertIn(b"fc1.weight", names)
        self.assertNotIn(b"fc0.weight", names)

    def test_contents_in_another_file(self):
        weights = onnx.drawn(1, (10, 784))
        raw = b"".join(onnx.struct.pack("<f", w) for w in weights)
        def net(place):
            return onnx.model(
                [onnx.node("Flatten", ["x"], ["f"]), onnx.node("Gemm", ["f", "w"], ["y"], transB=1)],
                [place], [onnx.value("x", ["N", 28, 28])], [onnx.value("y", ["N", 10])])
        self.write("data/nets/net.onnx", net(onnx.external("w", (10, 784), "net.bin", 64, len(raw))))
        self.write("data/nets/net.bin", b"\0" * 64 + raw)
        sets = {"model__onnx": "nets/net.onnx", "training__epochs": 1}
        self.run_job("outside", self.file, **sets)
        self.write("data/nets/net.onnx", net(onnx.tensor("w", (10, 784), weights)))
        self.run_job("inside", self.file, **sets)
        self.assertEqual(self.bits("inside"), self.bits("outside"))
        self.write("data/nets/net.onnx", net(onnx.external("w", (10, 784), "net.bin", 100, len(raw))))
        self.assertIn("ends before byte", self.refusal(**sets))
        self.write("data/nets/net.onnx", net(onnx.external("w", (10, 784), "../net.onnx", 0, len(raw))))
        self.assertIn("tensor w", self.refusal(**sets))

    def refusal(self, **sets):
        done = gradus("validate", self.file, *self.job(**sets))
        self.assertEqual(done.returncode, 2, done.stdout)
        return done.stderr

    def test_files_that_are_wrong(self):
        self.write("data/net.onnx", onnx.model(
            [onnx.node("Flatten", ["x"], ["f"]), onnx.node("LSTM", ["f"], ["h"]), onnx.node("Foo", ["h"], ["y"])],
            [], [onnx.value("x", ["N", 784])], [onnx.value("y", ["N", 10])]))
        self.assertIn("2 nodes cannot be computed here: 'LSTM_h' (LSTM), 'Foo_y' (Foo)", self.refusal())
        self.write("data/net.onnx", onnx.mlp((784, 64, 9)))
        self.assertIn("the output of the graph is [9] for each record, but loss softmax_cross_entropy for the classes of "
                      "the data needs [10]", self.refusal())
        self.write("data/net.onnx", b"no file of this kind")
        self.assertIn("model.onnx net.onnx: this is no ONNX file", self.refusal())
        self.assertIn("either a file or layers", self.refusal(model__layers="[{dense: {units: 10}}]"))
        with open(self.file, "a", encoding="utf-8") as f:
            f.write("\n")
        self.assertIn("there is no file that it is of", self.refusal(model__onnx="", model__output="y",
                                                                     model__layers="[{dense: {units: 10}}]"))

    def serve_says(self, *args):
        done = subprocess.run([BIN + "/gradus-serve", *args], capture_output=True, text=True, timeout=120)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr + done.stdout

    def test_another_graph_under_the_values(self):
        """Its variables have the names and shapes of those that were trained, so nothing else could tell."""
        trained = onnx.mlp()
        net = self.write("data/net.onnx", trained)
        self.write("data/other.onnx", trained.replace(b"Relu", b"Tanh"))
        images = self.data + "/t10k-images-idx3-ubyte.gz"
        self.run_job("1-1", self.file, training__epochs=1)
        state = ("--state-dir", os.path.join(self.dir, "1-1"))
        checkpoint, model = os.path.join(self.dir, "1-1", "checkpoints", "imported-1"), os.path.join(self.dir, "m.safetensors")
        self.assertEqual(gradus("export", "imported-1", model, *state).returncode, 0)
        commands = (("predict", checkpoint, "--data", images, "--out", self.dir + "/a.csv"), ("evaluate", checkpoint),
                    ("export", "--from", checkpoint, self.dir + "/out.onnx"), ("evaluate", model),
                    ("predict", model, "--data", images, "--out", self.dir + "/a.csv"))

        def refused(name, *sets):
            for command in commands:
                done = gradus(*command, *sets)
                self.assertNotEqual(done.returncode, 0, command)
                self.assertIn(f"{self.data}/{name} is not the file that the model was trained with", done.stderr)
                self.assertIn("--set model.onnx=PATH", done.stderr)
        refused("other.onnx", "--set", "model.onnx=other.onnx")
        os.rename(net, self.data + "/moved.onnx")
        for command in commands:
            done = gradus(*command, "--set", "model.onnx=moved.onnx")
            self.assertEqual(done.returncode, 0, done.stderr)
        shutil.copy(self.data + "/other.onnx", net)
        refused("net.onnx")
        with open(model, "rb") as f:
            said = f.read()
        self.assertIn(b'"gradus.model_file":"0x', said)
        older = self.write("older.safetensors", said.replace(b'"gradus.model_file"', b'"another.metadatum"'))
        self.assertEqual(gradus("evaluate", older).returncode, 0)  # it does not say
        for place in (checkpoint, model):
            self.assertIn("net.onnx is not the file that the model was trained with", self.serve_says(f"--checkpoint={place}"))
        done = gradus("resume", "imported-1", "--set", "training.epochs=2", *state)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("model.onnx net.onnx, or a file of its weights, is not that with which it was trained until then",
                      done.stdout)

    def test_another_graph_beside_a_job_that_runs(self):
        net = self.write("data/net.onnx", onnx.mlp())
        master, _, _ = self.start_cluster()
        done = gradus("submit", self.file, "--master", master.address, *self.job(training__epochs=ENDLESS))
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        self.wait_for("a step", lambda: master.job(job)["steps"] > 0)
        with open(net, "wb") as f:
            f.write(onnx.mlp().replace(b"Relu", b"Tanh"))
        service = self.start("serve", f"--master={master.address}", f"--job={job}", "--follow", "--follow-every-ms=50")

        def told():
            with open(service.log.name, encoding="utf-8", errors="replace") as f:
                return "net.onnx is not the file that the model was trained with" in f.read()
        self.wait_for("the refusal", told)

    def test_workers_whose_files_differ(self):
        """Each worker reads its own; those of the second are other ones."""
        here, there = os.path.join(self.dir, "here"), os.path.join(self.dir, "there")
        for place, seed in ((here, 64), (there, 32)):
            shutil.copytree(self.data, place)
            self.write(f"{place}/net.onnx", onnx.mlp((784, seed, 10)))
        master = self.start("master", f"--state-dir={self.dir}/m")
        self.start("ps", f"--master={master.address}", f"--checkpoint-dir={self.dir}/c")
        link = os.path.join(self.dir, "link")
        os.symlink(here, link)
        self.start("worker", f"--master={master.address}", "--name=a")
        done = gradus("submit", self.file, "--master", master.address, *self.job(data__dir=link, training__epochs=ENDLESS))
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        self.wait_for("a step", lambda: master.job(job)["steps"] > 0)
        os.unlink(link)
        os.symlink(there, link)
        self.start("worker", f"--master={master.address}", "--name=b")
        self.assertEqual(gradus("set", job, "cluster.workers=2", "--master", master.address).returncode, 0)

        words = "variable 0: the job has fc0.weight [64, 784], this node has fc0.weight [32, 784]"

        def told():
            for service in self.services:
                with open(service.log.name, encoding="utf-8", errors="replace") as f:
                    if words in f.read():
                        return True
            return False
        self.wait_for("the refusal", told)


if __name__ == "__main__":
    unittest.main()
