"""The reward of a task: weighted channels, on the tokens responsible (dense, pointed), the last (sparse) or all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from envs.task import Problem
from rewards.attribution import at_the_end, attribute, evenly
from rewards.channel import ChannelResult, Completion, RewardChannel

Placement = Literal["dense", "pointed", "sparse", "uniform"]
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)


@dataclass(frozen=True)
class Grade:
    """What one completion earned.

    results: each channel's own word. rewards: each channel's token rewards before weighting, T numbers each.
    """

    results: Mapping[str, ChannelResult]
    rewards: Mapping[str, list[float]]
    weights: Mapping[str, float]

    @property
    def total(self) -> float:
        """Sum over channels of weight times score."""
        return sum(self.weights[name] * result.score for name, result in self.results.items())

    @property
    def passed(self) -> bool | None:
        """Whether every channel that judges correctness says yes; None where none does."""
        verdicts = [r.passed for r in self.results.values() if r.passed is not None]
        return all(verdicts) if verdicts else None

    @property
    def verdict(self) -> str:
        return next((r.verdict for r in self.results.values() if r.verdict), "")

    @property
    def scores(self) -> dict[str, float]:
        """The scores of the channels that had something to say."""
        return {name: result.score for name, result in self.results.items() if not result.silent}

    @property
    def measures(self) -> dict[str, float]:
        """The numbers among the channels' details, as "channel/name"; not seconds, which differ between equal runs."""
        return {
            f"{name}/{key}": float(value)
            for name, result in self.results.items()
            for key, value in result.detail.items()
            if isinstance(value, int | float) and key != "seconds"
        }

    @property
    def token_rewards(self) -> list[float]:
        """Weighted sum over channels, length T; its sum is `total`."""
        weighted = ([self.weights[name] * r for r in rewards] for name, rewards in self.rewards.items())
        return [sum(column) for column in zip(*weighted, strict=True)]


class Reward:
    """Grades completions with all channels at once.

    Args:
        channels: name to channel.
        weights: name to weight, the same names; a channel of weight 0 is measured and not paid.
        placement: of PLACEMENTS; the sums are the same, only the tokens differ. "pointed" is dense where a channel
            points and sparse where it does not; "uniform" pays every token alike, code or not, and is what dense is
            measured against.

    Raises:
        ValueError: names differ between channels and weights; a weight is negative, or none is above 0.
    """

    def __init__(
        self,
        channels: Mapping[str, RewardChannel],
        weights: Mapping[str, float],
        placement: Placement = "dense",
    ):
        if set(channels) != set(weights):
            raise ValueError(f"channels {sorted(channels)} and weights {sorted(weights)} name different things")
        if min(weights.values()) < 0 or max(weights.values()) <= 0:
            raise ValueError(f"weights {dict(weights)}: none may be below 0, and one must be above")
        self.channels, self.weights, self.placement = dict(channels), dict(weights), placement

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Channels with a `ready(problems)` prepare what they grade by. Raises ValueError where that cannot be had."""
        for channel in self.channels.values():
            if prepare := getattr(channel, "ready", None):
                await prepare(problems)

    async def grade(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Grade | None]:
        """One grade a completion, in order; None where a channel could not grade it or all with a weight are silent."""
        columns = await asyncio.gather(*(c.score(problems, completions) for c in self.channels.values()))
        grades: list[Grade | None] = []
        for completion, row in zip(completions, zip(*columns, strict=True), strict=True):
            results = dict(zip(self.channels, row, strict=True))
            heard = None not in row and any(w and not results[name].silent for name, w in self.weights.items())
            grades.append(self._place(completion, results) if heard else None)
        return grades

    def _place(self, completion: Completion, results: Mapping[str, ChannelResult]) -> Grade:
        if self.placement in ("dense", "pointed"):
            spread = self.placement == "dense"
            rewards = {n: attribute(completion, r, self.channels[n].judges_form, spread) for n, r in results.items()}
        else:
            place = at_the_end if self.placement == "sparse" else evenly
            rewards = {n: place(completion, r.score) for n, r in results.items()}
        return Grade(results, rewards, self._weights(results))

    def _weights(self, results: Mapping[str, ChannelResult]) -> Mapping[str, float]:
        """The weights, those of silent channels divided among the others."""
        silent = [name for name, result in results.items() if result.silent]
        if not silent:
            return self.weights
        share = sum(self.weights.values()) / sum(w for name, w in self.weights.items() if name not in silent)
        return {name: 0.0 if name in silent else weight * share for name, weight in self.weights.items()}
