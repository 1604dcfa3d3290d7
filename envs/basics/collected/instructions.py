"""Functions of a file of instructions with answers, in Alpaca's form: a JSON list of objects with `instruction`,
`input` (examples of arguments, or nothing) and `output` or `response`."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envs.basics.collected.functions import Arguments, Found, Unusable, cut_out, literal_calls, parsed, plain, read

BLOCK = re.compile(r"```(?:python|py)?\n(.*?)```", re.DOTALL)
BEGINNING = re.compile(r"^(?:def|import|from) ", re.MULTILINE)


def found(path: Path) -> Iterator[Found | Unusable]:
    """The functions of a file, where an answer defines exactly one at its top. Raises OSError, ValueError."""
    try:
        rows = json.loads(read(path))
    except RecursionError:
        rows = None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "instruction" in row for row in rows):
        raise ValueError("it is no JSON list of objects with `instruction` and `output`")
    for number, row in enumerate(rows):
        source, tree = _program(str(row.get("output") or row.get("response") or ""))
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        if len(functions) != 1 or any(isinstance(node, ast.ClassDef) for node in tree.body):
            if tree.body:
                yield Unusable("its answer does not define one function")
            continue
        [node] = functions
        calls = [*literal_calls(source, node.name), *_given(str(row.get("input") or ""))]
        asked = re.sub(r"\s+", " ", str(row["instruction"])).strip()
        try:
            yield cut_out(f"{path.stem}/{number}", tree, source, node, asked, calls)
        except Unusable as reason:
            yield reason


def _program(answer: str) -> tuple[str, ast.Module]:
    """The Python program in an answer, in a block or after a sentence; an empty one where there is none."""
    answer = answer.replace("\r\n", "\n")
    block, begun = BLOCK.search(answer), BEGINNING.search(answer)
    for source in (block.group(1) if block else answer, answer[begun.start() :] if begun else ""):
        if (tree := parsed(source)) is not None:
            return source, tree
    return "", ast.Module([], [])


def _given(text: str) -> list[Arguments]:
    """The arguments that an instruction's input states: a literal, several after commas, or assignments of them."""
    tree = parsed(text.strip())
    try:
        statements = [each for each in tree.body if isinstance(each, ast.Assign | ast.Expr)] if tree else []
        values: list[Any] = [ast.literal_eval(each.value) for each in statements]
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return []
    if len(values) == 1 and isinstance(values[0], tuple):
        values = list(values[0])
    return [tuple(values)] if values and all(map(plain, values)) else []
