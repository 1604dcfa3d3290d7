"""Answers in parts: a part is compared with the same part of its group's other answers, and with nothing else.

An answer of three functions, each graded by its own tests, has three rewards. GRPO's advantage puts their sum on every
token, so that a right function is discouraged where its neighbours fail. Here the tokens of a part keep what that part
earned and what the answer earned beside all parts: the other parts' rewards, centred in the group, are taken off.
Tokens between parts, which decide whether and how the answer goes on, lose only the rewards of parts that had ended
before them. If parts do not depend on each other, the expected gradient stays and its variance shrinks, at best by as
many times as there are parts. How one part helps or harms a later one is not credited to it.

Leaving out rewards that an action has no part in: Spooner et al. 2021, "Factored Policy Gradients", arXiv 2102.10362.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rewards.channel import Completion
from rewards.compose import Grade

Earned = dict[str, float]
"""What one answer earned with each of its parts."""


def earned(grades: Sequence[Grade | None]) -> list[Earned | None]:
    """What each answer earned; None without a grade."""
    return [None if g is None else {name: part.reward for name, part in g.parts.items()} for g in grades]


def centred(rewards: Sequence[Earned | None], group: int) -> list[Earned]:
    """Each part's reward minus its mean in the group. A part that an answer lacks earned it 0; an answer without a
    grade has none and does not count. Answers of a group lie side by side, `group` of them."""
    result: list[Earned] = []
    for first in range(0, len(rewards), group):
        rows = rewards[first : first + group]
        graded = [row for row in rows if row is not None]
        names = sorted({name for row in graded for name in row})
        means = {name: sum(row.get(name, 0.0) for row in graded) / len(graded) for name in names}
        result += [{} if row is None else {n: row.get(n, 0.0) - means[n] for n in names} for row in rows]
    return result


def groups_that_differ(rewards: Sequence[Earned | None], group: int) -> torch.Tensor:
    """Which groups have a part that earned more in one answer than in another, (N,): they teach something even if
    all answers earned the same in total."""
    differ = [any(abs(value) > 1e-6 for value in row.values()) for row in centred(rewards, group)]
    return torch.tensor(differ).view(-1, group).any(1)


def without_other_parts(
    grades: Sequence[Grade | None], completions: Sequence[Completion], rewards: Sequence[Earned], width: int
) -> torch.Tensor:
    """What is added to the whole answer's advantage at each token, (B, width): minus the rewards of parts that this
    token has no share in.

    Of tokens in a part these are all other parts, of tokens between parts those that have ended before them. So the
    token that ends an answer keeps what is lost with the parts that are missing. 0 in answers that name no part and in
    those without a grade. rewards: `centred`, of these completions.

    Example: one answer has three functions, which earn 1, 0 and 1; the other answer of the group has one, which earns
    0, and ends. Their whole advantages are 1 and -1, and `rewards` are 0.5, 0, 0.5 and -0.5, 0, -0.5. With what is
    added, the first answer's functions have 0.5, 0 and 0.5, its tokens before, between and behind them 1, 0.5, 0.5 and
    0. In the other answer the tokens before the function have -1, the function and the token that ends it -0.5: the
    function's own loss, and that of the missing ones.
    """
    result = torch.zeros(len(grades), width)
    for row, grade, completion, own in zip(result, grades, completions, rewards, strict=True):
        if grade is None or not grade.parts:
            continue
        places = completion.given + torch.arange(width)
        inside = {name: torch.isin(places, torch.tensor(sorted(p.tokens))) for name, p in grade.parts.items()}
        in_any = torch.stack(list(inside.values())).any(0)
        for name, part in grade.parts.items():
            row -= own[name] * torch.where(in_any, ~inside[name], places > max(part.tokens))
        row -= in_any * sum(value for name, value in own.items() if name not in grade.parts)
    return result
