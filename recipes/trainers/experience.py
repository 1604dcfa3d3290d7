"""What one PPO update is made of: the rollout and all that is computed of it before the first gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from envs.task import Problem
from recipes.sampling.prefix import ReferencePrefixes
from rewards.channel import Completion
from rewards.compose import Grade

EMPTY = torch.empty(0)


@dataclass
class Experience:
    """B completions of one process; every tensor is (B, T) unless it says otherwise, T the longest completion.

    mask: tokens that were sampled, in rows that were graded. states: where the critic is asked; equal to `mask`, and
    in sparse placement one column more, the state that carries the score (as in TRL). reply: the environment's tokens
    between two turns. turn: the number of each column's turn. discounts: of what follows each column.
    """

    problems: list[Problem]
    prompts: list[list[int]]
    completions: list[list[int]]
    samples_per_prompt: int = 1  # completions of a prompt lie side by side
    answers: list[Completion] = field(default_factory=list)
    grades: list[Grade | None] = field(default_factory=list)
    cuts: list[list[int]] = field(default_factory=list)  # tokens where segments begin (monte_carlo_ppo.py)
    scores: torch.Tensor = EMPTY  # (B,), NaN where not graded
    mask: torch.Tensor = EMPTY
    states: torch.Tensor = EMPTY
    reply: torch.Tensor = EMPTY
    turn: torch.Tensor = EMPTY
    discounts: torch.Tensor = EMPTY
    logps: torch.Tensor = EMPTY
    ref_logps: torch.Tensor = EMPTY
    values: torch.Tensor = EMPTY
    kl: torch.Tensor = EMPTY
    rewards: torch.Tensor = EMPTY
    advantages: torch.Tensor = EMPTY
    returns: torch.Tensor = EMPTY

    @property
    def width(self) -> int:
        """Length of the longest completion, in tokens."""
        return max(map(len, self.completions))

    def take(self, rows: Sequence[int]) -> Experience:
        """Some rows, tensors kept T wide."""
        index = torch.as_tensor(rows)
        taken: dict[str, Any] = {}
        for name, value in vars(self).items():
            if torch.is_tensor(value):
                taken[name] = value[index.to(value.device)] if len(value) else value
            elif isinstance(value, list):
                taken[name] = [value[i] for i in rows] if value else value
        return replace(self, **taken)

    def rows_of(self, prompts: Sequence[int]) -> list[int]:
        """All completions of some prompts, by number: together, each prompt is read once."""
        n = self.samples_per_prompt
        return [prompt * n + i for prompt in prompts for i in range(n)]

    def passes(self, rows: Sequence[int], size: int) -> list[list[int]]:
        """Rows of one prompt or of like length together, `size` at a time; as many on every process, since each has as
        many rows."""
        ordered = sorted(rows, key=lambda i: (len(self.prompts[i]), self.prompts[i], len(self.completions[i])))
        return [ordered[i : i + size] for i in range(0, len(ordered), size)]


def draw_again(
    e: Experience,
    prefixes: ReferencePrefixes,
    sampler: Callable[..., list[list[int]]],
    finish: Callable[..., Completion],
    grade: Callable[[Sequence[Problem], Sequence[Completion]], list[Grade | None]],
) -> int:
    """Put new completions in place of those of prompts of which none passed, behind the beginning of the reference.

    Args:
        sampler: (prompts, samples of each, begun=...) to sampled ids.
        finish: (ids, given=...) to a Completion.

    Returns how many were drawn. Prompts, completions, answers and grades are replaced; masks are the caller's to set.
    """
    n = e.samples_per_prompt
    chosen = prefixes.groups_to_draw_again(e.problems, e.grades, n)
    if not chosen:
        return 0
    prompts = [e.prompts[p.group * n] + p.begun for p in chosen]
    ids = sampler(prompts, n, begun=[p.begun for p in chosen])
    rows = e.rows_of([p.group for p in chosen])
    begun = [p.begun for p in chosen for _ in range(n)]
    answers = [finish(given + own, given=len(given)) for given, own in zip(begun, ids, strict=True)]
    grades = grade([e.problems[row] for row in rows], answers)
    for place, row in enumerate(rows):
        e.prompts[row] = prompts[place // n]
        e.completions[row], e.answers[row], e.grades[row] = ids[place], answers[place], grades[place]
    for number, p in enumerate(chosen):
        prefixes.observe(e.problems[p.group * n], p.share, grades[number * n : (number + 1) * n])
    return len(rows)
