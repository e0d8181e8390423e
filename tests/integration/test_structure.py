# SPDX-License-Identifier: Apache-2.0
"""What ARCHITECTURE.md and CONTRIBUTING.md say of the sources: which room may use which, names, sizes and white space."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ["GRADUS_SOURCE_DIR"]
BUILD = os.environ["GRADUS_BUILD_DIR"]
FILE_LINES_MAX = 500
TEST_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
# Longer than that: it is written by a program.
LONG_TESTS = {"tests/golden/rules.h"}
# Headers whose name another one has: of programs, and what plug-ins and worker programs include.
SHARED_NAMES = {"main.c", "rule.h", "worker.h"}
# The one place where C tests sleep and wait, and what has a wait of its own: it is also in programs without cmocka.
WAITING = ("tests/support/wait_until.h", "tests/support/echo_service.c")
# Those whose subject it is, or that do something else by these names.
WAITS = {
    "tests/integration/rpc_echo_server.c": {"while"},  # reads to the end of its input
    "tests/unit/os/test_thread_load.c": {"sched_yield", "nanosleep"},  # what the kernel counts of them
    "tests/unit/ps/test_gradient_memory.c": {"sched_yield"},  # a crowd takes turns where it could go wrong
    "tests/unit/ps/test_ps_lingers.c": {"nanosleep", "clock_nanosleep"},  # in the place of the C library's
    "tests/unit/service/service_rig.c": {"while"},  # a thread that does nothing until its process ends
    "tests/unit/service/test_strand.c": {"sched_yield"},  # two threads race 20000 times
    "tests/unit/storage/test_s3_retry.c": {"nanosleep"},  # in the place of the C library's
    "tests/unit/table/test_table_errors.c": {"while"},  # a search, in parts
}
# The cores: a folder, or the files of one name in a room that has other files, too.
CORES = ("services/master/core/", "services/ps/core/", "services/serve/core/", "services/worker/core/",
         "common/base/poll_policy.", "common/membership/membership_core.", "common/trace/recording.")
# What a core may include: C's headers without clocks, signals, threads and atomics; rooms with plain data and arithmetic.
# (Of stdio.h it may call snprintf() alone, of stdlib.h nothing of CALLS.)
STANDARD = set("assert.h ctype.h errno.h float.h inttypes.h limits.h math.h stdarg.h stdbool.h stddef.h stdint.h stdio.h "
               "stdlib.h string.h".split())
PURE_ROOMS = ("base", "config", "data", "graph", "job/plan", "job/progress", "job/spec", "rule/rules", "rule/update", "tensor")
MUTANTS = "sim/mutants.h"  # in the simulator alone
CALLS = re.compile(r"\b((?:vf?|f)?printf|puts|fputs|putchar|f?open|getenv|s?rand|random|system|exit|time)\(")
# What a core may not include, by kinds.
NOT_FOR_CORES = {
    "threads": ("<pthread.h>", "<threads.h>", "<stdatomic.h>", '"os/thread.h"', '"execution/loop.h"'),
    "clocks": ("<time.h>", "<sys/time.h>", '"os/chrono.h"'),
    "signals": ("<signal.h>", '"os/signals.h"'),
    "files": ("<fcntl.h>", "<unistd.h>", "<dirent.h>", '"os/file.h"', '"storage/storage.h"', '"checkpoint/checkpoint.h"'),
    "sockets": ("<sys/socket.h>", "<poll.h>", '"host/local_socket.h"'),
    "logs": ('"os/log.h"', '"os/log_tail.h"'),
    "the machine": ("<sched.h>", '"os/host_cpus.h"'),
    "random numbers": ("<sys/random.h>",),
    "messages": ('"gradus/v1/ps.pb-c.h"', "<protobuf-c/protobuf-c.h>", "<grpc/grpc.h>", '"wire/wire.h"', '"rpc/rpc.h"'),
    "shells": ('"service/service.h"', '"ps_client/ps_client.h"', '"worker/job/worker_job.h"', '"master/shell/shell.h"'),
}


def sources(*directories):
    for top in directories:
        for directory, _, names in os.walk(os.path.join(SOURCE, top)):
            for name in names:
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(directory, name), SOURCE)


def lines_of(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
        return f.read().split("\n")


class Names(unittest.TestCase):
    def test_basenames_are_unique(self):
        where = {}
        for path in sources("common", "services", "include"):
            where.setdefault(os.path.basename(path), []).append(path)
        self.assertGreater(len(where), 400)
        shared = {name: paths for name, paths in where.items() if len(paths) > 1 and name not in SHARED_NAMES}
        self.assertEqual(shared, {})


class Sizes(unittest.TestCase):
    def test_files(self):
        long = {path: len(lines_of(path)) - 1 for path in sources("common", "services", "include")}
        long = {path: n for path, n in long.items() if n > FILE_LINES_MAX}
        self.assertEqual(long, {}, f"files above {FILE_LINES_MAX} lines")

    def test_files_of_tests(self):
        long = {path for path in sources("tests") if len(lines_of(path)) - 1 > TEST_LINES_MAX}
        self.assertEqual(long - LONG_TESTS, set(), f"files above {TEST_LINES_MAX} lines")
        self.assertEqual(LONG_TESTS - long, set(), "named as long, and are not")

    def test_functions(self):
        long, count = [], 0
        for path in sources("common", "services", "include"):
            begin = None
            for number, line in enumerate(lines_of(path)):
                if line == "{":
                    begin = number
                elif line == "}" and begin is not None:
                    count += 1
                    if number - begin - 1 > FUNCTION_LINES_MAX:
                        long.append(f"{path}:{begin}: {number - begin - 1} lines")
                    begin = None
        self.assertGreater(count, 3000)
        self.assertEqual(long, [])


class Waiting(unittest.TestCase):
    """A test that leans on the clock fails on a machine that stands still for seconds (tests/support/wait_until.h)."""

    CALLS = re.compile(r"\b(sched_yield|thrd_yield|pthread_yield|usleep|nanosleep|clock_nanosleep|thrd_sleep|sleep|alarm"
                       r"|pthread_cond_wait|pthread_cond_timedwait)\(")
    # The same by other means: poll(2) of nothing, and a loop that does nothing but ask.
    OTHERS = re.compile(r"\b(poll|select)\((?:NULL|0), *(?:NULL|0)\b|\b(while) \(.*\) \{\n *\}")

    def test_c_tests_wait_for_conditions(self):
        found = {}
        for path in sources("tests/unit", "tests/support", "tests/integration"):
            if path in WAITING:
                continue
            text = re.sub(r"/\*.*?\*/", "", "\n".join(lines_of(path)), flags=re.S)
            calls = set(self.CALLS.findall(text)) | {a or b for a, b in self.OTHERS.findall(text)}
            if calls:
                found[path] = calls
        self.assertEqual(found, WAITS)


# Headers of include/gradus, and the room that has what is declared there.
INTERFACES = {"gradus/worker.h": "libgradus", "gradus/compute.h": "libgradus", "gradus/client.h": "libgradus_client",
              "gradus/rule.h": ""}


class Rooms(unittest.TestCase):
    """The compiler is the judge: a header that a room may not use is not found."""

    @classmethod
    def setUpClass(cls):
        with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as f:
            cls.commands = {}
            for c in json.load(f):  # the room's own comes first; the simulator compiles cores once more
                cls.commands.setdefault(os.path.relpath(c["file"], SOURCE), c["command"])

    def compiles(self, path, header):
        """Whether `path` could include `header`."""
        words = shlex.split(self.commands[path])
        options = [w for w in words if w.startswith(("-I", "-D", "-std"))]
        system = [w for i, w in enumerate(words) if w == "-isystem" or (i > 0 and words[i - 1] == "-isystem")]
        with tempfile.NamedTemporaryFile("w", suffix=".c") as f:
            f.write(f'#include "{header}"\n')
            f.flush()
            compiler = next(w for w in words if os.path.basename(w).startswith(("gcc", "clang", "cc")))
            done = subprocess.run([compiler, *options, *system, "-fsyntax-only", f.name], capture_output=True, text=True)
        if done.returncode != 0:
            self.assertRegex(done.stderr, f"{re.escape(header)}.*(No such file|file not found)", done.stderr)
        return done.returncode == 0

    def test_cores_do_not_find_shells_and_messages(self):
        for core in CORES:
            path = files_of_core(core)[0]
            self.assertTrue(self.compiles(path, "base/err.h"))
            for header in sum((NOT_FOR_CORES[kind] for kind in ("messages", "shells")), ()):
                if header.startswith('"'):
                    self.assertFalse(self.compiles(path, header.strip('"')), f"{path} may include {header}")

    def test_lower_rooms_do_not_see_higher_ones(self):
        with open(os.path.join(SOURCE, "common/CMakeLists.txt"), encoding="utf-8") as f:
            order = re.search(r"foreach\(room ([^)]*)\)", f.read()).group(1).split()
        self.assertGreater(len(order), 15)
        first_header = {room: sorted(h for h in os.listdir(os.path.join(SOURCE, "common", room)) if h.endswith(".h"))[0]
                        for room in order}
        for i, room in enumerate(order):
            path = next(p for p in sources(f"common/{room}") if p.endswith(".c") and p.count("/") == 2 + room.count("/"))
            for higher in order[i + 1:]:
                header = f"{higher}/{first_header[higher]}"
                self.assertFalse(self.compiles(path, header), f"{path} may include {header}")

    def test_rooms_name_what_they_use(self):
        """DEPENDS has the rooms whose headers the files of a room include: no others, and none because another room needs it."""
        rooms = {}
        for top in ("common", "services"):
            for directory, _, names in os.walk(os.path.join(SOURCE, top)):
                cmake = "\n".join(lines_of(os.path.join(directory, "CMakeLists.txt"))) if "CMakeLists.txt" in names else ""
                words = re.search(r"^gradus_library\((\w+)([^)]*)\)", cmake, re.M)
                if words:
                    depends = set(re.findall(r"\w+", words.group(2).partition("DEPENDS")[2].partition("PRIVATE")[0]))
                    rooms[words.group(1)] = directory, depends | set(re.findall(r"\bgradus_(\w+)", words.group(2)))
        self.assertGreater(len(rooms), 40)
        for room, (directory, depends) in rooms.items():
            used = set()
            for name in os.listdir(directory):
                text = "\n".join(lines_of(os.path.join(directory, name))) if name.endswith((".c", ".h")) and name != "main.c" else ""
                for header in re.findall(r'^#include ["<](.*)[">]', text, re.M):
                    if header.endswith(".pb-c.h") or header.startswith("protobuf-c/"):
                        used.add("proto")
                    elif header in INTERFACES or f'"{header}"' in text:
                        used.add(INTERFACES.get(header, os.path.dirname(header).replace("/", "_")))
            with self.subTest(room=room):
                self.assertEqual(depends, used - {room, "", "sim"})

    def test_the_client_sees_no_core_of_servers_and_workers(self):
        for header in ("ps/core/shard.h", "worker/core/worker.h", "ps/rpc/ps.h", "worker/job/worker_job.h",
                       "master/shell/shell.h"):
            self.assertFalse(self.compiles("services/cli/cli.c", header), header)


def files_of_core(core):
    return sorted(path for path in sources(os.path.dirname(core)) if path.startswith(core) and path.endswith(".c"))


def wrong_in_core(core, text):
    """What a file of the core with this text includes, itself or by headers of ours, or calls, and may not."""
    code = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', "", text, flags=re.S)
    wrong = {call + "()" for call in CALLS.findall(code)}
    seen, left = set(), [text]
    while left:
        for include in set(re.findall(r'^ *#include ([<"][^>"]+[>"])', left.pop(), re.M)) - seen:
            seen.add(include)
            header = include.strip('<">')
            room = os.path.dirname(header)
            if include.startswith("<"):
                may = header in STANDARD
            else:
                may = room in PURE_ROOMS or header.startswith(core.partition("/")[2]) or header == MUTANTS
            if not may:
                wrong.add(include)
            elif include.startswith('"') and header != MUTANTS:
                left += ["\n".join(lines_of(f"{top}/{header}")) for top in ("common", "services")
                         if os.path.exists(os.path.join(SOURCE, top, header))]
    return wrong


class Cores(unittest.TestCase):
    """A core has no clock, thread, socket, file, log or random source, and no type of gRPC or protobuf."""

    def test_cores_include_what_is_pure(self):
        for core in CORES:
            paths = files_of_core(core)
            self.assertNotEqual(paths, [], core)
            for path in paths:
                self.assertEqual(wrong_in_core(core, "\n".join(lines_of(path))), set(), path)

    def test_what_is_not_is_refused(self):
        for core in CORES:
            path = files_of_core(core)[0]
            text = "\n".join(lines_of(path))
            for kind, includes in NOT_FOR_CORES.items():
                for include in includes:
                    self.assertIn(include, wrong_in_core(core, f"{text}\n#include {include}\n"), f"{kind} in {path}")
            for call in ("printf", "getenv", "rand", "time", "fopen"):
                self.assertEqual(wrong_in_core(core, f"{text}\nint x(void) {{ return {call}(0); }}\n"), {call + "()"}, path)

    def test_a_header_brings_nothing_in(self):
        """What a header of a pure room includes counts, too: <pthread.h> of streamed data."""
        self.assertIn("<pthread.h>", wrong_in_core("services/worker/core/", '#include "data/stream_source.h"\n'))


TIMES = re.compile(r"time\.(monotonic|perf_counter)\(\)")


def times_of(text):
    """Lines of a Python test that assert how long something took, or assert directly after a sleep."""
    found, held = [], set()  # names that hold when something was, or how long it took
    lines = text.split("\n")
    for number, line in enumerate(lines):
        words = line.strip()
        name = re.match(r"([\w.]+(?:, [\w.]+)*) = ", words)
        if words.startswith("def "):
            held.clear()
        elif name and TIMES.search(words):
            held.update(name.group(1).split(", "))
        elif re.match(r"(self\.)?assert", words):
            if TIMES.search(words) or any(re.search(rf"\b{re.escape(h)}\b(?!\()", words) for h in held):
                found.append((number + 1, words))
        elif words.startswith("time.sleep("):
            after = next((after for after in lines[number + 1:] if after.strip()), "")
            if re.match(r"\s*(self\.)?assert", after) and after.index(after.strip()) == line.index(words):
                found.append((number + 2, after.strip()))
    return found


class Clocks(unittest.TestCase):
    """A machine may stand still at any moment, and a test waits for what it wants."""

    def test_no_test_of_processes_asserts_times(self):
        wrong, count = [], 0
        for top in "integration", "python", "chaos", "documents":
            for name in sorted(os.listdir(os.path.join(SOURCE, "tests", top))):
                if name.startswith("test_") and name.endswith(".py"):
                    count += 1
                    path = f"tests/{top}/{name}"
                    wrong += [f"{path}:{number}: {line}" for number, line in times_of("\n".join(lines_of(path)))]
        self.assertGreater(count, 55)
        self.assertEqual(wrong, [])

    def test_what_is_found(self):
        begin = "        begin = time.monotonic()\n        work()\n"
        for text in (begin + "        self.assertLess(time.monotonic() - begin, 25)",
                     begin + "        took = time.monotonic() - begin\n        self.assertLess(took, 5)",
                     "        time.sleep(3.5)\n\n        self.assertEqual(a, b)"):
            self.assertEqual(len(times_of(text)), 1, text)
        for text in (begin + "        print(time.monotonic() - begin)\n        self.assertEqual(a, b)",
                     "        time.sleep(0.1)\n        value = look()\n        self.assertTrue(value)"):
            self.assertEqual(times_of(text), [], text)


class Scripts(unittest.TestCase):
    """What the scripts that build run, in which order: `script/bootstrap` and `cmake` only write it down here."""

    def runs(self, *command):
        with tempfile.TemporaryDirectory() as tree:
            shutil.copytree(os.path.join(SOURCE, "script"), tree + "/script")
            os.mkdir(tree + "/bin")
            for path, status in ("script/bootstrap", 0), ("bin/cmake", 1):
                with open(f"{tree}/{path}", "w", encoding="utf-8") as f:
                    f.write(f'#!/bin/bash\necho "${{0##*/}} $*" >>"{tree}/ran"\nexit {status}\n')
                os.chmod(f"{tree}/{path}", 0o755)
            subprocess.run([f"{tree}/{command[0]}", *command[1:]], capture_output=True, cwd=tree, stdin=subprocess.DEVNULL,
                           env={**os.environ, "PATH": f"{tree}/bin:{os.environ['PATH']}"}, timeout=60, check=False)
            with open(tree + "/ran", encoding="utf-8") as f:
                return f.read().splitlines()

    def test_what_they_need_is_installed_first(self):
        for command, packages in ((("script/build",), "build"), (("script/demo",), "build"), (("script/sim",), "tools"),
                                  (("script/sim", "--mutants"), "tools"), (("script/bench",), "tools"),
                                  (("script/bench", "graph"), "tools"), (("script/bench", "cluster"), "tools")):
            ran = self.runs(*command)
            self.assertEqual(ran[0], "bootstrap " + packages, command)
            self.assertTrue(ran[-1].startswith("cmake "), ran)
        self.assertEqual(self.runs("script/bench", "--plot", "x.svg")[0], "bootstrap plots")


class WhiteSpace(unittest.TestCase):
    @unittest.skipUnless(shutil.which("clang-format"), "clang-format is not installed")
    def test_format(self):
        paths = sorted(sources("common", "services", "include", "tests", "examples"))
        done = subprocess.run(["clang-format", "--dry-run", "-Werror", *paths], capture_output=True, text=True, cwd=SOURCE)
        wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)))
        self.assertEqual(wrong, [], "clang-format -i " + " ".join(wrong))


if __name__ == "__main__":
    unittest.main(verbosity=2)
