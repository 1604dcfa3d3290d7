"""Similarity: sentence BLEU of the extracted code against the problem's reference solution.

Range 0 to 1, by sacrebleu's `sentence_bleu` (13a tokens, exponential smoothing) over 100. White space does not count.
"""

from __future__ import annotations

from collections.abc import Sequence

import sacrebleu

from envs.task import Problem
from rewards.channel import ChannelResult, Completion


def sentence_bleu(candidate: str, reference: str) -> float:
    """BLEU of one text against one reference, in [0, 1]; 0 where either is empty."""
    if not candidate.strip() or not reference.strip():
        return 0.0
    return min(1.0, sacrebleu.sentence_bleu(candidate, [reference]).score / 100)


class Similarity:
    """BLEU against the problem's reference solution.

    Raises:
        ValueError: a problem has no reference.
    """

    judges_form = False

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        results: list[ChannelResult | None] = []
        for problem, completion in zip(problems, completions, strict=True):
            if not problem.reference:
                raise ValueError(f"{problem.id} has no reference solution, which the similarity channel needs")
            bleu = sentence_bleu(completion.code or "", problem.reference)
            results.append(ChannelResult(bleu, note=f"BLEU {bleu:.2f}"))
        return results
