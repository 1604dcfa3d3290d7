"""MBPP+ (Liu et al. 2023, arXiv 2305.01210; EvalPlus v0.2.0, Apache-2.0): MBPP with about thirty times the tests.

Rows come from EvalPlus's file MbppPlus.jsonl or from evalplus/mbppplus on the hub. A row has inputs and a reference,
whose results are the expected values. The file's JSON has no tuples, sets or complex numbers, so the tasks whose
arguments have these types are listed here. Verdicts agree with the package evalplus 0.3.1 on every task
(tests/envs/test_mbpp.py), including its special comparisons, but the answer runs in the sandbox.

A problem's tests are all inputs, as for EvalPlus's "base + extra tests". Its data has the same problem with MBPP's own
inputs alone, under `base`, so that an evaluation gives both verdicts on the same answers (recipes/evaluation).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from envs.data import check_fields, data_files, file_rows, hub_rows
from envs.json_lines import Row
from envs.sandbox import Limits
from envs.task import Problem, TaskError

HUB = "evalplus/mbppplus"
FILE_KINDS = {
    "prompt": "a text, not empty",
    "entry_point": "a name",
    "canonical_solution": "a text, not empty",
    "base_input": "a list of lists, not empty",
    "plus_input": "a list of lists",
    "atol": "a number, 0 or more",
}
HUB_KINDS = {
    "prompt": "a text, not empty",
    "code": "a text, not empty",
    "test_imports": "a list of texts",
    "test_list": "a list of texts, not empty",
    "test": "a text",
}
HUB_COLUMNS = ("task_id", *HUB_KINDS)
COLUMNS = tuple(dict.fromkeys(["task_id", *FILE_KINDS, *HUB_KINDS]))
TASK_ID = re.compile(r"(?:.*/)?([0-9]{1,9})")
"""5 on the hub, Mbpp/5 in EvalPlus's file."""
INPUTS = re.compile(r"^inputs = (.*)$", re.MULTILINE)
"""EvalPlus writes all inputs on one line of the hub's `test`."""
ASSERTION = re.compile(r"^ +assertion\((\w+)\(\*inp\), .*?((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\)\s*\Z", re.MULTILINE)
"""The last line of `test`: the function that is tested, and the tolerance."""
LIMITS = Limits(cpu_s=120.0, wall_s=150.0, most_wall_s=900.0)
"""One job runs a hundred inputs, also on the reference; some sum the numbers up to a hundred million."""
Convert = Callable[[Any], Any]


def _rows_of(value: Any) -> Any:
    return [tuple(row) for row in value]


def _deep(value: Any) -> Any:
    return tuple(_deep(each) for each in value) if isinstance(value, list) else value


def _same(value: Any) -> Any:
    return value


def _each(convert: Convert) -> Callable[[list[Any]], Any]:
    return lambda arguments: [convert(argument) for argument in arguments]


def _by_place(*converts: Convert) -> Callable[[list[Any]], Any]:
    return lambda arguments: [
        (converts[place] if place < len(converts) else _same)(argument) for place, argument in enumerate(arguments)
    ]


def _pairs(value: Any) -> Any:
    return tuple(tuple(each) if isinstance(each, list) else each for each in value)


TUPLE_TASKS = (
    2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424, 429, 470, 560, 579, 596, 616, 630, 726, 740, 744, 809,
)  # fmt: skip
"""Tasks whose arguments are all tuples."""
FORMS: dict[Callable[[list[Any]], Any], tuple[int, ...]] = {
    _each(tuple): TUPLE_TASKS,
    _each(_rows_of): (63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780),
    _by_place(_rows_of): (75, 413, 444, 753),
    _by_place(_same, tuple): (106, 750),
    _by_place(lambda sets: [set(each) if isinstance(each, list) and each else {} for each in sets]): (115,),
    _by_place(float, complex): (124,),
    _by_place(tuple): (250, 307, 405, 446, 617, 720, 763, 808),
    _each(lambda rows: tuple(map(tuple, rows))): (259, 401, 445),
    _by_place(_pairs): (278,),
    _by_place(lambda table: {key: tuple(value) for key, value in table.items()}): (722,),
    _by_place(complex): (252,),
    _deep: (580, 615, 791),
}
CONVERTED = {task: form for form, tasks in FORMS.items() for task in tasks}
"""Task number to the conversion of its JSON arguments to those of the reference."""

CHECK = """
import contextlib, copy, math
inf, nan = math.inf, math.nan

def _number(value):
    return isinstance(value, (int, float, complex)) and not isinstance(value, str)

def _close(out, expected, atol):
    if isinstance(expected, (list, tuple)) or isinstance(out, (list, tuple)):
        if not isinstance(expected, (list, tuple)) or not isinstance(out, (list, tuple)):
            return False
        return len(out) == len(expected) and all(_close(a, b, atol) for a, b in zip(out, expected))
    if not (_number(out) and _number(expected)):
        return False
    return out == expected or abs(out - expected) <= atol + 1e-07 * abs(expected)

def _floats(value):
    if isinstance(value, float):
        return True
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(each, float) for each in value)

def _surface(base, height):
    return round(base ** 2 + 2 * base * math.sqrt((base / 2) ** 2 + height ** 2))

def _digit_distance(first, second):
    first, second = str(first), str(second)
    width = max(len(first), len(second))
    return sum(abs(int(a) - int(b)) for a, b in zip(first.zfill(width), second.zfill(width)))

def _right(name, arguments, out, expected, atol):
    exact = out == expected
    if name == "are_equivalent":
        return True
    if name == "sum_div":
        exact = exact or out == 0
    elif name == "surface_Area":
        exact = exact or abs(out - _surface(*arguments)) <= atol
    elif name == "digit_distance_nums":
        exact = exact or out == _digit_distance(*arguments)
    elif name in ("similar_elements", "find_char_long", "common_in_nested_lists", "extract_singly", "larg_nnum",
                  "intersection_array", "find_dissimilar", "Diff"):
        exact = set(out) == set(expected)
    elif name in ("check_str", "text_match_three", "text_starta_endb"):
        wanted = expected if isinstance(expected, bool) else expected is not None
        exact = out == wanted if isinstance(out, bool) else wanted == (out is not None)
    if not exact and atol:
        if type(out) is not type(expected):
            return False
        return _close(out, expected, atol)
    return exact

_reference = {{}}
exec({solution!r}, _reference)

def _tuples(value):
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value

def _called_by(statements, inputs):
    asked, given = [], [_tuples(arguments) for arguments in inputs]

    def record(*arguments):
        if _tuples(arguments) not in asked:
            asked.append(_tuples(arguments))
        return _reference[{name!r}](*copy.deepcopy(arguments))

    names = {{{name!r}: record}}
    for statement in statements:
        with contextlib.suppress(AssertionError):
            exec(statement, names)
    places = [given.index(arguments) for arguments in asked if arguments in given]
    return inputs[: 1 + max([len(asked) - 1, *places])]

def check(candidate):
    atol = {atol!r}
    for arguments in {inputs}:
        expected = _reference[{name!r}](*copy.deepcopy(arguments))
        out = candidate(*copy.deepcopy(arguments))
        if not atol and _floats(expected):
            atol = 1e-06
        assert _right({name!r}, arguments, out, expected, atol), "wrong for %.200r" % (arguments,)
"""


def problems(path: str | None) -> list[Problem]:
    """The tasks of EvalPlus's file, or of the hub's dataset or a copy of it. Raises TaskError if there is no such data
    or a field of a row is missing or of another type."""
    where = f"task.env.path={path}"
    if not path and (path := os.environ.get("MBPP_OVERRIDE_PATH")):
        where = f"MBPP_OVERRIDE_PATH={path}"
    if not path:
        where = HUB
        try:
            rows = list(hub_rows(HUB, None, "test", HUB_COLUMNS))
        except TaskError as error:
            raise TaskError(
                f"{error}; EvalPlus's own file will do too: set task.env.path (or MBPP_OVERRIDE_PATH) to "
                "MbppPlus-v0.2.0.jsonl.gz of github.com/evalplus/mbppplus_release"
            ) from error
    else:
        rows = list(file_rows(data_files(Path(path), where.partition("=")[0]), COLUMNS, strict=True))
    if not rows:
        raise TaskError(f"{where}: no row in it")
    try:
        return [hub_problem(row) if "test" in row else plus_problem(row) for row in rows]
    except TaskError as error:
        raise TaskError(f"{where}: {error}") from None


def _checked(row: Row, kinds: Mapping[str, str]) -> int:
    """The number of a row's task. Raises TaskError for a wrong field."""
    task = row.get("task_id")
    number = TASK_ID.fullmatch(str(task)) if isinstance(task, str | int) else None
    if number is None:
        given = "missing" if task is None else f"{task!r:.60}"
        raise TaskError(f"{row.get('id', 'a row')}: `task_id` is {given}: it must be a number, or a text like Mbpp/5")
    try:
        check_fields(row, kinds, ("test_imports",))
    except TaskError as error:
        raise TaskError(f"task {task}: {error}") from None
    return int(number[1])


def plus_problem(row: Row) -> Problem:
    """One row of EvalPlus's file as a problem whose check also runs the reference. Raises TaskError, with the task's
    id, for a wrong field."""
    if row.get("plus_input") == {}:  # no inputs either
        row = row | {"plus_input": []}
    number = _checked(row, FILE_KINDS)
    convert = CONVERTED.get(number, _same)
    try:
        base, plus = ([convert(arguments) for arguments in row[part]] for part in ("base_input", "plus_input"))
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise TaskError(f"task {row['task_id']}: `base_input` and `plus_input` are not this task's: {error}") from None
    text = row["prompt"].strip().strip('"').strip()
    return _problem(
        number, text, row["entry_point"], row["canonical_solution"], row["atol"], repr(base + plus), repr(base)
    )


def hub_problem(row: Row) -> Problem:
    """One row of the hub's dataset as a problem, with the same tests and comparisons as the file's row.

    Its `test` has the inputs as Python source, each once: first those of MBPP, then EvalPlus's own. Those of MBPP end
    with the last that an assert of `test_list` calls the function with (list or tuple makes no difference), and are at
    least as many as there are different calls. Raises TaskError, with the task's id, for a wrong field or a `test` of
    another form.
    """
    number, asserts = _checked(row, HUB_KINDS), row["test_list"]
    inputs, assertion = INPUTS.search(row["test"]), ASSERTION.search(row["test"])
    if inputs is None or assertion is None:
        raise TaskError(
            f"task {number}: `test` is not of EvalPlus's form (a line `inputs = [...]`, an assertion with a tolerance)"
        )
    text = f"{row['prompt'].strip()}\n{asserts[0].strip()}"
    base = f"_called_by({[*(row.get('test_imports') or []), *asserts]!r}, {inputs[1]})"
    return _problem(number, text, assertion[1], row["code"], float(assertion[2]), inputs[1], base)


def _problem(number: int, text: str, name: str, solution: str, atol: float, inputs: str, base: str) -> Problem:
    """A task as a problem. inputs, base: Python source of all inputs, and of MBPP's own."""
    whole, first = (CHECK.format(name=name, solution=solution, inputs=source, atol=atol) for source in (inputs, base))
    problem = Problem(
        id=f"mbppplus/{number}",
        question=f"{text}\n\nThe function is named `{name}`.",
        entry_point=name,
        check_src=whole,
        reference=solution.lstrip("\n"),
        limits=LIMITS,
    )
    return replace(problem, data={"base": replace(problem, check_src=first)})
