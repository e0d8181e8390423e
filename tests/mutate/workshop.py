# SPDX-License-Identifier: Apache-2.0
"""A copy of the tree with a build of its own, in which faults are tried; the user's tree is only read."""

import filecmp
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import rooms

MEMORY_MAX = 16 << 30  # of one test; a fault may ask for anything
LEAKS = "-fsanitize=leak"  # of the linker alone: objects stay as they are, and a test lasts some 20 ms longer
OTHER_ROOMS_S = 15  # tests of other rooms that a fault which survives is tried with, in seconds without faults
PATIENCE_S = 20  # and ten times what the test needs without a fault: later it hangs


def sources(root):
    """All files of a tree but what is built and what belongs to git."""
    for directory, names, files in os.walk(root):
        top = directory == root
        names[:] = [n for n in names if n not in (".git", "__pycache__") and not (top and n.startswith("build"))]
        yield from (os.path.relpath(os.path.join(directory, f), root) for f in files if not (top and f == ".git"))


class Test:
    """One test of ctest: how it is run, and what it is linked with."""

    def __init__(self, name, command, environment, directory):
        self.name, self.command, self.environment, self.directory = name, command, environment, directory
        self.objects, self.room, self.seconds, self.digest = frozenset(), None, None, None
        self.programs = []  # that it starts, as targets


class Workshop:
    def __init__(self, source, directory, say):
        self.source, self.say = source, say
        self.tree = os.path.join(directory, "tree")
        self.build = os.path.join(directory, "build")
        self.scratch = os.path.join(directory, "scratch")
        self.times = os.path.join(directory, "times.json")
        self.prefix = self.find_prefix()
        self.leaks = self.finds_leaks(directory)
        self.left_out = []  # names of tests that fail without any fault

    def find_prefix(self):
        """What a test is run behind: processes and a /tmp of its own, and nothing else to write on."""
        user = [] if os.getuid() == 0 else ["--map-root-user"]
        unshare = ["unshare", *user, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        os.makedirs(self.scratch, exist_ok=True)
        # The scratch folder becomes /tmp. A workshop that lies under /tmp would be hidden by it: it is mounted again, read-only,
        # at its place in the new /tmp, which is why it is entered first ("." is then still the old one).
        script = """
            set -e; scratch=$0 workshop=$1 back=$PWD; shift
            cd "$workshop"; mount --bind "$scratch" "$scratch"; mount -o remount,ro,bind /; mount --bind "$scratch" /tmp
            case $workshop in /tmp/*)
                mkdir -p "$workshop"; mount --no-canonicalize --bind . "$workshop"; mount -o remount,ro,bind "$workshop" ;;
            esac
            cd "$back"; set +e; "$@"; exit $?"""
        prefix = [*unshare, "sh", "-c", script, self.scratch, os.path.dirname(self.tree)]
        if subprocess.run([*prefix, "true"], capture_output=True).returncode == 0:
            return prefix
        self.say("mutate: no namespaces here: a fault that removes or kills the wrong thing does so on this machine")
        return []

    def finds_leaks(self, directory):
        """Whether a program that is linked for it fails here when it leaks, and only then."""
        source, program = os.path.join(directory, "leak.c"), os.path.join(directory, "leak")
        with open(source, "w", encoding="utf-8") as f:
            f.write("#include <stdlib.h>\nint main(int n, char **argv)\n"
                    "{\n    char *volatile p = malloc(9);\n    if (n > 1) {\n        p = NULL;\n    }\n"
                    "    free(p);\n    return argv == NULL;\n}\n")
        if subprocess.run(["cc", source, "-o", program, LEAKS], capture_output=True).returncode != 0:
            return False
        codes = [subprocess.run([*self.prefix, program, *args], capture_output=True, preexec_fn=limits).returncode
                 for args in ((), ("leak",))]
        if codes[0] != 0 or codes[1] == 0:
            self.say("mutate: no leaks are found here: faults that only leak are not found")
            return False
        return True

    # ---- the tree ----

    def copy_tree(self):
        """Bring the copy up to date; what has not changed keeps its time, so little is built again."""
        wanted = set(sources(self.source))
        for directory, _, names in os.walk(self.tree):
            for name in names:
                path = os.path.join(directory, name)
                if os.path.relpath(path, self.tree) not in wanted:
                    os.unlink(path)
        for path in sorted(wanted):
            old, new = os.path.join(self.source, path), os.path.join(self.tree, path)
            if not os.path.isfile(new) or not filecmp.cmp(old, new, shallow=False):
                os.makedirs(os.path.dirname(new), exist_ok=True)
                shutil.copyfile(old, new)
                shutil.copymode(old, new)

    def read(self, path):
        with open(os.path.join(self.tree, path), encoding="utf-8") as f:
            return f.read()

    def write(self, path, text):
        with open(os.path.join(self.tree, path), "w", encoding="utf-8") as f:
            f.write(text)

    # ---- the build ----

    def ninja(self, *targets):
        return subprocess.run(["ninja", "-C", self.build, "--quiet", *targets], capture_output=True, text=True)

    def prepare(self):
        self.copy_tree()
        cache = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        # Without -g, objects differ only where the programs do.
        subprocess.run(["cmake", "-S", self.tree, "-B", self.build, "-G", "Ninja", "-DGRADUS_WERROR=ON", *cache,
                        "-DCMAKE_BUILD_TYPE=Mutate", "-DCMAKE_C_FLAGS_MUTATE=-O1",
                        f"-DCMAKE_EXE_LINKER_FLAGS_MUTATE={LEAKS if self.leaks else ''}", "--log-level=WARNING"],
                       check=True, stdout=subprocess.DEVNULL)
        built = self.ninja("-k", "0")
        if built.returncode != 0:
            sys.exit("mutate: the tree does not build:\n" + built.stdout[-4000:])
        self.tests = self.read_tests()
        self.objects = {}
        self.read_links()

    def read_tests(self):
        shown = subprocess.run(["ctest", "--test-dir", self.build, "--show-only=json-v1"], check=True, capture_output=True)
        tests = {}
        for t in json.loads(shown.stdout)["tests"]:
            properties = {p["name"]: p["value"] for p in t.get("properties", ())}
            environment = dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", ()))
            tests[t["name"]] = Test(t["name"], t["command"], environment, properties.get("WORKING_DIRECTORY", self.build))
        return tests

    def read_links(self):
        """From the build's own graph: the object of each source, and which tests are linked with it."""
        inputs = {}
        with open(os.path.join(self.build, "build.ninja"), encoding="utf-8") as f:
            for line in f:
                edge = re.match(r"build (\S+)(?: [^:]*)?: (C_\S+) (.*)", line)
                if edge:
                    inputs[edge.group(1)] = [p for p in edge.group(3).split() if not p.startswith("|")]
        for output, of in inputs.items():
            if output.endswith(".c.o") and of[0].startswith(self.tree + "/"):
                path = os.path.relpath(of[0], self.tree)
                if "/gradus" in output:  # of the room's library or the program, not of the simulator
                    self.objects[path] = output
        def objects_of(program):
            linked = [o for i in inputs.get(program, ()) for o in (inputs.get(i, ()) if i.endswith(".a") else [i])]
            return frozenset(o for o in linked if o.endswith(".o"))

        for test in self.tests.values():
            program = os.path.relpath(test.command[0], self.build)
            own = next((re.search(r"/unit/((\w+)/\w+\.c)\.o$", o) for o in inputs.get(program, ()) if "/unit/" in o), None)
            if own:
                test.room = own.group(2)
                test.programs = self.started_by("tests/unit/" + own.group(1))
            test.objects = frozenset().union(*(objects_of(p) for p in (program, *test.programs)))

    def started_by(self, path):
        """The programs that a unit test runs, by itself or through a rig whose header it includes from its own folder."""
        names, seen, left = set(), set(), [path]
        while left:
            path = left.pop()
            if path in seen or not os.path.exists(os.path.join(self.tree, path)):
                continue
            seen.add(path)
            text = self.read(path)
            if "GRADUS_BIN_DIR" in text:
                names.update(re.findall(r'"(gradus(?:-\w+)?)"', text))
            for header in re.findall(r'^#include "(\w+)\.h"', text, re.M):
                left += [os.path.join(os.path.dirname(path), header + end) for end in (".h", ".c")]
        return sorted("bin/" + n for n in names if os.path.exists(os.path.join(self.build, "bin", n)))

    def tests_for(self, path):
        """Tests of a file's room, the likeliest first, and those of other rooms as far as time allows."""
        room, stem = rooms.room_of(path), os.path.splitext(os.path.basename(path))[0]
        named = rooms.PROGRAM_TESTS.get(room, ())

        def near(test):
            words = test.name.removeprefix("test_")
            alike = len(os.path.commonprefix([words, stem]))
            return (not (stem.startswith(words) or words.startswith(stem)), -alike, self.seconds_of(test), test.name)

        linked = [t for t in self.tests.values() if self.objects[path] in t.objects and t.room is not None]
        own = sorted((t for t in linked if self.is_of_room(t, room)), key=near)
        others = sorted((t for t in linked if t not in own), key=lambda t: (len(t.objects), t.name))
        chosen, seconds = own + [self.tests[n] for n in named if n in self.tests], 0.0
        for test in others:
            seconds += self.seconds_of(test)
            if seconds > OTHER_ROOMS_S:
                break
            chosen.append(test)
        return chosen

    @staticmethod
    def is_of_room(test, room):
        return test.room is not None and test.room.split("_")[0] == rooms.TESTED_WITH.get(room, room)

    def has_tests(self, room):
        return any(self.is_of_room(t, room) for t in self.tests.values())

    def targets_of(self, test):
        program = os.path.relpath(test.command[0], self.build)
        targets = [program, *test.programs] if program.startswith("bin/") else []
        for arg in test.command[1:]:
            if arg.startswith(self.build + "/bin/"):
                targets.append(os.path.relpath(arg, self.build))
        if test.name.startswith("integration_"):
            targets += ["bin/gradus", "bin/gradus-master", "bin/gradus-ps", "bin/gradus-worker"]
        return targets

    # ---- tests ----

    def seconds_of(self, test):
        return 1.0 if test.seconds is None else test.seconds

    def measure(self, paths):
        """How long the tests of these files last without a fault; they must pass. What is known of the same programs from
        an earlier call counts."""
        known = self.known_times()
        while True:
            # Knowing a time may bring other tests within reach.
            fresh = [t for t in {t.name: t for p in paths for t in self.tests_for(p)}.values() if t.seconds is None]
            if not fresh:
                break
            self.ninja("-k", "0", *sorted({target for t in fresh for target in self.targets_of(t)}))  # as they are without a fault
            for test in fresh:
                test.digest = self.digest_of(test)
                if known.get(test.name, [None])[0] == test.digest:
                    test.seconds = known[test.name][1]
                else:
                    self.time(test)
        known.update({t.name: [t.digest, t.seconds] for t in self.tests.values() if t.seconds is not None})
        with open(self.times, "w", encoding="utf-8") as f:
            json.dump(known, f)

    def time(self, test):
        start = time.monotonic()
        if self.run(test, 600) != 0 and self.run(test, 600) != 0:
            self.say(f"mutate: {test.name} fails without any fault and is left out")
            self.left_out.append(test.name)
            del self.tests[test.name]
        test.seconds = time.monotonic() - start

    def known_times(self):
        try:
            with open(self.times, encoding="utf-8") as f:
                known = json.load(f)
        except (OSError, ValueError):
            return {}
        return {name: entry for name, entry in known.items() if isinstance(entry, list)}

    def digest_of(self, test):
        """Of what a test runs: its program or script, and the programs that it starts."""
        digest = hashlib.sha256()
        own = [a for a in test.command if a.startswith((self.build + "/", self.tree + "/"))]
        for path in own + [os.path.join(self.build, t) for t in self.targets_of(test)]:
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    digest.update(f.read())
        return digest.hexdigest()

    def run(self, test, limit_s):
        """The exit code of one run; None when it did not end."""
        # Whoever asks for too much memory gets none, as without the sanitizer.
        environment = dict(os.environ, LSAN_OPTIONS="allocator_may_return_null=1", **test.environment)
        process = subprocess.Popen([*self.prefix, *test.command], cwd=test.directory, env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True, preexec_fn=limits)
        try:
            return process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None
        finally:
            self.empty_scratch()

    def empty_scratch(self):
        for name in os.listdir(self.scratch):
            path = os.path.join(self.scratch, name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)

    def fails(self, test):
        """Whether a test finds the fault: it fails twice, or hangs."""
        limit = PATIENCE_S + 10 * self.seconds_of(test)
        first = self.run(test, limit)
        if first == 0:
            return False
        return first is None or self.run(test, limit) != 0

    # ---- faults ----

    def code_of(self, path):
        with open(os.path.join(self.build, self.objects[path]), "rb") as f:
            return hashlib.sha256(f.read()).digest()

    def try_fault(self, fault):
        """The name of the test that found the fault; "" when none did; None when it is no fault: it does not
        compile, or is the same program. The tree is as before afterwards."""
        original = self.read(fault.path)
        self.ninja(self.objects[fault.path])
        before = self.code_of(fault.path)
        self.write(fault.path, fault.put_into(original))
        try:
            if self.ninja(self.objects[fault.path]).returncode != 0 or self.code_of(fault.path) == before:
                return None
            return self.search(fault)
        finally:
            self.write(fault.path, original)

    def search(self, fault):
        tests = self.tests_for(fault.path)
        while tests:
            # Linked a few at a time: most faults are found by the first.
            batch, tests = tests[:4], tests[4:]
            targets = sorted({target for t in batch for target in self.targets_of(t)})
            if targets and self.ninja(*targets).returncode != 0:
                return None
            for test in batch:
                if self.fails(test):
                    return test.name
        return ""


def limits():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))
