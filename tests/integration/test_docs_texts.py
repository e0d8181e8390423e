# SPDX-License-Identifier: Apache-2.0
"""The pages that people read first are short, and every link of a page leads somewhere."""

import os
import re
import unittest

SOURCE = os.environ["GRADUS_SOURCE_DIR"]
README_WORDS_MAX = 900
README_LINE_MAX = 160
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
