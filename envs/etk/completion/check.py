"""Checks whether cases are fit for use: each is measured in three variants, original, empty and broken."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from envs.etk.build.application import GENERATE, Application
from envs.etk.build.compare import STAGES
from envs.etk.completion.cases import Case
from envs.etk.completion.scorer import CompletionScore, CompletionScorer, Request

MAX_LEFT_OUT = 0.95
"""Masked lines without which a program avoids a larger share of the initial state's error change too little."""
TOLERANCE = 0.01
"""Other compilers and processors may round differently."""
SUMMARY = ("total", "skill", "left_out")
VARIANTS = ("original", "empty", "broken")
Scores = dict[str, dict[str, float]]


async def measure(scorer: CompletionScorer, cases: Sequence[Case]) -> list[Scores]:
    """Scores of each case by variant and stage, with the total.

    Raises:
        ApplicationError: a case cannot be evaluated.
        RuntimeError: the sandbox failed.
    """
    requests = []
    for case in cases:
        texts = scorer.gap(case).original, "", case.broken
        requests += [Request(case, text) for text in texts]
    measured = []
    for score, request in zip(await scorer.score(requests), requests, strict=True):
        if score is None:
            raise RuntimeError(f"the sandbox failed on a variant of {request.case.id}")
        measured.append(_rounded(score))
    width = len(VARIANTS)
    return [dict(zip(VARIANTS, measured[at : at + width], strict=True)) for at in range(0, len(measured), width)]


def _rounded(score: CompletionScore) -> dict[str, float]:
    return {name: round(getattr(score, name), 4) for name in (*STAGES, *SUMMARY)}


def unsound(application: Application, reference: CompletionScore, empty: CompletionScore) -> list[str]:
    """Why a case is not fit for use; empty for a good case."""
    results = []
    if reference.verdict != "pass":
        unequal = "two runs of the unchanged program differ (clock, random numbers, threads?)"
        if application.reference != GENERATE:
            unequal = "the unchanged program's results differ from the stored reference (another compiler or machine?)"
        scored = f"the original lines score {reference.total:.4f}, a cell differs by {reference.largest:.2g}"
        results = [scored, *(reference.reasons or [unequal])]
    return results + changes_nothing(empty.left_out)


def changes_nothing(left_out: float) -> list[str]:
    """Why masked lines are not worth asking for, by what the program avoids without them; empty where they are."""
    if left_out <= MAX_LEFT_OUT:
        return []
    return [f"without the masked lines {left_out:.4f} of the error is avoided, more than {MAX_LEFT_OUT}"]


def faults(case: Case, measured: Scores) -> list[str]:
    """What is wrong with a case, in one line each; empty for a good case."""
    problems = []
    if measured["original"]["total"] < 1.0:
        problems.append(f"the original scores {measured['original']['total']}")
    problems += changes_nothing(measured["empty"]["left_out"])
    if not case.broken.strip():
        problems.append("it has no broken variant")
    elif measured["broken"]["total"] >= 1.0:
        problems.append("the broken variant scores as the original")
    for variant in VARIANTS:
        for stage, value in measured[variant].items():
            expected = case.expected.get(variant, {}).get(stage)
            if expected is None or abs(expected - value) > TOLERANCE:
                problems.append(f"{variant}: {stage} is {value}, expected {expected}")
    return [f"{case.id}: {fault}" for fault in problems]


def with_expected(case: Case, measured: Scores) -> Case:
    """The case with the measured scores as its expected scores."""
    return dataclasses.replace(case, expected=measured)
