"""A compiler's errors and warnings, located in the lines of a file that a completion wrote."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

MESSAGE = re.compile(r"^([^\s:][^:\n]*):(\d+):(?:(\d+):)? ((?i:error|fatal error|warning)): (.*)$", re.MULTILINE)
PLACE = re.compile(r"([^\s:][^:\n]*:\d+:\d+)(?:-\d+)?:")
"""gfortran's first line of a message: where. Behind it stand an empty line, the source and a mark, then WHAT."""
WHAT = re.compile(r"((?:Fatal )?Error|Warning): .*")
MAX_MESSAGES = 50


@dataclass(frozen=True)
class CompilerMessage:
    """One error or warning.

    line, column: from 1; within the located lines if `offset` is given, otherwise within `file`. Columns count
    characters; compilers are assumed to count bytes (for GCC: -fdiagnostics-column-unit=byte). offset: in characters
    from the beginning of the located lines; None if the message is about other lines.
    """

    severity: str
    text: str
    file: str
    line: int
    column: int
    offset: int | None


def compiler_lines(log: str) -> str:
    """The lines of a log that `compiler_messages` reads, at most MAX_MESSAGES."""
    return "\n".join(match[0] for match in _found(log))


def _found(log: str) -> Iterator[re.Match[str]]:
    """Messages in one line each."""
    return itertools.islice(MESSAGE.finditer("\n".join(_in_one_line(log.split("\n")))), MAX_MESSAGES)


def _in_one_line(lines: Sequence[str]) -> Iterator[str]:
    """The lines of a log, each of gfortran's messages in one."""
    place = ""
    for line in lines:
        if found := PLACE.fullmatch(line):
            place = found[1]
        elif place and WHAT.fullmatch(line):
            yield f"{place}: {line}"
            place = ""
        else:
            yield line
            place = place if line[:1] in ("", " ") else ""


def compiler_messages(log: str, file: str, lines: Sequence[str], lines_before: int = 0) -> tuple[CompilerMessage, ...]:
    """Errors and warnings of GCC, Clang and gfortran in `log`, at most MAX_MESSAGES.

    Args:
        file: the file in which messages are located; compared by its base name.
        lines: the lines in which messages are located, without line ends.
        lines_before: number of the file's lines before them.
    """
    messages = []
    for match in _found(log):
        name, line, column = match[1], int(match[2]), int(match[3] or 1)
        index = line - 1 - lines_before
        offset = None
        if PurePosixPath(name).name == PurePosixPath(file).name and 0 <= index < len(lines):
            column = _character_column(lines[index], column)
            offset = sum(len(earlier) + 1 for earlier in lines[:index]) + column - 1
            line = index + 1
        severity = match[4].lower().removeprefix("fatal ")
        messages.append(CompilerMessage(severity, match[5][:500], name, line, column, offset))
    return tuple(messages)


def _character_column(line: str, byte_column: int) -> int:
    """The column in characters, from 1, of a column in bytes, from 1; at most one past the line's end."""
    return len(line.encode("utf-8", "replace")[: byte_column - 1].decode("utf-8", "ignore")) + 1
