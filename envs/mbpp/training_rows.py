"""MBPP's validation and training problems (ids 511 to 600 and 601 to 974) for `task=basics task.env.further=FILE`:

    python -m envs.mbpp.training_rows mbpp.jsonl -o mbpp_rows.jsonl

Austin et al. 2021, arXiv 2108.07732, CC BY 4.0. MBPP's 500 test problems (11 to 510) and its examples for prompts are
not among them. A row's tests are arguments and results in JSON, so problems whose asserts hold other values are left
out, and so are the longest solutions and descriptions, which small models cannot learn.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from envs.json_lines import Row, json_lines

IDS = range(511, 975)
MOST_CHARS = 450
"""Of a solution."""
MOST_ASKED = 299
"""Characters of a description."""


def training_rows(path: Path) -> Iterator[Row]:
    """Rows with the fields of `envs/basics/problems`. Raises OSError."""
    for _, row in json_lines(path):
        if not isinstance(row, Exception) and row.get("task_id") in IDS and not row.get("test_setup_code"):
            made = _row(row)
            if made is not None and len(made["solution"]) <= MOST_CHARS and len(made["description"]) <= MOST_ASKED:
                yield made


def _row(row: Row) -> Row | None:
    """One problem; None if its tests are no equalities between a call and a value that JSON has."""
    lines = row["code"].replace("\r\n", "\n").expandtabs(4).strip().split("\n")
    code = "".join(f"{line.rstrip()}\n" for line in lines)
    try:
        tests = [_test(text) for text in row["test_list"]]
        tree = ast.parse(code)
    except (ValueError, SyntaxError):
        return None
    names = {name for name, _, _ in tests}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    if len(names) != 1 or not functions:
        return None
    cases = [{"args": args, "expected": expected} for _, args, expected in tests]
    return {
        "id": f"mbpp/{row['task_id']}",
        "name": functions[0].name,
        "topic": "mbpp",
        "family": f"mbpp/{row['task_id']}",
        "signature": f"def {functions[0].name}({ast.unparse(functions[0].args)}):",
        "description": row["text"].strip(),
        "solution": code,
        "examples": cases[:2],
        "hidden": cases[2:],
    }


def _test(text: str) -> tuple[str, list[Any], Any]:
    """(function, arguments, result) of `assert f(...) == value`. Raises ValueError for another assert."""
    [node] = ast.parse(text).body
    match node:
        case ast.Assert(ast.Compare(ast.Call(ast.Name(name), given, []), [ast.Eq()], [value])):
            args, expected = [ast.literal_eval(each) for each in given], ast.literal_eval(value)
            if _plain([args, expected]):
                return name, args, expected
    raise ValueError(text)


def _plain(value: Any) -> bool:
    """Whether JSON gives the value back as it is."""
    if isinstance(value, list):
        return all(map(_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _plain(each) for key, each in value.items())
    return value is None or isinstance(value, bool | int | float | str)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m envs.mbpp.training_rows", description=__doc__)
    parser.add_argument("file", type=Path, help="mbpp.jsonl, or mbpp.jsonl.gz")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        rows = list(training_rows(options.file))
        if rows:
            temporary = options.output.with_name(f".{options.output.name}.{os.getpid()}")
            temporary.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
            temporary.replace(options.output)
    except OSError as error:
        print(f"envs.mbpp.training_rows: {error}", file=sys.stderr)
        return 1
    if not rows:
        print(f"envs.mbpp.training_rows: {options.file} has no problem of 511 to 974", file=sys.stderr)
        return 1
    print(f"wrote {options.output}: {len(rows)} problems")
    return 0


if __name__ == "__main__":
    sys.exit(main())
