"""BLEU-4 on words: how alike two plotfile headers are."""

from __future__ import annotations

import math
from collections import Counter

ORDER = 4
SMOOTHING = 0.1
"""Stands for a numerator of zero, as in the first method of Chen and Cherry (2014)."""


def bleu(candidate: str, reference: str) -> float:
    """BLEU-4 (Papineni et al. 2002) on words between blanks, in [0, 1], with SMOOTHING.

    Exactly 1.0 for the same words, 0.0 where one side has none. A side shorter than four words has no n-grams of
    some orders; these count as one that does not match.
    """
    mine, its = candidate.split(), reference.split()
    if not mine or not its:
        return 0.0
    if mine == its:
        return 1.0
    logs = 0.0
    for n in range(1, ORDER + 1):
        have, wanted = _ngrams(mine, n), _ngrams(its, n)
        matches = sum((have & wanted).values())
        logs += math.log((matches or SMOOTHING) / max(1, have.total()))
    brevity = min(0.0, 1 - len(its) / len(mine))
    return math.exp(logs / ORDER + brevity)


def _ngrams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(n)), strict=False))
