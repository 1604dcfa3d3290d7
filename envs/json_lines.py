"""Reads JSON lines: UTF-8 files with one JSON object a line, plain or compressed with gzip (.gz)."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def json_lines(path: str | Path) -> Iterator[tuple[int, Row | Exception]]:
    """For each line that is not blank its number, from 1, and its object; an exception for a line without an object.

    Raises:
        OSError: the file cannot be read, it is not UTF-8, or what is compressed is damaged.
    """
    path = Path(path)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig") as lines:  # some editors begin a file with a byte order mark
        for number, line in enumerate(_whole(lines, path), 1):
            if line.strip():
                yield number, _parsed(line)


def _whole(lines: Iterable[str], path: Path) -> Iterator[str]:
    """The lines. Raises OSError where they cannot be read to the end."""
    try:
        yield from lines
    except UnicodeDecodeError as error:
        raise OSError(f"{path} is not UTF-8: {error}") from error
    except (EOFError, zlib.error) as error:
        raise OSError(f"{path}: the compressed file is damaged: {error}") from error


def read_json_lines(path: str | Path) -> list[Row]:
    """The objects of a file, in order. Raises as json_lines; ValueError for a line without an object, naming both."""
    rows = []
    for number, row in json_lines(path):
        if isinstance(row, Exception):
            raise ValueError(f"{path}, line {number}: not JSON: {row}")
        rows.append(row)
    return rows


def _parsed(line: str) -> Row | Exception:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return error
    return row if isinstance(row, dict) else TypeError("not a JSON object")
