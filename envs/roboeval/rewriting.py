"""RoboEval's rewriting of a program's text before it runs, and the way back from the new text to the old.

Runs in the sandbox: the standard library only.
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
"""Stretch of the new text, and of the old text that it stands for."""


class Text:
    """A text and the edits that made it, one list a pass, with offsets in characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.passes: list[list[Edit]] = []

    def replace(self, pattern: re.Pattern[str], new: str | None) -> None:
        """Replace each match by `new` (in which \\1 is the first group), or by its lower case."""
        spans = []
        for found in pattern.finditer(self.text):
            text = found.group().lower() if new is None else found.expand(new)
            if text != found.group():
                spans.append((*found.span(), text))
        self.put(spans)

    def put(self, spans: list[tuple[int, int, str]]) -> None:
        """Replace stretches, given in order, by texts."""
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
        """Where a character of the new text, or the end of a stretch of it, was in the old one."""
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
    """The program as RoboEval runs it, but for the call that it appends. See `rewrite`."""
    return rewrite(Text(program))


def rewrite(text: Text) -> Text:
    """What stands in double quotes becomes lower case, anywhere in the text; `task_program()` gets a parameter; each
    of the API's names before a bracket gets "robot." in front, whatever comes before; `time.sleep(x)` sleeps (x) * 0.
    """
    text.replace(QUOTED, None)
    text.replace(DEFINITION, "task_program(robot)")
    text.replace(CALL, "robot.")
    text.replace(SLEEP, r"time.sleep((\1) * 0)")
    return text


def line_starts(text: str) -> list[int]:
    """Offsets of the beginnings of lines, as Python counts lines."""
    return [0, *(found.end() for found in LINE_END.finditer(text))]


def position(starts: list[int], offset: int) -> tuple[int, int]:
    """Line, from 1, and column, in characters from 0, of an offset."""
    line = bisect.bisect_right(starts, offset)
    return line, offset - starts[line - 1]
