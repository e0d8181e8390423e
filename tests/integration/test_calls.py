# SPDX-License-Identifier: Apache-2.0
"""The files of a room call each other in one direction only: a room has an entrance at the top and helpers at the bottom.
In the master's core, a job's phase and work have one writer each."""

import os
import re
import unittest

SOURCE = os.environ["GRADUS_SOURCE_DIR"]
MASTER_CORE = os.path.join("services", "master", "core")
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
# A definition begins in the first column, names its function before the first parenthesis, and has a body.
DEFINITION = re.compile(r"^(?!static\b)(?:[A-Za-z_]\w*[ *]+)+?(\w+)\([^;{}]*\)\n\{", re.MULTILINE)
# A word that may be a function's name: not the tag of a struct, union or enum.
WORD = re.compile(r"(?<!\w)(?:(?:struct|union|enum)\s+\w+|(\w+))")


def rooms():
    """Every folder with C files."""
    for top in ("common", "services"):
        for folder, _, names in os.walk(os.path.join(SOURCE, top)):
            if any(name.endswith(".c") for name in names):
                yield os.path.relpath(folder, SOURCE)


def sources(room):
    """The text of each .c file, without comments and strings."""
    texts = {}
    for name in sorted(os.listdir(os.path.join(SOURCE, room))):
        if name.endswith(".c"):
            with open(os.path.join(SOURCE, room, name), encoding="utf-8") as f:
                texts[name] = NO_CODE.sub(" ", f.read())
    return texts


def calls(texts):
    """file -> {file that it calls: functions}"""
    owner = {function: name for name, text in texts.items() for function in DEFINITION.findall(text)}
    found = {name: {} for name in texts}
    for name, text in texts.items():
        for word in set(WORD.findall(text)):
            if owner.get(word, name) != name:
                found[name].setdefault(owner[word], set()).add(word)
    return found


def circle(arrows):
    """Files that call each other, in order, the first one again at the end; None: there are none."""
    done = set()

    def walk(name, path):
        if name in path:
            return path[path.index(name):] + [name]
        if name in done:
            return None
        for callee in sorted(arrows[name]):
            found = walk(callee, path + [name])
            if found:
                return found
        done.add(name)
        return None

    for name in sorted(arrows):
        found = walk(name, [])
        if found:
            return found
    return None


class Calls(unittest.TestCase):
    def test_in_one_direction(self):
        files = functions = 0
        for room in rooms():
            arrows = calls(sources(room))
            files += len(arrows)
            functions += sum(len(words) for callees in arrows.values() for words in callees.values())
            found = circle(arrows)
            with self.subTest(room=room):
                words = [f"{a} calls {', '.join(sorted(arrows[a][b]))} of {b}" for a, b in zip(found or [], (found or [])[1:])]
                self.assertIsNone(found, "; ".join(words))
        self.assertGreater(files, 700)
        self.assertGreater(functions, 2000)  # else the patterns find nothing

    def test_a_circle_is_found(self):
        texts = {"a.c": "void a(int x)\n{\n    b();\n}\n", "b.c": "int *b(void)\n{\n    c();\n}\n",
                 "c.c": "struct s *c(struct s *s,\n    int n)\n{\n    a(1);\n}\n"}
        self.assertEqual(circle(calls(texts)), ["a.c", "b.c", "c.c", "a.c"])
        texts["c.c"] = texts["c.c"].replace("a(1)", "struct a x")
        self.assertIsNone(circle(calls(texts)))

    def test_one_writer(self):
        for field, writer in (("phase", "advance.c"), ("work", "sync_point.c")):
            writers = {name for name, text in sources(MASTER_CORE).items() if re.search(rf"->{field} = ", text)}
            self.assertEqual(writers, {writer})


if __name__ == "__main__":
    unittest.main()
