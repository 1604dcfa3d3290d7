"""PPO with one ratio a completion: the variant of the HumanEval study, without a critic."""

from __future__ import annotations

import torch

from recipes.trainers.advantages import whiten
from recipes.trainers.dense_ppo import DensePPOTrainer
from recipes.trainers.experience import Experience


class SequencePPOTrainer(DensePPOTrainer):
    """A completion is one action: its ratio is that of the summed log-probabilities, its advantage the total reward,
    normalised over the step. Where rewards lie on the tokens makes no difference."""

    def advantages(self, e: Experience) -> tuple[torch.Tensor, torch.Tensor]:
        """Total rewards (KL penalty included) to zero mean and unit variance, repeated over each row's tokens."""
        totals = e.rewards.sum(1)
        normal = whiten(totals, ~e.scores.isnan(), total=self.total)
        return normal[:, None] * e.mask, totals[:, None] * e.mask

    def units(self, e: Experience) -> torch.Tensor:
        """Number of completions that were graded, a scalar tensor."""
        return e.mask.any(1).sum()

    def policy_loss(self, logps: torch.Tensor, e: Experience) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The clipped surrogate of whole completions and statistics, summed over completions. logps: (B, T)."""
        row = e.mask.any(1)
        difference = ((logps - e.logps) * e.mask).sum(1)
        ratio, advantage, clip = difference.exp(), e.advantages[:, 0], self.args.cliprange
        plain, clipped = -advantage * ratio, -advantage * ratio.clamp(1 - clip, 1 + clip)
        return (torch.max(plain, clipped) * row).sum(), {
            "policy/clipfrac_avg": ((clipped > plain) & row).sum(),
            "policy/approxkl_avg": 0.5 * (difference.square() * row).sum(),
            "val/ratio": (ratio * row).sum(),
        }
