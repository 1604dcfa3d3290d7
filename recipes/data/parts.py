"""Answers in parts: a part is compared with the same part of its group's other answers, and with nothing else.

An answer of three functions, each graded by its own tests, has three rewards. GRPO's advantage puts their sum on every
token, so that a right function is discouraged where its neighbours fail. Here the tokens of a part keep what that part
earned and what the answer earned beside all parts: the other parts' rewards, centred in the group, are taken off. If
parts do not depend on each other, the expected gradient stays and its variance shrinks, at best by as many times as
there are parts. How one part helps a later one is not credited.

Leaving out rewards that an action has no part in: Spooner et al. 2021, "Factored Policy Gradients", arXiv 2102.10362.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rewards.channel import Completion
from rewards.compose import Grade


def without_other_parts(
    grades: Sequence[Grade | None], completions: Sequence[Completion], group: int, width: int
) -> torch.Tensor:
    """What a token's advantage has beside the whole answer's, (B, width): minus the other parts' centred rewards.

    0 at tokens of no part and in completions without a grade. A part that an answer lacks earned it 0. Completions of a
    group lie side by side, `group` of them.
    """
    result = torch.zeros(len(grades), width)
    for first in range(0, len(grades), group):
        graded = [i for i in range(first, first + group) if grades[i] is not None]
        own = [grade for i in graded if (grade := grades[i]) is not None]
        rows = _parts(own, max((len(completions[i].token_ids) for i in graded), default=0))
        for i, row in zip(graded, rows, strict=True):
            sampled = row[completions[i].given :][:width]
            result[i, : len(sampled)] = sampled
    return result


def _parts(grades: Sequence[Grade], width: int) -> torch.Tensor:
    """Minus the other parts' centred rewards, (G, width)."""
    rows = torch.zeros(len(grades), width)
    for row, grade, earned in zip(rows, grades, _centred(grades), strict=True):
        row[list(frozenset().union(*(part.tokens for part in grade.parts.values())))] -= sum(earned.values())
        for name, part in grade.parts.items():
            row[list(part.tokens)] += earned[name]
    return rows


def groups_with_parts(grades: Sequence[Grade | None], group: int) -> torch.Tensor:
    """Which groups have a part that earned more in one answer than in another, (N,): they teach something even if all
    answers earned the same in total."""
    groups = ([g for g in grades[i : i + group] if g is not None] for i in range(0, len(grades), group))
    return torch.tensor([any(abs(v) > 1e-6 for row in _centred(each) for v in row.values()) for each in groups])


def _centred(grades: Sequence[Grade]) -> list[dict[str, float]]:
    """What each answer earned with each part, minus the mean of these."""
    names = sorted({name for grade in grades for name in grade.parts})
    earned = [[grade.parts[name].reward if name in grade.parts else 0.0 for name in names] for grade in grades]
    means = [sum(column) / len(column) for column in zip(*earned, strict=True)]
    return [{name: value - mean for name, value, mean in zip(names, row, means, strict=True)} for row in earned]
