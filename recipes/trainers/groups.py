"""What GRPO computes over groups of completions to one prompt."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from accelerate.utils import gather, gather_object

from recipes.support.rollout import measured, sandbox_seconds
from recipes.trainers.rollouts import GroupRollout
from rewards.compose import Grade


def degenerate_groups(rewards: torch.Tensor) -> torch.Tensor:
    """Which groups teach nothing: (N, G) rewards to (N,) booleans; NaN is a sample without a grade.

    True where the graded rewards are all equal or fewer than two samples are graded.
    """
    low = rewards.nan_to_num(nan=torch.inf).min(1).values
    high = rewards.nan_to_num(nan=-torch.inf).max(1).values
    return ~(high - low > 1e-6)


def nanstd_rows(rewards: torch.Tensor) -> torch.Tensor:
    """Sample standard deviation of each row's graded rewards, (N, G) to (N,)."""
    graded = ~rewards.isnan()
    count = graded.sum(1)
    mean = rewards.nansum(1) / count.clamp(min=1)
    square = ((rewards - mean[:, None]).nan_to_num() ** 2 * graded).sum(1)
    return (square / (count - 1).clamp(min=1)).sqrt()


def weighted_alike(grade: Grade, weights: Mapping[str, float]) -> list[float]:
    """A grade's scores, one a channel, such that `weights` make its total of them.

    Of a grade with silent channels the others have the silent ones' weight, which one weight a column cannot say.
    """
    return [
        result.score * grade.weights[name] / weights[name] if weights[name] else result.score
        for name, result in grade.results.items()
    ]


def rollout_metrics(rollout: GroupRollout, rewards: torch.Tensor, group: int) -> dict[str, float]:
    """One step's metrics over all processes.

    rewards: (B,) of every process's rows, NaN where not graded. Groups that a refilled batch has left out are counted
    among `groups_total`, `groups_skipped`, `groups_all_pass` and `groups_all_fail`.
    """
    grades, completions, device = rollout.grades, rollout.completions, rewards.device
    columns = [
        [float("nan") if g is None or g.passed is None else float(g.passed) for g in grades],
        [float(c.closed) for c in completions],
        [float(not c.finished) for c in completions],
    ]
    passed, closed, cut = gather(torch.tensor(columns, device=device).T.contiguous()).T
    left_out = gather(torch.tensor([rollout.passed_over], device=device)).sum(0).tolist()
    by_group = passed.reshape(-1, group)
    known = (~by_group.isnan()).any(1)
    metrics = {
        "pass_rate": torch.nanmean(passed).item(),
        "ungraded": float(rewards.isnan().sum()),
        "truncated": cut.mean().item(),
        "format_rate": closed.mean().item(),
        "groups_total": float(len(by_group) + left_out[0]),
        "groups_skipped": float(degenerate_groups(rewards.view(-1, group)).sum() + left_out[0]),
        "groups_all_pass": float((known & (by_group.nan_to_num(1) > 0).all(1)).sum() + left_out[1]),
        "groups_all_fail": float((known & (by_group.nan_to_num(0) <= 0).all(1)).sum() + left_out[2]),
        **rollout.clock,
    }
    if seconds := rollout.clock.get("seconds/rollout"):  # a batch sampled before the run was resumed has none
        metrics["tokens_per_second"] = sum(len(c.token_ids) for c in completions) / seconds
    for name in measured(grades):
        values = [torch.nan if g is None else g.measures.get(name, torch.nan) for g in grades]
        metrics[name] = torch.nanmean(gather(torch.tensor(values, device=device))).item()
    if ran := gather_object(sandbox_seconds(grades)):
        metrics |= {"seconds/sandbox_median": float(np.median(ran))}
        metrics |= {"seconds/sandbox_p95": float(np.percentile(ran, 95))}
    return metrics
