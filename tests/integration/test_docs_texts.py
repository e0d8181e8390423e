# SPDX-License-Identifier: Apache-2.0
"""The pages that people read first are short, ARCHITECTURE.md names what is there, and every link of a page leads
somewhere."""

import os
import re
import unittest

SOURCE = os.environ["GRADUS_SOURCE_DIR"]
README_WORDS_MAX = 900
README_LINE_MAX = 160
ARCHITECTURE_WORDS_MAX = 4000
LINK = re.compile(r"\]\(([^)\s]+)\)")


def text_of(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
        return f.read()


def pages():
    docs = sorted("docs/" + name for name in os.listdir(os.path.join(SOURCE, "docs")) if name.endswith(".md"))
    return sorted(name for name in os.listdir(SOURCE) if name.endswith(".md")) + docs


def without_blocks(text):
    """The text without its fenced blocks and code in the line, which hold no links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def anchors(text):
    """The names that a reader's browser has for the headings of a page."""
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M):
        heading = re.sub(r"\]\([^)]*\)", "", heading.lower())
        found.add(re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-"))
    return found


class Length(unittest.TestCase):
    def test_readme(self):
        text = text_of("README.md")
        self.assertLessEqual(len(text.split()), README_WORDS_MAX)
        self.assertEqual([line for line in text.splitlines() if len(line) > README_LINE_MAX], [])

    def test_architecture(self):
        self.assertLessEqual(len(text_of("ARCHITECTURE.md").split()), ARCHITECTURE_WORDS_MAX)


class Rooms(unittest.TestCase):
    """The tree of ARCHITECTURE.md is that of the folders, in the order in which rooms may use each other."""

    @classmethod
    def setUpClass(cls):
        tree = re.search(r"^## The tree\n(.*?)^## ", text_of("ARCHITECTURE.md"), re.M | re.S).group(1)
        cls.named = [name for row in re.findall(r"^\| (`.*?) \|", tree, re.M) for name in re.findall(r"`([^`]+)`", row)]

    def built(self, top):
        """The rooms that a CMakeLists.txt lists."""
        text = text_of(f"{top}/CMakeLists.txt")
        return [f"{top}/{room}" for room in re.search(r"foreach\(room ([^)]*)\)", text).group(1).split()]

    def test_rooms(self):
        for top in ("common", "services"):
            self.assertEqual([name for name in self.named if name.startswith(top + "/")], self.built(top))

    def test_every_source_is_in_a_room(self):
        programs = {"services/master", "services/ps", "services/worker", "services/serve"}  # a main.c each
        lost = set()
        for top in ("common", "services", "include"):
            for directory, _, names in os.walk(os.path.join(SOURCE, top)):
                if any(name.endswith((".c", ".h")) for name in names):
                    lost.add(os.path.relpath(directory, SOURCE))
        self.assertEqual(lost - set(self.named) - programs, set())

    def test_folders(self):
        self.assertEqual([name for name in self.named if not os.path.isdir(os.path.join(SOURCE, name))], [])


class Decisions(unittest.TestCase):
    """Numbers of decisions are names: each is there once, and whoever refers to one finds it."""

    def test_numbers(self):
        text = text_of("ARCHITECTURE.md")
        numbers = sorted(int(n) for n in re.findall(r"^- \*\*(\d+) ", text, re.M))
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        for top in ("common", "services"):
            for directory, _, names in os.walk(os.path.join(SOURCE, top)):
                for name in names:
                    if name.endswith((".c", ".h")):
                        path = os.path.join(directory, name)
                        for number in re.findall(r"\(decision (\d+)[,)]", text_of(path)):
                            self.assertIn(int(number), numbers, path)

    def test_files(self):
        there = {name for top in ("common", "services") for _, _, names in os.walk(os.path.join(SOURCE, top))
                 for name in names}
        part = text_of("ARCHITECTURE.md").partition("## Decisions")[2]
        named = set(re.findall(r"`(\w+\.[ch])`", part))
        self.assertGreater(len(named), 30)
        self.assertEqual(named - there, set())


class Links(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        wrong, count = [], 0
        for page in pages():
            for target in LINK.findall(without_blocks(text_of(page))):
                if re.match(r"[a-z]+://", target):
                    continue
                count += 1
                path, _, anchor = target.partition("#")
                where = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
                if not os.path.exists(os.path.join(SOURCE, where)):
                    wrong.append(f"{page}: {target}: there is no {where}")
                elif anchor and anchor not in anchors(text_of(where)):
                    wrong.append(f"{page}: {target}: {where} has no such heading")
        self.assertGreater(count, 150)
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
