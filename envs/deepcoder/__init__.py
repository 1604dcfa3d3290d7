"""DeepCoder (Luo et al. 2025): 24,000 competition problems with tests, programs over standard input and functions.

The data is agentica-org/DeepCoder-Preview-Dataset on the hub, or a copy of it: to train on primeintellect, taco and
lcbv5, held out codeforces and lcbv5. An answer's last complete code block must pass all tests of its problem, each
within `timeout_s` seconds; standard output is compared as LiveCodeBench does (envs.sandbox.judge.same_output), results
of functions by value. Statements belong to the contest sites.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from envs.data import Row, data_files, file_rows, hub_rows
from envs.deepcoder.cases import BadTests, Cases, normalise
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
"""What the contest sites' judges import before a function; programs bring their own imports."""


def _hub(parts: Sequence[str], split: str) -> Iterator[Row]:
    for part in parts:
        for number, row in enumerate(hub_rows(HUB, part, split, COLUMNS)):
            yield row | {"id": f"{part}-{split}-{number}"}


class DeepCoder(CodeBlockTask):
    """
    Args:
        path: a .jsonl, .jsonl.gz or .parquet file in the dataset's columns, or a folder of them; None for the hub. Of a
            folder, files whose names begin with `test` are held out; where none does, see `train_size`.
        train_size: of a file or folder with no files to hold out, how many problems to train on; None for nine tenths.
        split_seed, system: see CodeBlockTask; `system` None for SYSTEM.
        train_parts, test_parts: parts of the hub's dataset.
        timeout_s: seconds of processor time a test, and on the clock for programs that sleep.
        memory_mib: address space of a program.
        largest_mib: rows with more text in their tests are dropped.

    `dropped` counts the rows left out, by reason; their number goes to the log.

    Raises:
        TaskError: no data, files that cannot be read, not one usable row.
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
    ):
        self.dropped: Counter[str] = Counter()
        self._largest = int(largest_mib * (1 << 20))
        self._limits = Limits(cpu_s=timeout_s, wall_s=timeout_s, memory_mib=memory_mib, each_case=True)
        self._names: set[str] = set()
        held_out: list[Problem] | None = None
        if path is None:
            problems = self._problems(_hub(train_parts, "train"))
            held_out = self._problems(_hub(test_parts, "test"))
        else:
            files = data_files(Path(path))
            tests = [file for file in files if file.name.startswith("test")] if len(files) > 1 else []
            problems = self._problems(file_rows([f for f in files if f not in tests], COLUMNS, self.dropped))
            if tests:
                held_out = self._problems(file_rows(tests, COLUMNS, self.dropped))
        total, reasons = sum(self.dropped.values()), ", ".join(f"{n} {why}" for why, n in self.dropped.most_common())
        if total:
            log.warning("deepcoder: %d rows dropped: %s", total, reasons)
        if not problems or held_out == []:
            raise TaskError(f"deepcoder: no usable rows ({reasons or 'empty files'}): see task.env.path")
        if train_size is None:
            train_size = len(problems) * 9 // 10
        super().__init__(problems, train_size, split_seed, SYSTEM if system is None else system, held_out)

    def extract(self, answer: str) -> Extracted | None:
        """The last complete fenced block; one that was cut off is none."""
        code = extract_fenced(answer)
        return code if code is None or code.closed else extract_fenced(answer[: code.start])

    def complete(self, answer: str) -> bool:
        """Never: a draft in a block of its own may precede the program."""
        return False

    def _problems(self, rows: Iterable[Row]) -> list[Problem]:
        problems = []
        for row in rows:
            try:
                problems.append(self._problem(row["id"], row))
            except BadTests as error:
                self.dropped[str(error)] += 1
        return problems

    def _problem(self, name: str, row: Row) -> Problem:
        """A row as a problem. Raises BadTests with the reason why it is none."""
        text = next((row[key] for key in ("problem", "question", "prompt") if row.get(key)), None)
        if not isinstance(text, str) or not text.strip():
            raise BadTests("no problem text")
        starter = row.get("starter_code")
        starter = starter.rstrip() if isinstance(starter, str) else ""
        column = row.get("tests") or row.get("ground_truth")
        if isinstance(column, str | bytes) and len(column) > self._largest:
            raise BadTests("tests over task.env.largest_mib")
        tests = normalise(column, row.get("metadata"), starter)
        if name in self._names:
            raise BadTests("id seen before")
        self._names.add(name)
        return Problem(
            id=f"{self.name}/{name}",
            question=_question(text.strip(), starter, tests),
            entry_point=tests.entry_point,
            cases=tests.cases,
            setup=LIBRARY if tests.entry_point else None,
            reference=_reference(row.get("solutions")),
            family=hashlib.sha256("".join(text.split()).encode("utf-8", "replace")).hexdigest()[:16],
            as_json=True,
            limits=self._limits,
        )


def _question(text: str, starter: str, tests: Cases) -> str:
    if tests.entry_point is None:
        return PROGRAM.format(problem=text)
    return FUNCTION.format(problem=text, starter=starter or _header(tests))


def _header(tests: Cases) -> str:
    """The first line of a function of which nothing but its name and its calls is known."""
    case: Any = tests.cases[0]
    names = [*(f"arg{number}" for number in range(1, len(case.args) + 1)), *case.kwargs]
    return f"def {tests.entry_point}({', '.join(names)}):"


def _reference(solutions: Any) -> str:
    """The first solution, out of its fence if it stands in one; empty where there is none."""
    first = solutions[0] if isinstance(solutions, list) and solutions else solutions
    if not isinstance(first, str):
        return ""
    fenced = re.search(r"```[\w+-]*\n(.*?)```", first, re.DOTALL)
    return fenced[1] if fenced else first
