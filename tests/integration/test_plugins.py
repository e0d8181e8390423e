# SPDX-License-Identifier: Apache-2.0
"""Update rules from shared objects: built out of tree with plain cc, loaded by a real cluster, trained with."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import unittest

import numpy

from cluster import BIN, ENDLESS, SLOW_DOWN, SOURCE, ClusterTest, gradus, read_job

CC = ["cc", "-std=gnu11", "-w", "-O1", "-fPIC", "-shared", "-I", os.path.join(SOURCE, "include")]
MISTAKES = os.path.join(SOURCE, "tests/unit/rule/plugins/rule.c")
QHM = {"update": "{rule: qhm, learning_rate: 0.05, beta: 0.5, nu: 0.7}"}


def tensors_of(checkpoint):
    """Values and slots of a checkpoint as whole variables: {(variable, slot): array}."""
    parts = {}
    for name in sorted(n for n in os.listdir(checkpoint) if n.endswith(".safetensors")):
        with open(os.path.join(checkpoint, name), "rb") as f:
            (length,) = struct.unpack("<Q", f.read(8))
            header = json.loads(f.read(length))
            data = f.read()
        header.pop("__metadata__", None)
        for tensor, entry in header.items():
            variable, first, slot = re.fullmatch(r"(.*)\[(\d+):\d+\](?:#(.*))?", tensor).groups()
            begin, end = entry["data_offsets"]
            parts.setdefault((variable, slot), []).append(
                (int(first), numpy.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])))
    return {key: numpy.concatenate([p for _, p in sorted(pieces, key=lambda piece: piece[0])])
            for key, pieces in parts.items()}


class Plugins(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.good = os.path.join(cls.shared, "good")
        os.mkdir(cls.good, 0o755)
        # The example, from a copy of its directory: nothing but its files and the header.
        copy = os.path.join(cls.shared, "example")
        shutil.copytree(os.path.join(SOURCE, "examples/rule-plugin"), copy)
        subprocess.run(["make", "-C", copy, f"GRADUS_INCLUDE={SOURCE}/include", "CFLAGS=-O2 -Wall -Wextra -Werror",
                        f"OUT={cls.good}"], check=True, capture_output=True)
        cls.mixed = os.path.join(cls.shared, "mixed")
        shutil.copytree(cls.good, cls.mixed)
        for mistake in ("ABI", "SYMBOL", "KEY_TAKEN"):
            subprocess.run([*CC, f"-DMISTAKE_{mistake}", "-o", f"{cls.mixed}/{mistake.lower()}.so", MISTAKES],
                           check=True)
        cls.reasons = {"abi.so": "it has ABI version 2; this program knows 1",
                       "symbol.so": "it does not define gradus_rule",
                       "key_taken.so": "the name clip_norm of a hyperparameter is taken"}

    def rules_dir(self, name="good"):
        return f"--rules-dir={getattr(self, name)}"

    def job(self, **sets):
        sets = {key.replace("__", "."): value for key, value in sets.items()}
        update = sets.pop("update", None)
        return super().job(**sets) + (["--set", f"update={update}"] if update else [])

    def train(self, state, plugins=True, **sets):
        extra = [self.rules_dir()] if plugins else []
        done = gradus(*self.run_args(SOURCE + "/examples/digits.yaml", state, *extra, training__evaluate_every="never",
                                     training__replicas=2, cluster__partitions=2, **sets))
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return read_job(done.stdout)

    # ---- what the client says ----

    def test_rules_lists_it_with_its_file(self):
        done = gradus("rules", "--json", self.rules_dir())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rules = {rule["name"]: rule for rule in json.loads(done.stdout)}
        qhm = rules["qhm"]
        self.assertEqual(qhm["file"], os.path.join(os.path.realpath(self.good), "qhm.so"))
        self.assertNotIn("file", rules["adam"])
        self.assertEqual((qhm["slots"], qhm["bytes_per_parameter"]), (["momentum"], 8))
        self.assertEqual([(h["name"], h["default"], h["min"], h["max"]) for h in qhm["hyperparameters"]],
                         [("learning_rate", 1, 0, None), ("beta", 0.999, 0, 1), ("nu", 0.7, 0, 1)])
        text = gradus("rules", "qhm", self.rules_dir()).stdout
        self.assertIn("plug-in: " + qhm["file"], text)
        self.assertIn("Share of the momentum in a step", text)
        self.assertIn("plug-in: " + qhm["file"], gradus("rules", self.rules_dir()).stdout)
        self.assertIn("rule: qhm", gradus("schema", self.rules_dir()).stdout)

    def test_bad_ones_are_told_and_left_out(self):
        done = gradus("rules", "--json", self.rules_dir("mixed"))
        self.assertEqual(done.returncode, 0)
        self.assertIn("qhm", [rule["name"] for rule in json.loads(done.stdout)])
        self.assertEqual(len(done.stderr.splitlines()), len(self.reasons))
        for file, reason in self.reasons.items():
            self.assertRegex(done.stderr, rf"(?m)^gradus: \S+/{file} is left out: {reason}")

    def test_the_directory_is_checked(self):
        done = gradus("rules", "--rules-dir=/nonexistent")
        self.assertEqual((done.returncode, done.stdout), (5, ""))
        self.assertIn("directory of rules /nonexistent", done.stderr)

    def test_a_job_is_checked_against_it(self):
        job = ["validate", SOURCE + "/examples/digits.yaml", "--set", "data.dir=/nonexistent"]
        update = ["--set", f"update={QHM['update']}"]
        self.assertEqual(gradus(*job, *update, self.rules_dir()).returncode, 0)
        without = gradus(*job, *update)
        self.assertEqual(without.returncode, 2)
        self.assertIn("update.rule", without.stderr)
        wrong = gradus(*job, "--set", "update={rule: qhm, nu: 2}", self.rules_dir())
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("from 0 to 1", wrong.stderr)
        path = gradus(*job, "--set", f"update={{rule: {self.good}/qhm.so}}", self.rules_dir())
        self.assertEqual(path.returncode, 2)

    # ---- training ----

    def test_without_momentum_it_is_sgd_to_the_bit(self):
        plain = self.train("plain", plugins=False, update="{rule: sgd, learning_rate: 0.05}", training__epochs=1)
        mine = self.train("mine", update="{rule: qhm, learning_rate: 0.05, beta: 0.5, nu: 0}", training__epochs=1,
                          cluster__workers=2, cluster__ps=2)
        self.assertEqual(self.export(mine["job"], "mine"), self.export(plain["job"], "plain"))
        done = gradus("evaluate", mine["checkpoint"], self.rules_dir(), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_each_step_is_the_formula(self):
        """The gradient is in the momentum, so each checkpoint must follow from the one before."""
        result = self.train("steps", training__steps=6, training__checkpoint_every="1 step",
                            training__checkpoints_keep=0, cluster__ps=2, **QHM)
        directory = os.path.dirname(result["checkpoint"])
        steps = [tensors_of(os.path.join(directory, name)) for name in sorted(os.listdir(directory))
                 if name.startswith("step-")]
        self.assertGreaterEqual(len(steps), 6)
        moved = 0.0
        for before, after in zip(steps, steps[1:]):
            for (variable, slot), m in after.items():
                if slot != "momentum":
                    continue
                w0, w1 = before[variable, None].astype(float), after[variable, None].astype(float)
                m0, m1 = before[variable, slot].astype(float), m.astype(float)
                g = (m1 - 0.5 * m0) / 0.5
                numpy.testing.assert_allclose(w1, w0 - 0.05 * (0.3 * g + 0.7 * m1), rtol=0, atol=2e-7)
                moved = max(moved, float(abs(w1 - w0).max()))
        self.assertGreater(moved, 1e-3)

    def test_its_average_is_kept_and_exported(self):
        update = "{rule: qhm, learning_rate: 0.05, average: 0.75}"
        result = self.train("average", training__steps=4, training__checkpoint_every="1 step",
                            training__checkpoints_keep=0, cluster__ps=2, update=update)
        directory = os.path.dirname(result["checkpoint"])
        steps = [tensors_of(os.path.join(directory, name)) for name in sorted(os.listdir(directory))
                 if name.startswith("step-")]
        averages = {name for name, slot in steps[0] if slot == "average"}
        self.assertEqual(averages, {name for name, slot in steps[0] if slot is None})
        for before, after in zip(steps, steps[1:]):
            for name in averages:
                numpy.testing.assert_allclose(
                    after[name, "average"], 0.75 * before[name, "average"] + 0.25 * after[name, None], atol=1e-6)
        out = os.path.join(self.dir, "average.safetensors")
        done = gradus("export", "--from", result["checkpoint"], out)  # whose rule is not here
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the metadata say nothing of inputs, outputs and metrics", done.stderr)
        done = gradus("export", "--from", result["checkpoint"], out, "--average", "--bare")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, "rb") as f:
            (length,) = struct.unpack("<Q", f.read(8))
            header = json.loads(f.read(length))
            data = f.read()
        self.assertEqual(set(header), averages)
        for name in averages:
            begin, end = header[name]["data_offsets"]
            self.assertEqual(data[begin:end], steps[-1][name, "average"].tobytes())

    def test_without_an_average_none_is_exported(self):
        result = self.train("none", training__steps=1, **QHM)
        done = gradus("export", "--from", result["checkpoint"], os.path.join(self.dir, "out"), "--average")
        self.assertEqual(done.returncode, 5)
        self.assertIn("has no slot average", done.stderr)

    def test_it_goes_on_from_a_checkpoint(self):
        """A server that is killed restores its slot, and the bits are those of a run in peace."""
        result, _, epochs = self.end_run(self.start_with_kill(), "killed", 2)
        peace = self.train("peace", training__epochs=epochs, cluster__ps=1, **QHM)
        self.assertEqual(self.export(result["job"], "killed"), self.export(peace["job"], "peace"))

    def start_with_kill(self):
        process = self.start_run("killed", extra=[self.rules_dir()], slow_down=SLOW_DOWN, training__epochs=ENDLESS,
                                 training__evaluate_every="never", training__replicas=2, cluster__partitions=2,
                                 training__checkpoint_every="5 steps", cluster__ps=1, **QHM)
        checkpoints = os.path.join(self.dir, "killed", "checkpoints")

        def written():
            return any("manifest.json" in names for _, _, names in os.walk(checkpoints))
        self.wait_for("a checkpoint", written)
        for pid in self.child(process, "gradus-ps"):
            os.kill(pid, signal.SIGKILL)
        return process

    # ---- services ----

    def log_of(self, service):
        with open(service.log.name) as f:
            return f.read()

    def test_services_start_without_the_bad_ones(self):
        master = self.start("master", f"--state-dir={self.dir}/cluster", self.rules_dir("mixed"))
        ps = self.start("ps", f"--master={master.address}", self.rules_dir("mixed"))
        worker = self.start("worker", f"--master={master.address}", self.rules_dir("mixed"))
        for service in (master, ps, worker):
            log = self.log_of(service)
            self.assertRegex(log, r"event=rule_loaded rule=qhm file=\S+/qhm\.so")
            for file, reason in self.reasons.items():
                self.assertRegex(log, rf'event=rule_refused file=\S+/{file} reason="{reason}')

    def test_a_master_without_it_refuses_the_job(self):
        master = self.start("master", f"--state-dir={self.dir}/cluster")
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, self.rules_dir(),
                      *self.job(**QHM))
        self.assertEqual(done.returncode, 2)
        self.assertIn("update.rule", done.stderr)

    def test_a_service_needs_the_directory(self):
        done = subprocess.run([os.path.join(BIN, "gradus-ps"), "--master=127.0.0.1:1", "--rules-dir=/nonexistent"],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("directory of rules /nonexistent", done.stderr)


if __name__ == "__main__":
    unittest.main()
