"""Where the functions of an answer stand, in code that may not even parse."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rewards.analysis.code_tokens import tokens

LINE = re.compile(r"[^\n]*\n?")
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
    inside = _inside(code) if parses else []
    found: dict[str, tuple[int, int]] = {}
    name: str | None = None
    start, decorated = 0, None
    for match in LINE.finditer(code):
        line = match.group().lstrip("\f")
        if not line.strip() or line[0].isspace() or line.startswith(CLOSES):
            continue
        if any(begin < match.start() < end for begin, end in inside):
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
    """Characters (start, end) of each string of several lines, and of each outermost pair of brackets."""
    found, depth, opened = [], 0, 0
    for token in tokens(code):
        if "\n" in token.text:
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
    lines = code[start:end].rstrip().split("\n")
    while lines[-1].startswith("#") or not lines[-1].strip():
        lines.pop()
    return start + len("\n".join(lines).rstrip())
