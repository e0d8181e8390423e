# SPDX-License-Identifier: Apache-2.0
"""The commands that the project's texts show, as they stand there.

A command block of a Markdown text is one that is indented by four blanks, or fenced as sh, bash or console; of a fence
without a language only what looks like an example of a help page is taken: lines indented by two blanks that begin
with one of our programs. In other files, a comment is read as such a text."""

import os
import random
import re

PROGRAMS = re.compile(r"(script/|build/bin/|gradus(-\w+)? |docker |docker-compose |make |cmake |cc )")
SHELL = ("sh", "bash", "console")


class Command:
    """One command: text is what a shell takes, of several lines perhaps."""

    def __init__(self, document, line, text):
        self.document = document
        self.line = line
        self.text = text

    @property
    def words(self):
        """The command in one line, without the remark behind it and doubled blanks."""
        return " ".join(re.sub(r"\s#\s.*", "", self.text.replace("\\\n", " ")).split())

    def __str__(self):
        return f"{self.document}:{self.line}: {self.words}"


def block_lines(text):
    """(line number, line) of all command blocks, None between them."""
    language = None
    indented = False
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"\s*```(\S*)", line)
        if fence:
            language = None if language is not None else fence.group(1)
            yield None
        elif language in SHELL:
            yield number, line
        elif language == "":
            if re.match(r"  +" + PROGRAMS.pattern, line):
                yield number, line.strip()
        elif language is None:
            indented = line.startswith("    ") and (indented or not before.strip())
            if indented:
                yield number, line[4:]
            elif line.strip():
                yield None
        before = line


def commands_of_text(document, text):
    """All commands of a Markdown text, in order. A line that ends with a backslash goes on in the next."""
    found = []
    open_line = None
    for entry in block_lines(text):
        if entry is None:
            open_line = None
            continue
        number, line = entry
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if open_line is not None:
            open_line.text += "\n" + line
        else:
            open_line = Command(document, number, line)
            found.append(open_line)
        if not line.endswith("\\"):
            open_line = None
    return found


def commands(source, document):
    with open(os.path.join(source, document)) as f:
        text = f.read()
    if not document.endswith(".md"):
        text = "\n".join(re.sub(r"^# ?", "", line) if line.startswith("#") else "." for line in text.splitlines())
    return commands_of_text(document, text)


def documents(source):
    """Every text of the project that may show a command."""
    pages = sorted(name for name in os.listdir(os.path.join(source, "docs")) if name.endswith(".md"))
    top = sorted(name for name in os.listdir(source) if name.endswith(".md"))
    return top + ["docs/" + name for name in pages] + ["deploy/compose.yaml", "docker/Dockerfile"]


def write_own_csv(source, directory):
    """The job file that the README shows, and the files that it speaks of."""
    with open(os.path.join(source, "README.md")) as f:
        shown = re.search(r"^```yaml\n(name: churn\n.*?)^```", f.read(), re.M | re.S).group(1)
    with open(directory + "/churn.yaml", "w") as f:
        f.write(shown)
    draw = random.Random(3)
    with open(directory + "/customers.csv", "w") as known, open(directory + "/new.csv", "w") as new:
        known.write("customer,plan,months,calls,churned\n")
        new.write("customer,plan,months,calls\n")
        for number in range(600):
            plan, months, calls = draw.choice(("basic", "team")), draw.randrange(60), draw.randrange(9)
            churned = "yes" if plan == "basic" and calls > 4 else "no"
            known.write(f"c-{number},{plan},{months},{calls},{churned}\n")
            if number < 20:
                new.write(f"n-{number},{plan},{months},{calls}\n")
