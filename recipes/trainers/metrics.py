"""What an online trainer reports of a step: means over the completions of all processes, groups, the critic's fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from accelerate.utils import gather, gather_object

from recipes.data.completions import Rollout, measured, sandbox_seconds
from recipes.data.episodes import written_tokens
from recipes.sampling.group_batch import AnswerSums, GroupRollout, degenerate_groups
from recipes.sampling.prefix import Shown
from recipes.trainers.advantages import Total, alone, masked_mean
from recipes.trainers.experience import Experience


def completion_metrics(rollout: Rollout, channels: Sequence[str], device: torch.device) -> dict[str, float]:
    """Means over the completions of all processes, NaN where there is nothing to average; all processes call it.

    channels: names of the reward's channels. Scores are means over the completions on which the channel is not silent.
    """
    grades, completions = rollout.grades, rollout.completions
    columns = {
        "pass_rate": [_number(None if g is None else g.passed) for g in grades],
        "truncated": [float(not c.finished) for c in completions],
        "format_rate": [float(c.closed) for c in completions],
        "completion_tokens": [float(written_tokens(c)) for c in completions],
        "ungraded": [float(g is None) for g in grades],
        **{f"scores/{name}": [_number(None if g is None else g.scores.get(name)) for g in grades] for name in channels},
        **{name: [_number(None if g is None else g.measures.get(name)) for g in grades] for name in measured(grades)},
    }
    table = gather(torch.tensor(list(columns.values()), device=device).T.contiguous())
    metrics = dict(zip(columns, table.nanmean(0).tolist(), strict=True))
    metrics["ungraded"] *= len(table)  # a number of completions, not a share
    if seconds := gather_object(sandbox_seconds(grades)):
        metrics["seconds/sandbox_median"] = float(np.median(seconds))
        metrics["seconds/sandbox_p95"] = float(np.percentile(seconds, 95))
    return metrics


def metrics_from_prompt(own: AnswerSums, device: torch.device) -> dict[str, float]:
    """Mean reward and pass rate of all answers that were sampled from the prompt alone, before groups are left out or
    sampled again; all processes call it. own: of this process."""
    reward, graded, passed, judged = gather(torch.tensor([own], device=device)).sum(0).tolist()
    return {
        "from_prompt/reward": reward / graded if graded else torch.nan,
        "from_prompt/pass_rate": passed / judged if judged else torch.nan,
    }


def prefix_metrics(own: Shown, device: torch.device) -> dict[str, float]:
    """How many groups of all processes were sampled again behind the beginning of their reference, and the mean share
    of it that they were shown, 0 where there are none; all processes call it. own: of this process."""
    groups, shares = gather(torch.tensor([own], dtype=torch.float64, device=device)).sum(0).tolist()
    return {"prefix/groups": groups, "prefix/share": shares / groups if groups else 0.0}


def group_metrics(
    rollout: GroupRollout,
    rewards_NG: torch.Tensor,
    returns_by_turn: Sequence[torch.Tensor] = (),
    differ: torch.Tensor | None = None,
) -> dict[str, float]:
    """How many groups there are, teach nothing, pass or fail whole; all processes call it.

    rewards_NG: of all processes, NaN where there is no grade. Groups that a refilled batch has left out count too.
    returns_by_turn: of episodes, those of GroupRollout.returns_by_turn; a group teaches where those of any turn differ.
    differ: of answers in parts, which groups teach by a part, (N,).
    """
    degenerate = torch.stack([degenerate_groups(each) for each in returns_by_turn or [rewards_NG]]).all(0)
    if differ is not None:
        degenerate &= ~differ
    passed = [_number(None if g is None else g.passed) for g in rollout.grades]
    passed_NG = gather(torch.tensor(passed, device=rewards_NG.device)).view_as(rewards_NG)
    judged = (~passed_NG.isnan()).any(1)
    total, all_pass, all_fail = gather(torch.tensor([rollout.left_out], device=rewards_NG.device)).sum(0).tolist()
    return {
        "groups_total": float(len(rewards_NG) + total),
        "groups_skipped": float(degenerate.sum() + total),
        "groups_all_pass": float((judged & (passed_NG.nan_to_num(1) > 0).all(1)).sum() + all_pass),
        "groups_all_fail": float((judged & (passed_NG.nan_to_num(0) <= 0).all(1)).sum() + all_fail),
    }


def ppo_metrics(
    e: Experience, kl_coef: float, with_critic: bool, total: Total = alone, with_reference: bool = True
) -> dict[str, float]:
    """Reward, KL and entropy a completion, and how well the critic fits, under TRL's names.

    with_reference: the KL was measured; without a reference policy there is none to report.
    """
    kl = e.kl.sum(1)
    metrics = {
        "reward": mean_of_graded(e, e.scores, total),
        **({"objective/kl": mean_of_graded(e, kl, total)} if with_reference else {}),
        "objective/entropy": mean_of_graded(e, -(e.logps * e.mask).sum(1), total),
        "objective/non_score_reward": mean_of_graded(e, -kl_coef * kl, total),
        "objective/rlhf_reward": mean_of_graded(e, e.scores - kl_coef * kl, total),
        "objective/scores": mean_of_graded(e, e.scores, total),
        "kl_coef": kl_coef,
    }
    if with_critic:
        metrics["value/explained_variance"] = explained_variance(e.values, e.returns, e.states, total).item()
    return metrics


def mean_of_graded(e: Experience, per_completion: torch.Tensor, total: Total = alone) -> float:
    """Mean of a number (B,) over the graded completions of all processes; NaN where there is none."""
    graded = (~e.scores.isnan()).float()
    return (total((per_completion.nan_to_num() * graded).sum()) / total(graded.sum())).item()


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


def _number(value: float | bool | None) -> float:
    return float("nan") if value is None else float(value)
