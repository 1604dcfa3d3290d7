"""REINFORCE (Williams 1992): PPO's steps with returns for advantages and the plain log-probability for a loss."""

from __future__ import annotations

from typing import Any

import torch

from recipes.trainers.dense_ppo import DensePPOTrainer
from recipes.trainers.experience import Experience

BASELINES = ("none", "batch", "group")


class ReinforceTrainer(DensePPOTrainer):
    """
    Args:
        baseline: what is subtracted from the returns of a completion's tokens. "none"; "batch": the mean total reward
            (undiscounted, KL penalty included) of the other completions of the step; "group": of its prompt's other
            completions (Kool et al. 2019; RLOO). Neither depends on the completion itself, so neither biases.
    """

    def __init__(self, baseline: str, **kwargs: Any):
        super().__init__(**kwargs)
        self.baseline = baseline

    def advantages(self, e: Experience) -> tuple[torch.Tensor, torch.Tensor]:
        """Discounted reward-to-go of each token minus the completion's baseline, and the reward-to-go, (B, T) each."""
        returns = torch.zeros_like(e.rewards)
        running = torch.zeros_like(e.rewards[:, 0])
        for t in reversed(range(e.rewards.shape[1])):
            running = e.rewards[:, t] + self.args.gamma * running
            returns[:, t] = running
        return (returns - self._baselines(e)[:, None]) * e.mask, returns

    def _baselines(self, e: Experience) -> torch.Tensor:
        """(B,): mean total reward of the others that were graded; 0 where there is no other."""
        totals, graded = e.rewards.sum(1), (~e.scores.isnan()).float()
        if self.baseline == "none":
            return torch.zeros_like(totals)
        if self.baseline == "batch":
            total, count = self._total((totals * graded).sum()), self._total(graded.sum())
        else:
            n = self.args.samples_per_prompt  # completions of a prompt lie side by side
            total = (totals * graded).view(-1, n).sum(1).repeat_interleave(n)
            count = graded.view(-1, n).sum(1).repeat_interleave(n)
        return (total - totals * graded) / (count - graded).clamp(min=1)

    def policy_loss(self, logps: torch.Tensor, e: Experience) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """-A log p, summed here; the step divides it by `units`, its tokens."""
        return -(e.advantages * logps * e.mask).sum(), {}
