# SPDX-License-Identifier: Apache-2.0
"""Clusters that have names: which master a command asks, and with what."""

import os
import subprocess
import unittest

from cluster import BIN, ENDLESS, SOURCE, TIMEOUT, ClusterTest


class ClientConfig(ClusterTest):
    def setUp(self):
        super().setUp()
        self.file = os.path.join(self.dir, "config", "gradus", "config.yaml")

    def gradus(self, *args, cwd=None, **environment):
        ours = {k: v for k, v in os.environ.items() if not k.startswith("GRADUS_")}
        ours.update({"XDG_CONFIG_HOME": self.dir + "/config", "XDG_STATE_HOME": self.dir + "/home", "GRADUS_TIMEOUT": f"{TIMEOUT}s", **environment})
        return subprocess.run([BIN + "/gradus", *args], capture_output=True, text=True, timeout=300, env=ours, cwd=cwd or self.dir)

    def well(self, *args, **more):
        done = self.gradus(*args, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, code, part, *args, **more):
        done = self.gradus(*args, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(part, " ".join(done.stderr.split()))

    def write(self, text):
        os.makedirs(os.path.dirname(self.file), exist_ok=True)
        with open(self.file, "w") as f:
            f.write(text)

    def test_which_master_is_asked(self):
        masters = [self.start("master", f"--state-dir={self.dir}/{name}") for name in ("dev", "prod")]
        names = {}
        for name, master in zip(("dev", "prod"), masters):
            names[name] = self.well("submit", SOURCE + "/examples/digits.yaml", "--set", "name=of-" + name, "--master", master.address,
                                    *self.job(training__epochs=ENDLESS)).strip()
            self.assertIn(master.address, self.well("config", "set-cluster", name, "--master", master.address))
        self.assertIn("* dev", self.well("config"))  # the first one
        self.assertIn(names["dev"], self.well("list"))
        self.well("config", "use-cluster", "prod")
        self.assertIn(names["prod"], self.well("list"))
        self.assertIn(names["prod"], self.well("status", names["prod"]))
        # Whoever is nearer to the command has the say.
        self.assertIn(names["dev"], self.well("list", "--cluster", "dev"))
        self.assertIn(names["dev"], self.well("list", GRADUS_CLUSTER="dev"))
        self.assertIn(names["prod"], self.well("list", "--cluster=prod", GRADUS_CLUSTER="dev"))
        self.assertIn(names["dev"], self.well("list", GRADUS_MASTER=masters[0].address))
        self.assertIn(names["dev"], self.well("list", "--cluster=dev", GRADUS_MASTER=masters[1].address))
        self.assertIn(names["dev"], self.well("list", "--state-dir", self.dir + "/dev"))
        self.refused(5, "no cluster tset in " + self.file + "; there are dev, prod", "list", "--cluster", "tset")
        self.refused(5, "there are dev, prod", "config", "use-cluster", "tset")
        self.well("config", "remove-cluster", "prod")
        self.assertNotIn("*", self.well("config"))
        self.well("config", "use-cluster", "none")

    def test_what_belongs_to_a_cluster_stays_with_it(self):
        """A token of one is not shown to another; paths start from the file."""
        tokens, token = self.dir + "/tokens", self.dir + "/config/gradus/ann"
        os.makedirs(os.path.dirname(token))
        drawn = self.well("token", "new", "--role", "viewer", "--name", "ann", "--tokens", tokens)
        with open(token, "w") as f:
            f.write(drawn)
        os.chmod(token, 0o600)
        asks = self.start("master", f"--state-dir={self.dir}/asks", f"--tokens={tokens}")
        other = self.start("master", f"--state-dir={self.dir}/other", f"--tokens={self.dir}/tokens")
        self.write(f"current: asks\nclusters: {{asks: {{master: \"{asks.address}\", token_file: ann, timeout: {TIMEOUT}s}}}}\n")
        os.mkdir(self.dir + "/elsewhere")
        self.assertEqual(self.gradus("list", cwd=self.dir + "/elsewhere").returncode, 0)
        for args, more in (["--master", other.address], {}), ([], {"GRADUS_MASTER": other.address}):
            done = self.gradus("list", *args, **more)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("token", done.stderr)
        # A command writes whole paths.
        self.well("config", "set-cluster", "more", "--master", asks.address, "--token-file", "gradus/ann", cwd=self.dir + "/config")
        self.well("list", "--cluster", "more", cwd="/")
        os.unlink(token)
        self.refused(5, token, "list")

    def test_no_place_for_the_file(self):
        nowhere = {"XDG_CONFIG_HOME": "", "HOME": ""}
        self.refused(1, "set HOME or XDG_CONFIG_HOME to a directory", "config", "set-cluster", "x", "--master", "x", **nowhere)
        self.assertEqual(self.well("config", **nowhere), "")

    def test_files_that_are_wrong(self):
        self.write("current: [a]\nclusters:\n  a: {mastr: x}\n  none: {master: x}\n  b: 7\n  c: {master: [x]}\nrest: 1\n")
        for part in (":1:10: current: the name of a cluster", ":3:3: cluster a: master is missing", ":3:7: unknown key 'mastr'; allowed: master",
                     ":4:3: 'none' cannot be the name", ":5:6: cluster b: keys and values", ":6:15: master: a text", ":7:1: unknown key 'rest'"):
            self.refused(2, self.file + part, "list")
        self.refused(2, "unknown key", "config")
        self.well("version")  # asks no master
        self.write("a: [")
        self.refused(2, self.file, "list")
        self.write("")
        self.refused(2, "--master HOST[:PORT] is missing", "config", "set-cluster", "x")
        self.refused(2, "cannot be the name of a cluster", "config", "set-cluster", "none", "--master", "x")
        self.refused(2, "which cluster?", "config", "use-cluster")
        self.refused(2, "what is explode?", "config", "explode", "x")
        os.unlink(self.file)
        self.assertEqual(self.well("config"), "")


if __name__ == "__main__":
    unittest.main()
