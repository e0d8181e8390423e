# SPDX-License-Identifier: Apache-2.0
"""Every source file says under which licence it is, in its first line (or behind the #! line), and the licence is there."""

import os
import re
import unittest

SOURCE = os.environ["GRADUS_SOURCE_DIR"]
LINE = "SPDX-License-Identifier: Apache-2.0"
C_LIKE = (".c", ".h", ".S")
HASH_NAMES = ("CMakeLists.txt", "Makefile", "Dockerfile", "compose.yaml")
HASH_DIRECTORIES = ("script", ".ci")


def expected(path):
    """The line that a file needs; None for what is no source: texts, data, settings of tools, examples of job files."""
    directory, name = os.path.split(path)
    suffix = os.path.splitext(name)[1]
    if suffix in C_LIKE:
        return f"/* {LINE} */"
    if suffix == ".proto":
        return f"// {LINE}"
    if suffix in (".py", ".cmake", ".sh") or name in HASH_NAMES or directory in HASH_DIRECTORIES:
        return f"# {LINE}"
    return None


def source_files():
    for directory, names, files in os.walk(SOURCE):
        inside = os.path.relpath(directory, SOURCE)
        names[:] = [n for n in names if n not in (".git", "__pycache__") and not (inside == "." and n.startswith("build"))]
        for name in files:
            path = os.path.normpath(os.path.join(inside, name))
            if expected(path) is not None:
                yield path


class License(unittest.TestCase):
    def test_every_source_file_names_it(self):
        found = list(source_files())
        self.assertGreater(len(found), 700)
        missing = []
        for path in found:
            with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
                lines = [f.readline().rstrip("\n"), f.readline().rstrip("\n")]
            if (lines[1] if lines[0].startswith("#!") else lines[0]) != expected(path):
                missing.append(f'{path} does not begin with "{expected(path)}"')
        self.assertEqual(missing, [], "\n".join(missing))

    def test_files_of_each_kind_are_found(self):
        found = set(source_files())
        for path in ("CMakeLists.txt", "common/base/err.h", "proto/gradus/v1/jobs.proto", "script/test", ".ci/run",
                     "docker/Dockerfile", "deploy/compose.yaml", "examples/rule-plugin/qhm.c",
                     "tests/integration/test_license.py"):
            self.assertIn(path, found)

    def test_the_licence_is_there(self):
        with open(os.path.join(SOURCE, "LICENSE"), encoding="utf-8") as f:
            text = f.read()
        self.assertRegex(text, re.compile(r"\A\s*Apache License\s+Version 2\.0, January 2004"))
        self.assertIn("END OF TERMS AND CONDITIONS", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
