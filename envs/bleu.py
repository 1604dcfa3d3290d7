"""BLEU-4 (Papineni et al. 2002) of two lists of tokens: clipped counts, uniform weights, brevity penalty, and 0.1 in
place of a numerator of 0 (Chen and Cherry 2014, smoothing 1).

The values equal those of sacrebleu, which does not report the matching tokens, where both texts have four tokens or
more. Of a shorter candidate the orders that it cannot have count as 0.1 of one n-gram too.
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
    """score: in [0, 1]. matches: for each token of the candidate, the number of matching n-grams that contain it."""

    score: float
    matches: list[int]


def bleu(candidate: Sequence[str], reference: Sequence[str]) -> Bleu:
    """BLEU-4 of a candidate against one reference; 0 if either is empty, 1 if they are equal."""
    matches = [0] * len(candidate)
    if not candidate or not reference:
        return Bleu(0.0, matches)
    logs: list[float] = []
    for order in ORDERS:
        grams = [tuple(candidate[i : i + order]) for i in range(len(candidate) - order + 1)]
        remaining = Counter(tuple(reference[i : i + order]) for i in range(len(reference) - order + 1))
        matched = 0
        for i, gram in enumerate(grams):
            if remaining[gram] > 0:
                remaining[gram] -= 1
                matched += 1
                for position in range(i, i + order):
                    matches[position] += 1
        if order == 1 and not matched:
            return Bleu(0.0, matches)
        if grams or len(reference) >= order:  # an order that neither text reaches does not count
            logs.append(math.log((matched or SMOOTHING) / max(1, len(grams))))
    brevity = min(1.0, math.exp(1 - len(reference) / len(candidate)))
    return Bleu(min(1.0, brevity * math.exp(sum(logs) / len(logs))), matches)


def word_bleu(candidate: str, reference: str) -> float:
    """BLEU-4 of two texts split at blanks; exactly 1 for the same words."""
    return bleu(candidate.split(), reference.split()).score
