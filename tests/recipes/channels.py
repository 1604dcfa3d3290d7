"""A reward that a randomly initialised model can earn: it depends on the sampled ids alone."""

from __future__ import annotations

import os
import signal

from rewards.channel import ChannelResult

PARITY = ("+task.reward.parity._target_=tests.recipes.channels.TokenParity", "+task.reward.parity.weight=1.0")
"""Overrides that pay `TokenParity` beside a task's own channels."""


class TokenParity:
    pays_outside_code = True

    async def score(self, problems, completions):
        return [ChannelResult(sum(i % 2 for i in c.token_ids) / len(c.token_ids)) for c in completions]


BEHIND_REFERENCE = (
    "+task.reward.behind._target_=tests.recipes.channels.PassesBehindReference",
    "+task.reward.behind.weight=1.0",
    "recipe.prefix.enabled=true",
)
"""Overrides that let a random model pass where its answer begins with the reference, and draw such groups again."""


class PassesBehindReference:
    """Passes an answer that begins as a reference does and whose last token is even; pays 1 for it."""

    pays_outside_code = True

    async def score(self, problems, completions):
        passed = [c.text.startswith("```python") and c.token_ids[-1] % 2 == 0 for c in completions]
        return [ChannelResult(float(p), passed=p, verdict="pass" if p else "fail") for p in passed]


class EveryOther:
    """Pays every other completion of a group; with `lopsided` only in the first of two groups.

    Knows the group by its problem, since two processes see one group each.
    """

    pays_outside_code = True

    def __init__(self, lopsided: bool = False, generations: int = 4):
        self.lopsided, self.generations = lopsided, generations

    async def score(self, problems, completions):
        out = []
        for place, problem in enumerate(problems):
            silent = self.lopsided and sum(map(ord, problem.id)) % 2 == 0
            out.append(ChannelResult(0.0 if silent else float(place % 2)))
        return out


class KillsProcess:
    """Pays nothing; where `job` is `victim`, the second of several processes ends as the kernel ends what takes too
    much memory."""

    pays_outside_code = True

    def __init__(self, job: str, victim: str):
        self.job, self.victim = job, victim

    async def score(self, problems, completions):
        if self.job == self.victim and os.environ.get("RANK") == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        return [ChannelResult(0.0) for _ in completions]
