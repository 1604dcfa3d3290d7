"""The rows of completions.jsonl."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from accelerate.utils import gather_object

from envs.task import Problem
from rewards.channel import Completion
from rewards.compose import Grade


def completion_row(
    problem: Problem, completion: Completion, grade: Grade | None, advantage: torch.Tensor, step: int
) -> dict[str, Any]:
    """A row of completions.jsonl; advantage: a number, or (T,) or longer."""
    edges = [start for start, _ in completion.offsets] + [len(completion.text)]
    row: dict[str, Any] = {
        "step": step,
        "task_id": problem.id,
        "prompt": problem.question,
        "completion": completion.text,
        "tokens": [completion.text[a : max(a, b)] for a, b in itertools.pairwise(edges)],
        "offsets": completion.offsets,
        "code_span": completion.code_span,
        "finished": completion.finished,
        "closed": completion.closed,
        **({"given": completion.given} if completion.given else {}),
        "advantage": None if grade is None else _mean_advantage(advantage, len(completion.sampled_ids)),
        "reward": None,
        "verdict": "not graded",
    }
    if grade is not None:
        row |= {
            "reward": grade.total,
            "verdict": grade.verdict,
            "scores": {name: r.score for name, r in grade.results.items()},
            "weights": dict(grade.weights),
            "notes": {name: r.note for name, r in grade.results.items()},
            "token_rewards": {name: [round(x, 6) for x in r] for name, r in grade.rewards.items()},
            "measures": grade.measures,
        }
    return row


def _mean_advantage(advantage: torch.Tensor, tokens: int) -> float:
    """Mean over a completion's own tokens of its advantage, a number or (T,)."""
    return (advantage[: max(1, tokens)] if advantage.dim() else advantage).float().mean().item()


def picked(count: int, limit: int) -> list[int]:
    """At most `limit` places of `count`, evenly over them."""
    return sorted(set(torch.linspace(0, count - 1, min(limit, count)).round().int().tolist()))


def rows_of_all(rows: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Of all processes' rows, those of up to `limit` answers or episodes."""
    rows = gather_object(rows)
    starts = [i for i, row in enumerate(rows) if row.get("turn", 1) == 1]
    ends = [*starts[1:], len(rows)]
    return [row for i in picked(len(starts), limit) for row in rows[starts[i] : ends[i]]]
