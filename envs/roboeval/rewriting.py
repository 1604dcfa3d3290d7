"""RoboEval's rewriting of a program's text before it runs, with a mapping from the new text back to the old.

This module runs in the sandbox and imports only the standard library.
"""

from __future__ import annotations

import bisect
import re

API = ("get_current_location", "get_all_rooms", "is_in_room", "go_to", "ask", "say", "pick", "place")
"""The eight functions that a program may call."""
QUOTED = re.compile(r'".*?"')
DEFINITION = re.compile(r"task_program\(\)")
CALL = re.compile(rf"(?=(?:{'|'.join(API)})\()")
SLEEP = re.compile(r"time\.sleep\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)")
LINE_END = re.compile(r"\r\n|\r|\n")
Edit = tuple[int, int, int, int]
"""Start and end in the new text, then start and end of the replaced part in the old text."""


class Text:
    """A text with the edits that made it, one list for each pass; offsets are in characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.passes: list[list[Edit]] = []

    def replace(self, pattern: re.Pattern[str], new: str | None) -> None:
        """Replace each match by `new` (in which \\1 is the first group); None: by its lower case."""
        spans = []
        for match in pattern.finditer(self.text):
            text = match.group().lower() if new is None else match.expand(new)
            if text != match.group():
                spans.append((*match.span(), text))
        self.put(spans)

    def put(self, spans: list[tuple[int, int, str]]) -> None:
        """Replace spans (start, end, new text), given in order."""
        pieces, edits, old, length = [], [], 0, 0
        for first, last, new in spans:
            pieces += [self.text[old:first], new]
            start = length + first - old
            edits.append((start, start + len(new), first, last))
            old, length = last, start + len(new)
        if edits:
            self.text = "".join([*pieces, self.text[old:]])
            self.passes.append(edits)

    def original(self, offset: int, end: bool = False) -> int:
        """The offset in the old text of a character of the new text, or with `end` of the end of a span."""
        for edits in reversed(self.passes):
            place = bisect.bisect_right(edits, offset, key=lambda edit: edit[0] + end) - 1
            if place < 0:
                continue
            new_start, new_end, old_start, old_end = edits[place]
            if offset >= new_end:
                offset = old_end + offset - new_end
            elif new_end - new_start == old_end - old_start:
                offset = old_start + offset - new_start
            else:
                offset = old_end if end else old_start
        return offset


def rewritten(program: str) -> Text:
    """The program as RoboEval runs it, without the appended call; see `rewrite`."""
    return rewrite(Text(program))


def rewrite(text: Text) -> Text:
    """Apply RoboEval's rewriting.

    All text in double quotes becomes lower case; `task_program()` gets a parameter; each name of the API before a
    bracket gets the prefix "robot.", whatever precedes it; `time.sleep(x)` sleeps (x) * 0.
    """
    text.replace(QUOTED, None)
    text.replace(DEFINITION, "task_program(robot)")
    text.replace(CALL, "robot.")
    text.replace(SLEEP, r"time.sleep((\1) * 0)")
    return text


def line_starts(text: str) -> list[int]:
    """Offsets at which lines begin, with Python's line breaks."""
    return [0, *(match.end() for match in LINE_END.finditer(text))]


def position(starts: list[int], offset: int) -> tuple[int, int]:
    """Line, from 1, and column, in characters from 0, of an offset."""
    line = bisect.bisect_right(starts, offset)
    return line, offset - starts[line - 1]
