"""JSON-lines files of the commands: rows in, one answer a row out, bad rows answered with what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]


def answer(path: str, work: Callable[[Row], Row]) -> None:
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
