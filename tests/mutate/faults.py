# SPDX-License-Identifier: Apache-2.0
"""The small faults that script/mutate puts into C: which there are at a line of a text, and the text with one of them."""

import re
from dataclasses import dataclass

# Calls whose loss only leaks, races, or says less in a log: the work of the sanitizers, or nobody's. And abort(): what
# cannot be reached.
QUIET_CALL = re.compile(r"log_\w+|free|\w+_free|\w+_release|close(dir)?|munmap|\w+_destroy|pthread_\w+_(init|lock)|pthread_setname_np|va_(start|end)|abort")
KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof", "do", "else", "case", "goto"}

CALL = re.compile(r"(?:\(void\)\s*)?([A-Za-z_]\w*(?:(?:->|\.)\w+)*)\s*\(")
STORE = re.compile(r"\*?[A-Za-z_]\w*(?:\[[^\]]*\])?(?:->|\.|\[)[^;={}]*?\s[-+|]?=\s")
CONDITION = re.compile(r"\bif \(")
# An array of its own, as in `char text[ERR_MESSAGE_BYTES + 64];`: it is as large as somebody thought was enough.
ROOM = re.compile(r"\s*(?:static\s+|const\s+|unsigned\s+|struct\s+)*[A-Za-z_]\w*\s+\*?[A-Za-z_]\w*\[[^\]]*$")
# The same of memory: one more than is counted is room for an array of none, which mem_new() makes by itself, or for an end
# that is written beyond the last, which the address sanitizer sees and no test.
HEAP = re.compile(r"\bmem_new\([^;,]*$")
# A descriptor is below 0 or is none of the three that every program is started with: "<= 0" is the same to everybody.
DESCRIPTOR = re.compile(r"\b(?:\w+(?:->|\.))*(?:\w+_)?fd < 0")
RETURN = re.compile(r"\breturn\s+(rc\b|err_(?:set|errno|wrap)\s*\(|ERR_[A-Z]+\b)")


@dataclass(frozen=True)
class Fault:
    """Replaces `old`, which begins at `at` in the text of `path`, by `new`."""

    path: str
    line: int
    column: int
    kind: str
    at: int
    old: str
    new: str

    @property
    def id(self):
        return f"{self.path}:{self.line}:{self.column}:{self.kind}"

    def put_into(self, text):
        assert text[self.at : self.at + len(self.old)] == self.old
        return text[: self.at] + self.new + text[self.at + len(self.old) :]

    def show(self):
        return f"{one_line(self.old)}  →  {one_line(self.new)}"


def one_line(text):
    text = " ".join(text.split())
    return text if len(text) <= 90 else text[:60] + " … " + text[-25:]


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def code_only(text):
    """The text with spaces in place of comments, literals and lines of the preprocessor; all offsets stay."""
    token = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
    return token.sub(blank, text)


def bodies(code):
    """(begin, end) of the bodies of functions."""
    depth, begin = 0, None
    for i, c in enumerate(code):
        if c == "{":
            if depth == 0 and code[:i].rstrip().endswith(")"):
                begin = i + 1
            depth += 1
        elif c == "}":
            depth -= 1
            if depth == 0 and begin is not None:
                yield begin, i
                begin = None


def closing(code, opening):
    """Where the bracket that opens at `opening` closes."""
    depth = 0
    for i in range(opening, len(code)):
        if code[i] in "([{":
            depth += 1
        elif code[i] in ")]}":
            depth -= 1
            if depth == 0:
                return i
    return len(code) - 1


class Finder:
    """All faults of one text."""

    def __init__(self, path, text):
        self.path, self.text, self.code = path, text, code_only(text)
        self.found = []
        for begin, end in bodies(self.code):
            self.statements(begin, end)
            self.conditions(begin, end)
            self.operators(begin, end)
            self.returns(begin, end)

    def add(self, kind, at, end, new):
        line = self.text.count("\n", 0, at) + 1
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        first = self.text.rfind("\n", 0, at) + 1
        whole = self.code[first : self.code.find("\n", at)]
        if re.search(r"\b(assert\w*|log_\w+|_Static_assert)\s*\(", whole):
            return
        if kind == "constant" and re.search(r"\bmem_new\(|\bNULL, $", self.code[first:at]):
            return  # mem_new() makes one of none; the base of strtol()
        if kind == "bound" and any(m.end() - 3 == at - first for m in DESCRIPTOR.finditer(whole)):
            return
        if kind in ("sign", "off-by-one") and ROOM.match(self.code[first:at]):
            return
        if kind == "off-by-one" and HEAP.search(self.code[first:at]):
            return
        self.found.append(Fault(self.path, line, column, kind, at, self.text[at:end], new))

    def statements(self, begin, end):
        """Calls and assignments to what outlives the function, left out."""
        for start in re.finditer(r"(?<=[;{}])\s+(?=[A-Za-z_(*])", self.code[begin - 1 : end]):
            at = begin - 1 + start.end()
            call = CALL.match(self.code, at, end)
            if call and call.group(1) not in KEYWORDS and not QUIET_CALL.fullmatch(call.group(1)):
                close = closing(self.code, call.end() - 1)
                if self.code[close + 1 : close + 2] == ";":
                    self.add("drop-call", at, close + 2, "(void)0;" + self.newlines(at, close))
                continue
            store = STORE.match(self.code, at, end)
            if store and store.group().split()[0] not in KEYWORDS | {"struct", "const", "static"}:
                close = self.code.find(";", at)
                if self.code[at:close].count("(") == self.code[at:close].count(")"):
                    self.add("drop-store", at, close + 1, "(void)0;" + self.newlines(at, close))

    def newlines(self, at, end):
        return "\n" * self.text.count("\n", at, end + 1)

    def conditions(self, begin, end):
        for found in CONDITION.finditer(self.code, begin, end):
            opening = found.end() - 1
            close = closing(self.code, opening)
            inside = self.text[opening + 1 : close]
            self.add("negate", opening + 1, close, f"!({inside})")
            self.add("drop-check", opening + 1, close, f"({inside}) && 0")

    def operators(self, begin, end):
        swaps = (
            ("and-or", r" (\|\||&&)(?=\s)", {"||": "&&", "&&": "||"}),
            ("bound", r" (<=|>=|<|>) ", {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}),
            ("equal", r" (==|!=) ", {"==": "!=", "!=": "=="}),
            ("sign", r" (\+|-|\+=|-=) ", {"+": "-", "-": "+", "+=": "-=", "-=": "+="}),
            ("constant", r"\b(true|false)\b", {"true": "false", "false": "true"}),
        )
        for kind, pattern, new in swaps:
            for found in re.finditer(pattern, self.code[begin:end]):
                self.add(kind, begin + found.start(1), begin + found.end(1), new[found.group(1)])
        for found in re.finditer(r" [+-] 1\b(?![.\w])", self.code[begin:end]):
            self.add("off-by-one", begin + found.start(), begin + found.end(), "")
        for found in re.finditer(r"(?:(?<== )|(?<=, )|(?<=\()|(?<=\? )|(?<=: )|(?<=return ))([01])(?=[,;) ])", self.code[begin:end]):
            # Floats of bytes 1 are as good as 0; those of bytes 255 are NaN, and counters are not 0 either way.
            statement = self.code[self.code.rfind(";", 0, begin + found.start()) + 1 : begin + found.start()]
            filled = re.search(r"\bmemset\([^;]*$", statement)
            one = "255" if filled else "1"
            self.add("constant", begin + found.start(1), begin + found.end(1), one if found.group(1) == "0" else "0")

    def returns(self, begin, end):
        for found in RETURN.finditer(self.code, begin, end):
            close = self.code.find(";", found.start())
            self.add("return-0", found.start(), close, "return 0")


def faults_of(path, text):
    """All faults of a C file, in the order of the text."""
    return sorted(Finder(path, text).found, key=lambda f: (f.at, f.kind))
