"""Commands that read a JSON-lines file and print one answer for each row, with an error for an invalid row."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from envs.json_lines import Row, json_lines


def read_rows(path: str, *fields: str) -> list[Row]:
    """The file's rows, each with text in `fields`; {"id", "error"} for an invalid row. Raises OSError."""
    rows: list[Row] = []
    for _, row in json_lines(path):
        if isinstance(row, Exception):
            rows.append({"id": None, "error": f"{type(row).__name__}: {row}"})
        elif missing := [field for field in fields if field not in row]:
            rows.append({"id": row.get("id"), "error": f"KeyError: no {' and no '.join(missing)}"})
        elif not all(isinstance(row[field], str) for field in fields):
            rows.append({"id": row.get("id"), "error": f"TypeError: {' and '.join(fields)} must be text"})
        else:
            rows.append({key: value for key, value in row.items() if key != "error"})  # `error` marks invalid rows
    return rows


def answer(rows: Sequence[Row], answers: Sequence[Row]) -> None:
    """Print one object for each row under its id; `answers` belong to the rows without an error, in order."""
    remaining = iter(answers)
    for row in rows:
        print(json.dumps(row if "error" in row else {"id": row.get("id"), **next(remaining)}))


def command(module: str, verb: str, about: str, work: Callable[[str], Coroutine[Any, Any, None]]) -> Callable[..., int]:
    """The command line `python -m MODULE VERB FILE`; its status is 1 if the file cannot be read."""

    def main(arguments: Sequence[str] | None = None) -> int:
        parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser(verb, help="read a JSON-lines file, print one answer for each row").add_argument("file")
        options = parser.parse_args(arguments)
        try:
            asyncio.run(work(options.file))
        except (OSError, RuntimeError) as error:
            print(f"{module}: {error}", file=sys.stderr)
            return 1
        return 0

    return main


def answer_each(path: str, work: Callable[[Row], Row]) -> None:
    """Print the result of `work` for each row of the file, under its id; {"id", "error"} for an invalid row.

    Raises:
        OSError: the file cannot be read.
    """
    for _, row in list(json_lines(path)):
        identity = None
        try:
            if isinstance(row, Exception):
                raise row
            identity = row.get("id")
            result = work(row)
        except (ValueError, KeyError, TypeError, OSError, MemoryError, RecursionError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            result = {"error": f"{type(error).__name__}: {reason}"}
        print(json.dumps({"id": identity, **result}), flush=True)
