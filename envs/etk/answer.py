"""The code in an answer to a prompt that ends in an open code block: a thorn's file, or masked lines."""

from __future__ import annotations

import re

from envs.task import Extracted

FENCE_LINE = re.compile(r"^[ \t]*```", re.MULTILINE)
TAG = re.compile(
    r"[ \t]*(?:c|(?i:h|cc|cpp|cxx|c\+\+|hh|hpp|hxx|cu|cuda|f|f77|f90|f95|fortran|fortran77|fortran90|make|makefile|ccl"
    r"|text|txt|plaintext|code|source|python))[ \t]*\r?(?:\n|\Z)"
)
"""A line that is only a language's tag. A single C is no tag: in fixed-form Fortran it is an empty comment."""


def extracted(answer: str) -> Extracted:
    """The code of an answer that continues an open block; it may be empty.

    1. An opening fence in the first line is removed. The code ends at the next line that begins with three backquotes.
    2. A first line that is only a language's tag is removed; any other short line is code.
    3. Leading blanks stay.
    """
    start = 0
    if FENCE_LINE.match(answer):
        start = _next_line(answer, 0)
    fence = FENCE_LINE.search(answer, start)
    end = len(answer) if fence is None else fence.start()
    tag = TAG.match(answer, start, end)
    return Extracted(start if tag is None else tag.end(), end, closed=fence is not None)


def _next_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1
