"""A channel that a user writes: what is wrong with it is one line that names it."""

from __future__ import annotations

import asyncio
import math
import re

import pytest

from envs.task import TaskError
from rewards.attribution import code_tokens
from rewards.build import task_reward
from rewards.channel import ChannelResult, Span
from rewards.compose import Reward
from rewards.form import Form
from tests.rewards.test_channels import PROBLEM, RIGHT


class Own:
    """Returns what it is told to."""

    pays_outside_code = True

    def __init__(self, returns=None):
        self.returns = returns

    async def score(self, problems, completions):
        return self.returns


class Undecided(Own):
    pays_outside_code = None  # type: ignore[assignment]


class Brief:
    """Pays the whole text, and does not say that it may pay tokens outside the code."""

    async def score(self, problems, completions):
        return [ChannelResult(1.0, (Span(0, len(c.text), 1.0),)) for c in completions]


class NotAsync(Own):
    def score(self, problems, completions):
        return self.returns


class WithoutScore:
    pays_outside_code = True


class Faulty(Own):
    def __init__(self):
        raise KeyError("mine")


HERE = f"{__name__}."


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"_target_": "rewards.form.Form"}, "task.reward.own.weight=None: it must be a number"),
        ({"weight": 1}, "task.reward.own names no class: set _target_"),
        ({"_target_": HERE + "Undecided", "weight": 1}, "has pays_outside_code = None, which must be True or False"),
        ({"_target_": HERE + "WithoutScore", "weight": 1}, "has no async def score"),
        ({"_target_": "broken_channel.Own", "weight": 1}, "broken_channel.py, line 2: "),
        ({"_target_": "rewards.form.Norm", "weight": 1}, "_target_=rewards.form.Norm cannot be made: "),
        ({"_target_": "rewards.form", "weight": 1}, "Expected a callable target"),
        (0.5, "task.reward.own=0.5: it must be a channel's settings"),
        ({"_target_": "rewards.form.Form", "weight": math.nan}, "task.reward.own.weight=nan: it must be a number"),
        (
            {"_target_": "rewards.form.Form", "weight": 1, "block": "abc"},
            "task.reward.own.block=abc: a number expected",
        ),
        (
            {"_target_": "rewards.form.Form", "weight": 1, "needs_code": "no"},
            "task.reward.own.needs_code=no: true or false expected",
        ),
        (
            {"_target_": "rewards.similarity.Similarity", "weight": 1, "budget": 0.5},
            "task.reward.own.budget=0.5: a whole number or null expected",
        ),
        ({"_target_": "rewards.similarity.Similarity", "weight": 1, "budget": 0}, "similarity.budget=0: it must be 1"),
    ],
)
def test_an_entry_that_is_no_channel_is_one_line(spec, message, tmp_path, monkeypatch):
    (tmp_path / "broken_channel.py").write_text("class Own:\n    def (\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TaskError, match=re.escape(message)):
        task_reward({"own": spec}, False, "dense", sandbox=None)


def test_a_channel_pays_code_alone_unless_it_says_otherwise():
    reward = task_reward({"own": {"_target_": HERE + "Brief", "weight": 1}}, False, "dense", sandbox=None)
    (grade,) = asyncio.run(reward.grade([PROBLEM], [RIGHT]))
    paid = {token for token, value in enumerate(grade.rewards["own"]) if value}
    assert paid == set(code_tokens(RIGHT)) and len(paid) < len(RIGHT.token_ids)


def test_a_fault_inside_a_channel_keeps_its_own_traceback():
    with pytest.raises(KeyError, match="mine") as raised:
        task_reward({"own": {"_target_": HERE + "Faulty", "weight": 1}}, False, "dense", sandbox=None)
    assert any(entry.path.name == "test_own_channel.py" and entry.name == "__init__" for entry in raised.traceback[1:])


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        (0.5, "task.reward.own: score returned float; it must return a list"),
        ([], "task.reward.own: score returned 0 results"),
        ([0.5], "task.reward.own: score returned 0.5 for a completion; it must be a ChannelResult or None"),
        ([ChannelResult(float("nan"))], "task.reward.own: the score is nan; it must be a number"),
        ([ChannelResult(float("inf"), (Span(0, 2, 0.25),))], "task.reward.own: the score is inf; it must be a number"),
        ([ChannelResult(1.0, (Span(0, 2, 0.25),))], "the score is 1 and its spans sum to 0.25; they must be equal"),
    ],
)
@pytest.mark.parametrize("placement", ["dense", "sparse"])
def test_results_that_are_none_name_the_channel(returns, message, placement):
    reward = Reward({"own": Own(returns), "form": Form()}, {"own": 1.0, "form": 1.0}, placement)
    with pytest.raises(TaskError, match=re.escape(message)):
        asyncio.run(reward.grade([PROBLEM], [RIGHT]))


def test_a_score_that_is_not_async_names_the_channel():
    reward = Reward({"own": NotAsync([])}, {"own": 1.0})
    with pytest.raises(TaskError, match=r"task\.reward\.own: score must be async def score"):
        asyncio.run(reward.grade([PROBLEM], [RIGHT]))
