"""Rows for `task.env.further` from functions of collections: tests from their answers, and none that is held out."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envs.basics.collected.arguments import candidates
from envs.basics.collected.functions import Arguments, Found, Unusable
from envs.basics.collected.set_order import depends
from envs.basics.families import shape_of
from envs.basics.families.cases import Case, dull, in_turns
from envs.json_lines import Row
from envs.sandbox import FunctionCase, Job, Limits, Outcome, Sandbox
from envs.task import Problem

PROGRAM = Path(__file__).with_name("program.py").read_text(encoding="utf-8")
LIMITS = Limits(wall_s=120.0, cpu_s=60.0, memory_mib=1024)
TESTS, FEWEST = 8, 4
LONG, LONGEST_CASE = 120, 400
"""Characters of a call with its result: more is a poor example; a case with more is left out."""
LARGEST = 1e9
"""Beyond it the last digits of a float depend on the order of the operations, and tests allow 1e-6."""
SHORTEST, LONGEST = 15, 299
"""Characters of a description."""


@dataclass
class Made:
    """The rows of collections, and how many functions were left out for which reason."""

    rows: list[Row] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


async def rows(found: Iterable[Found | Unusable], held_out: Sequence[Problem], sandbox: Sandbox, longest: int) -> Made:
    """The functions as rows with the fields of `envs/basics/problems`.

    Args:
        held_out: problems whose tests no row's solution may pass.
        longest: of a solution, in characters.

    Raises RuntimeError where the sandbox does not run a function.
    """
    made = Made()
    functions: dict[str, Found] = {}
    calls: dict[str, list[Arguments]] = {}
    shapes = {shape_of(problem.reference) for problem in held_out if problem.reference}
    for each in found:
        reason = str(each) if isinstance(each, Unusable) else _before_running(each, functions, shapes, longest)
        tried = [] if reason or isinstance(each, Unusable) else candidates(each)
        if isinstance(each, Unusable) or reason or not tried:
            made.left_out[reason or "no arguments to try it on"] += 1
        else:
            shapes.add(shape_of(each.solution))
            functions[each.id], calls[each.id] = each, tried
    tests = [_tests(problem) for problem in held_out]
    jobs = [_job(each, calls[key], tests) for key, each in functions.items()]
    for outcome in await sandbox.run(jobs):
        each, ran = functions[outcome.id], _ran(outcome)
        cases = _cases(each, calls[each.id], ran["answers"]) if ran and not ran["passes"] else []
        if cases:
            made.rows.append(_row(each, cases))
        elif ran:
            passed = "it passes the tests of a held-out problem"
            made.left_out[passed if ran["passes"] else f"it has not {FEWEST} tests, and two different answers"] += 1
        else:
            made.left_out["it cannot be run"] += 1
    return made


def _before_running(each: Found, taken: dict[str, Found], shapes: set[str], longest: int) -> str:
    """Why a function makes no problem; empty if nothing is known against it."""
    if len(each.solution) > longest:
        return "it is longer than --longest"
    if not SHORTEST <= len(each.description) <= LONGEST:
        return "it has no description of a sentence or two"
    if depends(each.solution):
        return "the order of a set may decide its answer"
    if each.id in taken:
        return "another of its collection has its name"
    if shape_of(each.solution) in shapes:
        return "its syntax tree is that of another, or of a held-out problem's reference"
    return ""


def _job(function: Found, calls: Sequence[Arguments], tests: Sequence[Row]) -> Job:
    """The job that finds a function's answers, and the held-out problems that it solves."""
    comparable = [test for test in tests if test["arguments"] == len(function.parameters)]
    told = [_told(list(call)) for call in calls]
    asked = {"source": function.solution, "name": function.name, "calls": told, "held_out": comparable}
    return Job(function.id, "program", PROGRAM, stdin=json.dumps(asked), limits=LIMITS)


def _tests(problem: Problem) -> Row:
    """The tests of a held-out problem as program.py takes them, with the number of arguments."""
    if problem.check_src is None:
        cases = [case for case in problem.cases if isinstance(case, FunctionCase)]
        arguments = len(cases[0].args) if cases else None
        told = [[_told(list(case.args)), _told(case.expected)] for case in cases]
        return {"id": problem.id, "arguments": arguments, "cases": told}
    source = f"{problem.setup or ''}\n{problem.check_src}"
    defined = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return {
        "id": problem.id,
        "name": problem.entry_point,
        "arguments": _parameters(problem),
        "check": source,
        "calls_check": any(node.name == "check" for node in defined),
    }


def _told(value: Any) -> Any:
    """A value for program.py, which gives tuples and dictionaries back."""
    match value:
        case tuple():
            return {"tuple": [_told(each) for each in value]}
        case list():
            return [_told(each) for each in value]
        case dict():
            return {"dict": [[_told(key), _told(each)] for key, each in value.items()]}
    return value


def _parameters(problem: Problem) -> int | None:
    """How many arguments the reference of a problem takes."""
    for node in ast.parse(problem.reference).body:
        if isinstance(node, ast.FunctionDef) and node.name == problem.entry_point:
            return len(node.args.args)
    return None


def _ran(outcome: Outcome) -> Row | None:
    """What program.py found; None where it failed. Raises RuntimeError where the sandbox did."""
    if not outcome.graded:
        raise RuntimeError(f"the sandbox did not run {outcome.id}: {outcome.note}")
    try:
        ran = json.loads(outcome.stdout.splitlines()[-1])
    except (ValueError, IndexError, RecursionError):
        return None
    return ran if outcome.verdict == "pass" and isinstance(ran, dict) and set(ran) == {"answers", "passes"} else None


def _cases(function: Found, calls: Sequence[Arguments], answers: Sequence[list[Any] | None]) -> list[Case]:
    """At most TESTS cases, of which the first is a good example; none if there are too few."""
    answered = [(call, answer[0]) for call, answer in zip(calls, answers, strict=True) if answer]
    kept = [case for case in answered if len(repr(case)) <= LONGEST_CASE and largest(case) <= LARGEST]
    turns = in_turns(kept)
    if len(turns) < FEWEST or len({repr(rounded(answer)) for _, answer in turns}) < 2:
        return []
    shown = {repr(call) for call in function.calls}
    first = min(turns, key=lambda case: (dull(case) or len(repr(case)) > LONG, repr(case[0]) not in shown))
    return [first, *(case for case in turns if case is not first)][:TESTS]


def largest(value: Any) -> float:
    """The largest size of a float in a value, at any depth."""
    if isinstance(value, float):
        return abs(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return max((largest(each) for each in parts), default=0.0)


def rounded(value: Any) -> Any:
    """A value whose floats are rounded as far as tests tell them apart."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


def _row(function: Found, cases: Sequence[Case]) -> Row:
    listed = [{"args": list(arguments), "expected": expected} for arguments, expected in cases]
    return {
        "id": function.id,
        "name": function.name,
        "topic": function.id.split("/")[0],
        "family": function.id,
        "signature": function.signature,
        "description": function.description,
        "solution": function.solution,
        "examples": listed[:2],
        "hidden": listed[2:],
    }
