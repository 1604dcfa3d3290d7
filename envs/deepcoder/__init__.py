"""DeepCoder (Luo et al. 2025): 24,000 competition problems with tests, for programs that read standard input and for
functions.

The data is agentica-org/DeepCoder-Preview-Dataset on the hub, or a copy of it: primeintellect, taco and lcbv5 for
training, codeforces and lcbv5 for evaluation. The last complete code block of an answer must pass all tests of its
problem, each within `timeout_s` seconds. Standard output is compared as in LiveCodeBench
(envs.sandbox.comparison.same_output), results of functions by value. Where a statement allows an error ("10^{-6}"),
numbers may differ by it; where letters may have any case, capital letters do not count; where a function may return its
items in any order, the order does not count. Rows whose statement takes any of several answers are left out, since
their tests know one. The problem statements belong to the contest sites.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from envs.data import data_files, file_rows, hub_rows, reasons_of
from envs.deepcoder.cases import BadTests, Cases, normalise
from envs.deepcoder.statement import in_any_case, in_any_order, several_answers, tolerance_of
from envs.json_lines import Row
from envs.sandbox import Limits
from envs.task import CodeBlockTask, Extracted, Problem, TaskError, extract_fenced

log = logging.getLogger(__name__)

HUB = "agentica-org/DeepCoder-Preview-Dataset"
COLUMNS = ("id", "problem", "question", "prompt", "tests", "ground_truth", "starter_code", "metadata", "solutions")
SYSTEM = (
    "You are an expert Python programmer. You are given a programming problem; reason about it, then give a correct "
    "and fast program that solves it."
)
PROGRAM = """{problem}

Write a Python program that reads its input from standard input, as the problem describes it, and prints its answer, \
nothing else, to standard output. Do not put the examples into it. Give the whole program in one code block at the end \
of your answer:

```python
# your program
```"""
FUNCTION = """{problem}

Complete this starter code. Keep its names and parameters; return the result, print nothing:

```python
{starter}
```

Give the whole code in one code block at the end of your answer:

```python
# your code
```"""
LIBRARY = """
from typing import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from bisect import *
from string import *
from math import *
from operator import *
from builtins import *
import bisect, collections, copy, datetime, functools, heapq, itertools, math, operator, random, re, string, sys
sys.setrecursionlimit(50_000)
"""
"""What the judges of the contest sites import before a function; programs have their own imports."""


def _hub(parts: Sequence[str], split: str) -> Iterator[Row]:
    for part in parts:
        for number, row in enumerate(hub_rows(HUB, part, split, COLUMNS)):
            yield row | {"id": f"{part}-{split}-{number}"}


def _limits(timeout_s: float, memory_mib: int) -> Limits:
    """The limits of each test. Raises TaskError, with the task's settings, for what no program can keep to."""
    try:
        return Limits(cpu_s=timeout_s, wall_s=timeout_s, memory_mib=memory_mib, each_case=True)
    except ValueError as error:
        name, value = ("memory_mib", memory_mib) if "memory_mib" in str(error) else ("timeout_s", timeout_s)
        raise TaskError(f"task.env.{name}={value}:{str(error).partition(':')[2]}") from None


class DeepCoder(CodeBlockTask):
    """
    Args:
        path: a .jsonl, .jsonl.gz or .parquet file with the dataset's columns, or a folder of them; None for the hub. In
            a folder, files whose names begin with `test` are held out; if there are none, see `train_size`.
        train_size: number of problems to train on, for a file or folder without held-out files; None for nine tenths.
        split_seed, system: see CodeBlockTask; `system` None for SYSTEM.
        train_parts, test_parts: parts of the hub's dataset.
        timeout_s: limit of each test in seconds of processor time, and of wall time for programs that sleep.
        memory_mib: address space of a program. Its output may be twice as long as the text of the problem's tests, and
            at least the sandbox's usual limit.
        largest_mib: rows whose tests have more text are dropped.
        several_answers: drop or keep rows whose statement takes any of several answers.

    `dropped` counts the rows that are left out, by reason. One line of the log has both counts, of training and of
    held-out rows.

    Raises:
        TaskError: there is no data, a file cannot be read, no row is usable, or several_answers is unknown.
    """

    name = "deepcoder"
    closing = ""

    def __init__(
        self,
        path: str | None = None,
        train_size: int | None = None,
        split_seed: int = 0,
        system: str | None = None,
        train_parts: Sequence[str] = ("primeintellect", "taco", "lcbv5"),
        test_parts: Sequence[str] = ("codeforces", "lcbv5"),
        timeout_s: float = 6.0,
        memory_mib: int = 1024,
        largest_mib: float = 16.0,
        several_answers: str = "drop",
    ):
        if several_answers not in ("drop", "keep"):
            raise TaskError(f"task.env.several_answers={several_answers}: choose drop or keep")
        self._one_answer = several_answers == "drop"
        self._largest = int(largest_mib * (1 << 20))
        self._limits = _limits(timeout_s, memory_mib)
        held_out: list[Problem] | None = None
        dropped, dropped_held_out = Counter[str](), Counter[str]()
        if path is None:
            problems = self._problems(_hub(train_parts, "train"), dropped)
            held_out = self._problems(_hub(test_parts, "test"), dropped_held_out)
        else:
            root = Path(path)
            files = data_files(root, "task.env.path")
            tests = [file for file in files if file.name.startswith("test")] if len(files) > 1 else []
            others = [file for file in files if file not in tests]
            problems = self._problems(file_rows(others, COLUMNS, dropped, root, warn=False), dropped)
            if tests:
                rows = file_rows(tests, COLUMNS, dropped_held_out, root, warn=False)
                held_out = self._problems(rows, dropped_held_out)
        problems = _apart(problems, held_out or [], dropped)
        self.dropped = dropped + dropped_held_out
        _tell(problems, dropped, held_out, dropped_held_out)
        if train_size is None:
            train_size = len(problems) * 9 // 10
        super().__init__(problems, train_size, split_seed, SYSTEM if system is None else system, held_out)

    def extract(self, answer: str) -> Extracted | None:
        """The last complete fenced block; a block that was cut off does not count."""
        code = extract_fenced(answer)
        return code if code is None or code.closed else extract_fenced(answer[: code.start])

    def complete(self, answer: str) -> bool:
        """Never, because a draft in a block of its own may precede the program."""
        return False

    def _problems(self, rows: Iterable[Row], dropped: Counter[str]) -> list[Problem]:
        """The usable rows of one side of the split, the first of each id; the others are counted in `dropped`."""
        problems: dict[str, Problem] = {}
        for row in rows:
            try:
                if row["id"] in problems:
                    raise BadTests("id seen before")
                problems[row["id"]] = self._problem(row["id"], row)
            except BadTests as error:
                dropped[str(error)] += 1
        return list(problems.values())

    def _problem(self, name: str, row: Row) -> Problem:
        """A row as a problem. Raises BadTests, with the reason, for an unusable row."""
        text = next((row[key] for key in ("problem", "question", "prompt") if row.get(key)), None)
        if not isinstance(text, str) or not text.strip():
            raise BadTests("no problem text")
        starter = row.get("starter_code")
        starter = starter.rstrip() if isinstance(starter, str) else ""
        column = row.get("tests") or row.get("ground_truth")
        if isinstance(column, str | bytes) and len(column) > self._largest:
            raise BadTests("tests over task.env.largest_mib")
        tests = normalise(column, row.get("metadata"), starter)
        allowed = tolerance_of(text) or 0.0
        unordered = tests.entry_point is not None and in_any_order(text)
        if self._one_answer and not unordered and several_answers(text):
            raise BadTests("takes any of several answers (task.env.several_answers=keep)")
        return Problem(
            id=f"{self.name}/{name}",
            question=_question(text.strip(), starter, tests),
            entry_point=tests.entry_point,
            cases=tests.cases,
            setup=LIBRARY if tests.entry_point else None,
            reference=_reference(row.get("solutions")),
            family=hashlib.sha256("".join(text.split()).encode("utf-8", "replace")).hexdigest()[:16],
            tol=max(allowed, 1e-6) if tests.entry_point else allowed,
            unordered=unordered,
            any_case=tests.entry_point is None and in_any_case(text),
            as_json=True,
            limits=replace(self._limits, output_kib=max(self._limits.output_kib, 2 * _size(column) >> 10)),
        )


def _apart(problems: list[Problem], held_out: Sequence[Problem], dropped: Counter[str]) -> list[Problem]:
    """The problems to train on that are not held out too; the others are counted in `dropped`."""
    families = {problem.family for problem in held_out}
    others = [problem for problem in problems if problem.family not in families]
    dropped["has the text of a held-out problem"] += len(problems) - len(others)
    names = {problem.id for problem in held_out}
    kept = [problem for problem in others if problem.id not in names]
    dropped["has the id of a held-out problem"] += len(others) - len(kept)
    return kept


def _tell(
    problems: Sequence[Problem],
    dropped: Counter[str],
    held_out: Sequence[Problem] | None,
    dropped_held_out: Counter[str],
) -> None:
    """Log in one line how many rows of each side are left out, and why. held_out: None where files have no such side.
    Raises TaskError for a side without a problem."""
    sides = [("rows" if held_out is None else "training rows", problems, dropped)]
    sides += [] if held_out is None else [("held-out rows", held_out, dropped_held_out)]
    parts = []
    for name, kept, others in sides:
        reasons = reasons_of(others)
        if not kept:
            raise TaskError(f"deepcoder: no usable {name} ({reasons or 'empty files'}): see task.env.path")
        if reasons:
            parts.append(f"{others.total()} of {len(kept) + others.total()} {name} ({reasons})")
    if parts:
        log.warning("deepcoder: left out %s", " and ".join(parts))


def _question(text: str, starter: str, tests: Cases) -> str:
    if tests.entry_point is None:
        return PROGRAM.format(problem=text)
    return FUNCTION.format(problem=text, starter=starter or _header(tests))


def _header(tests: Cases) -> str:
    """The first line of a function of which only the name and the calls are known."""
    case: Any = tests.cases[0]
    names = [*(f"arg{number}" for number in range(1, len(case.args) + 1)), *case.kwargs]
    return f"def {tests.entry_point}({', '.join(names)}):"


def _size(column: Any) -> int:
    """Characters of a problem's tests."""
    return len(column) if isinstance(column, str | bytes) else len(json.dumps(column, default=str))


def _reference(solutions: Any) -> str:
    """The first solution, without its fence if it has one; empty if there is no solution."""
    first = solutions[0] if isinstance(solutions, list) and solutions else solutions
    if not isinstance(first, str):
        return ""
    fenced = re.search(r"```[\w+-]*\n(.*?)```", first, re.DOTALL)
    return fenced[1] if fenced else first
