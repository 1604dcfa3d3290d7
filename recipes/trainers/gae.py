"""The arithmetic of PPO on padded batches: KL estimators, generalised advantage estimation, whitening, statistics.

`_BT` tensors have a row a completion and a column a token; masks are True where there is a token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

Total = Callable[[torch.Tensor], torch.Tensor]
"""Sum of a tensor over all processes."""


def alone(x: torch.Tensor) -> torch.Tensor:
    """`Total` of a single process."""
    return x


def kl_per_token(logps: torch.Tensor, ref_logps: torch.Tensor, estimator: str) -> torch.Tensor:
    """Estimates of KL(policy || reference) at each sampled token, same shape (Schulman, "Approximating KL Divergence").

    "k1": log p - log r, unbiased, of either sign. "k3": r / p - 1 - log(r / p), unbiased, never negative.
    """
    log_ratio = ref_logps - logps
    return -log_ratio if estimator == "k1" else log_ratio.expm1() - log_ratio


@dataclass
class KLCoefficient:
    """Weight of the KL penalty: fixed, or steered to `target` (Ziegler et al. 2019, arXiv 1909.08593, section 2.2).

    target: KL a completion, in nats; None keeps the coefficient.
    horizon: episodes over which a deviation of 20 % or more moves the coefficient by 20 %.
    """

    value: float
    target: float | None = None
    horizon: float = 10_000.0

    def update(self, kl: float, episodes: int) -> None:
        """After `episodes` completions with mean KL `kl`."""
        if self.target is not None:
            error = min(max(kl / self.target - 1.0, -0.2), 0.2)
            self.value *= 1.0 + error * episodes / self.horizon


def masked_mean(values: torch.Tensor, mask: torch.Tensor, total: Total = alone) -> torch.Tensor:
    """Mean where `mask` is True, over all processes; 0 where that is nowhere."""
    return total((values * mask).sum()) / total(mask.sum()).clamp(min=1)


def whiten(values: torch.Tensor, mask: torch.Tensor, shift_mean: bool = True, total: Total = alone) -> torch.Tensor:
    """Values to unit variance (unbiased) and, if `shift_mean`, zero mean over the mask of all processes.

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


def explained_variance(
    values: torch.Tensor, returns: torch.Tensor, mask: torch.Tensor, total: Total = alone
) -> torch.Tensor:
    """1 - Var(returns - values) / Var(returns) over the mask: 1 is a perfect critic, 0 one that knows only the mean.

    NaN where the returns hardly differ: there is nothing to explain.
    """
    error = returns - values
    residual = masked_mean((error - masked_mean(error, mask, total)) ** 2, mask, total)
    variance = masked_mean((returns - masked_mean(returns, mask, total)) ** 2, mask, total)
    return torch.where(variance > 1e-6, 1 - residual / variance, torch.nan)
