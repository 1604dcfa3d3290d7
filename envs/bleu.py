"""BLEU-4 (Papineni et al. 2002) of two lists of tokens: clipped counts, uniform weights, 0.1 for a numerator of 0 (Chen
and Cherry 2014, smoothing 1), the brevity penalty. Our own because it says which tokens matched; sacrebleu agrees.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

ORDERS = (1, 2, 3, 4)
SMOOTHING = 0.1


@dataclass(frozen=True)
class Bleu:
    """`score` in [0, 1] and, for each of the candidate's tokens, in how many matching n-grams it takes part."""

    score: float
    matches: list[int]


def bleu(candidate: Sequence[str], reference: Sequence[str]) -> Bleu:
    """BLEU-4 of one list of tokens against one other; 0 where either is empty, 1 where they are equal."""
    matches = [0] * len(candidate)
    if not candidate or not reference:
        return Bleu(0.0, matches)
    logs: list[float] = []
    for order in ORDERS:
        grams = [tuple(candidate[i : i + order]) for i in range(len(candidate) - order + 1)]
        left = Counter(tuple(reference[i : i + order]) for i in range(len(reference) - order + 1))
        found = 0
        for i, gram in enumerate(grams):
            if left[gram] > 0:
                left[gram] -= 1
                found += 1
                for position in range(i, i + order):
                    matches[position] += 1
        if order == 1 and not found:
            return Bleu(0.0, matches)
        if (
            grams or len(reference) >= order
        ):  # two texts that are both shorter than the order have nothing to say about it
            logs.append(math.log((found or SMOOTHING) / max(1, len(grams))))
    brevity = min(1.0, math.exp(1 - len(reference) / len(candidate)))
    return Bleu(min(1.0, brevity * math.exp(sum(logs) / len(logs))), matches)


def word_bleu(candidate: str, reference: str) -> float:
    """BLEU-4 of two texts, their words between blanks as tokens; exactly 1 for the same words."""
    return bleu(candidate.split(), reference.split()).score
