"""One batch of GRPO's groups: what was sampled and how it was graded, and which groups teach nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from recipes.data.completions import Rollout
from recipes.data.episodes import returns_of, row_logps
from recipes.sampling.episodes import EpisodeBatch
from recipes.sampling.prefix import Shown
from rewards.compose import Grade

PER_ROW = ("problems", "completions", "grades", "rows", "prompt_ids", "logps")


class GroupCounts(NamedTuple):
    """Numbers of groups: all of them, those where all answers that were judged passed, and those where all failed."""

    groups: int = 0
    all_passed: int = 0
    all_failed: int = 0


class AnswerSums(NamedTuple):
    """Over answers: the sum and number of the rewards that there are; how many passed, of how many that were judged."""

    reward: float = 0.0
    graded: float = 0.0
    passed: float = 0.0
    judged: float = 0.0


@dataclass
class GroupRollout(Rollout):
    """One batch of this process. Rows of a group lie side by side.

    rows: the dataset's row numbers. prompt_ids, logps: of each completion; the log-probabilities it was sampled with.
    clock: seconds. left_out: groups that were drawn and left out. from_prompt: of all answers sampled from the prompt
    alone, those of left-out groups too. sampling_metrics: of the curriculum, in this process. prefixed: the groups that
    were drawn again behind the beginning of their reference.
    graded_samples: answers that were graded for this batch, left-out ones too. mixed_answers: answers that were graded
    after an exchange of lines (recipes/trainers/line_credit.py), and are not among them.
    """

    rows: list[int] = field(default_factory=list)
    prompt_ids: list[list[int]] = field(default_factory=list)
    logps: list[list[float]] = field(default_factory=list)
    clock: dict[str, float] = field(default_factory=dict)
    left_out: GroupCounts = field(default_factory=GroupCounts)
    from_prompt: AnswerSums = field(default_factory=AnswerSums)
    sampling_metrics: dict[str, float] = field(default_factory=dict)
    prefixed: Shown = field(default_factory=Shown)
    graded_samples: int = 0
    sampled_tokens: int = 0
    mixed_answers: int = 0

    def take(self, places: Sequence[int]) -> GroupRollout:
        """Some of the rows."""
        some: dict[str, Any] = {name: [getattr(self, name)[i] for i in places] for name in PER_ROW}
        return replace(self, **some)

    def take_episodes(self, batch: EpisodeBatch) -> None:
        """Enter the rows of a batch of episodes that has been played, when the last turn is graded."""
        self.completions, self.grades = batch.collect()
        self.logps = [row_logps(c, turns[0].logps) for c, turns in zip(self.completions, batch.turns, strict=True)]

    def returns_by_turn(self, group: int, turns: int = 1, gamma: float = 1.0) -> list[torch.Tensor]:
        """For each of `turns` the discounted reward from that turn on, (N, group): NaN where there is no such turn or
        no grade. Of one turn these are the rewards."""
        returns = [returns_of(grade, gamma) for grade in self.grades]
        padded = [[*row, *([torch.nan] * (turns - len(row)))] for row in returns]
        return [torch.tensor(column).view(-1, group) for column in zip(*padded, strict=True)]

    def __add__(self, other: GroupRollout) -> GroupRollout:
        both: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in PER_ROW}
        clock = {name: seconds + other.clock.get(name, 0.0) for name, seconds in self.clock.items()}
        metrics = {**self.sampling_metrics, **other.sampling_metrics}
        added = AnswerSums(*(a + b for a, b in zip(self.from_prompt, other.from_prompt, strict=True)))
        both |= {name: getattr(self, name) + getattr(other, name) for name in ("graded_samples", "sampled_tokens")}
        return replace(self, **both, clock=clock, from_prompt=added, sampling_metrics=metrics)


def rewards_of(grades: Sequence[Grade | None]) -> torch.Tensor:
    """Total rewards (B,), NaN where a completion could not be graded."""
    return torch.tensor([torch.nan if grade is None else grade.total for grade in grades])


def sums(rewards_B: torch.Tensor, grades: Sequence[Grade | None]) -> AnswerSums:
    """Over answers with these rewards, NaN where there is none."""
    graded = rewards_B[~rewards_B.isnan()]
    passed = [float(g.passed) for g in grades if g is not None and g.passed is not None]
    return AnswerSums(graded.sum().item(), float(len(graded)), sum(passed), float(len(passed)))


def degenerate_groups(rewards_NG: torch.Tensor) -> torch.Tensor:
    """Which groups teach nothing, since all graded rewards are equal or fewer than two completions are graded: (N,).

    rewards_NG: NaN where a completion could not be graded.
    """
    low = rewards_NG.nan_to_num(nan=torch.inf).min(1).values
    high = rewards_NG.nan_to_num(nan=-torch.inf).max(1).values
    return ~(high - low > 1e-6)


def sum_counts(a: GroupCounts, b: GroupCounts) -> GroupCounts:
    return GroupCounts(*(own + other for own, other in zip(a, b, strict=True)))


def count_groups(groups: Sequence[Sequence[Grade | None]]) -> GroupCounts:
    passed = [[g.passed for g in group if g is not None and g.passed is not None] for group in groups]
    all_passed, all_failed = sum(bool(p) and all(p) for p in passed), sum(bool(p) and not any(p) for p in passed)
    return GroupCounts(len(groups), all_passed, all_failed)
