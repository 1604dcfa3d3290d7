"""Code that is indented as a whole, as a block inside a list of a Markdown text is: the indent is no part of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate


def without_indent(code: str) -> tuple[str, Callable[[int], int]]:
    """The code without the blanks that its first line begins with, where every line has them, and a function from its
    characters to those of `code`. Without such an indent the code is as it was."""
    lines = code.splitlines(keepends=True)
    first = next((line for line in lines if line.strip()), "")
    blanks = first[: len(first) - len(first.lstrip(" \t"))]
    if not blanks or not all(line.startswith(blanks) for line in lines if line.strip()):
        return code, lambda place: place
    kept = [line.removeprefix(blanks) for line in lines]
    starts = [0, *accumulate(map(len, kept))]
    removed = list(accumulate(len(line) - len(rest) for line, rest in zip(lines, kept, strict=True)))
    return "".join(kept), lambda place: place + removed[min(bisect_right(starts, place), len(lines)) - 1]
