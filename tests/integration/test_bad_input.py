# SPDX-License-Identifier: Apache-2.0
"""Wrong input by real commands: a clear error, a non-zero exit, nothing left running, nothing half-written."""

import gzip
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import unittest

from cluster import BIN, SOURCE, ClusterTest, gradus, read_job

DIGITS = SOURCE + "/examples/digits.yaml"


class JobFile(ClusterTest):
    def validate(self, text, *args):
        path = os.path.join(self.dir, "job.yaml")
        with open(path, "w") as f:
            f.write(text)
        done = gradus("validate", path, *args)
        return done.returncode, done.stderr.replace(path, "job.yaml")

    def text(self):
        with open(DIGITS) as f:
            return f.read()

    def test_every_error_is_reported(self):
        text = (self.text().replace("rule: adam", "rule: adm").replace("units: 256", "units: many")
                .replace("training:", "trainin:"))
        code, err = self.validate(text)
        self.assertEqual(code, 2)
        lines = [line for line in err.splitlines() if line.startswith("job.yaml:")]
        self.assertEqual(len(lines), 3, err)
        self.assertIn("did you mean 'training'?", err)
        self.assertIn("did you mean 'adam'?", err)
        for line in lines:
            self.assertRegex(line, r"^job\.yaml:\d+:\d+: .+")

    def test_out_of_range_and_sets(self):
        code, err = self.validate(self.text(), "--set", "training.batch_size=0", "--set", "nothing=1")
        self.assertEqual(code, 2)
        self.assertIn("--set training.batch_size=0", err)
        self.assertIn("nothing", err)

    def test_not_yaml(self):
        self.assertEqual(self.validate("a: [1,\n\tb")[0], 2)
        self.assertEqual(self.validate("")[0], 2)
        self.assertEqual(gradus("validate", self.dir + "/none.yaml").returncode, 5)

    def test_shapes_that_do_not_fit(self):
        text = self.text().replace("- flatten", "- conv2d: {filters: 4, kernel: 40}")
        code, err = self.validate(text, "--set", "data.dir=" + self.shared + "/digits")
        self.assertEqual(code, 2)
        self.assertIn("conv2d_1", err)
        self.assertIn("[40, 40]", err)
        self.assertIn("28, 28", err)

    def test_usage(self):
        for args in (["run"], ["run", "a", "b"], ["run", DIGITS, "--stat-dir", "x"], ["nonsense"], [],
                     ["list", "--limit", "none"], ["generate", "letters", "--out", "x"], ["export", "x"]):
            done = gradus(*args)
            self.assertEqual(done.returncode, 2, (args, done.stderr))
            self.assertTrue(done.stderr)
        self.assertIn("--state-dir", gradus("run", DIGITS, "--stat-dir", "x").stderr)

    def test_help_everywhere(self):
        for name in ("run", "submit", "list", "status", "watch", "cancel", "validate", "schema", "plan", "nodes",
                     "generate", "export", "evaluate", "version", "checkpoint", "set"):
            done = gradus(name, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Examples:", done.stdout)

    def test_schema_is_json(self):
        schema = json.loads(gradus("schema", "--json").stdout)
        self.assertIn("training", schema["properties"])


class Data(ClusterTest):
    model = {}
    def broken(self, change):
        """Submit with a copy of the digits that `change` has damaged; returns what the user is told."""
        directory = os.path.join(self.dir, "digits")
        shutil.copytree(self.shared + "/digits", directory)
        change(directory)
        return self.fails(DIGITS, data__dir=directory)

    def fails(self, file, **sets):
        """The reason of the job, which `gradus run` gives before it starts anything."""
        if not hasattr(self, "master"):
            self.master, _, _ = self.start_cluster()
        done = gradus("submit", file, "--watch", "--json", "--master", self.master.address, *self.job(**sets))
        self.assertEqual(done.returncode, 1, done.stderr)
        result = read_job(done.stdout)
        self.assertEqual(result["state"], "FAILED")
        self.assertEqual(result["checkpoint"], "")
        done = gradus(*self.run_args(file, "state", **sets))
        said = json.loads(done.stdout)["errors"][0]["message"]
        place = re.match(r".*\.yaml:[0-9]+:[0-9]+: ", said)  # in the job file, which a worker does not have
        self.assertIn(said[place.end() if place else 0:], result["reason"])
        self.assertNotIn("gradus.v1", result["reason"])
        self.assertFalse(os.path.exists(self.dir + "/state"))
        return result["reason"]

    def test_missing_file(self):
        reason = self.broken(lambda d: os.unlink(d + "/train-images-idx3-ubyte.gz"))
        self.assertIn("train-images-idx3-ubyte.gz", reason)
        self.assertIn("No such file", reason)

    def test_truncated_images(self):
        def change(directory):
            path = directory + "/train-images-idx3-ubyte.gz"
            with gzip.open(path) as f:
                data = f.read()
            with gzip.open(path, "wb", 1) as f:
                f.write(data[:1000016])
        reason = self.broken(change)
        self.assertIn("1000016", reason)

    def test_truncated_gzip(self):
        def change(directory):
            path = directory + "/train-images-idx3-ubyte.gz"
            with open(path, "r+b") as f:
                f.truncate(50000)
        self.assertIn("train-images", self.broken(change))

    def test_label_out_of_range(self):
        def change(directory):
            path = directory + "/t10k-labels-idx1-ubyte.gz"
            with gzip.open(path) as f:
                data = bytearray(f.read())
            data[8 + 123] = 77
            with gzip.open(path, "wb") as f:
                f.write(bytes(data))
        reason = self.broken(change)
        self.assertIn("77", reason)
        self.assertIn("123", reason)

    def test_counts_that_differ(self):
        def change(directory):
            path = directory + "/train-labels-idx1-ubyte.gz"
            with gzip.open(path, "wb") as f:
                f.write(struct.pack(">II", 2049, 10) + bytes(10))
        reason = self.broken(change)
        self.assertIn("2000", reason)
        self.assertIn("10", reason)

    def test_more_replicas_than_records(self):
        done = gradus(*self.run_args(DIGITS, "state", training__replicas=200, data__train__limit=100))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("replicas", read_job(done.stdout)["reason"])

    def test_model_that_does_not_fit_the_data(self):
        path = os.path.join(self.dir, "job.yaml")
        with open(DIGITS) as f:
            lines = f.read().replace("units: 10", "units: 7").splitlines()
        with open(path, "w") as f:
            f.write("\n".join(lines))
        reason = self.fails(path)
        line = [i + 1 for i, text in enumerate(lines) if "units: 7" in text][0]
        for part in ("dense_3", f"line {line}", "[7]", "[10]"):  # the line of the user's file
            self.assertIn(part, reason)

    def csv(self, text, **sets):
        with open(os.path.join(self.dir, "iris.csv"), "w") as f:
            f.write(text)
        return self.fails(SOURCE + "/examples/iris.yaml", data__dir=self.dir, **sets)

    ROWS = "5.1,3.5,1.4,0.2,a\n4.9,3.0,1.4,0.2,b\n" * 20

    def test_ragged_csv(self):
        reason = self.csv(self.ROWS + "1,2,3\n" + self.ROWS)
        self.assertIn("iris.csv:41", reason)

    def test_cell_that_is_no_number(self):
        reason = self.csv(self.ROWS + "1,2,x7,4,a\n")
        self.assertIn("iris.csv:41", reason)
        self.assertIn("x7", reason)

    def test_empty_csv(self):
        self.assertIn("iris.csv", self.csv(""))


class Processes(ClusterTest):
    def test_master_unreachable(self):
        with socket.socket() as probe:  # nobody else listens there, either
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
            done = self.in_vain("list", "--master", address, words=[address])
        self.assertRegex(done.stderr, r"tried for \d+ ms")

    def test_ipv6_without_brackets(self):
        """Where the address ends and the port begins cannot be known; it is said before anything is tried."""
        for args in ["nodes"], ["status", "x"], ["list"], ["submit", DIGITS], ["config", "set-cluster", "x"]:
            with self.subTest(args=args):
                done = gradus(*args, "--master", "::1:7200", env={"XDG_CONFIG_HOME": self.dir})
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("\"::1:7200\" has an IPv6 address without brackets; [::1]:7200 is allowed", " ".join(done.stderr.split()))
        for kind, more in ("ps", []), ("worker", []), ("serve", ["--job=x", "--follow"]):
            with self.subTest(kind=kind):
                done = subprocess.run([f"{BIN}/gradus-{kind}", "--master=::1:7200", "--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", *more],
                                      capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("--master", done.stderr)
                self.assertIn("[::1]:7200", done.stderr)

    def test_port_in_use(self):
        master = self.start("master", f"--state-dir={self.dir}/a")
        done = subprocess.run([BIN + "/gradus-ps", f"--listen={master.address}", f"--master={master.address}"],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 1)
        self.assertIn(master.address, done.stderr)

    def test_state_directory_in_use(self):
        self.start("master", f"--state-dir={self.dir}/a")
        done = subprocess.run([BIN + "/gradus-master", "--listen=127.0.0.1:0", f"--state-dir={self.dir}/a"],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 1)
        self.assertIn(self.dir + "/a", done.stderr)

    def test_service_settings(self):
        for kind in ("master", "ps", "worker"):
            done = subprocess.run([f"{BIN}/gradus-{kind}", "--lissen=x"], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--listen", done.stderr)
            master = [] if kind == "master" else ["--master=127.0.0.1:1"]
            done = subprocess.run([f"{BIN}/gradus-{kind}", "--print-config", *master], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0)
            self.assertIn("listen:", done.stdout)

    def test_ps_missing(self):
        master = self.start("master", f"--state-dir={self.dir}/a")
        self.start("worker", f"--master={master.address}")
        done = gradus("submit", DIGITS, "--master", master.address, *self.job())
        job = done.stdout.strip()
        self.wait_for("a reason", lambda: "parameter server" in self.status(master, job)["reason"])

    def test_unknown_job(self):
        master = self.start("master", f"--state-dir={self.dir}/a")
        for command in ("status", "cancel", "watch", "checkpoint"):
            done = gradus(command, "no-such-1", "--master", master.address)
            self.assertEqual(done.returncode, 5, (command, done.stderr))
            self.assertIn("no-such-1", done.stderr)

    def test_corrupted_checkpoint(self):
        result = self.run_job(training__epochs=0, training__steps=2)
        path = os.path.join(result["checkpoint"], "shard-0-of-1.safetensors")
        with open(path, "r+b") as f:
            f.seek(-1000, os.SEEK_END)
            f.write(b"\x55" * 8)
        out = os.path.join(self.dir, "out.safetensors")
        for args in (["export", "--from", result["checkpoint"], out], ["evaluate", result["checkpoint"]]):
            done = gradus(*args)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("checksum", done.stderr)
        self.assertFalse(os.path.exists(out))
        os.unlink(path)
        self.assertIn("shard-0-of-1", gradus("export", "--from", result["checkpoint"], out).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
