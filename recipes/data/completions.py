"""Between sampled ids and what rewards and logs see of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from accelerate.utils import gather_object

from envs.task import Problem, Task
from recipes.records.completion_rows import completion_row, picked
from rewards.attribution import TokenBytes, locate
from rewards.channel import Completion
from rewards.compose import Grade


@dataclass
class Rollout:
    """What this process sampled and how it was graded, until the step is over."""

    problems: list[Problem]
    completions: list[Completion]
    grades: list[Grade | None]


def measured(grades: Sequence[Grade | None]) -> list[str]:
    """What the channels measured beside scores (see Grade.measures), over all processes."""
    return sorted(set(gather_object([name for grade in grades if grade for name in grade.measures])))


class AnswerComplete:
    """Whether sampled ids are an answer that needs nothing further, as the task sees it.

    The text is looked at only where the newest token holds one of the task's closing characters.
    """

    def __init__(self, task: Task, token_bytes: TokenBytes):
        self._task, self._bytes = task, token_bytes
        self._closing = [character.encode() for character in task.closing]

    def __call__(self, ids: Sequence[int]) -> bool:
        newest = self._bytes[ids[-1]]
        if not any(character in newest for character in self._closing):
            return False
        return self._task.complete(b"".join(self._bytes[i] for i in ids).decode(errors="replace"))


def completion_of(
    ids: Sequence[int], token_bytes: TokenBytes, task: Task, end_ids: Collection[int], given: int = 0
) -> Completion:
    """The Completion of an answer's ids: text, offsets, the task's code span, whether it ended by itself. The first
    `given` of them were not sampled."""
    text, offsets = locate(ids, token_bytes)
    code = task.extract(text)
    return Completion(
        text=text,
        token_ids=list(ids),
        offsets=offsets,
        code_span=None if code is None else (code.start, code.end),
        finished=bool(ids) and (ids[-1] in end_ids or task.complete(text)),
        closed=code is not None and code.closed,
        given=given,
    )


def sandbox_seconds(grades: Sequence[Grade | None]) -> list[float]:
    """Seconds that each answer's programs ran, of the answers that had any run."""
    results = [result for grade in grades if grade for result in grade.results.values()]
    return [float(result.detail["seconds"]) for result in results if "seconds" in result.detail]


def completion_rows(rollout: Rollout, advantages: torch.Tensor, step: int, limit: int) -> list[dict[str, Any]]:
    """Up to `limit` rows of completions.jsonl, evenly over the batch; advantages (B,) or (B, T)."""
    return [
        completion_row(rollout.problems[i], rollout.completions[i], rollout.grades[i], advantages[i], step)
        for i in picked(len(rollout.grades), limit)
    ]
