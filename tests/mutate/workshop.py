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
        self.objects, self.room, self.seconds = frozenset(), None, None
        self.sound = None  # whether it passes without a fault, once somebody has looked
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
        self.known = self.known_times()
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
        # Nothing is built before a fault needs it: most trials look at a room or two.
        self.tests = self.read_tests()
        self.objects, self.symbols, self.linked = {}, {}, {}
        self.read_links()

    def read_tests(self):
        shown = subprocess.run(["ctest", "--test-dir", self.build, "--show-only=json-v1"], check=True, capture_output=True)
        commands = self.read_commands()
        tests = {}
        for t in json.loads(shown.stdout)["tests"]:
            properties = {p["name"]: p["value"] for p in t.get("properties", ())}
            environment = dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", ()))
            command = t.get("command") or commands.get(t["name"])
            tests[t["name"]] = Test(t["name"], command, environment, properties.get("WORKING_DIRECTORY", self.build))
        return tests

    def read_commands(self):
        """The commands of all tests; ctest itself shows none whose program is not built yet."""
        commands = {}
        for directory, _, names in os.walk(self.build):
            if "CTestTestfile.cmake" in names:
                with open(os.path.join(directory, "CTestTestfile.cmake"), encoding="utf-8") as f:
                    for name, rest in re.findall(r"^add_test\(\[?=*\[?(\w+)\]?=*\]? (.*)\)$", f.read(), re.M):
                        commands[name] = re.findall(r'"([^"]*)"', rest)
        return commands

    def read_links(self):
        """From the build's own graph: the object of each source, and which tests are linked with it."""
        inputs = self.inputs = {}
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
        for test in self.tests.values():
            program = os.path.relpath(test.command[0], self.build)
            own = next((re.search(r"/unit/((\w+)/\w+\.c)\.o$", o) for o in inputs.get(program, ()) if "/unit/" in o), None)
            if own:
                test.room = own.group(2)
                test.programs = self.started_by("tests/unit/" + own.group(1))
            test.objects = frozenset().union(*(self.objects_of(p) for p in (program, *test.programs)))

    def objects_of(self, program):
        linked = [o for i in self.inputs.get(program, ()) for o in (self.inputs.get(i, ()) if i.endswith(".a") else [i])]
        return frozenset(o for o in linked if o.endswith(".o"))

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
        return sorted("bin/" + n for n in names if "bin/" + n in self.inputs)

    def tests_for(self, path):
        """Tests of a file's room, the likeliest first, and those of other rooms as far as time allows."""
        room, stem = rooms.room_of(path), os.path.splitext(os.path.basename(path))[0]
        named = rooms.PROGRAM_TESTS.get(room, ())

        def near(test):
            words = test.name.removeprefix("test_")
            alike = len(os.path.commonprefix([words, stem]))
            return (not (stem.startswith(words) or words.startswith(stem)), -alike, self.seconds_of(test), test.name)

        linked = [t for t in self.tests.values()
                  if self.objects[path] in t.objects and t.room is not None and self.looks_at(t, path)]
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
        return test.room is not None and any(
            f"{test.room}_".startswith(f"{name}_") for name in (room, rooms.TESTED_WITH.get(room)) if name)

    def has_tests(self, room):
        return any(self.is_of_room(t, room) or t.name in rooms.PROGRAM_TESTS.get(room, ()) for t in self.tests.values())

    def targets_of(self, test):
        program = os.path.relpath(test.command[0], self.build)
        targets = [program, *test.programs] if program.startswith("bin/") else []
        for arg in test.command[1:]:
            if arg.startswith(self.build + "/bin/"):
                targets.append(os.path.relpath(arg, self.build))
        if test.name.startswith("integration_"):
            targets += ["bin/gradus", "bin/gradus-master", "bin/gradus-ps", "bin/gradus-worker", "bin/gradus-serve"]
        return targets

    # ---- tests ----

    def seconds_of(self, test):
        return test.seconds or self.known.get(test.name, 1.0)

    def known_times(self):
        """Seconds of tests from earlier trials, by name."""
        try:
            with open(self.times, encoding="utf-8") as f:
                known = json.load(f)
        except (OSError, ValueError):
            return {}
        return {name: seconds for name, seconds in known.items() if isinstance(seconds, float)}

    def keep_times(self):
        self.known.update({t.name: t.seconds for t in self.tests.values() if t.seconds})
        with open(self.times, "w", encoding="utf-8") as f:
            json.dump(self.known, f)

    def check(self, fault, test):
        """Run a test without the fault; what fails then, too, is left out of the trial. The fault is there again afterwards."""
        with_fault = self.read(fault.path)
        self.write(fault.path, with_fault[: fault.at] + fault.old + with_fault[fault.at + len(fault.new) :])
        self.ninja(*self.targets_of(test))
        start = time.monotonic()
        test.sound = self.run(test, 600) == 0 or self.run(test, 600) == 0
        test.seconds = time.monotonic() - start
        if not test.sound:
            self.say(f"mutate: {test.name} fails without any fault and is left out")
            self.left_out.append(test.name)
            del self.tests[test.name]
        self.write(fault.path, with_fault)
        self.ninja(*self.targets_of(test))

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
        """How a test finds the fault: "fails" twice, "hangs", or "" not at all."""
        limit = PATIENCE_S + 10 * self.seconds_of(test)
        start = time.monotonic()
        first = self.run(test, limit)
        if first == 0:
            test.seconds = test.seconds or time.monotonic() - start
            return ""
        return "hangs" if first is None else "fails" if self.run(test, limit) != 0 else ""

    # ---- faults ----

    def read_symbols(self, objects):
        """What objects that are built define and what they ask for; those of the code do not change during a trial."""
        fresh = [o for o in objects if o not in self.symbols and os.path.exists(os.path.join(self.build, o))]
        if not fresh:
            return
        shown = subprocess.run(["nm", "-P", "-g", "-A", *fresh], cwd=self.build, capture_output=True, text=True)
        self.symbols.update({o: (set(), set()) for o in fresh})
        for line in shown.stdout.splitlines():
            of, name, kind = re.match(r"(.*?): (\S+) (\S)", line).groups()
            self.symbols[of][kind in "Uvw"].add(name)

    def linked_with(self, program):
        """The objects that a linker takes for a program, which of a library are those that are needed; None while some of
        them are not built."""
        if program not in self.linked:
            objects = self.objects_of(program)
            self.read_symbols(objects)
            if any(o not in self.symbols for o in objects):
                return None
            definers = {}
            for o in objects:
                for name in self.symbols[o][0]:
                    definers.setdefault(name, set()).add(o)
            taken = {o for o in self.inputs.get(program, ()) if o.endswith(".o")}
            left = list(taken)
            while left:
                needed = set().union(*(definers.get(name, ()) for name in self.symbols[left.pop()][1])) - taken
                taken |= needed
                left += needed
            self.linked[program] = taken
        return self.linked[program]

    def looks_at(self, test, path):
        """Whether the programs of a test have the file in them, as far as that is known."""
        programs = [os.path.relpath(test.command[0], self.build), *test.programs]
        linked = [self.linked_with(p) for p in programs if self.objects[path] in self.objects_of(p)]
        return not linked or any(objects is None or self.objects[path] in objects for objects in linked)

    def code_of(self, path):
        with open(os.path.join(self.build, self.objects[path]), "rb") as f:
            return hashlib.sha256(f.read()).digest()

    def try_fault(self, fault):
        """The name of the test that found the fault; "" when none did; None when it is no fault: it does not
        compile, or is the same program. The tree is as before afterwards."""
        original = self.read(fault.path)
        built = self.ninja(self.objects[fault.path])
        if built.returncode != 0:
            sys.exit(f"mutate: {fault.path} does not build:\n" + built.stdout[-4000:])
        before = self.code_of(fault.path)
        tests = self.tests_for(fault.path)
        self.write(fault.path, fault.put_into(original))
        try:
            if self.ninja(self.objects[fault.path]).returncode != 0 or self.code_of(fault.path) == before:
                return None
            return self.search(fault, tests)
        finally:
            self.write(fault.path, original)
            self.keep_times()

    def search(self, fault, tests):
        while tests:
            # Linked a few at a time: most faults are found by the first.
            batch, tests = tests[:4], tests[4:]
            targets = sorted({target for t in batch for target in self.targets_of(t)})
            if targets and self.ninja(*targets).returncode != 0:
                return None
            for test in batch:
                how = self.fails(test)
                # Most tests never fail; that this one does not without the fault is looked at once, and again when it
                # seems to hang: perhaps it is this machine that has no time.
                if how == "hangs" or (how and test.sound is None):
                    waited_s = PATIENCE_S + 10 * self.seconds_of(test)
                    self.check(fault, test)
                    if not test.sound or test.seconds >= waited_s or how == "fails":
                        how = self.fails(test) if test.sound else ""
                if how:
                    return test.name
        return ""


def limits():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))
