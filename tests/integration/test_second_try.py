# SPDX-License-Identifier: Apache-2.0
"""Which tests script/test runs once more when they failed: its own functions, on tests that fail as they are told."""

import os
import subprocess
import tempfile
import unittest

SOURCE = os.environ["GRADUS_SOURCE_DIR"]
# The functions alone: what comes behind them would build and test all.
FUNCTIONS = r"sed -n '/^[a-z_]*() {$/,/^}$/p' script/test"
RUN = f"""set -euo pipefail
source <({FUNCTIONS})
passed=0 failed=0 skipped=0 second_tries=() failed_steps=()
run_tests all "$1" 2 >"$1/log" 2>&1
echo "$passed $failed $skipped"
printf '%s\\n' "${{second_tries[@]}}" "${{failed_steps[@]}}"
"""
ONCE = 'test -f {dir}/{name} || {{ touch {dir}/{name}; {words}exit 1; }}'
ALWAYS = "{words}exit 1"
WELL = "{words}exit 0"


class SecondTry(unittest.TestCase):
    def outcome(self, *tests):
        """("passed failed skipped", what passed only alone, or failed) of tests, each (name, label, how it ends, what it prints)."""
        with tempfile.TemporaryDirectory(prefix="gradus-test-") as directory:
            with open(directory + "/CTestTestfile.cmake", "w", encoding="utf-8") as f:
                for name, label, how, words in tests:
                    command = how.format(dir=directory, name=name, words=f"echo {words}; " if words else "")
                    f.write(f'add_test({name} "/bin/sh" "-c" [==[{command}]==])\n'
                            f'set_tests_properties({name} PROPERTIES LABELS "{label}")\n')
            # In a tree of its own: where its reports are is said relative to the current directory.
            script = RUN.replace("script/test", SOURCE + "/script/test")
            done = subprocess.run(["bash", "-c", script, "-", os.path.basename(directory)], cwd=os.path.dirname(directory),
                                  capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            counts, *tries = done.stdout.splitlines()
            return counts, " ".join(tries).strip()

    def test_nothing_fails(self):
        self.assertEqual(self.outcome(("a", "integration", WELL, ""), ("b", "unit", WELL, "")), ("2 0 0", ""))

    def test_an_accident(self):
        well = ("well", "unit", WELL, "runtime error: of another test is told")
        for label in "integration", "unit":
            self.assertEqual(self.outcome(("a", label, ONCE, ""), well), ("2 0 0", "a"), label)
        self.assertEqual(self.outcome(("b", "integration", ONCE, ""), ("a", "integration", ONCE, ""), well), ("3 0 0", "a b"))

    def test_what_fails_again_has_failed(self):
        self.assertEqual(self.outcome(("a", "integration", ALWAYS, ""), ("b", "integration", ONCE, "")), ("0 2 0", "all: a"))

    def test_what_cannot_be_an_accident(self):
        for words in "ERROR: AddressSanitizer: leak", "WARNING: ThreadSanitizer: data race", "a.c:1: runtime error: shift":
            self.assertEqual(self.outcome(("a", "integration", ONCE, f"'{words}'")), ("0 1 0", "all: a"), words)

    def test_too_many_at_once(self):
        self.assertEqual(self.outcome(*((name, "integration", ONCE, "") for name in "ab")), ("2 0 0", "a b"))
        self.assertEqual(self.outcome(*((name, "integration", ONCE, "") for name in "abc")), ("0 3 0", "all: a b c"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
