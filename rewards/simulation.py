"""Simulation: the generated lines fill their gap, the program is built and run, and its fields are compared.

The score lies in [0, 1]: `skill`, the share of the error that is left without the masked lines which the completion
avoids, or `total`, the weighted mean of compile, execution, header and density (envs/etk/completion). Doing nothing
earns most of `total` in many places, and nothing of `skill`. If the compiler names places in the code, the code is paid
1 and these places lose what the score lacks to 1; otherwise the score is spread over the code. An empty completion is
scored like any other. The channel is silent where the masked lines change nothing (MAX_LEFT_OUT).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from envs.etk.build.picture import FieldPicture, numbers
from envs.etk.completion import CompletionScore, Scorers
from envs.etk.completion.check import MAX_LEFT_OUT
from envs.sandbox import Sandbox
from envs.task import Problem
from rewards.channel import ChannelResult, Completion, Span

MEASURED = (
    "compile",
    "execution",
    "header",
    "density",
    "skill",
    "left_out",
    "baseline",
    "exact",
    "line_count_match",
    "time_mismatch",
)


class Simulation:
    """
    Args:
        sandbox: where programs are built and run.
        paid: "skill" or "total".
        cache: folder for built sources and reference runs; None: the user's cache.
        keep: also store the scores of completions there, for all later runs. Use False if a program does not compute
            the same values each time.

    Raises:
        ValueError: an unknown `paid`.
    """

    judges_form = False

    def __init__(self, sandbox: Sandbox, paid: str = "skill", cache: str | None = None, keep: bool = True):
        if paid not in ("total", "skill"):
            raise ValueError(f"simulation.paid={paid}: unknown score; use total or skill")
        self.paid, self.scorers = paid, Scorers(sandbox, cache, keep)

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Build and run the unchanged applications. Raises ApplicationError if one cannot be built or run."""
        await self.scorers.ready(problems)

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        """Raises ApplicationError if an unchanged application cannot be built."""
        scores = await self.scorers.score(problems, [completion.code or "" for completion in completions])
        return [
            None if score is None else self._result(completion, score)
            for completion, score in zip(completions, scores, strict=True)
        ]

    def _result(self, completion: Completion, measured: CompletionScore) -> ChannelResult:
        if measured.left_out > MAX_LEFT_OUT:
            return ChannelResult(0.0, note="the masked lines change nothing", silent=True)
        score = measured.total if self.paid == "total" else measured.skill
        errors = [message for message in measured.messages if message.severity == "error"]
        note = f"density {measured.density:.3f}" if measured.execution else (measured.reasons or ("not run",))[0]
        if errors and not measured.compile:
            note = errors[0].text
        detail = {name: getattr(measured, name) for name in MEASURED}
        spans = _charged_spans(completion, score, [e.offset for e in errors if e.offset is not None])
        drawn = None
        if measured.picture is not None:
            drawn = partial(_drawn, measured.picture, measured.skill, measured.time_mismatch)
        return ChannelResult(
            score,
            spans,
            passed=measured.verdict == "pass",
            verdict=measured.verdict,
            note=note,
            detail=detail,
            picture=drawn,
        )


def _drawn(picture: FieldPicture, skill: float | None, time_mismatch: bool) -> dict[str, Any]:
    """What the report draws (recipes/tools/report/fields.py); `reference` and `result` are rows of numbers."""
    return {
        "field": picture.field,
        "plotfile": picture.plotfile,
        "time": picture.time,
        "cells": list(picture.cells),
        "skill": skill,
        "time_mismatch": time_mismatch,
        "reference": numbers(picture.reference),
        "result": numbers(picture.result),
    }


def _charged_spans(completion: Completion, score: float, offsets: Sequence[int]) -> tuple[Span, ...]:
    """The code is paid 1, and the places at `offsets` share what `score` lacks to 1; no spans without such places."""
    if completion.code_span is None or score >= 1:
        return ()
    start, end = completion.code_span
    places = sorted({start + offset for offset in offsets if start + offset < end})
    if not places:
        return ()
    return (Span(start, end, 1.0), *(Span(place, place + 1, (score - 1) / len(places)) for place in places))
