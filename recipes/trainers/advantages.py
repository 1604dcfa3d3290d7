"""The arithmetic between rewards and losses: group-relative and generalised advantages, KL estimators, whitening.

`_BT` tensors have a row for each completion and a column for each token; masks are True where there is a token. (N, G)
tensors have a row for each group and a column for each of its completions; NaN stands for a completion without a grade.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from trl.trainer.utils import nanstd

Total = Callable[[torch.Tensor], torch.Tensor]
"""Sum of a tensor over all processes."""
EPSILON = 1e-4
"""Added to the deviation that advantages are divided by, as in TRL."""


def alone(x: torch.Tensor) -> torch.Tensor:
    """`Total` of a single process."""
    return x


# GRPO --------------------------------------------------------------------------------------------------------


def group_relative(rewards_NG: torch.Tensor, scale: str) -> torch.Tensor:
    """Reward minus its group's mean (Shao et al. 2024, arXiv 2402.03300), divided as `scale` says: (N, G).

    scale: "none", or "group" or "batch" for the standard deviation there. 0 where a completion has no grade.
    """
    centred = rewards_NG - torch.nanmean(rewards_NG, dim=1, keepdim=True)
    return (centred / _deviation(rewards_NG, scale)).nan_to_num(nan=0.0)


def token_shaping(token_rewards_BT: torch.Tensor, lengths_B: torch.Tensor, rewards_NG: torch.Tensor) -> torch.Tensor:
    """Each token's own reward minus its group's mean over tokens: (B, T), B = N x G.

    token_rewards_BT: 0 behind each completion's length, and in completions without a grade, which count for nothing.
    """
    group = rewards_NG.shape[1]
    tokens_N = (lengths_B * ~rewards_NG.flatten().isnan()).view(-1, group).sum(1).clamp(min=1)
    mean_N = token_rewards_BT.sum(1).view(-1, group).sum(1) / tokens_N
    return token_rewards_BT - mean_N.repeat_interleave(group)[:, None]


def _deviation(rewards_NG: torch.Tensor, scale: str) -> torch.Tensor | float:
    """(N, 1), or 1.0 where nothing is divided."""
    if scale == "none":
        return 1.0
    if scale == "group":
        return nanstd(rewards_NG, dim=1).nan_to_num(nan=0.0)[:, None] + EPSILON
    if scale == "batch":
        return nanstd(rewards_NG.flatten()).expand(len(rewards_NG), 1) + EPSILON
    raise ValueError(f"recipe.trl.scale_rewards={scale}: choose none, group or batch")


# PPO ---------------------------------------------------------------------------------------------------------


def kl_per_token(logps: torch.Tensor, ref_logps: torch.Tensor, estimator: str) -> torch.Tensor:
    """Estimates of KL(policy || reference) at each sampled token, same shape (Schulman, "Approximating KL Divergence").

    "k1": log p - log r, unbiased, of either sign. "k3": r / p - 1 - log(r / p), unbiased, never negative. As a penalty
    in the reward k1 alone has the gradient of the KL ("A Comedy of Estimators", 2025, arXiv 2512.21852). That of k3 is
    the gradient of KL(p || r) minus that of KL(r || p): nearly nothing close to the reference, and further away it
    makes rare tokens rarer. Measure with it.
    """
    log_ratio = ref_logps - logps
    return -log_ratio if estimator == "k1" else log_ratio.expm1() - log_ratio


@dataclass
class KLCoefficient:
    """Weight of the KL penalty: fixed, or steered to `target` (Ziegler et al. 2019, arXiv 1909.08593, section 2.2).

    target: KL a completion, in nats; None keeps the coefficient.
    horizon: completions over which a deviation of 20 % or more moves the coefficient by 20 %.
    """

    value: float
    target: float | None = None
    horizon: float = 10_000.0

    def update(self, kl: float, completions: int) -> None:
        """After so many `completions` with mean KL `kl`."""
        if self.target is not None:
            error = min(max(kl / self.target - 1.0, -0.2), 0.2)
            self.value *= 1.0 + error * completions / self.horizon


def masked_mean(values: torch.Tensor, mask: torch.Tensor, total: Total = alone) -> torch.Tensor:
    """Mean of `values` where `mask` (of the same shape, bool) is True, over all processes, a scalar tensor; 0 if it is
    True nowhere."""
    return total((values * mask).sum()) / total(mask.sum()).clamp(min=1)


def whiten(values: torch.Tensor, mask: torch.Tensor, shift_mean: bool = True, total: Total = alone) -> torch.Tensor:
    """`values` with unit variance (unbiased) and, if `shift_mean`, zero mean where `mask` (of the same shape, bool) is
    True, over all processes.

    Fewer than two values have no variance: they are returned as they are.
    """
    count = total(mask.sum())
    if count < 2:
        return values
    mean = masked_mean(values, mask, total)
    variance = total(((values - mean) ** 2 * mask).sum()) / (count - 1)
    whitened = (values - mean) * torch.rsqrt(variance + 1e-8)
    return whitened if shift_mean else whitened + mean


def gae(
    rewards_BT: torch.Tensor, values_BT: torch.Tensor, gamma: float, lam: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages and returns, (B, T) each (Schulman et al. 2016, arXiv 1506.02438, equations 11 and 16).

    Rewards and values are 0 where an episode is over, so nothing is carried across its end.
    """
    advantages = torch.zeros_like(rewards_BT)
    running = torch.zeros_like(rewards_BT[:, 0])
    next_value = torch.zeros_like(running)
    for t in reversed(range(rewards_BT.shape[1])):
        delta = rewards_BT[:, t] + gamma * next_value - values_BT[:, t]
        running = delta + gamma * lam * running
        next_value = values_BT[:, t]
        advantages[:, t] = running
    return advantages, advantages + values_BT
