"""A script that is paid for all cases or nothing ends at its first wrong case."""

from __future__ import annotations

import asyncio

import pytest

from envs.sandbox import Job, StdioCase, run_sync
from envs.task import Problem
from rewards.channel import Completion
from rewards.unit_tests import UnitTests

COUNT = "import time\nn = int(input())\ntime.sleep(0.3)\nprint(n if n != 1 else 99)\n"
CASES = tuple(StdioCase(str(n), str(n)) for n in range(5))


def test_a_script_ends_at_its_first_wrong_case_where_only_the_verdict_counts(sandbox):
    [first] = run_sync(sandbox, [Job("all", "stdio", COUNT, cases=CASES, all_or_nothing=True)])
    assert (first.verdict, first.passed, first.total) == ("fail", 1, 5)
    assert first.cases == (True, False, False, False, False) and first.note == "case 2: wrong answer"
    assert first.seconds < 3 * 0.6, "sum of the programs' own times: two cases ran, not five"
    [every] = run_sync(sandbox, [Job("each", "stdio", COUNT, cases=CASES)])
    assert (every.verdict, every.passed, every.total) == ("fail", 4, 5)


class Watched:
    """The sandbox, and the jobs that it was given."""

    def __init__(self, sandbox) -> None:
        self.sandbox, self.jobs = sandbox, []

    async def run(self, jobs, progress=None):
        self.jobs += jobs
        return await self.sandbox.run(jobs, progress)


@pytest.mark.parametrize(
    ("fractional", "locate", "score", "ends"),
    [(False, False, 0.0, True), (True, False, 0.8, False), (False, True, 0.0, False)],
)
def test_only_a_reward_of_all_or_nothing_ends_early(sandbox, fractional, locate, score, ends):
    watched = Watched(sandbox)
    completion = Completion(COUNT, [0], [(0, len(COUNT))], (0, len(COUNT)))
    channel = UnitTests(watched, fractional=fractional, locate=locate)
    [result] = asyncio.run(channel.score([Problem("p", "", cases=CASES)], [completion]))
    assert result.score == pytest.approx(score) and not result.passed
    assert [job.all_or_nothing for job in watched.jobs if job.kind == "stdio"] == [ends]
