# SPDX-License-Identifier: Apache-2.0
"""What the container image and the compose file are made of, without a docker engine: everything
that docker/Dockerfile copies is let through by .dockerignore and is all that the build needs, and every service of
deploy/compose.yaml that may be scaled has nothing that two containers cannot both have."""

import os
import posixpath
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ["GRADUS_SOURCE_DIR"]


def read(*path):
    with open(os.path.join(SOURCE, *path)) as f:
        return f.read()


def pattern(text):
    """A pattern of .dockerignore as a regular expression: of the path itself or a directory above it."""
    out = ""
    for part in re.findall(r"\*\*/?|.", posixpath.normpath(text).lstrip("/")):
        out += {"**/": "(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
    return re.compile(out + r"(/.*)?\Z")


def ignore_rules(text):
    """(excluded, pattern) for each line, in order; the last that matches decides."""
    lines = [line.strip() for line in text.splitlines()]
    return [(not line.startswith("!"), pattern(line.lstrip("!")))
            for line in lines if line and not line.startswith("#")]


def let_through(rules, path):
    """Whether docker sends path to the engine."""
    sent = True
    for excluded, matcher in rules:
        if matcher.match(path):
            sent = not excluded
    return sent


def copied(dockerfile):
    """Sources of COPY that come from the tree, not from another stage."""
    lines = re.sub(r"\\\n", " ", dockerfile).splitlines()
    words = [line.split()[1:] for line in lines if line.startswith("COPY ")]
    return [name for line in words if not any(w.startswith("--from=") for w in line)
            for name in [w for w in line if not w.startswith("--")][:-1]]


class Image(unittest.TestCase):
    def setUp(self):
        self.rules = ignore_rules(read(".dockerignore"))
        self.sources = copied(read("docker", "Dockerfile"))

    def test_rules_are_read_as_docker_reads_them(self):
        rules = ignore_rules("# a comment\n*\n!include\n!script/boot*\ninclude/**/*.o\n")
        for path, sent in (("include", True), ("include/gradus/rule.h", True), ("proto", False),
                           ("script", False), ("script/bootstrap", True), ("script/test", False),
                           ("include/a.o", False), ("include/a/b.o", False), ("includes", False)):
            self.assertEqual(let_through(rules, path), sent, path)

    def test_whatever_is_copied_is_sent(self):
        self.assertGreater(len(self.sources), 5)
        for name in self.sources:
            self.assertTrue(os.path.exists(os.path.join(SOURCE, name)),
                            f"docker/Dockerfile copies {name}, which does not exist")
            self.assertTrue(let_through(self.rules, name),
                            f"docker/Dockerfile copies {name}, which .dockerignore leaves out")

    def test_nothing_built_or_private_is_sent(self):
        for name in (".git", "build", "build/bin/gradus", "tests", "docs"):
            self.assertFalse(let_through(self.rules, name), name)

    def test_what_is_copied_can_be_configured(self):
        options = re.findall(r"-DGRADUS_\S+", read("docker", "Dockerfile"))
        self.assertIn("-DGRADUS_TESTS=OFF", options)
        with tempfile.TemporaryDirectory(prefix="gradus-test-") as scratch:
            for name in self.sources:
                target = os.path.join(scratch, "src", name)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                from_tree = os.path.join(SOURCE, name)
                (shutil.copytree if os.path.isdir(from_tree) else shutil.copy)(from_tree, target)
            done = subprocess.run(
                ["cmake", "-S", scratch + "/src", "-B", scratch + "/build", "-G", "Ninja",
                 "-DCMAKE_BUILD_TYPE=Release", *options, "--log-level=WARNING"],
                capture_output=True, text=True, timeout=400)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(scratch + "/build/build.ninja") as f:
                included = set(re.findall(r"-I(\S+)", f.read()))
            missing = [path for path in included
                       if path.startswith(scratch + "/src") and not os.path.isdir(path)]
            self.assertEqual(missing, [], "directories of headers that the image has not")


class Compose(unittest.TestCase):
    def services(self):
        """name: lines, of each service."""
        lines = re.search(r"^services:\n(.*?)^\S", read("deploy", "compose.yaml"), re.M | re.S).group(1)
        parts = re.split(r"^  (\w[\w-]*):\n", lines, flags=re.M)
        return dict(zip(parts[1::2], parts[2::2]))

    def test_services_that_are_many_can_be_scaled(self):
        services = self.services()
        self.assertEqual(set(services), {"certificates", "master", "ps", "worker", "serve", "cli"})
        common = re.search(r"^x-service:.*?(?=^\S)", read("deploy", "compose.yaml"), re.M | re.S).group(0)
        for name in ("ps", "worker"):
            self.assertIn("replicas: 2", services[name])
            for fixed in ("container_name", "hostname", "ports:", "ipv4_address", "advertise", "build:"):
                self.assertNotIn(fixed, services[name] + common, f"{name}: not two can have the same")

    def test_ports_are_published_on_this_machine_only(self):
        ports = re.findall(r'- "(\S+:\d+)"$', self.services()["master"] + self.services()["serve"], re.M)
        self.assertEqual(len(ports), 4)
        for port in ports:
            self.assertTrue(port.startswith("127.0.0.1:"), port)


if __name__ == "__main__":
    unittest.main(verbosity=2)
