"""What one PPO update is made of: the rollout and all that is computed of it before the first gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from envs.task import Problem
from rewards.channel import Completion
from rewards.compose import Grade

EMPTY = torch.empty(0)


@dataclass
class Experience:
    """B completions of one process; every tensor is (B, T) unless it says otherwise, T the longest completion.

    mask: tokens that were sampled, in rows that were graded. states: where the critic is asked; equal to `mask`, and
    in sparse placement one column more, the state that carries the score (as in TRL).
    """

    problems: list[Problem]
    prompts: list[list[int]]
    completions: list[list[int]]
    answers: list[Completion] = field(default_factory=list)
    grades: list[Grade | None] = field(default_factory=list)
    scores: torch.Tensor = EMPTY  # (B,), NaN where not graded
    mask: torch.Tensor = EMPTY
    states: torch.Tensor = EMPTY
    logps: torch.Tensor = EMPTY
    ref_logps: torch.Tensor = EMPTY
    values: torch.Tensor = EMPTY
    kl: torch.Tensor = EMPTY
    rewards: torch.Tensor = EMPTY
    advantages: torch.Tensor = EMPTY
    returns: torch.Tensor = EMPTY

    @property
    def width(self) -> int:
        """T."""
        return max(map(len, self.completions))

    def take(self, rows: Sequence[int]) -> Experience:
        """Some rows, tensors kept T wide."""
        index = torch.as_tensor(rows)
        taken: dict[str, Any] = {}
        for name, value in vars(self).items():
            if torch.is_tensor(value):
                taken[name] = value[index.to(value.device)] if len(value) else value
            else:
                taken[name] = [value[i] for i in rows] if value else value
        return replace(self, **taken)


class PromptStream:
    """A data loader's batches for ever, and the place reached, so that a resumed run goes on with the next one.

    The loader shuffles with torch's global generator (or its own, under several processes) when an epoch starts: that
    state and the number of batches taken since say where we are.
    """

    def __init__(self, loader: Any):
        self._loader = loader
        self._batches: Any = None
        self._epoch_start: dict[str, torch.Tensor] = {}
        self._taken = 0

    def __next__(self) -> Any:
        if self._batches is None:
            self._epoch_start = self._random_state()
            self._batches, self._taken = iter(self._loader), 0
        for batch in self._batches:
            self._taken += 1
            return batch
        if not self._taken:
            raise ValueError("fewer prompts than a step takes")
        self._batches = None
        return next(self)

    def state(self) -> dict[str, Any]:
        return {"epoch_start": self._epoch_start, "taken": self._taken}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go to a place that `state` named; torch's global random state is that of the epoch's start afterwards."""
        self._batches = None
        if not state["taken"]:
            return
        torch.set_rng_state(state["epoch_start"]["torch"].cpu())
        if (generator := self._generator()) is not None:
            generator.set_state(state["epoch_start"]["loader"].cpu())
        for _ in range(state["taken"]):
            next(self)

    def _random_state(self) -> dict[str, torch.Tensor]:
        state = {"torch": torch.get_rng_state()}
        if (generator := self._generator()) is not None:
            state["loader"] = generator.get_state()
        return state

    def _generator(self) -> torch.Generator | None:
        return getattr(self._loader, "synchronized_generator", None)
