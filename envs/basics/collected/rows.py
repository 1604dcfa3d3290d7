"""Rows for `task.env.further` from functions of a collection: tests from their answers, and none that is held out."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envs.basics.collected.arguments import candidates
from envs.basics.collected.functions import Arguments, Found, plain
from envs.basics.collected.set_order import depends
from envs.basics.families import shape_of
from envs.basics.families.cases import Case, dull, in_turns
from envs.json_lines import Row
from envs.sandbox import FunctionCase, Job, Limits, Outcome, Sandbox
from envs.task import Problem

PROGRAM = Path(__file__).with_name("program.py").read_text(encoding="utf-8")
LIMITS = Limits(wall_s=30.0, cpu_s=20.0, memory_mib=1024)
TESTS, FEWEST = 8, 4
LONG = 120
"""Characters of a call with its result, beyond which it is a poor example."""
SHORTEST, LONGEST = 15, 299
"""Characters of a description."""


@dataclass
class Made:
    """The rows of a collection, and how many functions were left out for which reason."""

    rows: list[Row] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


async def rows(found: Iterable[Found], held_out: Sequence[Problem], sandbox: Sandbox, most_chars: int) -> Made:
    """The functions as rows with the fields of `envs/basics/problems`.

    Args:
        held_out: problems whose tests no row's solution may pass.
        most_chars: longest solution, in characters.
    """
    made = Made()
    functions: dict[str, Found] = {}
    calls: dict[str, list[Arguments]] = {}
    shapes = {shape_of(problem.reference) for problem in held_out if problem.reference}
    for each in found:
        if len(each.solution) > most_chars:
            made.left_out["longer than asked for"] += 1
        elif not SHORTEST <= len(each.description) <= LONGEST:
            made.left_out["no description of a sentence or two"] += 1
        elif (shape := shape_of(each.solution)) in shapes:
            made.left_out["the same as another, or as a held-out one"] += 1
        elif depends(each.solution):
            made.left_out["the order of a set decides"] += 1
        elif not (tried := candidates(each)):
            made.left_out["no arguments to try"] += 1
        else:
            shapes.add(shape)
            functions[each.id], calls[each.id] = each, tried
    tests = [_tests(problem) for problem in held_out]
    jobs = [_job(each, calls[key], tests) for key, each in functions.items()]
    for outcome in await sandbox.run(jobs):
        each = functions[outcome.id]
        reason = _reason(outcome)
        if not reason:
            answers = json.loads(outcome.stdout.splitlines()[-1])["answers"]
            cases = _cases(each, [(args, *a) for args, a in zip(calls[each.id], answers, strict=True) if a])
            reason = "" if cases else f"not {FEWEST} tests with different answers"
        if reason:
            made.left_out[reason] += 1
        else:
            made.rows.append(_row(each, cases))
    return made


def _job(function: Found, calls: Sequence[Arguments], tests: Sequence[Row]) -> Job:
    """The job that finds a function's answers, and the held-out problems that it solves."""
    arguments = len(calls[0])
    comparable = [test for test in tests if test["arguments"] == arguments]
    asked = {"name": function.name, "calls": calls, "held_out": comparable}
    return Job(function.id, "program", f"{function.solution}\n\n{PROGRAM}", stdin=json.dumps(asked), limits=LIMITS)


def _tests(problem: Problem) -> Row:
    """The tests of a held-out problem as program.py takes them, with the number of arguments."""
    name = problem.entry_point
    if problem.check_src is None:
        cases = [[case.args, case.expected] for case in problem.cases if isinstance(case, FunctionCase)]
        if not all(plain(list(case[0])) and plain(case[1]) for case in cases):
            cases = []  # compared by shape only
        return {"id": problem.id, "arguments": len(cases[0][0]) if cases else None, "cases": cases}
    check = f"{problem.setup or ''}\n{problem.check_src}"
    return {"id": problem.id, "name": name, "arguments": _parameters(problem), "check": check}


def _parameters(problem: Problem) -> int | None:
    """How many arguments the reference of a problem takes."""
    for node in ast.parse(problem.reference).body:
        if isinstance(node, ast.FunctionDef) and node.name == problem.entry_point:
            return len(node.args.args)
    return None


def _reason(outcome: Outcome) -> str:
    """Why a function makes no problem; empty if nothing is known against it."""
    if outcome.verdict != "pass" or not outcome.stdout.strip():
        return "cannot be run"
    return "passes the tests of a held-out problem" if json.loads(outcome.stdout.splitlines()[-1])["passes"] else ""


def _cases(function: Found, answered: Sequence[Case]) -> list[Case]:
    """At most TESTS cases, of which the first is a good example; none if there are too few."""
    shown = {repr(call) for call in function.calls}
    turns = in_turns(answered)
    if len(turns) < FEWEST or len({repr(answer) for _, answer in turns}) < 2:
        return []
    first = min(turns, key=lambda case: (dull(case) or len(repr(case)) > LONG, repr(case[0]) not in shown))
    return [first, *(case for case in turns if case is not first)][:TESTS]


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
