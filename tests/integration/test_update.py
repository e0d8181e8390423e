# SPDX-License-Identifier: Apache-2.0
"""Updates that need more than single elements: the same bits on any number of parameter servers."""

import gzip
import json
import os
import re
import signal
import struct
import unittest

import numpy

from cluster import ENDLESS, SLOW_DOWN, SOURCE, ClusterTest, gradus

GLOBAL_NORM = "rule: momentum, learning_rate: 0.05, clip_global_norm: 0.1"
LAMB = "rule: lamb, learning_rate: 0.003"
ADAFACTOR = "rule: adafactor"
ADAM = "rule: adam, learning_rate: 0.001"


def variables_of(exported):
    """Of a file of safetensors, by their names."""
    (size,) = struct.unpack("<Q", exported[:8])
    header = json.loads(exported[8:8 + size])
    header.pop("__metadata__", None)
    found = {}
    for name, tensor in header.items():
        first, last = tensor["data_offsets"]
        data = exported[8 + size + first:8 + size + last]
        found[name] = numpy.frombuffer(data, "<f4").reshape(tensor["shape"]).astype("f8")
    return found


class Update(ClusterTest):
    def job_file(self, update):
        """The digits job with another `update` section."""
        with open(SOURCE + "/examples/digits.yaml") as f:
            text = f.read()
        text, count = re.subn(r"^update:\n(  .*\n)+", f"update: {{{update}}}\n", text, flags=re.M)
        self.assertEqual(count, 1)
        path = os.path.join(self.dir, "job.yaml")
        with open(path, "w") as f:
            f.write(text)
        return path

    def train(self, state, update, **sets):
        result = self.run_job(state, file=self.job_file(update), training__batch_size=16, **sets)
        self.assertEqual(result["state"], "SUCCEEDED")
        return self.export(result["job"], state)


class AnyNumberOfServers(Update):
    def same_bits(self, update, **sets):
        one = self.train("one", update, training__replicas=4, **sets)
        for workers, ps, partitions in ((1, 2, 2), (3, 3, 3)):
            several = self.train(f"w{workers}p{ps}", update, training__replicas=4, cluster__workers=workers,
                                 cluster__ps=ps, cluster__partitions=partitions, **sets)
            self.assertEqual(one, several, f"{update} with {workers} workers and {ps} servers")
        return one

    def test_global_norm(self):
        clipped = self.same_bits(GLOBAL_NORM)
        self.assertNotEqual(clipped, self.train("free", GLOBAL_NORM.split(", clip")[0], training__replicas=4))

    def test_lamb(self):
        self.same_bits(LAMB)

    def test_adafactor(self):
        self.same_bits(ADAFACTOR)


class Deaths(Update):
    def killed(self, update, **sets):
        """A worker dies in the middle; three servers, and the bits of one server without a death."""
        sets = {"training__replicas": 4, "training__evaluate_every": "never", **sets}
        file = self.job_file(update)
        process = self.start_run("killed", file=file, training__batch_size=16, training__epochs=ENDLESS, cluster__workers=3,
                                 cluster__ps=3, cluster__partitions=3, slow_down=SLOW_DOWN, **sets)
        self.wait_run("killed", 50)
        os.kill(self.child(process, "gradus-worker")[1], signal.SIGKILL)
        result, _, epochs = self.end_run(process, "killed", 4)
        self.assertEqual(result["state"], "SUCCEEDED")
        self.assertEqual(self.export(result["job"], "killed"), self.train("one", update, training__epochs=epochs, **sets))

    def test_global_norm(self):
        self.killed(GLOBAL_NORM)

    def test_lamb(self):
        self.killed(LAMB)

    def test_adafactor(self):
        self.killed(ADAFACTOR)

    def test_a_server_killed(self):
        """From the newest checkpoint on, with slots of all kinds: the same bits."""
        sets = {"training__checkpoint_every": 50, "training__evaluate_every": "never",
                "cluster__ps": 3, "cluster__partitions": 3, "cluster__workers": 2}
        process = self.start_run("killed", file=self.job_file(ADAFACTOR), training__batch_size=16, training__epochs=ENDLESS,
                                 slow_down=SLOW_DOWN, **sets)
        checkpoint = self.dir + "/killed/checkpoints/digits-1/step-000000050/manifest.json"
        self.wait_for("a checkpoint", lambda: os.path.exists(checkpoint))
        os.kill(self.child(process, "gradus-ps")[1], signal.SIGKILL)
        result, err, epochs = self.end_run(process, "killed", 4)
        self.assertIn("RECOVERING", err)
        self.assertEqual(self.export(result["job"], "killed"), self.train("plain", ADAFACTOR, training__epochs=epochs, **sets))


class Modes(Update):
    def test_loose_sync(self):
        for sets in ({"training__replicas_to_aggregate": 2}, {"training__speculate": "true"}):
            result = self.run_job("loose", file=self.job_file(LAMB), training__batch_size=16,
                                  training__replicas=4, cluster__workers=3, cluster__ps=3,
                                  cluster__partitions=3, **sets)
            self.assertEqual((result["state"], result["steps"]), ("SUCCEEDED", 2 * 32))

    def test_async(self):
        """Norms come with the pushes; rules with sums find their variables whole."""
        for update in (GLOBAL_NORM, LAMB, ADAFACTOR, "rule: dc_asgd", "rule: adaptive_revision"):
            result = self.run_job("async", file=self.job_file(update), training__mode="async",
                                  training__batch_size=16, cluster__workers=2, cluster__ps=2,
                                  cluster__partitions=1)
            self.assertEqual((result["state"], result["steps"]), ("SUCCEEDED", 2 * 125))

    def test_async_is_the_same_on_any_number_of_servers(self):
        """With one worker the order is fixed."""
        for update in (GLOBAL_NORM, "rule: sgd, learning_rate: 0.1, clip_norm: 0.05", LAMB):
            results = [self.train(f"ps{ps}", update, training__mode="async", training__overlap="false",
                                  cluster__ps=ps, cluster__partitions=1) for ps in (1, 3)]
            self.assertEqual(results[0], results[1], update)

    def test_accumulated_and_averaged(self):
        for more in ("accumulate: 4", "average: 0.99", "accumulate: 3, clip_global_norm: 0.1, average: 0.9"):
            update = f"{ADAM}, {more}"
            results = [self.train(f"ps{ps}", update, training__replicas=4, cluster__ps=ps,
                                  cluster__partitions=ps) for ps in (1, 3)]
            self.assertEqual(results[0], results[1], update)


class Measured(Update):
    """What a checkpoint holds, computed apart from all code of ours."""

    EPSILON = 0.01

    def records(self, part):
        def read(name, offset):
            with gzip.open(f"{self.shared}/digits/{part}-{name}-ubyte.gz") as f:
                return numpy.frombuffer(f.read(), "u1", offset=offset)
        labels = read("labels-idx1", 8)
        return read("images-idx3", 16).reshape(len(labels), 784) / 255.0, labels

    def loss(self, exported):
        """Of the digits model on its test records."""
        variables = variables_of(exported)
        x, labels = self.records("t10k")
        for layer in (1, 2, 3):
            if f"batch_norm_{layer}.mean" in variables:
                gamma, beta, mean, variance = (variables[f"batch_norm_{layer}.{part}"] for part in ("gamma", "beta", "mean", "variance"))
                x = (x - mean) / numpy.sqrt(variance + self.EPSILON) * gamma + beta
            x = x @ variables[f"dense_{layer}.kernel"] + variables[f"dense_{layer}.bias"]
            x = numpy.maximum(x, 0) if layer < 3 else x
        x -= x.max(axis=1, keepdims=True)
        return float(numpy.mean(numpy.log(numpy.exp(x).sum(axis=1)) - x[numpy.arange(len(labels)), labels]))

    def evaluate(self, checkpoint, *args):
        done = gradus("evaluate", checkpoint, "--json", *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["metrics"]["loss"]


class EvaluatedAverage(Measured):
    """What is measured with `evaluate_average` is the average that a checkpoint holds."""

    UPDATE = ADAM + ", average: 0.9, evaluate_average: "

    def test_it(self):
        sets = {"training__epochs": 1, "cluster__ps": 2, "cluster__partitions": 2}
        results = {on: self.run_job(on, file=self.job_file(self.UPDATE + on), **sets) for on in ("true", "false")}
        exported = {}
        for name, extra in (("average", ["--average"]), ("values", [])):
            out = os.path.join(self.dir, name)
            done = gradus("export", "--from", results["true"]["checkpoint"], out, *extra)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(out, "rb") as f:
                exported[name] = self.loss(f.read())
        losses = {on: result["metrics"]["test"]["loss"] for on, result in results.items()}
        self.assertGreater(abs(losses["true"] - losses["false"]), 1e-3)
        self.assertAlmostEqual(losses["true"], exported["average"], places=4)
        self.assertAlmostEqual(losses["false"], exported["values"], places=4)
        checkpoint = results["true"]["checkpoint"]
        self.assertAlmostEqual(self.evaluate(checkpoint), losses["true"], places=5)
        self.assertAlmostEqual(self.evaluate(checkpoint, "--set", "update.evaluate_average=false"),
                               losses["false"], places=5)


class Statistics(Measured):
    """batch_norm before two of the dense layers: its running mean and variance."""

    model = {"model.layers.dense_1.units": 64, "model.layers.dense_2.units": 32}
    HARD = "rule: lamb, learning_rate: 0.003, l2: 0.1, weight_decay: 0.1, clip_global_norm: 0.1, clip_value: 0.01"

    def job_file(self, update):
        path = super().job_file(update)
        with open(path) as f:
            text = f.read()
        norm = f"    - batch_norm: {{epsilon: {self.EPSILON}}}\n"
        text, count = re.subn(r"( *- flatten\n|.*units: 256.*\n)", r"\1" + norm, text)
        self.assertEqual(count, 2)
        with open(path, "w") as f:
            f.write(text)
        return path

    def test_the_same_bits(self):
        for update in (ADAM, self.HARD, ADAM + ", accumulate: 3, average: 0.9"):
            exports = {self.train(f"w{workers}", update, training__replicas=3, cluster__workers=workers, cluster__ps=ps,
                                  cluster__partitions=ps) for workers, ps in ((1, 1), (3, 1), (3, 3))}
            self.assertEqual(len(exports), 1, update)

    def test_what_is_measured(self):
        result = self.run_job(file=self.job_file(ADAM))
        loss = result["metrics"]["test"]["loss"]
        self.assertLess(loss, 1.2)  # of a model that knows nothing: 2.3
        self.assertAlmostEqual(loss, self.loss(self.export(result["job"])), places=4)
        self.assertAlmostEqual(loss, self.evaluate(result["checkpoint"]), places=5)

    def test_they_are_those_of_the_data_in_all_modes(self):
        """Whatever the rule makes of gradients, and however old these are."""
        data, _ = self.records("train")
        for update, sets in ((self.HARD, {"training__replicas": 2}),
                             (ADAM, {"training__mode": "async", "training__staleness_policy": "delay_compensation"})):
            variables = variables_of(self.train("state", update, cluster__workers=2, **sets))
            mean, variance = variables["batch_norm_1.mean"], variables["batch_norm_1.variance"]
            self.assertLess(numpy.abs(mean - data.mean(axis=0)).mean(), 0.03)
            self.assertLess(numpy.abs(variance - data.var(axis=0)).mean(), 0.02)

    def test_a_batch_of_one_is_refused(self):
        done = gradus("validate", self.job_file(ADAM), *self.job(training__batch_size=1))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("layer 'batch_norm_1' takes statistics of a mini-batch, and training.batch_size: 1 leaves none",
                      " ".join(done.stderr.split()))


class NotFinite(Update):
    DIVERGES = "rule: sgd, learning_rate: 1e6"

    def test_fails(self):
        for servers in (1, 3):
            process = self.start_run(f"ps{servers}", file=self.job_file(self.DIVERGES), cluster__ps=servers,
                                     cluster__partitions=servers)
            _, err = process.communicate(timeout=120)
            self.assertNotEqual(process.returncode, 0)
            self.assertRegex(err, "gradient of variable dense_[123].(kernel|bias) is not finite, at step [0-9]+")

    def test_skips(self):
        results = []
        for servers in (1, 3):
            results.append(self.train(f"ps{servers}", self.DIVERGES + ", non_finite: skip",
                                      training__replicas=4, cluster__ps=servers, cluster__partitions=servers))
        self.assertEqual(results[0], results[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
