"""Simulation: the generated lines fill their gap, the program is built and run, and its fields are compared.

The score lies in [0, 1]: `skill`, the share that the completion avoids of the error that is left without the masked
lines, or `total`, the weighted mean of compile, execution, header and density (envs/etk/completion). Doing nothing
earns most of `total` in many places, and nothing of `skill`. If the compiler names places in the code, the code is paid
1 and these places get the difference, score - 1; otherwise the score is spread over the code. An empty completion is
scored like any other. The channel is silent where the masked lines change nothing (MAX_LEFT_OUT).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from envs.etk.build.picture import FieldPicture, numbers
from envs.etk.completion import CompletionScore, Scorers
from envs.etk.completion.cases import piece_spans
from envs.etk.completion.check import MAX_LEFT_OUT
from envs.sandbox import Sandbox
from envs.task import Problem
from rewards.channel import ChannelResult, Completion, Span, charged

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
        places: how an answer with several masked places is scored. "together": all places are filled at once. "each":
            the mean of the places' scores, each filled by itself where the others have their original lines, so that
            a right place is paid beside a wrong one; each is a part of the answer (Span.part). An answer that is right
            as a whole has full marks in both, and no other one passes.
        cache: folder for built sources and reference runs; None: the user's cache.
        keep: also store the scores of completions there, for all later runs. Use False if a program does not compute
            the same values each time.

    Raises:
        ValueError: an unknown `paid` or `places`.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        paid: str = "skill",
        cache: str | None = None,
        keep: bool = True,
        places: str = "together",
    ):
        if paid not in ("total", "skill"):
            raise ValueError(f"simulation.paid={paid}: unknown score; use total or skill")
        if places not in ("together", "each"):
            raise ValueError(f"simulation.places={places}: unknown; use together or each")
        self.paid, self.places, self.scorers = paid, places, Scorers(sandbox, cache, keep)

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Build and run the unchanged applications. Raises ApplicationError if one cannot be built or run."""
        await self.scorers.ready(problems)

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        """Raises ApplicationError if an unchanged application cannot be built."""
        scores = await self.scorers.score(problems, [completion.code or "" for completion in completions])
        results = [
            None if score is None else self._result(completion, score)
            for completion, score in zip(completions, scores, strict=True)
        ]
        several = [i for i, problem in enumerate(problems) if self.places == "each" and problem.data["case"].more]
        asked, texts, counts = [], [], []
        for i in several:
            code, cases = completions[i].code or "", problems[i].data["case"].alone
            asked += [replace(problems[i], data={**problems[i].data, "case": case}) for case in cases]
            texts += [code[start:end] for start, end in piece_spans(code, len(cases))]
            counts.append(len(cases))
        measured = await self.scorers.score(asked, texts)
        for i, count in zip(several, counts, strict=True):
            of_places, measured = measured[:count], measured[count:]
            together, known = scores[i], [score for score in of_places if score is not None]
            if together is None or len(known) < count:
                results[i] = None
            else:
                results[i] = self._joined(completions[i], together, known)
        return results

    def _joined(
        self, completion: Completion, together: CompletionScore, places: Sequence[CompletionScore]
    ) -> ChannelResult:
        """The result of an answer with several places. together: all filled at once; places: each filled by itself."""
        # a place whose lines change nothing by themselves has nothing to earn, but a fault in it still costs
        telling = [measured.left_out <= MAX_LEFT_OUT for measured in places]
        judged = [n for n, measured in enumerate(places) if telling[n] or measured.verdict != "pass"]
        if not any(telling):
            return self._result(completion, together)
        whole = self._judged(completion, together)
        shares = [1.0 if whole.passed else self._paid(places[n]) if telling[n] else 0.0 for n in judged]
        note = f"{shares.count(1.0)} of {len(judged)} places alone; {whole.note}"
        spans: list[Span] = []
        if completion.code_span is not None:
            first, pieces = completion.code_span[0], piece_spans(completion.code or "", len(places))
            for n, share in zip(judged, shares, strict=True):
                span = (first + pieces[n][0], first + pieces[n][1])
                charged = _charged_spans(completion.text, span, share, _errors(places[n])) or (Span(*span, share),)
                spans += [replace(one, value=one.value / len(judged), part=f"place {n + 1}") for one in charged]
        return replace(whole, score=sum(shares) / len(judged), spans=tuple(spans), note=note)

    def _paid(self, measured: CompletionScore) -> float:
        """All for what passes, also where the reference hardly leaves its initial state and any rounding has no skill;
        of a run with other times than the reference's at most what it has at equal times."""
        if self.paid == "total" or measured.verdict == "pass":
            return measured.total if self.paid == "total" else 1.0
        return min(measured.skill, measured.equal_time or 0.0) if measured.time_mismatch else measured.skill

    def _result(self, completion: Completion, measured: CompletionScore) -> ChannelResult:
        if measured.left_out > MAX_LEFT_OUT:
            return ChannelResult(0.0, note="the masked lines change nothing", silent=True)
        return self._judged(completion, measured)

    def _judged(self, completion: Completion, measured: CompletionScore) -> ChannelResult:
        score = self._paid(measured)
        errors = [message for message in measured.messages if message.severity == "error"]
        note = f"density {measured.density:.3f}" if measured.execution else (measured.reasons or ("not run",))[0]
        if errors and not measured.compile:
            note = errors[0].text
        detail = {name: getattr(measured, name) for name in MEASURED}
        spans = _charged_spans(completion.text, completion.code_span, score, _errors(measured))
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


def _errors(measured: CompletionScore) -> list[int]:
    """Where in the lines the compiler found errors."""
    return [e.offset for e in measured.messages if e.severity == "error" and e.offset is not None]


def _charged_spans(text: str, code: tuple[int, int] | None, score: float, offsets: Sequence[int]) -> tuple[Span, ...]:
    """`charged` at the places of `offsets`."""
    if code is None or score >= 1:
        return ()
    start, end = code
    places = sorted({_place(text, start, end, start + offset) for offset in offsets if start + offset < end})
    return charged(code, score, places)


def _place(text: str, start: int, end: int, at: int) -> tuple[int, int]:
    """The character that an error is about; its line, where compilers do not agree on columns: GCC counts a tab as up
    to 8 and other characters by their width, unless -fdiagnostics-column-unit=byte says otherwise."""
    first = max(start, text.rfind("\n", start, at) + 1)
    last = text.find("\n", at, end)
    line = text[first : last if last >= 0 else end]
    if not line.strip() or (line.isascii() and "\t" not in line):
        return at, at + 1
    return first + len(line) - len(line.lstrip()), first + len(line)
