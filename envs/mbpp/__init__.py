"""MBPP (Austin et al. 2021, arXiv 2108.07732, CC BY 4.0): trained on OpenCodeInstruct, evaluated on MBPP problems.

Training: a seeded sample of nvidia/OpenCodeInstruct (envs/mbpp/instruct.py), as in the dense-rewards paper. Test: MBPP
11 to 510, its sanitized half, or MBPP+ (envs/mbpp/plus.py). Each set is read at its first use, so that an evaluation
needs no training data and training needs no test data.
"""

from __future__ import annotations

import ast
import builtins
import functools
import itertools
import logging
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from envs.data import check_fields, data_files, file_rows, hub_rows, reasons_of
from envs.json_lines import Row
from envs.mbpp import instruct, plus
from envs.task import (
    CodeBlockTask,
    Extracted,
    Problem,
    Split,
    TaskError,
    extract_fenced,
    require_own_ids,
    require_tests,
)

log = logging.getLogger("codegrain")

HUB = "google-research-datasets/mbpp"
COLUMNS = ("task_id", "text", "prompt", "code", "test_list", "test_setup_code", "test_imports", "challenge_test_list")
KINDS = {
    "code": "a text, not empty",
    "test_list": "a list of texts, not empty",
    "test_setup_code": "a text",
    "test_imports": "a list of texts",
}
OPTIONAL = ("test_setup_code", "test_imports")
SETS = ("mbpp", "sanitized", "plus")
TEST_IDS = range(11, 511)
"""1 to 10 are for few-shot prompts, 511 to 600 for validation, 601 to 974 for training."""
BEGINS = re.compile(r"^(?:(?:async )?def |class |import |from |@)", re.MULTILINE)
DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BINDS = (*DEFINES, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)


class Mbpp(CodeBlockTask):
    """
    Args:
        evaluate: "mbpp", "sanitized" or "plus".
        path: the file of that set (mbpp.jsonl, sanitized-mbpp.jsonl, MbppPlus.jsonl, or .gz); None for the hub, for
            "plus" first the file in EvalPlus's variable MBPP_OVERRIDE_PATH, if it is set.
        train_path: file or folder of OpenCodeInstruct rows; None for the hub.
        train_size, validation_size: number of problems that are sampled from it.
        split_seed: seed of the sample.
        system: the system message; empty for the chat template's own.
        shown_tests: number of MBPP's asserts that the prompt shows.
        every_id: True evaluates all 974 problems of "mbpp", not only those reserved for testing.
        limit: evaluate only the first `limit` problems; None: all.

    Raises:
        TaskError: an unknown set; missing or invalid data, at the first use of the set.
    """

    def __init__(
        self,
        evaluate: str = "mbpp",
        path: str | None = None,
        train_path: str | None = None,
        train_size: int = 5000,
        validation_size: int = 500,
        split_seed: int = 0,
        system: str = "",
        shown_tests: int = 1,
        every_id: bool = False,
        limit: int | None = None,
    ):
        if evaluate not in SETS:
            raise TaskError(f"task.env.evaluate={evaluate}: one of {', '.join(SETS)}")
        for name, value, least in (
            ("limit", limit, 1),
            ("shown_tests", shown_tests, 0),
            ("train_size", train_size, 1),
            ("validation_size", validation_size, 0),
        ):
            if value is not None and value < least:
                raise TaskError(f"task.env.{name}={value}: it must be {least} or more")
        self.name = "mbppplus" if evaluate == "plus" else "mbpp" if evaluate == "mbpp" else f"mbpp_{evaluate}"
        self.evaluate, self.path, self.train_path, self.system = evaluate, path, train_path, system
        self.train_size, self.validation_size, self.split_seed = train_size, validation_size, split_seed
        self.shown_tests, self.every_id, self.limit = shown_tests, every_id, limit
        for name, given in (("path", path), ("train_path", train_path)):
            if given is not None:
                data_files(Path(given), f"task.env.{name}")

    def problems(self, split: Split) -> list[Problem]:
        """The problems of a split: train and validation from OpenCodeInstruct, test from MBPP."""
        if split == "test":
            return self._test
        train = self._instructions[: self.train_size]
        return train if split == "train" else self._instructions[self.train_size :]

    def extract(self, answer: str) -> Extracted | None:
        """The last fenced block, or else the result of `extract_definitions`."""
        return extract_fenced(answer) or extract_definitions(answer)

    @functools.cached_property
    def _instructions(self) -> list[Problem]:
        size = self.train_size + self.validation_size
        dropped: Counter[str] = Counter()
        try:
            rows = instruct.rows(self.train_path, self.split_seed, dropped)
            problems = instruct.sample(rows, size, self.split_seed, self.train_path is None, dropped)
        except TaskError as error:
            if self.train_path is None:
                raise
            raise TaskError(
                f"task.env.train_path={self.train_path}: {error}; name a file or folder with rows of OpenCodeInstruct "
                f"(fields {', '.join(instruct.NEEDED)}), or set it to null for the hub"
            ) from None
        if len(problems) <= self.validation_size:
            raise TaskError(f"{len(problems)} usable rows: lower task.env.validation_size={self.validation_size}")
        require_own_ids(problems)
        if dropped:
            log.warning("OpenCodeInstruct: left out %d rows (%s)", dropped.total(), reasons_of(dropped))
        self.train_size = min(self.train_size, len(problems) - self.validation_size)
        return problems

    @functools.cached_property
    def _test(self) -> list[Problem]:
        if self.evaluate == "plus":
            problems = plus.problems(self.path)
        else:
            rows = self._rows()
            try:
                problems = [mbpp_problem(row, self.shown_tests) for row in self._chosen(rows)]
            except TaskError as error:
                raise TaskError(f"{HUB if self.path is None else f'task.env.path={self.path}'}: {error}") from None
        require_tests(problems, "task_id")
        return problems[: self.limit]

    def _rows(self) -> list[Row]:
        if self.path is not None:
            return list(file_rows(data_files(Path(self.path), "task.env.path"), COLUMNS, strict=True))
        part = "full" if self.evaluate == "mbpp" else "sanitized"
        splits = ("prompt", "test", "validation", "train")
        return [row for split in splits for row in hub_rows(HUB, part, split, COLUMNS)]

    def _chosen(self, rows: list[Row]) -> list[Row]:
        """The rows to evaluate, in the order of their numbers. Raises TaskError, without the path."""
        if not rows:
            raise TaskError("no row in it")
        for number, row in enumerate(rows, 1):
            try:
                check_fields(row, {"task_id": "an integer"})
            except TaskError as error:
                raise TaskError(f"{row.get('id', f'row {number}')}: {error}") from None
        whole = self.evaluate == "mbpp"
        own, other = ("text", "prompt") if whole else ("prompt", "text")
        if all(row.get(other) and not row.get(own) for row in rows):
            raise TaskError(
                f"its rows have `{other}`, not `{own}`, as those of the other set: choose "
                f"task={'mbpp_sanitized' if whole else 'mbpp'}, or the other file"
            )
        ordered = sorted(rows, key=lambda row: row["task_id"])
        chosen = [row for row in ordered if row["task_id"] in TEST_IDS] if whole and not self.every_id else ordered
        if not chosen:
            first, last = TEST_IDS[0], TEST_IDS[-1]
            raise TaskError(f"no `task_id` is from {first} to {last}: set task.env.every_id=true to evaluate all rows")
        return chosen


def mbpp_problem(row: Row, shown_tests: int = 1) -> Problem:
    """One row of MBPP, original or sanitized. Its tests have the imports of the reference that they use; an answer has
    to import what it uses itself. The row's set-up code runs after the answer, whose classes it may use (tasks 367 and
    927). Raises TaskError, with the task's number, for a row with a wrong field or without a call in its tests."""
    asked = "prompt" if "prompt" in row and not row.get("text") else "text"
    try:
        check_fields(row, {asked: "a text, not empty", **KINDS}, OPTIONAL)
        code = row["code"].replace("\r\n", "\n")
        entry_point = called(row["test_list"], defined(code))
    except TaskError as error:
        raise TaskError(f"mbpp/{row['task_id']}: {error}") from None
    after = (row.get("test_setup_code") or "").replace("\r\n", "\n")
    tests = "\n".join(filter(str.strip, [after, *row["test_list"]]))
    question = f"{row[asked]}\n\nThe function is named `{entry_point}`."
    if shown_tests:
        question += " It must pass:\n\n```python\n" + "\n".join(row["test_list"][:shown_tests]) + "\n```"
    imports = [*instruct.imports_for(code, tests), *(row.get("test_imports") or [])]
    return Problem(
        id=f"mbpp/{row['task_id']}",
        question=question,
        entry_point=entry_point,
        check_src="\n".join([*imports, tests]),
        reference=code + "\n",
        shown=min(shown_tests, len(row["test_list"])),
    )


def defined(code: str) -> list[str]:
    """Names of the functions that code defines at its top level."""
    return re.findall(r"^(?:async )?def (\w+)", code, re.MULTILINE)


def called(tests: Sequence[str], among: Sequence[str] = ()) -> str:
    """The tested function: the name that the first test calls outermost, of `among`, or of all names that are not
    builtins. Raises TaskError if there is none."""
    for test in tests:
        try:
            tree = ast.parse(test.strip())
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                name = node.func.id
                if name in among or (not among and not hasattr(builtins, name)):
                    return name
    raise TaskError(f"no test calls a function: {tests[0][:80] if tests else 'no tests'}")


def extract_definitions(answer: str) -> Extracted | None:
    """The code from the first line that begins a definition or an import, as far as it is a valid program; if no part
    is valid, up to the last line that is indented, empty or begins another definition or import."""
    beginning = BEGINS.search(answer)
    if beginning is None:
        return None
    start = beginning.start()
    lines = answer[start:].split("\n")
    count = _lines_of_program(lines) or _lines_by_pattern(lines)
    return Extracted(start, min(start + sum(len(line) + 1 for line in lines[:count]), len(answer)), closed=False)


def _lines_of_program(lines: Sequence[str]) -> int:
    """The number of lines up to the last statement that binds a name, within the longest part that parses; 0 if nothing
    is defined.

    Later statements do not count, because a single word of prose is an expression. A part ends before a line without
    indentation, so that no function is cut in the middle.
    """
    ends = [n for n, line in enumerate(lines) if n and line[:1].strip()] + [len(lines)]
    while ends:
        end = ends.pop()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" is a warning, and under -W error a syntax error
            try:
                body = ast.parse("\n".join(lines[:end])).body
            except SyntaxError as error:
                ends = [each for each in ends if each < (error.lineno or end)]  # a longer part has the same error
                continue
            except (ValueError, RecursionError, MemoryError):
                continue
        bound = [statement for statement in body if isinstance(statement, BINDS)]
        return bound[-1].end_lineno or 0 if any(isinstance(statement, DEFINES) for statement in bound) else 0
    return 0


def _lines_by_pattern(lines: Sequence[str]) -> int:
    code_lines = itertools.takewhile(lambda line: not line[:1].strip() or BEGINS.match(line), lines)
    return max(n for n, line in enumerate(code_lines, 1) if line.strip())
