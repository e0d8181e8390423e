# SPDX-License-Identifier: Apache-2.0
"""script/mutate itself, on a tree of one file: faults are made, found or not, and the tree is as before."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import faults  # noqa: E402
import mutate  # noqa: E402
import rooms  # noqa: E402
import workshop  # noqa: E402

TREE = {
    "CMakeLists.txt": """\
        cmake_minimum_required(VERSION 3.25)
        project(tiny C)
        set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
        add_library(gradus_tiny STATIC common/tiny/tiny.c)
        enable_testing()
        add_executable(test_tiny tests/unit/tiny/test_tiny.c)
        target_link_libraries(test_tiny gradus_tiny)
        add_test(NAME test_tiny COMMAND test_tiny)
        """,
    "common/tiny/tiny.c": """\
        /* if (a || b) */
        int within(int a, int most);
        int same(int a);
        int within(int a, int most)
        {
            return a >= 0 && a < most;
        }
        int same(int a)
        {
            if (a > 5) {
                a = a + 1;
                a = a - 1;
            }
            return a;
        }
        #include <stdlib.h>
        int holds(int bytes);
        int holds(int bytes)
        {
            char *volatile p = malloc((size_t)bytes);
            int there = p != NULL;
            if (there) {
                free(p);
            }
            return there;
        }
        """,
    "tests/unit/tiny/test_tiny.c": """\
        #include <stdio.h>
        int within(int a, int most);
        int holds(int bytes);
        int main(void)
        {
            FILE *f = fopen("/tmp/tiny-test", "w");
            if (f == NULL || fclose(f) != 0 || remove("/tmp/tiny-test") != 0) {
                return 1;
            }
            return within(3, 3) == 0 && within(2, 3) == 1 && holds(9) == 1 ? 0 : 1;
        }
        """,
}


def kinds(text):
    return [(f.line, f.kind, f.show()) for f in faults.faults_of("common/tiny/tiny.c", text)]


class Text(unittest.TestCase):
    def test_faults_of_a_body(self):
        text = textwrap.dedent("""\
            int f(struct s *s, struct err *err)
            {
                if (s->a < 3 || s->b == 1) {
                    return err_set(err, ERR_INVALID, "a < b");
                }
                s->sum += g(s->a, true); /* a && b */
                put(s, 1 + 1);
                log_info("put", "a=%d", s->a + 1);
                free(s);
                return 0;
            }
            """)
        self.assertEqual({(line, kind) for line, kind, _ in kinds(text)},
                         {(3, "and-or"), (3, "negate"), (3, "drop-check"), (3, "bound"), (3, "equal"), (3, "constant"),
                          (4, "return-0"), (6, "drop-store"), (6, "sign"), (6, "constant"), (7, "drop-call"),
                          (7, "off-by-one"), (7, "sign"), (7, "constant"), (10, "constant")})

    def test_nothing_outside_of_bodies(self):
        self.assertEqual(kinds("#define A(x) ((x) && 1)\nstatic const int table[] = {1 + 1, 2 < 3};\nint f(int a);\n"), [])

    def test_how_large_an_array_is_matters_to_nobody(self):
        text = "void f(int *n)\n{\n    char text[SIZE - 1];\n    n[2 - 1] = 3 + 1;\n    pthread_setname_np(t, n);\n}\n"
        self.assertEqual({(line, kind) for line, kind, _ in kinds(text)},
                         {(4, "sign"), (4, "off-by-one"), (4, "drop-store")})

    def test_one_more_in_the_heap_is_room_for_none(self):
        text = "void f(int n)\n{\n    int *p = mem_new(n + 1, sizeof *p);\n    g(mem_new(2, 1), n + 1);\n}\n"
        self.assertEqual({(line, kind) for line, kind, _ in kinds(text)},
                         {(3, "sign"), (4, "drop-call"), (4, "off-by-one"), (4, "sign")})

    def test_a_descriptor_is_never_0(self):
        text = "int f(struct s *s)\n{\n    return s->fd < 0 || log_fd < 0 || s->fds < 0;\n}\n"
        self.assertEqual([(line, shown) for line, kind, shown in kinds(text) if kind == "bound"], [(3, "<  →  <=")])

    def test_what_is_filled_with_1_is_as_good_as_0(self):
        text = "void f(float *x, int n)\n{\n    memset(x, 0, n * sizeof *x);\n    put(x, 0);\n}\n"
        self.assertEqual([(line, shown) for line, kind, shown in kinds(text) if kind == "constant"],
                         [(3, "0  →  255"), (4, "0  →  1")])

    def test_a_fault_keeps_the_lines(self):
        text = "void f(struct s *s)\n{\n    put(s,\n        1);\n    end();\n}\n"
        for fault in faults.faults_of("x.c", text):
            self.assertEqual(fault.put_into(text).count("\n"), text.count("\n"))


class Rooms(unittest.TestCase):
    def test_cores_are_left_out(self):
        for path in ("services/ps/core/shard.c", "services/master/core/job.c", "common/trace/recording.c", "tests/unit/os/test_file.c",
                     "common/os/file.h"):
            self.assertIsNone(rooms.room_of(path), path)
        self.assertEqual(rooms.room_of("common/os/file.c"), "os")
        self.assertEqual(rooms.room_of("services/master/shell/shell_store.c"), "master")

    def test_every_room_gets_its_share(self):
        self.assertEqual(mutate.share(7, ["a", "b", "c"]), {"a": 3, "b": 2, "c": 2})

    def test_rooms_take_turns(self):
        self.assertEqual(list(mutate.in_turn({"a": 3, "b": 1, "c": 2})), ["a", "b", "c", "a", "c", "a"])
        self.assertEqual(list(mutate.in_turn({})), [])

    def test_the_seed_decides(self):
        text = textwrap.dedent(TREE["common/tiny/tiny.c"])

        def drawn(seed):
            draw = mutate.Draw("tiny", ["common/tiny/tiny.c"], lambda _: text, seed)
            return [f.id for f in iter(draw.next, None)]

        self.assertEqual(drawn(1), drawn(1))
        self.assertGreater(len({tuple(drawn(seed)) for seed in range(20)}), 1)


class Started(unittest.TestCase):
    def test_what_a_rig_starts_is_the_programs_of_its_tests(self):
        with tempfile.TemporaryDirectory() as directory:
            shop = workshop.Workshop.__new__(workshop.Workshop)
            shop.tree, shop.inputs = os.path.join(directory, "tree"), {"bin/gradus": [], "bin/gradus-ps": []}
            for path, text in (("tree/test_a.c", '#include "rig.h"\n#include "room/gradus.h"\n'), ("tree/rig.h", '#include "deep.h"\n'),
                               ("tree/rig.c", 'getenv("GRADUS_BIN_DIR"), "gradus"'), ("tree/deep.h", ""),
                               ("tree/deep.c", '"gradus-ps"'), ("tree/test_b.c", '"gradus"')):
                os.makedirs(os.path.dirname(os.path.join(directory, path)), exist_ok=True)
                with open(os.path.join(directory, path), "w", encoding="utf-8") as f:
                    f.write(text)
            self.assertEqual(shop.started_by("test_a.c"), ["bin/gradus"])
            self.assertEqual(shop.started_by("test_b.c"), [])


class Void(unittest.TestCase):
    def test_a_few_tests_that_fail_are_suffered(self):
        self.assertIsNone(mutate.why_void(["a"] * mutate.LEFT_OUT_MAX, []))
        self.assertRegex(mutate.why_void(["c", "b", "a", "d"], []), "^4 tests fail here .*: a, b, c, d$")
        self.assertEqual(mutate.why_void([], ["data"]), "no test of room data is left")


class Whole(unittest.TestCase):
    """In a folder under /tmp, where a test that writes files there must still find its own program."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(directory.cleanup)
        self.source, self.build = os.path.join(directory.name, "source"), os.path.join(directory.name, "build")

    def write(self, **changed):
        for path, text in {**TREE, **changed}.items():
            os.makedirs(os.path.dirname(os.path.join(self.source, path)), exist_ok=True)
            with open(os.path.join(self.source, path), "w", encoding="utf-8") as f:
                f.write(textwrap.dedent(text))

    def mutate(self, *which):
        done = subprocess.run([sys.executable, "-B", os.path.join(HERE, "mutate.py"), "--source", self.source, "--dir", self.build,
                               *(f"--only=common/tiny/tiny.c:{fault}" for fault in which)], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_found_not_found_and_put_back(self):
        self.write()
        code, out = self.mutate("6:24:bound", "6:14:bound", "10:9:negate", "22:9:drop-check")
        self.assertEqual(code, 1, out)
        self.assertRegex(out, r"found by test_tiny .*:6:24:bound  <  →  <=")
        self.assertRegex(out, r"NOT FOUND .*:6:14:bound  >=  →  >")
        self.assertRegex(out, r"10:9:negate: does not compile, or is the same program")
        if "no leaks are found here" in out:
            self.assertRegex(out, r"tiny +1 +3 +33 %")
        else:
            self.assertRegex(out, r"found by test_tiny .*:22:9:drop-check")
            self.assertRegex(out, r"tiny +2 +3 +66 %")
        for tree in (self.source, os.path.join(self.build, "tree")):
            with open(os.path.join(tree, "common/tiny/tiny.c"), encoding="utf-8") as f:
                self.assertEqual(f.read(), textwrap.dedent(TREE["common/tiny/tiny.c"]))

    def test_a_room_whose_only_test_fails_by_itself_makes_it_void(self):
        self.write(**{"tests/unit/tiny/test_tiny.c": "int main(void)\n{\n    return 1;\n}\n"})
        code, out = self.mutate("6:24:bound")
        self.assertEqual(code, 2, out)
        self.assertRegex(out, r"test_tiny fails without any fault and is left out")
        self.assertRegex(out, r"VOID.*no test of room tiny is left")


if __name__ == "__main__":
    unittest.main(verbosity=2)
