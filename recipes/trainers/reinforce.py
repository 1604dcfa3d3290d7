"""REINFORCE (Williams 1992): PPO's steps with returns for advantages and the plain log-probability for a loss."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from recipes.trainers.dense_ppo import DensePPOTrainer
from recipes.trainers.experience import Experience
from recipes.trainers.turns import returns_over_turns


class ReinforceTrainer(DensePPOTrainer):
    """
    Args:
        baseline: what is subtracted from a token's reward-to-go (KL penalty included). It is the mean reward-to-go at
            the same position over the other completions that reach it; after the longest of them, the last such mean.
            "group": completions of the same prompt; "batch": of the step; "none": nothing is subtracted. The mean does
            not depend on this token, so it adds no bias. A mean of whole returns adds none either, but it puts every
            late token of a dense reward below its baseline, and answers grow until they never end.
    """

    def __init__(self, baseline: str, **kwargs: Any):
        super().__init__(**kwargs)
        self.baseline = baseline

    def advantages(self, e: Experience) -> tuple[torch.Tensor, torch.Tensor]:
        """Discounted reward-to-go of each token minus its baseline, and the reward-to-go, (B, T) each."""
        returns = returns_over_turns(e.rewards, e.reply, e.discounts)
        return (returns - self._baselines_by_turn(e, returns)) * e.mask, returns

    def _baselines_by_turn(self, e: Experience, returns: torch.Tensor) -> torch.Tensor:
        """(B, T): a turn's tokens are compared with the same turn of others, at the same position in it."""
        baselines = torch.zeros_like(returns)
        for number in range(self.turns):
            here = e.mask & (e.turn == number)
            first = here.int().argmax(1)
            place = (first[:, None] + torch.arange(returns.shape[1], device=returns.device)) % returns.shape[1]
            aligned = self._baselines(e, returns.gather(1, place), here.gather(1, place))
            baselines = torch.where(here, torch.zeros_like(returns).scatter(1, place, aligned), baselines)
        return baselines

    def _baselines(self, e: Experience, returns: torch.Tensor, here: torch.Tensor) -> torch.Tensor:
        """(B, T): mean reward-to-go of the others that were graded; 0 where there never was one. here: the tokens that
        count, a row's first ones."""
        if self.baseline == "none":
            return torch.zeros_like(returns)
        there = here.float()
        own = returns * there
        if self.baseline == "batch":
            missing = self._longest(returns.shape[1]) - returns.shape[1]  # processes must agree on a width
            pooled = torch.stack([own.sum(0), there.sum(0)])
            total, count = self.total(functional.pad(pooled, (0, missing)))[:, None, : returns.shape[1]]
        else:
            n = e.samples_per_prompt  # completions of a prompt lie side by side
            total, count = (x.view(-1, n, x.shape[1]).sum(1).repeat_interleave(n, 0) for x in (own, there))
        others = count - there
        mean = (total - own) / others.clamp(min=1)
        for t in range(1, mean.shape[1]):
            mean[:, t] = torch.where(others[:, t] > 0, mean[:, t], mean[:, t - 1])
        return mean

    def _longest(self, width: int) -> int:
        """Columns of the longest row that any process can have."""
        return int(self.accelerator.gather(torch.tensor([width], device=self.accelerator.device)).max())

    def policy_loss(self, logps: torch.Tensor, e: Experience) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """-A log p, summed here; the step divides it by `units`, its tokens."""
        return -(e.advantages * logps * e.mask).sum(), {}
