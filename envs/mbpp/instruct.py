"""OpenCodeInstruct (Ahmad et al. 2025, arXiv 2504.04030, CC BY 4.0): instructions with asserts, for training.

The dataset has nine text columns; `unit_tests` holds a JSON list of asserts. A row is used if its domain is `generic`
(or the copy has no such column) and its tests call a function.
"""

from __future__ import annotations

import ast
import builtins
import heapq
import json
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from envs.data import data_files, file_rows, hub_rows
from envs.json_lines import Row
from envs.task import Problem, TaskError, extract_fenced

HUB = "nvidia/OpenCodeInstruct"
COLUMNS = ("id", "input", "output", "domain", "unit_tests", "tests_execution_status", "average_test_score")
MAX_TESTS = 20


def rows(path: str | None, seed: int) -> Iterator[Row]:
    """Rows from files, or streamed from the hub in a random order."""
    if path is not None:
        return file_rows(data_files(Path(path)), COLUMNS)
    return hub_rows(HUB, "train", "train", COLUMNS, seed=seed)


def sample(candidates: Iterable[Row], size: int, seed: int, in_order: bool) -> list[Problem]:
    """At most `size` usable rows as problems: the first ones if the rows are already shuffled (`in_order`), otherwise
    a random sample.

    Memory holds at most `size` problems, and few more rows are parsed. Raises TaskError, with the number of rows for
    each reason, if no row is usable.
    """
    dropped: Counter[str] = Counter()
    draws = random.Random(seed)
    kept: list[tuple[float, int, Problem]] = []  # a heap of negated keys, which removes the largest key first
    limit = math.inf
    for number, row in enumerate(candidates):
        key = number if in_order else draws.random()
        if key >= limit:
            continue
        try:
            heapq.heappush(kept, (-key, number, problem(row)))
        except TaskError as error:
            dropped[str(error)] += 1
        if len(kept) > size:
            limit = -heapq.heappop(kept)[0]
        if in_order and len(kept) == size:
            break
    if not kept:
        raise TaskError(f"no usable row of OpenCodeInstruct ({dict(dropped) or 'no rows'})")
    return [each for *_, each in sorted(kept, reverse=True)]


def problem(row: Row) -> Problem:
    """A row as a problem. Raises TaskError, with the reason, for an unusable row."""
    if row.get("domain", "generic") != "generic":
        raise TaskError(f"domain {row['domain'] or 'empty'}")
    question = row.get("input")
    if not isinstance(question, str) or not question.strip():
        raise TaskError("no instruction")
    tests = asserts(row.get("unit_tests"))
    if not tests:
        raise TaskError("no asserts")
    name = function_under_test(tests)
    if name is None:
        raise TaskError("tests call no function")
    return Problem(
        id=f"opencodeinstruct/{row['id']}",
        question=f"{question.strip()}\n\nThe function is named `{name}`.",
        entry_point=name,
        check_src="\n".join(tests),
        reference=reference(row.get("output"), name),
    )


def asserts(column: Any) -> list[str]:
    """The asserts of `unit_tests` (a list or its JSON) that parse, at most MAX_TESTS."""
    if isinstance(column, str):
        try:
            column = json.loads(column)
        except ValueError:
            return []
    if not isinstance(column, list):
        return []
    tests = (test.strip() for test in column if isinstance(test, str))
    return [test for test in tests if _is_assert(test)][:MAX_TESTS]


def _is_assert(test: str) -> bool:
    try:
        body = ast.parse(test).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(statement, ast.Assert) for statement in body)


def function_under_test(tests: Iterable[str]) -> str | None:
    """The name that most tests call, builtins excluded; None if there is none."""
    counted: Counter[str] = Counter()
    for test in tests:
        calls = (node.func.id for node in ast.walk(ast.parse(test)) if _calls_a_name(node))  # type: ignore[attr-defined]
        counted.update({name for name in calls if not hasattr(builtins, name)})
    return counted.most_common(1)[0][0] if counted else None


def _calls_a_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def reference(output: Any, name: str) -> str:
    """The code of a model's recorded answer; empty if it does not define the function or class."""
    if not isinstance(output, str):
        return ""
    code = extract_fenced(output)
    text = output if code is None else output[code.start : code.end]
    return text if re.search(rf"\b(?:def|class) {name}\b", text) else ""
