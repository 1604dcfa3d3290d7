"""The arithmetic of episodes of several turns: advantages by turn, returns that step over the environment's replies.

`turn_BT` gives each column of a row the number of its turn, from 0: what the environment says belongs to the turn that
it answers, padding to the last. With one turn each function gives what its counterpart of one turn gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from accelerate.utils import gather

from recipes.data.completions import Rollout
from recipes.data.episodes import EpisodeGrade, places_of, turn_grades, turns_of
from rewards.channel import Completion
from rewards.compose import Grade

OneTurn = Callable[[torch.Tensor, torch.Tensor | None, torch.Tensor], torch.Tensor]
"""Advantages, (B,) or (B, T), of rewards (N, G), tokens' own rewards (B, T) or None, and lengths (B,)."""


def turn_columns(completions: Sequence[Completion], width: int) -> torch.Tensor:
    """turn_BT, (B, width)."""
    turns = torch.zeros(len(completions), width, dtype=torch.long)
    for row, completion in enumerate(completions):
        for number, (start, _) in enumerate(places_of(completion)):
            turns[row, start:] = number
    return turns


def written_columns(completions: Sequence[Completion], width: int) -> torch.Tensor:
    """(B, width): True at tokens that the policy wrote."""
    written = torch.zeros(len(completions), width, dtype=torch.bool)
    for row, completion in enumerate(completions):
        for start, end in places_of(completion):
            written[row, start:end] = True
    return written


def lengths_by_turn(completions: Sequence[Completion], turns: int) -> torch.Tensor:
    """(B, turns): tokens that the policy wrote in each turn, 0 where there was none."""
    lengths = torch.zeros(len(completions), turns, dtype=torch.long)
    for row, completion in enumerate(completions):
        for number, (start, end) in enumerate(places_of(completion)):
            lengths[row, number] = end - start
    return lengths


def advantages_by_turn(
    one_turn: OneTurn,
    returns_by_turn: Sequence[torch.Tensor],
    own_BT: torch.Tensor | None,
    lengths_BK: torch.Tensor,
    turn_BT: torch.Tensor,
) -> torch.Tensor:
    """(B, T): each turn is compared with the same turn of its group's other episodes, as far as they have one.

    returns_by_turn: for each turn what is paid from there on, (N, G). All of all processes.
    """
    result = torch.zeros(turn_BT.shape, device=turn_BT.device)
    for number, rewards_NG in enumerate(returns_by_turn):
        here = turn_BT == number
        own = None if own_BT is None else own_BT * here
        advantages = one_turn(rewards_NG, own, lengths_BK[:, number])
        wide = advantages if advantages.dim() > 1 else advantages[:, None]
        result = torch.where(here, wide, result)
    return result


def gae_over_turns(
    rewards_BT: torch.Tensor, values_BT: torch.Tensor, reply_BT: torch.Tensor, discounts_BT: torch.Tensor, lam: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages and returns (B, T), as `gae`; the environment's tokens (`reply_BT`) are no step and get none.

    discounts_BT: of what follows each token, in float64, so that their product with `lam` is rounded once, as in `gae`.
    """
    traces_BT, discounts_BT = (discounts_BT * lam).to(rewards_BT), discounts_BT.to(rewards_BT)
    advantages = torch.zeros_like(rewards_BT)
    running = torch.zeros_like(rewards_BT[:, 0])
    next_value = torch.zeros_like(running)
    for t in reversed(range(rewards_BT.shape[1])):
        message = reply_BT[:, t]
        delta = rewards_BT[:, t] + discounts_BT[:, t] * next_value - values_BT[:, t]
        running = torch.where(message, running, delta + traces_BT[:, t] * running)
        next_value = torch.where(message, next_value, values_BT[:, t])
        advantages[:, t] = torch.where(message, 0.0, running)
    return advantages, torch.where(reply_BT, 0.0, advantages + values_BT)


def returns_over_turns(rewards_BT: torch.Tensor, reply_BT: torch.Tensor, discounts_BT: torch.Tensor) -> torch.Tensor:
    """Discounted reward-to-go of each token (B, T), 0 at the environment's."""
    discounts_BT = discounts_BT.to(rewards_BT)
    returns = torch.zeros_like(rewards_BT)
    running = torch.zeros_like(rewards_BT[:, 0])
    for t in reversed(range(rewards_BT.shape[1])):
        message = reply_BT[:, t]
        running = torch.where(message, running, rewards_BT[:, t] + discounts_BT[:, t] * running)
        returns[:, t] = torch.where(message, 0.0, running)
    return returns


def discount_columns(completions: Sequence[Completion], width: int, gamma: float, between_turns: float) -> torch.Tensor:
    """(B, width), float64: `gamma`, times `between_turns` at the last token of a turn that another follows."""
    discounts = torch.full((len(completions), width), gamma, dtype=torch.float64)
    for row, completion in enumerate(completions):
        for _, end in places_of(completion)[:-1]:
            discounts[row, end - 1] *= between_turns
    return discounts


def earlier_pays(completions: Sequence[Completion], grades: Sequence[Grade | None], width: int) -> torch.Tensor:
    """(B, width): what sparse placement pays turns before the last, on their last tokens."""
    pays = torch.zeros(len(completions), width)
    for row, (completion, grade) in enumerate(zip(completions, grades, strict=True)):
        if isinstance(grade, EpisodeGrade):
            for (_, end), paid in zip(places_of(completion)[:-1], grade.pays, strict=False):
                pays[row, end - 1] += paid
    return pays


def _shown(answer: Completion) -> str:
    return answer.text if answer.code is None else answer.code.strip()


def turn_metrics(rollout: Rollout, turns: int, device: torch.device) -> dict[str, float]:
    """Over the episodes of all processes: turns; after each turn the share that passes; of each turn its tokens, reward
    and share of answers that repeat the one before; tokens of the environment's replies. All processes call it."""
    nan = float("nan")
    columns: dict[str, list[float]] = {"turns": [], "turns/reply_tokens": []}
    for number in range(1, turns + 1):
        for name in ("pass_rate", "tokens", "reward", *(["repeated"] if number > 1 else [])):
            columns[f"turn_{number}/{name}"] = []
    for completion, whole in zip(rollout.completions, rollout.grades, strict=True):
        own, grades = turns_of(completion), turn_grades(completion, whole)
        columns["turns"].append(float(len(own)))
        columns["turns/reply_tokens"].append(float(sum(len(turn.reply_ids) for turn in own)))
        for number in range(1, turns + 1):
            there = number <= len(own)
            after = grades[min(number, len(own)) - 1]
            passed = None if after is None else after.passed
            columns[f"turn_{number}/pass_rate"].append(nan if passed is None else float(passed))
            columns[f"turn_{number}/tokens"].append(float(len(own[number - 1].answer.token_ids)) if there else nan)
            columns[f"turn_{number}/reward"].append(after.total if there and after is not None else nan)
            if number > 1:
                same = there and _shown(own[number - 1].answer) == _shown(own[number - 2].answer)
                columns[f"turn_{number}/repeated"].append(float(same) if there else nan)
    table = gather(torch.tensor(list(columns.values()), device=device).T.contiguous())
    return dict(zip(columns, table.nanmean(0).tolist(), strict=True))
