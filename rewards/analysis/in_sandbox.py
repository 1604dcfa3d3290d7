"""Runs trusted programs that read untrusted sources in the sandbox, because a source can crash a parser."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from envs.sandbox import Job, Sandbox

BATCH = 256
CRASH = object()
"""Stands in for the answer to a row that crashes the program or exceeds its time or memory."""


async def analyse(sandbox: Sandbox, program: str, rows: Sequence[Any], batch: int = BATCH) -> list[Any]:
    """The program's answer to each row, in order; CRASH for a row that crashes it, None if the sandbox failed.

    `program` reads a JSON list of at most `batch` rows on standard input and prints a list of the same length. A row
    that crashes it is identified by halving its batch. Raises RuntimeError if the sandbox lacks a library that the
    program imports.
    """
    batches = [rows[start : start + batch] for start in range(0, len(rows), batch)]
    jobs = [Job(f"analysis/{n}", "program", program, stdin=json.dumps(each)) for n, each in enumerate(batches)]
    answers: list[Any] = []
    for each, outcome in zip(batches, await sandbox.run(jobs), strict=True):
        if outcome.verdict == "pass" and (answered := _answers(outcome.stdout, len(each))) is not None:
            answers += answered
        elif not outcome.graded:
            answers += [None] * len(each)
        elif "ModuleNotFoundError" in outcome.note:
            raise RuntimeError(f"{outcome.note}: name it in sandbox.packages")
        elif len(each) == 1:
            answers.append(CRASH)
        else:
            half = len(each) // 2
            answers += [
                *await analyse(sandbox, program, each[:half]),
                *await analyse(sandbox, program, each[half:]),
            ]
    return answers


def _answers(printed: str, count: int) -> list[Any] | None:
    """The list of `count` answers that a program printed, or None: a source may have crashed it in any way."""
    try:
        answered = json.loads(printed, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return answered if isinstance(answered, list) and len(answered) == count else None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number")
