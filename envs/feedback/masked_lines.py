"""Masked lines of a simulation: the compiler's error, a failing run, or how far the field is from the reference's."""

from __future__ import annotations

import math
from collections.abc import Sequence

from envs.etk.completion import CompletionScore, Scorers
from envs.etk.completion.scorer import PERFECT
from envs.feedback.observation import Observation
from envs.feedback.plain_text import cut, quoted
from envs.sandbox import Sandbox
from envs.task import Problem


class MaskedLines:
    """
    Args:
        sandbox: where programs are built and run.
        cache: folder for built sources and reference runs; None: the user's cache, which the reward channel shares.
        keep: also store what came of a text there, so that the reward does not build it again.

    The reference's lines and its fields' values are never told, only how far the result is from them.
    """

    takes_empty = True  # leaving the lines out is an answer
    answer = "all missing lines, corrected, and nothing else,"

    def __init__(self, sandbox: Sandbox, cache: str | None = None, keep: bool = True):
        self.scorers = Scorers(sandbox, cache, keep)

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Build and run the unchanged applications. Raises ApplicationError if one cannot be built or run."""
        await self.scorers.ready(problems)

    async def observe(self, problems: Sequence[Problem], codes: Sequence[str]) -> list[Observation]:
        """What building and running each file showed."""
        scores = await self.scorers.score(problems, codes)
        return [Observation(False, failed=True) if score is None else _observation(score) for score in scores]


def _observation(score: CompletionScore) -> Observation:
    if score.verdict == "pass":
        return Observation(fine=True)
    if not score.compile:
        errors = [m for m in score.messages if m.severity == "error"][:3]
        lines = [f"line {m.line}: {cut(m.text, 200)}" if m.offset is not None else cut(m.text, 200) for m in errors]
        lines = lines or [cut(reason, 200) for reason in score.reasons[:1]]
        return Observation(False, "\n".join(["The file does not compile.", *map(quoted, lines)]))
    if not score.execution:
        reasons = [cut(reason, 200) for reason in score.reasons[:2]]
        return Observation(False, "\n".join(["The program compiles, and its run fails.", *map(quoted, reasons)]))
    far = f"Header {_share(score.header)}, field {_share(score.density)} of the reference's (100 % is equal)."
    if min(score.header, score.density) > PERFECT:
        far = f"One cell differs by {100 * score.largest:.2g}% of the largest value."
    return Observation(False, f"The program runs, but its result differs from the reference's.\n{quoted(far)}")


def _share(value: float) -> str:
    """A share in percent, rounded down: 100 % is equal."""
    return f"{math.floor(value * 1000) / 10:g}%" if value < PERFECT else "100%"
