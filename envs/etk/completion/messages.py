"""What a compiler says, at its place in the completion."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from envs.etk.completion.cases import Gap

PLACE = re.compile(r"^([^\s:][^:\n]*):(\d+):(?:(\d+):)? ((?i:error|fatal error|warning)): (.*)$", re.MULTILINE)
MOST = 50


@dataclass(frozen=True)
class CompilerMessage:
    """One error or warning.

    line, column: from 1, in the completion where `offset` is given, else in `file`. Columns count characters; compilers
    are taken to count bytes (for GCC: -fdiagnostics-column-unit=byte). offset: of the place, in characters from the
    completion's beginning; None where the message is about other lines.
    """

    severity: str
    text: str
    file: str
    line: int
    column: int
    offset: int | None


def compiler_lines(log: str) -> str:
    """The lines of a log that `compiler_messages` reads, at most MOST, without what stands between them."""
    return "\n".join(match[0] for match in itertools.islice(PLACE.finditer(log), MOST))


def compiler_messages(log: str, gap: Gap, completion: str) -> tuple[CompilerMessage, ...]:
    """Errors and warnings of GCC, Clang and (with -fdiagnostics-plain-output) gfortran in `log`, at most MOST."""
    lines = gap.lines_of(completion)
    found = []
    for match in PLACE.finditer(log):
        name, row, column = match[1], int(match[2]), int(match[3] or 1)
        place = row - 1 - len(gap.before)
        offset = None
        if PurePosixPath(name).name == PurePosixPath(gap.case.file).name and 0 <= place < len(lines):
            column = _characters(lines[place], column)
            offset = _start(lines, place) + column - 1
            row = place + 1
        found.append(
            CompilerMessage(match[4].lower().removeprefix("fatal "), match[5][:500], name, row, column, offset)
        )
        if len(found) == MOST:
            break
    return tuple(found)


def _characters(line: str, column: int) -> int:
    """The character, from 1, at a byte, from 1; at most one past the line's end."""
    return len(line.encode("utf-8", "replace")[: column - 1].decode("utf-8", "ignore")) + 1


def _start(lines: Sequence[str], place: int) -> int:
    return sum(len(line) + 1 for line in lines[:place])
