"""OpenCodeInstruct (Ahmad et al. 2025, arXiv 2504.04030, CC BY 4.0): instructions with asserts, for training.

The dataset has nine text columns; `unit_tests` holds a JSON list of asserts. A row is used if its domain is `generic`
(or the copy has no such column) and its tests call a function. Language models wrote tests and solutions, and
`tests_execution_status` says which of the tests the row's solution passes: the others are left out.
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

from envs.data import data_files, file_rows, hub_rows, reasons_of
from envs.json_lines import Row
from envs.task import Problem, TaskError, extract_fenced

HUB = "nvidia/OpenCodeInstruct"
COLUMNS = ("id", "input", "output", "domain", "unit_tests", "tests_execution_status", "average_test_score")
NEEDED = ("input", "unit_tests")
"""The fields that a row must have to be used."""
STATE = (
    {"redirect_stdout", "redirect_stderr", "stdin", "stdout", "stderr"}
    | {"open", "NamedTemporaryFile", "TemporaryDirectory", "mkdtemp", "mkstemp", "chdir", "StringIO", "BytesIO"}
    | {"write_text", "read_text", "write_bytes", "read_bytes"}
    | {"patch", "environ", "seed", "argv", "getLogger"}
)
"""Names by which a test reads or sets what a program does not share with it: the sandbox runs them in two processes."""
MODULES = {"asyncio", "pytest"}
"""Modules whose tests no program passes: a coroutine stays in the program, and the sandbox has no pytest."""
MAX_TESTS = 20


def rows(path: str | None, seed: int, dropped: Counter[str] | None = None) -> Iterator[Row]:
    """Rows from files, or streamed from the hub in a random order; `dropped` counts lines that hold no row."""
    if path is not None:
        return file_rows(data_files(Path(path), "task.env.train_path"), COLUMNS, dropped, warn=False)
    return hub_rows(HUB, "train", "train", COLUMNS, seed=seed)


def sample(
    candidates: Iterable[Row], size: int, seed: int, in_order: bool, dropped: Counter[str] | None = None
) -> list[Problem]:
    """At most `size` usable rows as problems: the first ones if the rows are already shuffled (`in_order`), otherwise
    a random sample.

    Memory holds at most `size` problems, and few more rows are parsed. Raises TaskError, with the number of rows for
    each reason, those in `dropped` included, if no row is usable.
    """
    dropped = Counter() if dropped is None else dropped
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
        raise TaskError(f"no usable row of OpenCodeInstruct ({reasons_of(dropped) or 'there are no rows'})")
    return [each for *_, each in sorted(kept, reverse=True)]


def problem(row: Row) -> Problem:
    """A row as a problem. Raises TaskError, with the reason, for an unusable row."""
    if row.get("domain", "generic") != "generic":
        raise TaskError(f"domain {row['domain'] or 'empty'}")
    question = row.get("input")
    if not isinstance(question, str) or not question.strip():
        raise TaskError("no instruction")
    tests = asserts(row.get("unit_tests"), row.get("tests_execution_status"))
    if not tests:
        raise TaskError("no asserts")
    if not row.get("id"):
        raise TaskError("no id")
    answer = code_of(row.get("output"))
    name = function_under_test(tests, answer)
    if name is None:
        raise TaskError("tests call no function")
    if re.search(rf"^async def {name}\b", answer, re.MULTILINE):
        raise TaskError("the function is a coroutine")
    tests = [test for test in tests if name not in bound_names(test)]  # its name is the program's in all tests
    if not tests:
        raise TaskError("tests give the function's name to something else")
    source = "\n".join(tests)
    if others := top_level_names(answer) & used_names(source) - {name}:
        raise TaskError(f"tests use more of the solution than one function ({len(others)} names)")
    source = "\n".join([*imports_for(answer, source), *tests])
    bound = bound_names(source)
    if "*" not in bound and (unknown := used_names(source) - bound - set(dir(builtins)) - {name}):
        raise TaskError(f"tests use what nothing defines, such as {min(unknown)}")
    return Problem(
        id=f"opencodeinstruct/{row['id']}",
        question=f"{question.strip()}\n\nThe function is named `{name}`.",
        entry_point=name,
        check_src=source,
        reference=answer if re.search(rf"\b(?:def|class) {name}\b", answer) else "",
    )


def asserts(column: Any, status: Any = None) -> list[str]:
    """The asserts of `unit_tests` (a list or its JSON) that parse and need no state of the program, at most MAX_TESTS.

    status: `tests_execution_status`, as many results; a test of which it says anything but "pass" is left out.
    """
    tests, results = _listed(column), _listed(status)
    if len(results) != len(tests):
        results = ["pass"] * len(tests)
    passed = (
        test.strip() for test, result in zip(tests, results, strict=True) if isinstance(test, str) and result == "pass"
    )
    return [test for test in passed if _is_usable(test)][:MAX_TESTS]


def _listed(column: Any) -> list[Any]:
    """A list, or the list in its JSON; empty for anything else."""
    if isinstance(column, str):
        try:
            column = json.loads(column)
        except ValueError:
            return []
    return column if isinstance(column, list) else []


def _is_usable(test: str) -> bool:
    """Whether a test parses, asserts something, and names nothing of STATE and MODULES."""
    try:
        body = ast.parse(test).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    nodes = [node for statement in body for node in ast.walk(statement)]
    names = {getattr(node, field, None) for node in nodes for field in ("id", "attr", "name", "module")}
    return any(isinstance(statement, ast.Assert) for statement in body) and not names & (STATE | MODULES)


TOOLS = frozenset({"isclose", "approx", "Counter", "Decimal", "Fraction", "OrderedDict", "defaultdict", "deque"})
"""What tests call beside the function, often imported by the code."""


def function_under_test(tests: Iterable[str], answer: str = "") -> str | None:
    """The name that most tests call, builtins and what tests import or commonly use excluded; None if there is none.

    Of names that as many tests call, the first that `answer` defines as a function, else the one that the first of the
    asserts calls outermost.
    """
    counted: Counter[str] = Counter()
    order: dict[str, int] = {}
    functions = set(re.findall(r"^(?:async )?def (\w+)", answer, re.MULTILINE))
    for test in tests:
        others = (TOOLS | _imported(test)) - functions
        called = [name for name in _called_names(test) if name not in others]
        counted.update(dict.fromkeys(called, 1))
        for name in called:
            order.setdefault(name, len(order))
    if not counted:
        return None
    return min(counted, key=lambda name: (-counted[name], name not in functions, order[name]))


def _imported(test: str) -> set[str]:
    """The names that a test imports."""
    imports = [node for node in ast.walk(ast.parse(test)) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {alias.asname or alias.name for node in imports for alias in node.names}


def _called_names(test: str) -> list[str]:
    """The names that a test calls, those in asserts first and the outermost first."""
    body = ast.parse(test).body
    names: dict[str, None] = {}
    for statement in sorted(body, key=lambda each: not isinstance(each, ast.Assert)):
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not hasattr(builtins, node.func.id):
                names.setdefault(node.func.id)
    return list(names)


def code_of(output: Any) -> str:
    """The code of a model's recorded answer."""
    if not isinstance(output, str):
        return ""
    code = extract_fenced(output)
    return output if code is None else output[code.start : code.end]


def _statements(code: str) -> list[ast.stmt]:
    """The top level of a program; empty where it does not parse."""
    try:
        return ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def top_level_names(code: str) -> set[str]:
    """The functions and classes that code defines at its top level."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {statement.name for statement in _statements(code) if isinstance(statement, kinds)}


def used_names(code: str) -> set[str]:
    """The names that a program reads."""
    return {node.id for part in _statements(code) for node in ast.walk(part) if isinstance(node, ast.Name)}


def bound_names(code: str) -> set[str]:
    """The names that a program gives a value to, anywhere: by assignment, import or definition, or as a parameter; `*`
    among them if it imports names that it does not write."""
    names: set[str] = set()
    for node in (node for part in _statements(code) for node in ast.walk(part)):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler) and node.name:
            names.add(node.name)
    return names


def imports_for(code: str, tests: str) -> list[str]:
    """The imports of a solution whose names its tests use, one statement each: for the tests alone, since an answer has
    to import what it uses."""
    used, found = used_names(tests), []
    for statement in _statements(code):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            bound = {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
            if bound & used or "*" in bound:
                found.append(ast.unparse(statement))
    return found
