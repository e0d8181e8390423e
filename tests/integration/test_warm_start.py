# SPDX-License-Identifier: Apache-2.0
"""Jobs that begin with the values of another one, of a safetensors file or of an ONNX file (`from` of the job file): which
values these are, the same bits on any cluster and with killed roles, and sources that are wrong."""

import json
import os
import shlex
import shutil
import struct
import sys

import onnx_bytes as onnx
from cluster import ENDLESS, SOURCE, gradus, read_job
from faults import Digits, FaultTest, main
from test_tables import JOB as JOB_OF_TABLES, Clicks, click_lines

FROZEN = {"update": "{rule: sgd, learning_rate: 0}", "training__epochs": 1}  # the result is what it began with


def tensors(data):
    """Of a safetensors file: {name: (shape, bytes)}."""
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    return {name: (tuple(t["shape"]), data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for name, t in header.items()}


def safetensors(items):
    """A file of {name: (dtype, shape, bytes)}."""
    header, data = {}, b""
    for name, (dtype, shape, raw) in items.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def floats(raw):
    return struct.unpack(f"<{len(raw) // 4}f", raw)


class WarmTest(Digits, FaultTest):
    def write(self, name, data):
        path = os.path.join(self.dir, name)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def source(self, **sets):
        """Values of a job that was trained for an epoch, and where its checkpoint is."""
        done = self.run_job("source", **{"training__epochs": 1, **sets})
        return tensors(self.export("digits-1", "source")), done["checkpoint"]

    def began_with(self, state, file=None, **sets):
        self.run_job(state, file, **{**FROZEN, **sets})
        return tensors(self.export("digits-1", state))

    def refused(self, command="validate", **sets):
        arguments = self.job(**sets)
        done = gradus(command, SOURCE + "/examples/digits.yaml", *arguments)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return " ".join(done.stderr.split())


class Values(WarmTest):
    def test_those_of_a_checkpoint(self):
        values, checkpoint = self.source()
        cold = self.began_with("cold")
        self.assertNotEqual(values, cold)
        self.assertEqual(self.began_with("warm", **{"from__checkpoint": checkpoint}), values)
        self.assertEqual(self.began_with("of-job", **{"from__checkpoint": os.path.dirname(checkpoint)}), values)
        status = read_job(gradus("status", "digits-1", "--json", "--state-dir", os.path.join(self.dir, "warm")).stdout)
        self.assertEqual(status["started_from"], f"all {len(values)} variables from checkpoint {checkpoint}; and the encoding of records")
        text = gradus("status", "digits-1", "--state-dir", os.path.join(self.dir, "warm")).stdout
        self.assertIn(f"from        all {len(values)} variables from checkpoint {checkpoint}", text)
        cold = read_job(gradus("status", "digits-1", "--json", "--state-dir", os.path.join(self.dir, "cold")).stdout)
        self.assertEqual(cold["started_from"], "")

    def test_a_job_is_named_by_its_id(self):
        values, checkpoint = self.source()
        state = ("--state-dir", os.path.join(self.dir, "source"))
        done = gradus("run", SOURCE + "/examples/digits.yaml", "--json", *state,
                      *self.job(**{**FROZEN, "from__checkpoint": "digits-1"}))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(tensors(self.export("digits-2", "source")), values)
        status = read_job(gradus("status", "digits-2", "--json", *state).stdout)
        self.assertIn(checkpoint, status["started_from"])
        done = gradus("run", SOURCE + "/examples/digits.yaml", *state, *self.job(from__checkpoint="digits-9"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("from.checkpoint digits-9: ", done.stderr)

    def test_another_head_begins_anew(self):
        values, checkpoint = self.source()
        first, last = min(values).split(".")[0], max(values).split(".")[0]
        (width,) = values[f"{first}.bias"][0]
        other = {"model__layers": f"[flatten, {{dense: {{units: {width}, activation: relu}}}}, {{dense: {{units: 10, name: head}}}}]"}
        sets = {**other, "from__checkpoint": checkpoint, "from__strict": "false"}
        cold, warm = self.began_with("cold", **other), self.began_with("warm", **sets)
        for part in "kernel", "bias":
            self.assertEqual(warm[f"head.{part}"], cold[f"head.{part}"])
            self.assertEqual(warm[f"{first}.{part}"], values[f"{first}.{part}"])
            self.assertNotEqual(warm[f"{first}.kernel"], cold[f"{first}.kernel"])
        status = read_job(gradus("status", "digits-1", "--json", "--state-dir", os.path.join(self.dir, "warm")).stdout)
        self.assertIn("2 of 4 variables from checkpoint", status["started_from"])
        self.assertIn("not there: head.kernel, head.bias", status["started_from"])
        self.assertIn(f"{last}.kernel", status["started_from"])

    def test_those_of_safetensors_in_three_types(self):
        cold = self.began_with("cold")
        items, expected = {}, {}
        for i, (name, (shape, raw)) in enumerate(sorted(cold.items())):
            halves = [0.5 + k % 7 for k in range(len(raw) // 4)]  # exact in every type
            expected[name] = (shape, struct.pack(f"<{len(halves)}f", *halves))
            kind = ("F32", "F16", "BF16")[i % 3]
            data = {"F32": expected[name][1], "F16": struct.pack(f"<{len(halves)}e", *halves),
                    "BF16": b"".join(struct.pack("<f", x)[2:] for x in halves)}[kind]
            items["net." + name] = (kind, list(shape), data)
        items["net.num_batches_tracked"] = ("I64", [], struct.pack("<q", 3))
        path = self.write("net.safetensors", safetensors(items))
        sets = {"from": f"{{safetensors: {path}, map: [{{from: 'net.*', to: '*'}}]}}"}
        self.assertEqual(self.began_with("warm", **sets), expected)
        self.assertIn("not there: ", self.refused(from__safetensors=path))

    def test_those_of_an_onnx_file(self):
        cold = self.began_with("cold")
        expected = {name: (shape, struct.pack(f"<{len(raw) // 4}f", *range(len(raw) // 4)))
                    for name, (shape, raw) in cold.items()}
        initializers = [onnx.tensor("a/" + name, shape, floats(raw)) for name, (shape, raw) in expected.items()]
        path = self.write("net.onnx", onnx.model([onnx.node("Relu", ["x"], ["y"])], initializers,
                                                 [onnx.value("x", ["N", 4])], [onnx.value("y", ["N", 4])]))
        sets = {"from": f"{{onnx: {path}, map: [{{from: 'a/*', to: '*'}}]}}"}
        self.assertEqual(self.began_with("warm", **sets), expected)

    def test_an_imported_model_takes_others_than_its_own(self):
        data = os.path.join(self.dir, "data")
        shutil.copytree(self.shared + "/digits", data)
        self.write("data/net.onnx", onnx.mlp((784, 8, 10)))
        job = self.write("job.yaml", b"""name: digits
data:
  train: {file: train-images-idx3-ubyte.gz, labels: train-labels-idx1-ubyte.gz}
model: {onnx: net.onnx, loss: softmax_cross_entropy}
update: {rule: sgd, learning_rate: 0}
training: {batch_size: 50, replicas: 2, epochs: 1, evaluate_every: never}
cluster: {workers: 1, ps: 1}
""")
        self.model = {}
        sets = {"data__dir": data, "update": "{rule: sgd, learning_rate: 0}"}
        own = self.began_with("own", job, **sets)
        other = {name: (shape, struct.pack("<f", 0.25) * (len(raw) // 4)) for name, (shape, raw) in own.items()}
        self.write("data/other.safetensors", safetensors({n: ("F32", list(s), raw) for n, (s, raw) in other.items()}))
        warm = self.began_with("warm", job, **sets, from__safetensors="other.safetensors")
        self.assertEqual(warm, other)
        self.assertNotEqual(warm, own)

    def test_a_program_takes_others_than_its_own(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("no numpy")
        os.environ["PYTHONPATH"] = os.path.join(SOURCE, "python")
        os.mkdir(os.path.join(self.dir, "pids"))
        program = shlex.join([sys.executable, "-B", os.path.join(SOURCE, "tests/integration/numpy_program.py"),
                              os.path.join(self.dir, "pids")])
        job = self.write("job.yaml", b"""name: digits
model: {program: numpy, metrics: [accuracy]}
update: {rule: sgd, learning_rate: 0}
training: {batch_size: 50, replicas: 2, epochs: 1, evaluate_every: never}
cluster: {workers: 2, ps: 2}
""")
        weights, bias = struct.pack("<36f", *range(36)), struct.pack("<3f", 1, 2, 3)
        path = self.write("w.safetensors", safetensors({"weights": ("F32", [12, 3], weights), "bias": ("F32", [3], bias)}))
        done = gradus("run", job, "--worker", program, "--state-dir", self.dir + "/state", "--set",
                      f"from={{safetensors: {path}, strict: false}}")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = tensors(self.export("digits-1"))
        self.assertEqual((found["weights"][1], found["bias"][1]), (weights, bias))
        text = gradus("status", "digits-1", "--state-dir", self.dir + "/state").stdout
        self.assertIn("2 of 3 variables from safetensors", text)
        self.assertIn("not there: seen.mean", text)


class SameBits(WarmTest):
    epochs = 3

    def warm_keys(self, checkpoint, **more):
        return {"training__replicas": 2, "cluster__workers": "1..2", "cluster__ps": 2, "cluster__partitions": 2,
                "training__epochs": 3, "from__checkpoint": checkpoint, **more}

    def test_whatever_dies(self):
        _, checkpoint = self.source()
        self.quiet("whole", **self.warm_keys(checkpoint, cluster__workers=1, cluster__ps=1, cluster__partitions=1))
        bits = self.bits("digits-1", "whole")
        self.cluster(workers=2)
        sets = self.warm_keys(checkpoint, training__checkpoint_every=10)
        self.assertEqual(self.bits(self.ended(self.submit(**sets))), bits)
        # While it starts, wherever that is: a worker and a server.
        job = self.submit(**sets)
        self.replace_worker(0)
        self.replace_ps(0)
        self.assertEqual(self.bits(self.ended(job)), bits)
        # Later: it goes on from its own checkpoint, also when the source is gone and the master forgets what it looked at.
        job = self.start_job(**{**sets, "training__epochs": ENDLESS})
        self.endless.add(job)
        self.wait_checkpoint(job)
        shutil.move(checkpoint, checkpoint + ".gone")
        self.replace_worker(1)
        self.replace_master()
        self.replace_ps(1)
        status = self.wait_end(job)
        shutil.move(checkpoint + ".gone", checkpoint)
        self.quiet("later", **self.warm_keys(checkpoint, training__epochs=int(status["epochs"]), cluster__workers=1, cluster__ps=1,
                                        cluster__partitions=1))
        self.assertEqual(self.bits(job), self.bits("digits-1", "later"))
        self.assertIn(f"variables from checkpoint {checkpoint}", status["started_from"])

    def ended(self, job):
        self.wait_end(job)
        return job

    def test_another_learns_sooner(self):
        _, checkpoint = self.source(training__epochs=3)
        cold = self.run_job("cold", training__epochs=1)
        warm = self.run_job("warm", training__epochs=1, from__checkpoint=checkpoint)
        self.assertLess(warm["metrics"]["test"]["loss"], cold["metrics"]["test"]["loss"])
        self.assertEqual((warm["steps"], warm["epochs"]), (cold["steps"], 1))


class Tables(Clicks, FaultTest):
    """A model of clicks and its tables, gone on with on the clicks of another day."""
    epochs = 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        keeps = JOB_OF_TABLES.replace(", evict: {unseen: 60, every: 7}", "").replace("rows_max: 1500, evict: {every: 5, least: frequent}",
                                                                                    "rows_max: 100000")
        for name, text in (("keeps.yaml", keeps), ("later", "".join(click_lines(1000, 3)))):
            with open(os.path.join(cls.shared, name), "w") as f:
                f.write(text)

    def source(self, **sets):
        done = self.run_job("source", self.file, **self.keys(cluster__ps=3, training__evaluate_every="1 epoch", **sets))
        return done, done["checkpoint"]

    def rows(self, tensors, table):
        """{key: bytes of its row}"""
        keys, values = tensors[table + ".keys"][2], tensors[table + ".values"][2]
        each = len(values) // (len(keys) // 8)
        return {key: values[i * each:(i + 1) * each] for i, (key,) in enumerate(struct.iter_unpack("<Q", keys))}

    def test_rows_of_a_checkpoint(self):
        done, checkpoint = self.source()
        sets = {"data__train": "{file: later}", "update": "{rule: adam, learning_rate: 0}", "training__epochs": 1, "training__evaluate_every": "1 epoch",
                "cluster__ps": 2}
        keeps = os.path.join(self.shared, "keeps.yaml")
        warm = self.run_job("warm", keeps, **self.keys(**sets, from__checkpoint=checkpoint))
        cold = self.run_job("cold", keeps, **self.keys(**sets))
        self.assertEqual(warm["metrics"]["test"]["loss"], done["metrics"]["test"]["loss"])
        self.assertNotEqual(cold["metrics"]["test"]["loss"], done["metrics"]["test"]["loss"])
        first, later, anew = (self.tensors("clicks-1", state) for state in ("source", "warm", "cold"))
        for table in "weights", "factors", "all":
            before, after, new = (self.rows(t, table) for t in (first, later, anew))
            self.assertEqual({key: after.get(key) for key in before}, before)  # that of `all` is caught up
            self.assertEqual(set(after), set(before) | set(new))  # keys are admitted as in any job
            self.assertTrue(set(new) - set(before))
        status = read_job(gradus("status", "clicks-1", "--json", "--state-dir", os.path.join(self.dir, "warm")).stdout)
        self.assertEqual(status["started_from"], f"all 5 variables and all 3 tables from checkpoint {checkpoint}; and the encoding of records")

    def test_the_same_bits_whatever_dies(self):
        _, checkpoint = self.source()
        sets = {"data__train": "{file: later}", "from__checkpoint": checkpoint, "training__replicas": 2}
        self.quiet("whole", **sets)
        bits = self.bits("clicks-1", "whole")
        self.cluster(workers=2, ps=3)
        sets.update(cluster__workers="1..2", cluster__ps=2, cluster__partitions=2)
        job = self.submit(**self.keys(**sets))
        self.replace_worker(0)
        self.replace_ps(0)
        self.replace_ps(1)
        self.wait_end(job)
        self.assertEqual(self.bits(job), bits)

    def test_what_does_not_fit_is_said_with_the_variables(self):
        _, checkpoint = self.source(training__epochs=1)
        other = self.shared + "/other.yaml"
        with open(other, "w") as f:
            f.write(JOB_OF_TABLES.replace("name: factors, dim: 5", "name: factors, dim: 4").replace("name: all,", "name: some,")
                    .replace("table: all,", "table: some,").replace("units: 8", "units: 7"))
        for command in "validate", "run":
            done = gradus(command, other, *self.sets(**self.keys(from__checkpoint=checkpoint)))
            self.assertNotEqual(done.returncode, 0)
            said = " ".join(done.stderr.split())
            self.assertIn("not there: table some; of another shape: ", said)
            self.assertIn("rows of table factors [4], [5] there", said)
            self.assertIn("left over there: table all", said)
            self.assertIn("hidden.kernel [9, 7], [9, 8] there", said)
        warm = self.run_job("warm", other, **self.keys(**{"from": f"{{checkpoint: {checkpoint}, map: [{{from: all, to: some}}], strict: false}}"}))
        status = read_job(gradus("status", "clicks-1", "--json", "--state-dir", os.path.join(self.dir, "warm")).stdout)
        self.assertIn("and 2 of 3 tables from checkpoint", status["started_from"])
        self.assertEqual(warm["state"], "SUCCEEDED")

    def test_what_a_server_may_not_read(self):
        _, checkpoint = self.source(training__epochs=1)
        self.cluster(workers=1, ps=0)
        root = os.path.join(self.dir, "nothing")
        os.mkdir(root)
        self.start("ps", f"--master={self.master.address}", f"--checkpoint-dir={self.state_dir}/checkpoints", f"--data-root={root}")
        job = self.submit(**self.keys(cluster__ps=1, from__checkpoint=checkpoint))
        self.wait_for("the end", lambda: self.now(job)["state"] == "FAILED")
        self.assertIn(f"from.checkpoint {checkpoint}: ", self.status(self.master, job)["reason"])
        self.assertIn("outside of what this node reads (data_root)", self.status(self.master, job)["reason"])


class Refused(WarmTest):
    def test_what_does_not_fit_is_said_before_it_starts(self):
        _, checkpoint = self.source()
        other = "[flatten, {dense: {units: 7, name: first}}, {dense: {units: 10, name: head}}]"
        for command in "validate", "plan", "run":
            said = self.refused(command, model__layers=other, from__checkpoint=checkpoint)
            self.assertIn(f"from.checkpoint {checkpoint}: not there: first.kernel, first.bias, head.kernel, head.bias; "
                          "left over there: ", said)
        said = self.refused(**{"from": f"{{checkpoint: {checkpoint}, map: [{{from: 'x*', to: 'y*'}}]}}"})
        self.assertIn("from.map.0: no tensor there is called 'x*'", said)
        path = self.write("f64.safetensors", safetensors({"dense_1.bias": ("F64", [1], b"\0" * 8)}))
        self.assertIn("dense_1.bias is of type F64", self.refused(from__safetensors=path))
        path = self.write("cut.safetensors", b"\xff" * 6)
        self.assertIn(f"from.safetensors {path}: ", self.refused(from__safetensors=path))

    def test_the_workers_say_it_when_nobody_else_could(self):
        self.cluster(workers=1, ps=1)
        path = os.path.join(self.dir, "none.safetensors")
        job = self.submit(cluster__workers=1, cluster__ps=1, from__safetensors=path)
        status = self.wait_failed(job)
        self.assertIn(f"from.safetensors {path}: ", status["reason"])
        self.write("none.safetensors", safetensors({"dense_1.bias": ("F32", [1], struct.pack("<f", float("nan")))}))
        job = self.submit(cluster__workers=1, cluster__ps=1, from__safetensors=path)
        self.assertIn("not there: ", self.wait_failed(job)["reason"])

    def wait_failed(self, job):
        self.wait_for("the end", lambda: self.now(job)["state"] == "FAILED")
        return self.status(self.master, job)

    def test_values_that_are_not_finite(self):
        values, _ = self.source()
        items = {name: ("F32", list(shape), raw) for name, (shape, raw) in values.items()}
        name = min(items)
        items[name] = ("F32", items[name][1], struct.pack("<f", float("inf")) + items[name][2][4:])
        path = self.write("inf.safetensors", safetensors(items))
        done = self.run_job("inf", expect=1, from__safetensors=path)
        self.assertIn(f"element 0 of {name} is inf, which is not finite", done["reason"])


if __name__ == "__main__":
    main()
