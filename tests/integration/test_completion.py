# SPDX-License-Identifier: Apache-2.0
"""What `gradus completion` prints is taken by the shells, and completes commands, flags, their words, jobs and files."""

import shutil
import subprocess
import unittest

from cluster import BIN, SOURCE, ClusterTest, gradus

# The word at the cursor is the last one; a line for each proposal.
BASH = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gradus; printf '%s\\n' "${COMPREPLY[@]}" """
ZSH = """compdef() { :; }
_describe() { print -l -- ${${(P)argv[-1]}%%:*}; }
compadd() { print -l -- ${(P)argv[-1]}; }
_files() { print FILES; }
source "$1"; shift; words=("$@"); CURRENT=$#; PREFIX=${words[-1]}; _gradus"""
FISH = """source $argv[1]; complete -C "$argv[2..]" | string replace -r '\\t.*' ''; true"""


class Completion(ClusterTest):
    def setUp(self):
        super().setUp()
        for shell in ("bash", "zsh", "fish"):
            done = gradus("completion", shell)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(f"{self.dir}/gradus.{shell}", "w") as f:
                f.write(done.stdout)

    def proposals(self, shell, *words, **environment):
        file = f"{self.dir}/gradus.{shell}"
        command = {"bash": ["bash", "-c", BASH, "bash", file, *words], "zsh": ["zsh", "-fc", ZSH, "zsh", file, *words],
                   "fish": ["fish", "-N", "-c", FISH, file, " ".join(words)]}[shell]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=self.dir,
                              env={"PATH": f"{BIN}:/usr/bin:/bin", "HOME": self.dir, **environment})
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        word = words[-1]
        return sorted(p for p in done.stdout.split() if p.startswith(word) or p == "FILES")

    def completes(self, shell):
        if shutil.which(shell) is None:
            self.skipTest(f"no {shell} is installed")
        self.assertEqual(self.proposals(shell, "gradus", "sta"), ["status"])
        self.assertEqual(self.proposals(shell, "gradus", "run", "--se"), ["--set"])
        self.assertIn("--state-dir", self.proposals(shell, "gradus", "list", "--"))
        self.assertNotIn("--token", self.proposals(shell, "gradus", "list", "--"))  # it is no flag
        self.assertEqual(self.proposals(shell, "gradus", "export", "--format", "o"), ["onnx"])
        master = self.start("master", f"--state-dir={self.dir}/{shell}")
        done = gradus("submit", SOURCE + "/examples/digits.yaml", "--master", master.address, *self.job())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.wait_for("the job", lambda: "digits-1" in self.proposals(shell, "gradus", "status", "d", GRADUS_MASTER=master.address))

    def test_bash(self):
        self.completes("bash")

    def test_zsh(self):
        self.completes("zsh")
        self.assertIn("FILES", self.proposals("zsh", "gradus", "run", "x"))

    def test_fish(self):
        self.completes("fish")

    def test_another_shell(self):
        done = gradus("completion", "tcsh")
        self.assertEqual(done.returncode, 2)
        self.assertIn('no words for the shell "tcsh"; allowed: bash, zsh, fish', done.stderr)


if __name__ == "__main__":
    unittest.main()
