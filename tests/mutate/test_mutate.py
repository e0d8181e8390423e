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
        int within(int a, int most);
        int holds(int bytes);
        int main(void)
        {
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

    def test_a_fault_keeps_the_lines(self):
        text = "void f(struct s *s)\n{\n    put(s,\n        1);\n    end();\n}\n"
        for fault in faults.faults_of("x.c", text):
            self.assertEqual(fault.put_into(text).count("\n"), text.count("\n"))


class Rooms(unittest.TestCase):
    def test_cores_are_left_out(self):
        for path in ("services/ps/core/shard.c", "services/master/core/job.c", "tests/unit/base/test_file.c", "common/base/file.h"):
            self.assertIsNone(rooms.room_of(path), path)
        self.assertEqual(rooms.room_of("common/base/file.c"), "base")
        self.assertEqual(rooms.room_of("services/master/shell/shell_store.c"), "master")

    def test_every_room_gets_its_share(self):
        self.assertEqual(mutate.share(7, ["a", "b", "c"]), {"a": 3, "b": 2, "c": 2})

    def test_the_seed_decides(self):
        text = textwrap.dedent(TREE["common/tiny/tiny.c"])

        def drawn(seed):
            draw = mutate.Draw("tiny", ["common/tiny/tiny.c"], lambda _: text, seed)
            return [f.id for f in iter(draw.next, None)]

        self.assertEqual(drawn(1), drawn(1))
        self.assertGreater(len({tuple(drawn(seed)) for seed in range(20)}), 1)


class Whole(unittest.TestCase):
    def test_found_not_found_and_put_back(self):
        with tempfile.TemporaryDirectory() as directory:
            source, build = os.path.join(directory, "source"), os.path.join(directory, "build")
            for path, text in TREE.items():
                os.makedirs(os.path.dirname(os.path.join(source, path)), exist_ok=True)
                with open(os.path.join(source, path), "w", encoding="utf-8") as f:
                    f.write(textwrap.dedent(text))
            done = subprocess.run([sys.executable, "-B", os.path.join(HERE, "mutate.py"), "--source", source, "--dir", build,
                                   *(f"--only=common/tiny/tiny.c:{which}" for which in
                                     ("6:24:bound", "6:14:bound", "10:9:negate", "22:9:drop-check"))],
                                  capture_output=True, text=True)
            out = done.stdout + done.stderr
            self.assertEqual(done.returncode, 1, out)
            self.assertRegex(out, r"found by test_tiny .*:6:24:bound  <  →  <=")
            self.assertRegex(out, r"NOT FOUND .*:6:14:bound  >=  →  >")
            self.assertRegex(out, r"10:9:negate: does not compile, or is the same program")
            if "no leaks are found here" in out:
                self.assertRegex(out, r"tiny +1 +3 +33 %")
            else:
                self.assertRegex(out, r"found by test_tiny .*:22:9:drop-check")
                self.assertRegex(out, r"tiny +2 +3 +66 %")
            for tree in (source, os.path.join(build, "tree")):
                with open(os.path.join(tree, "common/tiny/tiny.c"), encoding="utf-8") as f:
                    self.assertEqual(f.read(), textwrap.dedent(TREE["common/tiny/tiny.c"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
