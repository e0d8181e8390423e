# SPDX-License-Identifier: Apache-2.0
"""clang-tidy, with the checks of .clang-tidy, finds nothing in the .c files of common/ and services/ and in their headers."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

SOURCE = os.environ["GRADUS_SOURCE_DIR"]
BUILD = os.environ["GRADUS_BUILD_DIR"]
FILES_AT_ONCE = 12  # of one process
PROCESSES = 2
# Of the compiler: those are looked at when it builds, and gcc's options are not all clang's.
WITHOUT_WARNINGS = "--extra-arg=-w"


def built_files():
    with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as f:
        paths = {os.path.relpath(c["file"], SOURCE) for c in json.load(f)}
    return sorted(p for p in paths if p.startswith(("common/", "services/")))


def tidy(*arguments):
    """What clang-tidy says; "" when it finds nothing."""
    done = subprocess.run(["clang-tidy", "--quiet", "--warnings-as-errors=*", WITHOUT_WARNINGS, *arguments],
                          capture_output=True, text=True, cwd=SOURCE)
    return done.stdout + done.stderr if done.returncode != 0 else ""


@unittest.skipUnless(shutil.which("clang-tidy"), "clang-tidy is not installed")
class Tidy(unittest.TestCase):
    def test_nothing_is_found(self):
        paths = built_files()
        self.assertGreater(len(paths), 300)
        parts = [paths[i:i + FILES_AT_ONCE] for i in range(0, len(paths), FILES_AT_ONCE)]
        with ThreadPoolExecutor(PROCESSES) as pool:
            found = "".join(pool.map(lambda part: tidy("-p", BUILD, *part), parts))
        self.assertEqual(found, "", found)

    def test_a_fault_would_be(self):
        """The settings are read, and what they name exists."""
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "fault.c")
            with open(path, "w", encoding="utf-8") as f:
                f.write("#include <stdio.h>\nvoid f(FILE *file);\nvoid f(FILE *file) { fclose(file); }\n")
            self.assertIn("[cert-err33-c", tidy(f"--config-file={SOURCE}/.clang-tidy", path, "--"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
