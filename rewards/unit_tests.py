"""Unit tests: the share of a problem's tests that the extracted code passes, run in the sandbox.

Range 0 to 1. Cannot point at tokens, so it is spread over the code. No code, no run: score 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.sandbox import Outcome, Sandbox
from envs.task import Problem
from rewards.channel import ChannelResult, Completion


class UnitTests:
    """
    Args:
        sandbox: where the code runs.
        fractional: True pays the share of tests passed, False only full marks.
    """

    judges_form = False

    def __init__(self, sandbox: Sandbox, fractional: bool = True):
        self.sandbox, self.fractional = sandbox, fractional

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        results: list[ChannelResult | None] = [
            ChannelResult(0.0, passed=False, verdict="no code", note="no code block") for _ in completions
        ]
        run = [i for i, c in enumerate(completions) if c.code is not None]
        jobs = [problems[i].job(completions[i].code or "", str(i)) for i in run]
        for i, outcome in zip(run, await self.sandbox.run(jobs), strict=True):
            results[i] = self._result(outcome)
        return results

    def _result(self, outcome: Outcome) -> ChannelResult | None:
        if not outcome.graded:
            return None
        passed = outcome.verdict == "pass"
        score = outcome.passed / outcome.total if self.fractional else float(passed)
        note = outcome.note or f"{outcome.passed} of {outcome.total} tests"
        return ChannelResult(score, passed=passed, verdict=outcome.verdict, note=note)
