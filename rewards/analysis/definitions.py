"""Where the functions of an answer stand, in code that may not even parse."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from envs.indentation import without_indent
from rewards.analysis.code_tokens import tokens

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)?")
DEFINES = re.compile(r"(?:async[ \t]+)?def[ \t]+(\w+)")
OPENS = ("(", "[", "{")
CLOSES = (")", "]", "}", "#")
"""A line that begins with one of these does not end the definition before it."""


def definitions(code: str, names: Sequence[str], parses: bool = False) -> Mapping[str, tuple[int, int]]:
    """Characters (start, end) of the definition at the top level of each name that has one; of several the last, which
    is the one that counts when the code runs.

    A definition reaches from its decorators to the next line that begins another statement, without the comments above
    that. Lines are all that is looked at, so that a definition is found in code with a fault elsewhere.

    parses: whether Python can read the code, which the sandbox finds out. Then lines within a string or within brackets
        do not count; in other code nobody can tell which these are.
    """
    own, place = without_indent(code)
    found = _definitions(own, names, _inside(own) if parses else [])
    return {name: (place(start), place(max(start, end - 1)) + 1) for name, (start, end) in found.items()}


def _definitions(code: str, names: Sequence[str], inside: Sequence[tuple[int, int]]) -> dict[str, tuple[int, int]]:
    begins = [begin for begin, _ in inside]
    found: dict[str, tuple[int, int]] = {}
    name: str | None = None
    start, decorated = 0, None
    for match in LINE.finditer(code):
        line = match.group().lstrip("\f")
        if not line.strip() or line[0].isspace() or line.startswith(CLOSES):
            continue
        before = bisect_left(begins, match.start())  # strings and outermost brackets do not overlap
        if before and match.start() < inside[before - 1][1]:
            continue
        if name is not None:
            found[name] = (start, _end(code, start, match.start()))
        defines = DEFINES.match(line)
        name = defines.group(1) if defines and defines.group(1) in names else None
        if line.startswith("@"):
            decorated = match.start() if decorated is None else decorated
        else:
            start, decorated = match.start() if decorated is None else decorated, None
    if name is not None:
        found[name] = (start, _end(code, start, len(code)))
    return found


def _inside(code: str) -> list[tuple[int, int]]:
    """Characters (start, end) of each string of several lines that stands in no brackets, and of each outermost pair of
    brackets, in their order."""
    found, depth, opened = [], 0, 0
    for token in tokens(code):
        if not depth and ("\n" in token.text or "\r" in token.text):
            found.append((token.start, token.end))
        elif token.text in OPENS:
            opened = opened if depth else token.start
            depth += 1
        elif token.text in CLOSES[:3]:
            depth -= 1
            if not depth:
                found.append((opened, token.end))
    return found


def _end(code: str, start: int, end: int) -> int:
    """Without the blank lines and the comments of the first column behind the definition."""
    text = code[start:end].rstrip()
    while (cut := max(text.rfind("\n"), text.rfind("\r"))) >= 0 and text.startswith("#", cut + 1):
        text = text[:cut].rstrip()
    return start + len(text)
