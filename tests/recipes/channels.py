"""A reward that a randomly initialised model can earn: it depends on the sampled ids alone."""

from __future__ import annotations

from rewards.channel import ChannelResult


class TokenParity:
    judges_form = True

    async def score(self, problems, completions):
        return [ChannelResult(sum(i % 2 for i in c.token_ids) / len(c.token_ids)) for c in completions]
