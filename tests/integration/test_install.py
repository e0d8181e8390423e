# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` brings: everything at its place below a prefix and below DESTDIR, examples that work with
nothing but that, units that systemd takes and finds well locked in, files of settings that say nothing wrong."""

import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = os.environ["GRADUS_BUILD_DIR"]
SERVICES = ("master", "ps", "worker", "serve")
EXPOSURE_MAX = 1.6  # of systemd-analyze security, from 0 (locked in) to 10

# Whatever else there is, these are where programs look.
FILES = """bin/gradus bin/gradus-master bin/gradus-ps bin/gradus-worker bin/gradus-serve
include/gradus/worker.h include/gradus/client.h include/gradus/rule.h include/gradus/compute.h
LIB/libgradus.so LIB/libgradus.so.1 LIB/libgradus-client.so LIB/libgradus-client.so.1
LIB/pkgconfig/gradus.pc LIB/pkgconfig/gradus-client.pc
lib/systemd/system/gradus-master.service lib/systemd/system/gradus-ps.service
lib/systemd/system/gradus-worker.service lib/systemd/system/gradus-serve.service lib/sysusers.d/gradus.conf
share/man/man1/gradus.1.gz share/man/man1/gradus-run.1.gz share/man/man5/gradus-job.5.gz share/man/man8/gradus-ps.8.gz
share/bash-completion/completions/gradus share/zsh/site-functions/_gradus share/fish/vendor_completions.d/gradus.fish
share/gradus/job.schema.json share/doc/gradus/LICENSE share/doc/gradus/README.md share/doc/gradus/docs/cli.md
share/doc/gradus/examples/digits.yaml share/doc/gradus/examples/worker-program/Makefile
share/doc/gradus/deploy/monitoring/gradus.rules.yaml""".split()


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def install(prefix, *more, destdir=""):
    run("cmake", "--install", BUILD, "--prefix", prefix, *more, env={**os.environ, "DESTDIR": destdir})


def files_below(directory):
    return {os.path.relpath(os.path.join(top, name), directory) for top, _, names in os.walk(directory) for name in names}


class Installed(unittest.TestCase):
    """A prefix with everything in it."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp(prefix="gradus-test-install-")
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        cls.prefix = cls.scratch + "/opt"
        install(cls.prefix)
        cls.files = files_below(cls.prefix)
        cls.lib = os.path.dirname(next(f for f in cls.files if f.endswith("/libgradus.so.1")))
        cls.environment = {"PATH": f"{cls.prefix}/bin:/usr/bin:/bin", "HOME": cls.scratch, "GRADUS_TIMEOUT": "60s",
                           "PKG_CONFIG_PATH": f"{cls.prefix}/{cls.lib}/pkgconfig"}


class Install(Installed):
    def test_everything_is_there(self):
        expected = {name.replace("LIB/", self.lib + "/") for name in FILES}
        expected |= {f"etc/default/gradus-{s}" for s in SERVICES} | {"lib/python3/dist-packages/gradus/client.py"}
        self.assertEqual(expected - self.files, set())
        unwanted = [f for f in self.files if re.search(r"__pycache__|\.in$|\.part$|\.a$|/deploy/install|CMakeLists", f)]
        self.assertEqual(unwanted, [])

    def test_below_usr_settings_are_in_etc(self):
        dest = self.scratch + "/dest"
        install("/usr", destdir=dest)
        below = files_below(dest)
        for name in ("usr/bin/gradus", "usr/lib/systemd/system/gradus-ps.service", "usr/lib/python3/dist-packages/gradus/torch.py",
                     "etc/default/gradus-ps"):
            self.assertIn(name, below)
        with open(dest + "/usr/lib/systemd/system/gradus-ps.service") as f:
            unit = f.read()
        self.assertIn("\nExecStart=/usr/bin/gradus-ps\n", unit)
        self.assertIn("\nEnvironmentFile=-/etc/default/gradus-ps\n", unit)
        with open(dest + "/etc/default/gradus-ps", "w") as f:
            f.write("GRADUS_NAME=mine\n")
        install("/usr", destdir=dest)
        with open(dest + "/etc/default/gradus-ps") as f:
            self.assertEqual(f.read(), "GRADUS_NAME=mine\n")  # somebody's own stay

    def test_below_usr_local_python_finds_it(self):
        dest = self.scratch + "/local"
        install("/usr/local", "--component", "python", destdir=dest)
        found = [f for f in files_below(dest) if f.endswith("gradus/client.py")]
        self.assertEqual(len(found), 1)
        path = run("/usr/bin/python3", "-c", "import sys; print(sys.path)").stdout
        local = "/usr/local/lib/python3"
        if local in path:  # Debian's
            self.assertIn(f"'/{os.path.dirname(os.path.dirname(found[0]))}'", path)

    def test_components(self):
        for component, name, other in (("lib", "libgradus.so.1", "libgradus.so"), ("dev", "libgradus.so", "libgradus.so.1"),
                                       ("client", "gradus", "gradus-master"), ("server", "gradus-master", "gradus")):
            directory = f"{self.scratch}/component-{component}"
            install(directory, "--component", component)
            names = {os.path.basename(f) for f in files_below(directory) if "/share/" not in "/" + f}
            self.assertIn(name, names)
            self.assertNotIn(other, names)

    def test_an_example_trains(self):
        shutil.copy(f"{self.prefix}/share/doc/gradus/examples/digits.yaml", self.scratch)
        gradus = lambda *words: run("gradus", *words, env=self.environment, cwd=self.scratch)
        gradus("generate", "digits", "--out", "digits", "--train", "600", "--test", "100")
        done = gradus("run", "digits.yaml", "--set", "data.dir=digits", "--set", "training.epochs=1")
        self.assertIn("SUCCEEDED", done.stdout)

    def test_examples_in_c_build(self):
        for name, program in (("worker-program", "logistic"), ("client", "train"), ("rule-plugin", "qhm.so")):
            copy = f"{self.scratch}/{name}"
            shutil.copytree(f"{self.prefix}/share/doc/gradus/examples/{name}", copy)
            run("make", "-C", copy, env=self.environment)
            if name != "rule-plugin":
                linked = run("ldd", f"{copy}/{program}").stdout
                self.assertIn(f"{self.prefix}/{self.lib}/libgradus", linked)

    def test_the_client_library_computes_nothing(self):
        """It knows what metrics are called, and has no layers for that (docs/client-library.md)."""
        self.assertNotIn("openblas", run("ldd", f"{self.prefix}/{self.lib}/libgradus-client.so.1").stdout)

    def test_the_python_package_finds_the_library(self):
        environment = {**self.environment, "PYTHONPATH": self.prefix + "/lib/python3/dist-packages"}
        where = run("/usr/bin/python3", "-B", "-c", "import gradus.library as l; print(l.library()._name)", env=environment).stdout
        self.assertEqual(where.strip(), f"{self.prefix}/{self.lib}/libgradus.so.1")

    def test_manual_pages_are_found(self):
        if shutil.which("man") is None:
            self.skipTest("no man is installed")
        for page in ("gradus-run", "gradus-worker", "gradus-job"):
            run("man", "-M", self.prefix + "/share/man", page, env={**self.environment, "PAGER": "cat", "LC_ALL": "C.UTF-8"})


class Units(Installed):
    """systemd finds what they start: the prefix is really there."""

    @unittest.skipIf(shutil.which("systemd-analyze") is None, "no systemd-analyze is installed")
    def test_systemd_takes_them(self):
        for service in SERVICES:
            unit = f"{self.prefix}/lib/systemd/system/gradus-{service}.service"
            said = run("systemd-analyze", "verify", "--man=no", unit).stderr
            self.assertEqual([line for line in said.splitlines() if "gradus" in line], [])

    @unittest.skipIf(shutil.which("systemd-analyze") is None, "no systemd-analyze is installed")
    def test_they_are_locked_in(self):
        for service in SERVICES:
            unit = f"{self.prefix}/lib/systemd/system/gradus-{service}.service"
            said = run("systemd-analyze", "security", "--offline=true", "--no-pager", unit).stdout
            exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)
            self.assertLessEqual(float(exposure.group(1)), EXPOSURE_MAX, service)

    def test_what_they_set_are_settings(self):
        """Those of the units, and all that the files of settings propose, are taken by the programs."""
        for service in SERVICES:
            with open(f"{self.prefix}/lib/systemd/system/gradus-{service}.service") as f:
                unit = f.read()
            with open(f"{self.prefix}/etc/default/gradus-{service}") as f:
                proposed = re.findall(r"^#?(GRADUS_\w+)=(.*)$", f.read(), re.M)
            given = re.findall(r"(GRADUS_\w+)=(\S+)", re.search(r"^Environment=(.*)$", unit, re.M).group(1))
            self.assertIn(f"EnvironmentFile=-{self.prefix}/etc/default/gradus-{service}\n", unit)
            known = set(re.findall(r"GRADUS_\w+", run(f"{self.prefix}/bin/gradus-{service}", "--help").stdout))
            self.assertGreater(len(given) + len(proposed), 5)
            self.assertEqual({name for name, _ in given + proposed} - known, set(), service)
            done = run(f"{self.prefix}/bin/gradus-{service}", "--print-config", env={**self.environment, **dict(given + proposed)})
            self.assertEqual(done.stderr, "", service)

    def test_directories_belong_to_one_user(self):
        for path in glob.glob(f"{self.prefix}/lib/systemd/system/*.service"):
            with open(path) as f:
                unit = f.read()
            for line in ("User=gradus", "StateDirectory=gradus", "ProtectSystem=strict", "NoNewPrivileges=yes"):
                self.assertIn(f"\n{line}\n", unit)
        with open(f"{self.prefix}/lib/sysusers.d/gradus.conf") as f:
            self.assertRegex(f.read(), r"(?m)^u gradus ")


if __name__ == "__main__":
    unittest.main()
