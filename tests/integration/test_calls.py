# SPDX-License-Identifier: Apache-2.0
"""The files of the master's core call each other in one direction only, and a job's phase and work have one writer each."""

import os
import re
import unittest

CORE = os.path.join(os.environ["GRADUS_SOURCE_DIR"], "services", "master", "core")
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
# A definition begins in the first column, names its function before the first parenthesis, and has a body.
DEFINITION = re.compile(r"^(?!static\b)(?:[A-Za-z_]\w*[ *]+)+?(\w+)\([^;{}]*\)\n\{", re.MULTILINE)
WORD = re.compile(r"\w+")


def sources():
    """The text of each .c file, without comments and strings."""
    texts = {}
    for name in sorted(os.listdir(CORE)):
        if name.endswith(".c"):
            with open(os.path.join(CORE, name), encoding="utf-8") as f:
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


class MasterCalls(unittest.TestCase):
    def test_in_one_direction(self):
        arrows = calls(sources())
        self.assertGreater(len(arrows), 25)
        self.assertGreater(sum(len(callees) for callees in arrows.values()), 100)  # else the patterns find nothing
        found = circle(arrows)
        words = [f"{a} calls {', '.join(sorted(arrows[a][b]))} of {b}" for a, b in zip(found or [], (found or [])[1:])]
        self.assertIsNone(found, "; ".join(words))

    def test_a_circle_is_found(self):
        texts = {"a.c": "void a(int x)\n{\n    b();\n}\n", "b.c": "int *b(void)\n{\n    c();\n}\n",
                 "c.c": "struct s *c(struct s *s,\n    int n)\n{\n    a(1);\n}\n"}
        self.assertEqual(circle(calls(texts)), ["a.c", "b.c", "c.c", "a.c"])
        del texts["a.c"]
        self.assertIsNone(circle(calls(texts)))

    def test_one_writer(self):
        for field, writer in (("phase", "advance.c"), ("work", "sync_point.c")):
            writers = {name for name, text in sources().items() if re.search(rf"->{field} = ", text)}
            self.assertEqual(writers, {writer})


if __name__ == "__main__":
    unittest.main()
