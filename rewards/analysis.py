"""Trusted programs that read untrusted sources: run in the sandbox, since a source can bring a parser down."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from envs.sandbox import Job, Sandbox

BATCH = 256
CRASH = object()
"""In place of an answer: this row brings the program down, or takes more than its time or memory."""


async def analyse(sandbox: Sandbox, program: str, rows: Sequence[Any], batch: int = BATCH) -> list[Any]:
    """The program's answer to each row, in order; CRASH for one that it does not survive, None where the sandbox
    failed.

    `program` reads a JSON list of at most `batch` rows on standard input and prints one of the same length. A row that
    brings it down is found by halving its batch. Raises RuntimeError where the sandbox lacks a library that the program
    imports.
    """
    batches = [rows[start : start + batch] for start in range(0, len(rows), batch)]
    jobs = [Job(f"analysis/{n}", "program", program, stdin=json.dumps(each)) for n, each in enumerate(batches)]
    found: list[Any] = []
    for each, outcome in zip(batches, await sandbox.run(jobs), strict=True):
        if outcome.verdict == "pass":
            found += json.loads(outcome.stdout)
        elif not outcome.graded:
            found += [None] * len(each)
        elif "ModuleNotFoundError" in outcome.note:
            raise RuntimeError(f"{outcome.note}: name it in sandbox.packages")
        elif len(each) == 1:
            found.append(CRASH)
        else:
            half = len(each) // 2
            found += [
                *await analyse(sandbox, program, each[:half]),
                *await analyse(sandbox, program, each[half:]),
            ]
    return found
