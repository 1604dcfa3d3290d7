"""The problems of envs/basics/practice/: sound, and none of them asks for what another problem of basics asks for."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import functools

import pytest

from envs.basics import Basics
from envs.basics.collected.functions import Found
from envs.basics.collected.rows import Made, rows
from envs.sandbox import LocalSandbox
from envs.task import Problem, TaskError, validate
from tests.envs.near_duplicates import near_duplicates
from tests.envs.test_basics_families import of


@functools.cache
def practice() -> list[Problem]:
    return [p for p in Basics(practice=True).problems("train") if p.id.startswith("basics/practice/")]


@functools.cache
def others() -> list[Problem]:
    """All hand-written problems, and one of each generated family."""
    basics = Basics(generated=1)
    return [*basics.problems("train"), *basics.problems("test")]


def found(problem: Problem) -> Found:
    """A problem's reference as a function of a collection."""
    [node] = [n for n in ast.parse(problem.reference).body if isinstance(n, ast.FunctionDef)]
    calls = tuple(case.args for case in problem.cases)
    signature, parameters = problem.question.split("```python\n")[1][:-4], tuple(a.arg for a in node.args.args)
    return Found(problem.id, node.name, signature, parameters, "A description of it.", problem.reference, calls)


def test_they_are_trained_on_where_they_are_asked_for():
    alone, more = Basics(), Basics(practice=True)
    assert [p.id for p in more.problems("test")] == [p.id for p in alone.problems("test")]
    assert more.problems("train") == alone.problems("train") + practice()
    kinds = [Basics(practice=kind).problems("train")[200:] for kind in ("easy", "harder")]
    assert kinds[0] + kinds[1] == practice() and len(kinds[0]) > 1100 and len(kinds[1]) > 1500
    with pytest.raises(TaskError, match=r"task\.env\.practice=hard: unknown; set it to true, false, easy or harder"):
        Basics(practice="hard")
    assert len({p.id for p in practice()}) == len({p.question for p in practice()}) == len(practice())


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_references_pass_their_tests_and_nonsense_does_not(every, sandbox):
    some = practice()[::every]
    right = asyncio.run(validate(sandbox, some))
    assert [o.id for o in right if o.verdict != "pass"] == []
    wrong = asyncio.run(validate(sandbox, some, "def {name}(*arguments):\n    return None\n"))
    assert [o.id for o in wrong if o.verdict == "pass"] == []


def test_none_has_the_words_or_the_tree_of_another_problem():
    assert list(near_duplicates([of(p) for p in practice()], [of(p) for p in others()])) == []


@pytest.mark.parametrize("every", [60, pytest.param(20, marks=pytest.mark.slow)])
def test_none_passes_the_tests_of_another_problem(every):
    """Of some: whatever the split, what is held out is not trained on."""
    some = [found(p) for p in practice()[::every]]
    made = asyncio.run(_made(some))
    assert made.left_out["it passes the tests of a held-out problem"] == 0
    assert len(made.rows) > 0.9 * len(some), made.left_out


async def _made(functions: list[Found]) -> Made:
    sandbox = LocalSandbox(1)
    answered = [dataclasses.replace(p, reference="") for p in others()]  # so that only their tests are compared
    try:
        return await rows(functions, answered, sandbox, longest=400)
    finally:
        await sandbox.close()
