"""Each channel on answers whose score is known."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from envs.sandbox import FunctionCase, Outcome
from envs.task import Problem, extract_fenced
from rewards.channel import Completion
from rewards.compose import Reward
from rewards.form import Form
from rewards.similarity import Similarity
from rewards.unit_tests import UnitTests

PROBLEM = Problem(
    "t/double",
    "double x",
    "double",
    (FunctionCase((1,), 2), FunctionCase((0,), 0)),
    reference="def double(x):\n    return 2 * x\n",
)


def answer(text: str, tokens: int = 10) -> Completion:
    code = extract_fenced(text)
    edges = [round(i * len(text) / tokens) for i in range(tokens + 1)]
    return Completion(
        text,
        list(range(tokens)),
        list(itertools.pairwise(edges)),
        None if code is None else (code.start, code.end),
        closed=code is not None and code.closed,
    )


RIGHT = answer("Here:\n```python\ndef double(x):\n    return x + x\n```")
HALF = answer("```python\ndef double(x):\n    return 0\n```")
OPEN = answer("```python\ndef double(x):\n    return 2*x")
NONE = answer("def double(x): return 2*x")


def score(channel, *answers):
    return asyncio.run(channel.score([PROBLEM] * len(answers), answers))


def test_unit_tests_pay_the_share_passed(sandbox):
    got = score(UnitTests(sandbox), RIGHT, HALF, OPEN, NONE)
    assert [r.score for r in got] == [1.0, 0.5, 1.0, 0.0]
    assert [r.passed for r in got] == [True, False, True, False]
    assert got[3].verdict == "no code"
    assert [r.score for r in score(UnitTests(sandbox, fractional=False), RIGHT, HALF)] == [1.0, 0.0]


class Broken:
    async def run(self, jobs, progress=None):
        return [Outcome(j.id, "error", 0, j.total, 0.0, "worker lost") for j in jobs]


def test_an_infrastructure_failure_is_none_and_takes_the_sample_out():
    assert score(UnitTests(Broken()), RIGHT) == [None]
    reward = Reward({"unit_tests": UnitTests(Broken()), "form": Form()}, {"unit_tests": 1.0, "form": 1.0})
    assert asyncio.run(reward.grade([PROBLEM], [RIGHT])) == [None]


def test_form_pays_a_closed_block_and_charges_length():
    channel = Form(block=1.0, no_block=-1.0, length_alpha=0.5)
    got = score(channel, RIGHT, OPEN, NONE)
    assert [r.score for r in got] == pytest.approx([0.95, -1.05, -1.05])
    assert all(sum(s.value for s in r.spans) == pytest.approx(r.score) for r in got)


def test_similarity_is_one_for_the_reference_and_zero_without_code():
    same = answer(f"```python\n{PROBLEM.reference}```")
    assert [round(r.score, 6) for r in score(Similarity(), same, NONE)] == [1.0, 0.0]
    with pytest.raises(ValueError, match="no reference"):
        asyncio.run(Similarity().score([Problem("t/x", "", "f")], [same]))


@pytest.mark.parametrize("placement", ["dense", "sparse"])
def test_both_placements_pay_the_same_in_sum(sandbox, placement):
    weights = {"unit_tests": 0.7, "form": 0.2, "similarity": 0.1}
    channels = {"unit_tests": UnitTests(sandbox), "form": Form(length_alpha=0.1), "similarity": Similarity()}
    reward = Reward(channels, weights, placement)
    for completion, grade in zip(
        [RIGHT, HALF, OPEN, NONE],
        asyncio.run(reward.grade([PROBLEM] * 4, [RIGHT, HALF, OPEN, NONE])),
        strict=True,
    ):
        assert sum(grade.token_rewards) == pytest.approx(grade.total, abs=1e-9)
        for name, tokens in grade.rewards.items():
            assert sum(tokens) == pytest.approx(grade.results[name].score, abs=1e-9)
        if placement == "sparse":
            assert all(r == 0 for r in grade.token_rewards[:-1]), completion


def test_weights_must_name_the_channels():
    with pytest.raises(ValueError, match="different things"):
        Reward({"form": Form()}, {"fomr": 1.0})
