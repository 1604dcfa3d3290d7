"""Moves: the reward of each move of a one-dimensional game, on the character of that move.

The score lies in [0, 1]; it is measured by playing the completion in envs/pacman.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.pacman import play
from envs.task import Problem
from rewards.channel import ChannelResult, Completion, Span


class Moves:
    """1 / cells for each move that eats a pellet; passed if all are eaten."""

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        return [self._score(p.reference, c.text) for p, c in zip(problems, completions, strict=True)]

    def _score(self, pellets: str, moves: str) -> ChannelResult:
        earned = play(pellets, moves)
        # character i of the completion is move i
        spans = tuple(Span(i, i + 1, value) for i, value in enumerate(earned) if value)
        score = sum(earned)
        complete = len(spans) == len(pellets)
        note = f"{len(spans)} of {len(pellets)} pellets"
        return ChannelResult(score, spans, passed=complete, verdict="pass" if complete else "fail", note=note)
