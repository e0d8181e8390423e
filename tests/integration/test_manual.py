# SPDX-License-Identifier: Apache-2.0
"""The manual pages that the build makes: one for each command and program, which groff and mandoc take without a
warning, and which refer to pages that there are."""

import glob
import gzip
import os
import re
import shutil
import subprocess
import unittest

BIN = os.environ["GRADUS_BIN_DIR"]
PAGES = os.path.join(os.environ["GRADUS_BUILD_DIR"], "share", "man")
SERVICES = ("master", "ps", "worker", "serve")


def printed(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout


def shown(path):
    """The page as somebody reads it, and what groff says about it."""
    done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", path], capture_output=True, text=True, timeout=300,
                          env={"PATH": os.environ["PATH"], "MANWIDTH": "80", "MAN_KEEP_FORMATTING": "", "LC_ALL": "C.UTF-8"})
    return re.sub(".\b", "", done.stdout), done.stderr


class Manual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pages = sorted(glob.glob(PAGES + "/man*/*.gz"))

    def test_there_is_a_page_for_each(self):
        help_text = printed(f"{BIN}/gradus", "--help")
        commands = re.findall(r"^  ([a-z]+)  ", re.search(r"^Commands:\n(.*?)\n\n", help_text, re.M | re.S).group(1), re.M)
        self.assertIn("run", commands)
        expected = {"gradus.1", "gradus-job.5"} | {f"gradus-{c}.1" for c in commands} | {f"gradus-{s}.8" for s in SERVICES}
        self.assertEqual({os.path.basename(p)[:-len(".gz")] for p in self.pages}, expected)

    def test_pages_refer_to_pages(self):
        names = {os.path.basename(p)[:-len(".gz")] for p in self.pages} | {"gradus-COMMAND.1"}
        for path in self.pages:
            with gzip.open(path, "rt") as f:
                text = f.read().replace("\\-", "-").replace("\\fR", "").replace("\\fB", "")
            references = re.findall(r"(gradus[-A-Za-z]*) ?\((\d)\)", text)
            self.assertTrue(references, path)
            self.assertEqual({f"{n}.{c}" for n, c in references} - names, set(), path)

    @unittest.skipIf(shutil.which("man") is None, "no man is installed")
    def test_groff_shows_them(self):
        for path in self.pages:
            text, said = shown(path)
            self.assertEqual(said, "", path)
            self.assertIn("SEE ALSO", text)
        text, _ = shown(f"{PAGES}/man1/gradus-run.1.gz")
        self.assertIn("gradus run [FLAGS] JOB.yaml", text)
        self.assertRegex(text, r"EXIT STATUS\n +0 +done")
        self.assertIn("gradus run examples/digits.yaml --set data.dir=digits\n", text)
        text, _ = shown(f"{PAGES}/man8/gradus-master.8.gz")
        self.assertRegex(text, r"\n +--state-dir TEXT\n")
        self.assertRegex(text, r"\n +GRADUS_TOKEN +That token itself|\n +GRADUS_TOKEN\n +That token itself")
        text, _ = shown(f"{PAGES}/man5/gradus-job.5.gz")
        self.assertRegex(text, r"\n +training\.mode\n")

    @unittest.skipIf(shutil.which("mandoc") is None, "no mandoc is installed")
    def test_mandoc_takes_them(self):
        for path in self.pages:
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", path], capture_output=True, text=True, timeout=300)
            said = [line for line in done.stdout.splitlines() if "missing date" not in line]  # the build has none
            self.assertEqual(said, [], path)


if __name__ == "__main__":
    unittest.main()
