"""Whether a set of cases is fit for use: each is measured in three variants, original, empty and broken."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from envs.etk.completion.cases import Case
from envs.etk.completion.compare import STAGES
from envs.etk.completion.scorer import CompletionScore, CompletionScorer, Request

USELESS = 0.95
"""A mask whose empty completion earns more than this in total tells nothing."""
TOLERANCE = 0.01
"""Compilers and processors may round otherwise."""
VARIANTS = ("original", "empty", "broken")
Scores = dict[str, dict[str, float]]


async def measure(scorer: CompletionScorer, cases: Sequence[Case]) -> list[Scores]:
    """Scores of each case by variant and stage, with the total.

    Raises:
        CompletionError: a case that cannot be evaluated.
        RuntimeError: the sandbox failed.
    """
    requests = []
    for case in cases:
        texts = scorer.gap(case).original, "", case.broken
        requests += [Request(case, text) for text in texts]
    found = []
    for score, request in zip(await scorer.score(requests), requests, strict=True):
        if score is None:
            raise RuntimeError(f"the sandbox failed on a variant of {request.case.id}")
        found.append(_rounded(score))
    width = len(VARIANTS)
    return [dict(zip(VARIANTS, found[at : at + width], strict=True)) for at in range(0, len(found), width)]


def _rounded(score: CompletionScore) -> dict[str, float]:
    return {name: round(getattr(score, name), 4) for name in (*STAGES, "total")}


def faults(case: Case, measured: Scores) -> list[str]:
    """What is wrong with a case, in one line each; nothing for a good one."""
    found = []
    if measured["original"]["total"] < 1.0:
        found.append(f"the original scores {measured['original']['total']}")
    if measured["empty"]["total"] > USELESS:
        found.append(f"the empty completion scores {measured['empty']['total']}, more than {USELESS}")
    if not case.broken.strip():
        found.append("it has no broken variant")
    elif measured["broken"]["total"] >= 1.0:
        found.append("the broken variant scores as the original")
    for variant in VARIANTS:
        for stage, value in measured[variant].items():
            expected = case.expected.get(variant, {}).get(stage)
            if expected is None or abs(expected - value) > TOLERANCE:
                found.append(f"{variant}: {stage} is {value}, expected {expected}")
    return [f"{case.id}: {fault}" for fault in found]


def with_expected(case: Case, measured: Scores) -> Case:
    """The case with what was measured as what is expected."""
    return dataclasses.replace(case, expected=measured)
