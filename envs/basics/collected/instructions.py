"""Functions of a file of instructions with answers, in Alpaca's form: a JSON list of objects with `instruction`,
`input` (examples of arguments, or nothing) and `output` or `response`."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envs.basics.collected.functions import Arguments, Found, Unusable, cut_out, literal_calls, plain

BLOCK = re.compile(r"```(?:python|py)?\n(.*?)```", re.DOTALL)
BEGINNING = re.compile(r"^(?:def|import|from) ", re.MULTILINE)


def found(path: Path) -> Iterator[Found]:
    """The functions of a file, where an answer defines exactly one at its top. Raises OSError, ValueError."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "instruction" in row for row in rows):
        raise ValueError("no list of objects with `instruction` and `output`")
    for number, row in enumerate(rows):
        source, tree = _program(str(row.get("output") or row.get("response") or ""))
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        if len(functions) != 1 or any(isinstance(node, ast.ClassDef) for node in tree.body):
            continue
        node = functions[0]
        try:
            signature, solution = cut_out(tree, source, node)
        except Unusable:
            continue
        calls = [*literal_calls(source, node.name), *_given(str(row.get("input") or ""), len(node.args.args))]
        asked = re.sub(r"\s+", " ", str(row["instruction"])).strip()
        yield Found(f"{path.stem}/{number}", node.name, signature, asked, solution, tuple(calls))


def _program(answer: str) -> tuple[str, ast.Module]:
    """The Python program in an answer, in a block or after a sentence; an empty one where there is none."""
    block = BLOCK.search(answer)
    begun = BEGINNING.search(answer)
    for text in (block.group(1) if block else answer, answer[begun.start() :] if begun else ""):
        source = text.replace("\r\n", "\n").expandtabs(4)
        try:
            return source, ast.parse(source)
        except (SyntaxError, ValueError):
            continue
    return "", ast.Module([], [])


def _given(text: str, arguments: int) -> list[Arguments]:
    """The arguments that an instruction's input states: a literal, several after commas, or assignments of them."""
    try:
        statements = ast.parse(text.strip()).body
        values: list[Any] = [
            ast.literal_eval(each.value) for each in statements if isinstance(each, ast.Assign | ast.Expr)
        ]
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return []
    if len(values) == 1 and isinstance(values[0], tuple):
        values = list(values[0])
    return [tuple(values)] if len(values) == arguments and all(map(plain, values)) else []
