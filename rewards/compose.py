"""The reward of a task: weighted channels, placed on the responsible tokens, on the last token or on all tokens."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from envs.task import Problem, TaskError
from rewards.attribution import Part, at_the_end, attribute, evenly, parts_on_tokens, tokens_within_code
from rewards.channel import ChannelResult, Completion, RewardChannel, pays_outside_code

log = logging.getLogger(__name__)
Placement = Literal["dense", "pointed", "sparse", "uniform"]
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)


@dataclass(frozen=True)
class Grade:
    """The graded reward of one completion of T tokens.

    results: each channel's result. rewards: each channel's token rewards before weighting, T numbers each. weights:
    each channel's weight, rescaled if a channel is silent. parts: parts of the answer that channels judge by themselves
    (Span.part), as "channel/part", their rewards weighted; empty for `sparse` and `uniform`. form: what channels pay
    each token outside the code, and in an episode what is taken for the turn before, T weighted numbers; empty for
    `sparse` and `uniform`.
    """

    results: Mapping[str, ChannelResult]
    rewards: Mapping[str, list[float]]
    weights: Mapping[str, float]
    parts: Mapping[str, Part] = field(default_factory=dict)
    form: Sequence[float] = ()

    @property
    def total(self) -> float:
        """Sum over channels of weight times score."""
        return sum(self.weights[name] * result.score for name, result in self.results.items())

    @property
    def passed(self) -> bool | None:
        """Whether all channels that judge correctness accept the code; None if no channel does."""
        verdicts = [r.passed for r in self.results.values() if r.passed is not None]
        return all(verdicts) if verdicts else None

    @property
    def verdict(self) -> str:
        return next((r.verdict for r in self.results.values() if r.verdict), "")

    @property
    def scores(self) -> dict[str, float]:
        """Scores by channel, without silent channels."""
        return {name: result.score for name, result in self.results.items() if not result.silent}

    @property
    def measures(self) -> dict[str, float]:
        """The numbers in the channels' details, as "channel/name"; not seconds, which differ between equal runs."""
        return {
            f"{name}/{key}": float(value)
            for name, result in self.results.items()
            for key, value in result.detail.items()
            if isinstance(value, int | float) and key != "seconds"
        }

    @property
    def token_rewards(self) -> list[float]:
        """Weighted sum over channels, T numbers whose sum is `total`."""
        weighted = ([self.weights[name] * r for r in rewards] for name, rewards in self.rewards.items())
        return [sum(column) for column in zip(*weighted, strict=True)]

    @property
    def own_rewards(self) -> list[float]:
        """`token_rewards` without positive form rewards, T numbers; form penalties stay.

        A complete block earns the same wherever it ends; counted on the closing fence it would reward an early end.
        """
        rewards = self.token_rewards
        return [r - paid for r, paid in zip(rewards, self.form, strict=True)] if self.form else rewards


def check_results(name: str, results: Any, completions: int) -> None:
    """Raise TaskError unless a channel returned a ChannelResult or None for each completion, whose spans, if it has
    any, sum to its score: a sum that differs would change the reward with its placement."""
    if not isinstance(results, list | tuple) or len(results) != completions:
        what = f"{len(results)} results" if isinstance(results, list | tuple) else type(results).__name__
        raise TaskError(f"task.reward.{name}: score returned {what}; it must return a list, one for each completion")
    for result in (result for result in results if result is not None):
        if not isinstance(result, ChannelResult):
            raise TaskError(
                f"task.reward.{name}: score returned {result!r} for a completion; it must be a ChannelResult or None"
            )
        if not _is_number(result.score):
            raise TaskError(f"task.reward.{name}: the score is {result.score!r}; it must be a number")
        for span in result.spans:
            if not (hasattr(span.start, "__index__") and hasattr(span.end, "__index__") and _is_number(span.value)):
                raise TaskError(f"task.reward.{name}: {span} must have two places, as integers, and a number")
        total = math.fsum(span.value for span in result.spans)
        if result.spans and not math.isclose(total, result.score, rel_tol=1e-4, abs_tol=1e-4):
            raise TaskError(
                f"task.reward.{name}: the score is {result.score:g} and its spans sum to {total:g}; they must be equal"
            )


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and math.isfinite(value)


class Reward:
    """Grades completions with all channels at once.

    Args:
        channels: channels by name.
        weights: weights by the same names; a channel of weight 0 is measured and not paid.
        placement: one of PLACEMENTS; the sums are equal and only the tokens differ. "dense" puts a channel's reward on
            the characters that it locates, and spreads a reward without a location over the code tokens. "pointed" does
            the first and puts the rest on the last token. "sparse" puts all on the last token. "uniform" pays all
            tokens equally, code or not: the baseline that dense is compared with.

    Raises:
        ValueError: channels and weights have different names; a weight is negative or no number, or none is above 0;
            the placement is unknown.
    """

    def __init__(
        self,
        channels: Mapping[str, RewardChannel],
        weights: Mapping[str, float],
        placement: Placement = "dense",
    ):
        if set(channels) != set(weights):
            raise ValueError(f"channels {sorted(channels)} and weights {sorted(weights)} must have the same names")
        if not all(math.isfinite(w) and w >= 0 for w in weights.values()) or not any(weights.values()):
            raise ValueError(
                f"weights {dict(weights)}: each must be a number, none may be below 0, and one must be above 0"
            )
        if placement not in PLACEMENTS:
            raise ValueError(f"placement={placement}: choose {', '.join(PLACEMENTS)}")
        self.channels, self.weights, self.placement = dict(channels), dict(weights), placement

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Call `ready(problems)` of each channel that has it. Raises ValueError if a channel cannot be prepared."""
        for channel in self.channels.values():
            if prepare := getattr(channel, "ready", None):
                await prepare(problems)

    def full_marks(self, grade: Grade) -> float:
        """The largest total that an answer with the weights of `grade` can earn."""
        return sum(weight * getattr(self.channels[name], "best", 1.0) for name, weight in grade.weights.items())

    async def grade(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Grade | None]:
        """One grade for each completion, in order; None if a channel could not grade it or all paid ones are silent.

        Raises TaskError where a channel returns something else than it must (`check_results`).
        """
        asked = {name: channel.score(problems, completions) for name, channel in self.channels.items()}
        if wrong := [name for name, result in asked.items() if not inspect.isawaitable(result)]:
            raise TaskError(f"task.reward.{wrong[0]}: score must be async def score(self, problems, completions)")
        columns = await asyncio.gather(*asked.values())
        for name, column in zip(self.channels, columns, strict=True):
            check_results(name, column, len(completions))
        grades: list[Grade | None] = []
        for completion, row in zip(completions, zip(*columns, strict=True), strict=True):
            results = dict(zip(self.channels, row, strict=True))
            gradable = None not in row and any(w and not results[name].silent for name, w in self.weights.items())
            grades.append(self._place(completion, results) if gradable else None)
        self._explain(columns, grades)
        return grades

    def _explain(self, columns: Sequence[Sequence[ChannelResult | None]], grades: Sequence[Grade | None]) -> None:
        """Log (to run.log) why completions were not graded."""
        if None not in grades:
            return
        failed = {name: list(column).count(None) for name, column in zip(self.channels, columns, strict=True)}
        reasons = [f"{name} could not grade {count}" for name, count in failed.items() if count]
        row_failed = [None in row for row in zip(*columns, strict=True)]
        if silent := sum(grade is None and not bad for grade, bad in zip(grades, row_failed, strict=True)):
            reasons.append(f"all channels with a weight are silent on {silent}")
        log.warning("%d of %d completions not graded: %s", grades.count(None), len(grades), ", ".join(reasons))

    def _place(self, completion: Completion, results: Mapping[str, ChannelResult]) -> Grade:
        weights = self._weights(results)
        if self.placement in ("dense", "pointed"):
            spread = self.placement == "dense"
            rewards = {
                name: attribute(completion, result, pays_outside_code(self.channels[name]), spread)
                for name, result in results.items()
            }
            parts, form = self._parts(completion, results, weights), self._form(completion, rewards, weights)
            return Grade(results, rewards, weights, parts, form)
        place = at_the_end if self.placement == "sparse" else evenly
        return Grade(results, {n: place(completion, r.score) for n, r in results.items()}, weights)

    def _form(
        self, completion: Completion, rewards: Mapping[str, list[float]], weights: Mapping[str, float]
    ) -> list[float]:
        """What channels pay the tokens outside the code, T weighted numbers; penalties are left out."""
        within, form = set(tokens_within_code(completion)), [0.0] * len(completion.token_ids)
        for name in (name for name in rewards if pays_outside_code(self.channels[name])):
            for token in (t for t, reward in enumerate(rewards[name]) if reward > 0 and t not in within):
                form[token] += weights[name] * rewards[name][token]
        return form

    def _parts(
        self, completion: Completion, results: Mapping[str, ChannelResult], weights: Mapping[str, float]
    ) -> dict[str, Part]:
        return {
            f"{name}/{part}": replace(earned, reward=weights[name] * earned.reward)
            for name, result in results.items()
            for part, earned in parts_on_tokens(completion, result, pays_outside_code(self.channels[name])).items()
        }

    def _weights(self, results: Mapping[str, ChannelResult]) -> Mapping[str, float]:
        """The weights, with those of silent channels divided among the others."""
        silent = [name for name, result in results.items() if result.silent]
        if not silent:
            return self.weights
        share = sum(self.weights.values()) / sum(w for name, w in self.weights.items() if name not in silent)
        return {name: 0.0 if name in silent else weight * share for name, weight in self.weights.items()}
