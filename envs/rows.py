"""JSON-lines files of commands: rows in, one answer a row out, bad rows answered with what is wrong."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

Row = dict[str, Any]


def read_rows(path: str, *fields: str) -> list[Row]:
    """The file's rows, each with text in `fields`; {"id", "error"} for one that has not. Raises OSError."""
    rows: list[Row] = []
    with open(path, encoding="utf-8") as file:
        for line in filter(str.strip, file):
            identity = None
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise TypeError("not a JSON object")
                identity = row.get("id")
                if missing := [field for field in fields if field not in row]:
                    raise KeyError(f"no {' and no '.join(missing)}")
                if not all(isinstance(row[field], str) for field in fields):
                    raise TypeError(f"{' and '.join(fields)} must be text")
                rows.append(row)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                rows.append({"id": identity, "error": f"{type(error).__name__}: {error}"})
    return rows


def answer(rows: Sequence[Row], answers: Sequence[Row]) -> None:
    """Print one object a row under its id; `answers` are those of the rows without an error."""
    good = iter(answers)
    for row in rows:
        print(json.dumps(row if "error" in row else {"id": row.get("id"), **next(good)}))


def command(module: str, verb: str, about: str, work: Callable[[str], Coroutine[Any, Any, None]]) -> Callable[..., int]:
    """The command line `python -m MODULE VERB FILE`; status 1 where the file cannot be read."""

    def main(arguments: Sequence[str] | None = None) -> int:
        parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser(verb, help="a JSON-lines file, one answer a row").add_argument("file")
        options = parser.parse_args(arguments)
        try:
            asyncio.run(work(options.file))
        except (OSError, RuntimeError) as error:
            print(f"{module}: {error}", file=sys.stderr)
            return 1
        return 0

    return main


def answer_each(path: str, work: Callable[[Row], Row]) -> None:
    """Print `work`'s answer to each row of the file, under its id; {"id", "error"} where it raises or the row is bad.

    Raises:
        OSError, UnicodeDecodeError: the file cannot be read.
    """
    with open(path, encoding="utf-8") as file:
        for line in filter(str.strip, file.read().split("\n")):
            identity = None
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise TypeError("not a JSON object")
                identity = row.get("id")
                result = work(row)
            except (ValueError, KeyError, TypeError, OSError, MemoryError, RecursionError) as error:
                what = f"no {error}" if isinstance(error, KeyError) else str(error)
                result = {"error": f"{type(error).__name__}: {what}"}
            print(json.dumps({"id": identity, **result}), flush=True)
