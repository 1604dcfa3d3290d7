"""Verdicts on a benchmark's own tests beside those on more tests: MBPP beside MBPP+, of the same answers.

A problem that has the same problem with fewer tests under `base` in its data (envs/mbpp/plus.py) gets two verdicts on
each answer, as EvalPlus reports them: `pass@k` counts all tests, `base_pass@k` the benchmark's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from envs.task import Problem
from rewards.channel import Completion
from rewards.compose import Grade, Reward

BASE = "base"


async def base_verdicts(
    reward: Reward, problems: Sequence[Problem], completions: Sequence[Completion], grades: Sequence[Grade | None]
) -> list[bool | None]:
    """Whether each answer passes the base tests of its problem; None without them, or if it could not be graded.

    An answer that passes all tests passes the base tests too. Only the others run again, with the channels that judge
    correctness.
    """
    based = [i for i, problem in enumerate(problems) if BASE in problem.data]
    verdicts: list[bool | None] = [None] * len(problems)
    judges = {name for grade in grades if grade for name, result in grade.results.items() if result.passed is not None}
    for i in based:
        grade = grades[i]
        verdicts[i] = True if grade is not None and grade.passed else None
    again = [i for i in based if verdicts[i] is None]
    if not again:
        return verdicts
    columns = [
        await reward.channels[name].score([problems[i].data[BASE] for i in again], [completions[i] for i in again])
        for name in sorted(judges)
    ]
    for i, *results in zip(again, *columns, strict=True) if columns else ():
        passed = [None if result is None else result.passed for result in results]
        verdicts[i] = None if None in passed else all(passed)
    return verdicts


def with_base_tests(evaluations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines of evals.jsonl, each that has `base_pass@k` after a line of its own with those numbers, called
    "TASK, base tests", for tables that show one pass@k a line."""
    lines = []
    for row in evaluations:
        if row.get("base_pass@k"):
            lines.append({**row, "task": f"{row.get('task', '')}, base tests", "pass@k": row["base_pass@k"]})
        lines.append(row)
    return lines
