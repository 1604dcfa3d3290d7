"""A curriculum: problems whose answers differ most in reward are drawn most often.

A group in which all answers earn the same teaches nothing. Of a problem that is solved with probability p the pass of
one answer has the variance p (1 - p), which is what GRPO's gradient lives on (Foster et al. 2025, "Learning to Reason
at the Frontier of Learnability", arXiv 2502.12272). So each problem keeps a moving mean of the variance of rewards in
the groups that training draws anyway (of each part by itself where answers have parts), and is drawn with a weight in
proportion to it. Problems that were never tried count as the best; those that teach nothing are tried again now and
then, since the policy moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import pvariance
from typing import Any

import torch

from recipes.cli.errors import UserError
from rewards.compose import Grade

FLAT = 1e-6
"""Rewards that differ by no more than this are equal."""


@dataclass(frozen=True)
class CurriculumSettings:
    """
    enabled: whether problems are drawn by what they teach; if not, in TRL's order.
    memory: weight of a problem's variance so far beside that of a new group, at least 0 and below 1.
    least: the smallest weight of a problem, where the one with the largest variance has 1; above 0 and up to 1.
    """

    enabled: bool
    memory: float
    least: float


class Curriculum:
    """This process's rows of the dataset, drawn by what their problems teach, in place of prompt_order.PromptRows.

    A process draws from every `world`-th problem, from its own on, so that processes need not tell each other what
    they measured. Within one draw no problem comes twice; a batch that is refilled may have one twice.

    Args:
        problem_ids: of each row of the dataset.
        prompts, repeats: problems a step over all processes, a multiple of `world`; rows of each, side by side.
        seed: of the draws. rank, world: which of how many processes this is.
        parts: whether answers teach by each of their parts, or only as a whole.

    Raises:
        UserError: a process has fewer problems than it takes for a step.
    """

    def __init__(
        self,
        settings: CurriculumSettings,
        problem_ids: Sequence[str],
        prompts: int,
        repeats: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
        parts: bool = True,
    ):
        self._settings, self._repeats, self._ids, self._parts = settings, repeats, list(problem_ids), parts
        self._rows = list(range(rank, len(self._ids), world))
        if len(self._rows) < prompts // world:
            raise UserError(
                f"{len(self._ids)} training problems do not make a step of recipe.prompts_per_step={prompts} with "
                f"recipe.curriculum.enabled=true in {world} processes: lower it, or add problems"
            )
        self._generator = torch.Generator().manual_seed(seed * world + rank)
        self._spreads: dict[str, float] = {}

    def draw(self, rows: int) -> list[int]:
        """The next rows of the dataset, by number: `rows` / `repeats` problems, each `repeats` times. Raises ValueError
        where `rows` is no multiple of `repeats`."""
        if rows % self._repeats:
            raise ValueError(f"{rows} rows in a process are no whole groups of {self._repeats} answers")
        weights = self._weights()
        uniform = torch.rand(len(weights), generator=self._generator, dtype=torch.float64)
        # without replacement, by weight: Efraimidis and Spirakis 2006, "Weighted random sampling with a reservoir"
        order = (uniform.log() / weights).argsort(descending=True).tolist()
        return [self._rows[place] for place in order[: rows // self._repeats] for _ in range(self._repeats)]

    def observe(self, rows: Sequence[int], grades: Sequence[Grade | None]) -> None:
        """What groups earned that were drawn from the prompt alone. Fewer than two graded answers say nothing of a
        spread. But a problem of which nothing could be graded when it was first tried may be broken: it has none."""
        groups: dict[str, list[Grade]] = {}
        for row, grade in zip(rows, grades, strict=True):
            groups.setdefault(self._ids[row], []).extend([] if grade is None else [grade])
        for name, group in groups.items():
            before = self._spreads.get(name)
            if len(group) == 1 or (not group and before is not None):
                continue
            spread, memory = spread_of(group, self._parts), self._settings.memory
            self._spreads[name] = spread if before is None else memory * before + (1 - memory) * spread

    def metrics(self) -> dict[str, float]:
        """Which shares of this process's problems have been tried, and have the smallest weight."""
        weights = self._weights()
        return {
            "curriculum/tried": len(self._spreads) / len(weights),
            "curriculum/least": (weights <= self._settings.least).double().mean().item(),
        }

    def state(self) -> dict[str, Any]:
        return {"draws": self._generator.get_state(), "spreads": dict(self._spreads)}

    def load_state(self, state: Any) -> None:
        self._generator.set_state(state["draws"].cpu())
        self._spreads = dict(state["spreads"])

    def _weights(self) -> torch.Tensor:
        """Of each of this process's problems, (P,), between `least` and 1."""
        largest = max(self._spreads.values(), default=0.0)
        known = {name: spread / largest if largest > FLAT**2 else 0.0 for name, spread in self._spreads.items()}
        weights = [max(self._settings.least, known.get(self._ids[row], 1.0)) for row in self._rows]
        return torch.tensor(weights, dtype=torch.float64)


def spread_of(group: Sequence[Grade], by_part: bool = True) -> float:
    """The variance of the rewards of a group's answers; where parts count (`by_part`) that of the rewards beside all
    parts, and of each part by itself as if it were paid like a whole answer. 0 of less than two answers."""
    if len(group) < 2:
        return 0.0
    names = sorted({name for grade in group for name in grade.parts}) if by_part else []
    earned = [[grade.parts[name].reward if name in grade.parts else 0.0 for name in names] for grade in group]
    rest = pvariance(grade.total - sum(parts) for grade, parts in zip(group, earned, strict=True))
    return rest + len(names) * sum(map(pvariance, zip(*earned, strict=True)))
