"""Tests held out of the reward: which they are, that they never pay, and what an answer's result says of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from envs.basics import Basics
from envs.humaneval import HumanEval
from envs.sandbox import FunctionCase, LocalSandbox, Outcome
from envs.task import Problem, extract_fenced
from rewards.analysis.held_out_tests import divide
from rewards.channel import Completion
from rewards.unit_tests import UnitTests

SQUARES = Problem("t/square", "square x", "square", tuple(FunctionCase((n,), n * n) for n in range(6)))
PAID, HELD = divide(SQUARES, 0.3)
KNOWN = {case.args[0]: case.expected for case in PAID.cases}
BODIES = {
    "right": "return x * x",
    "wrong": "return -1",
    "games": f"return {KNOWN}.get(x)",
    "fails one that pays": f"return x * x if x != {PAID.cases[-1].args[0]} else None",
}


def answer(body: str) -> Completion:
    text = f"```python\ndef square(x):\n    {body}\n```"
    code = extract_fenced(text)
    return Completion(text, range(len(text)), [(i, i + 1) for i in range(len(text))], (code.start, code.end))


def test_every_test_is_on_one_side_and_the_first_pays():
    for problem in Basics().problems("train"):
        paid, held = divide(problem, 0.3)
        assert sorted(map(repr, (*paid.cases, *held.cases))) == sorted(map(repr, problem.cases))
        assert paid.cases[0] is problem.cases[0] and len(held.cases) == max(1, round(0.3 * len(problem.cases)))
        assert (paid, held) == divide(problem, 0.3)
    others = [divide(replace(SQUARES, id=f"t/{n}"), 0.3)[1].cases for n in range(20)]
    assert len({repr(cases) for cases in others}) > 5  # not the same places in every problem
    assert divide(SQUARES, 0.3, seed=1)[1] != HELD


def test_a_single_test_pays_and_without_a_share_all_do():
    single = replace(SQUARES, cases=SQUARES.cases[:1])
    assert divide(single, 0.3) == (single, None)
    assert divide(SQUARES, 0.0) == (SQUARES, None)
    assert len(divide(SQUARES, 0.99)[0].cases) == 1
    for share in (-0.1, 1.0):
        with pytest.raises(ValueError, match="held_out"):
            UnitTests(None, held_out=share)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.99])
def test_hard_coded_examples_never_earn_everything(sandbox, share):
    """A test that the prompt does not show stays paid, whatever is held out."""
    problems = [replace(SQUARES, cases=SQUARES.cases[:n], shown=shown) for n in (2, 3, 6) for shown in (1, 2)]
    for problem in problems:
        assert len(divide(problem, share)[0].cases) > min(problem.shown, len(problem.cases) - 1)
    shown = {case.args[0]: case.expected for case in SQUARES.cases[:2]}
    games = [answer(f"return {shown}.get(x, -1)")] * 2
    for fractional in (True, False):
        results = asyncio.run(UnitTests(sandbox, fractional, held_out=share).score(problems[3::2], games))
        assert [(r.score, r.passed) for r in results] == [(0.0, False)] * 2


def test_the_asserts_of_a_check_are_divided(sandbox):
    bare = (
        "assert square(0) == 0\nfor n in range(2):\n    assert square(n) == n * n\nassert square(3) == 9\nassert True"
    )
    problem = replace(SQUARES, cases=(), check_src=bare)
    paid, held = divide(problem, 0.3)
    assert "square(3)" not in paid.check_src and "square(0)" not in held.check_src and "range" in held.check_src
    asked = HumanEval().problems("test")
    sides = [(p, side) for p in asked for side in divide(p, 0.3)]
    divided = [(p, side) for p, side in sides if side is not None and side is not p]
    assert len(divided) > 1.8 * len(asked)
    outcomes = asyncio.run(sandbox.run([side.job(p.reference) for p, side in divided]))
    assert {outcome.verdict for outcome in outcomes} == {"pass"}


@pytest.mark.parametrize("fractional", [True, False])
def test_what_is_held_out_never_pays_and_decides_whether_an_answer_is_right(sandbox, fractional):
    channel = UnitTests(sandbox, fractional, held_out=0.3)
    results = asyncio.run(channel.score([SQUARES] * 4, [answer(body) for body in BODIES.values()]))
    alone = asyncio.run(UnitTests(sandbox, fractional).score([PAID] * 4, [answer(b) for b in BODIES.values()]))
    assert [r.score for r in results] == [r.score for r in alone]
    assert [(r.passed, r.verdict) for r in results] == [
        (True, "pass"),
        (False, "fail"),
        (False, "held-out"),
        (False, "fail"),
    ]
    message = [{k: v for k, v in r.detail.items() if k != "seconds"} for r in results]
    watched = [{"watched": 1, "held_out_passed": 1}, {"watched": 1, "held_out_passed": 0}]
    assert message == [watched[0], {"watched": 0}, watched[1], {"watched": 0}]
    assert "held out 0 of 2" in results[2].note and "held out 2 of 2" in results[0].note
    assert not {"watched", "held_out_passed"} & set(alone[0].detail)


class SecondTimeBroken(LocalSandbox):
    """Fails from its second call on."""

    calls = 0

    async def run(self, jobs, progress=None):
        self.calls += 1
        if self.calls == 1:
            return await super().run(jobs, progress)
        return [Outcome(job.id, "error", 0, job.total, 0.0, "broken") for job in jobs]


def test_an_answer_whose_held_out_tests_did_not_run_is_not_graded():
    channel = UnitTests(SecondTimeBroken(workers=1), held_out=0.3)
    right, wrong = asyncio.run(channel.score([SQUARES] * 2, [answer(BODIES[k]) for k in ("right", "wrong")]))
    assert right is None and wrong.score < 1 and wrong.detail["watched"] == 0
