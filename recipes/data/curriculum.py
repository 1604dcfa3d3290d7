"""A curriculum: problems that the policy solves in about half of its answers are drawn most often.

A group in which all answers pass, or none, teaches nothing. Of a problem that is solved with probability p the pass of
one answer has the variance p (1 - p), which is what GRPO's gradient lives on (Foster et al. 2025, "Learning to Reason
at the Frontier of Learnability", arXiv 2502.12272). So each problem keeps a moving mean of its pass rate, from the
groups that training draws anyway, and is drawn with a weight of 4 p (1 - p). Problems that were never tried count as
p = 1/2 and come first; those that are solved or hopeless are tried again now and then, since the policy moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from recipes.cli.errors import UserError
from rewards.compose import Grade

UNTRIED = 0.5
"""The pass rate of a problem that was never tried."""
CERTAIN = 0.05
"""How near 0 or 1 a pass rate counts as hopeless or solved in the metrics."""


@dataclass(frozen=True)
class CurriculumSettings:
    """
    enabled: whether problems are drawn by what they teach; if not, in TRL's order.
    memory: weight of a problem's pass rate so far beside the one of a new group, at least 0 and below 1.
    least: the smallest weight of a problem, where one with a pass rate of one half has 1; above 0 and up to 1.

    Raises UserError where a number is out of its range.
    """

    enabled: bool
    memory: float
    least: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.memory < 1.0:
            raise UserError(f"recipe.curriculum.memory={self.memory}: choose a number from 0 to below 1")
        if not 0.0 < self.least <= 1.0:
            raise UserError(f"recipe.curriculum.least={self.least}: choose a number above 0 and up to 1")


class Curriculum:
    """This process's rows of the dataset, drawn by what their problems teach, in place of prompt_order.PromptRows.

    A process draws from every `world`-th problem, from its own on, so that processes need not tell each other what
    they measured. Within one draw no problem comes twice.

    Args:
        problem_ids: of each row of the dataset.
        prompts, repeats: problems a step over all processes, a multiple of `world`; rows of each, side by side.
        seed: of the draws. rank, world: which of how many processes this is.

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
    ):
        self._settings, self._repeats, self._ids = settings, repeats, list(problem_ids)
        self._rows = list(range(rank, len(self._ids), world))
        if len(self._rows) < prompts // world:
            raise UserError(
                f"{len(self._ids)} training problems do not make a step of recipe.prompts_per_step={prompts} with "
                f"recipe.curriculum.enabled=true in {world} processes: lower it, or add problems"
            )
        self._generator = torch.Generator().manual_seed(seed * world + rank)
        self._rates: dict[str, float] = {}

    def draw(self, rows: int) -> list[int]:
        """The next rows of the dataset, by number: `rows` / `repeats` problems, each `repeats` times."""
        weights = torch.tensor([self._weight(self._ids[row]) for row in self._rows], dtype=torch.float64)
        uniform = torch.rand(len(weights), generator=self._generator, dtype=torch.float64)
        # without replacement, by weight: Efraimidis and Spirakis 2006, "Weighted random sampling with a reservoir"
        order = (uniform.log() / weights).argsort(descending=True).tolist()
        return [self._rows[place] for place in order[: rows // self._repeats] for _ in range(self._repeats)]

    def observe(self, rows: Sequence[int], grades: Sequence[Grade | None]) -> None:
        """What groups earned that were drawn from the prompt alone; answers that nothing judged do not count."""
        passed: dict[str, list[float]] = {}
        for row, grade in zip(rows, grades, strict=True):
            if grade is not None and grade.passed is not None:
                passed.setdefault(self._ids[row], []).append(float(grade.passed))
        for name, verdicts in passed.items():
            memory = self._settings.memory
            self._rates[name] = memory * self._rates.get(name, UNTRIED) + (1 - memory) * fmean(verdicts)

    def metrics(self) -> dict[str, float]:
        """Of this process's problems: which shares have been tried, are hopeless and are solved."""
        rates, all_rows = list(self._rates.values()), len(self._rows)
        return {
            "curriculum/tried": len(rates) / all_rows,
            "curriculum/hopeless": sum(rate < CERTAIN for rate in rates) / all_rows,
            "curriculum/solved": sum(rate > 1 - CERTAIN for rate in rates) / all_rows,
        }

    def state(self) -> dict[str, Any]:
        return {"draws": self._generator.get_state(), "rates": dict(self._rates)}

    def load_state(self, state: Any) -> None:
        self._generator.set_state(state["draws"].cpu())
        self._rates = dict(state["rates"])

    def _weight(self, name: str) -> float:
        rate = self._rates.get(name, UNTRIED)
        return max(self._settings.least, 4.0 * rate * (1.0 - rate))
