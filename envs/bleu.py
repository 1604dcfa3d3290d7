"""BLEU-4 (Papineni et al. 2002) of two lists of tokens: clipped counts, uniform weights, brevity penalty, and 0.1 in
place of a numerator of 0 (Chen and Cherry 2014, smoothing 1).

The values equal those of sacrebleu, which does not report the matching tokens, where both texts have four tokens or
more. Of a shorter candidate the orders that it cannot have count as 0.1 of one n-gram too.

`ignored` makes it CrystalBLEU (Eghbali and Pradel 2022, ASE): n-grams that most code shares count neither as matches
nor in a denominator. There the brevity penalty compares counted n-grams instead of tokens, since one rare n-gram among
many ignored ones would otherwise earn full precision.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

ORDERS = (1, 2, 3, 4)
SMOOTHING = 0.1
Gram = tuple[str, ...]


@dataclass(frozen=True)
class Bleu:
    """score: in [0, 1]. matches: for each token of the candidate, the number of matching n-grams that contain it."""

    score: float
    matches: list[int]


def bleu(candidate: Sequence[str], reference: Sequence[str], ignored: Set[Gram] = frozenset()) -> Bleu:
    """BLEU-4 of a candidate against one reference; 0 if either is empty, 1 if they are equal.

    ignored: n-grams that do not count, on either side. If the reference has no others, all count.
    """
    matches = [0] * len(candidate)
    expected = {order: Counter(gram for _, gram in _grams(reference, order, ignored)) for order in ORDERS}
    length = sum(map(Counter.total, expected.values()))
    if ignored and not length:
        return bleu(candidate, reference)
    logs: list[float] = []
    counted = matched = 0
    for order, remaining in expected.items():
        grams, own = list(_grams(candidate, order, ignored)), 0
        if not grams and not remaining:  # an order that neither text reaches does not count
            continue
        for i, gram in grams:
            if remaining[gram] > 0:
                remaining[gram] -= 1
                own += 1
                for position in range(i, i + order):
                    matches[position] += 1
        logs.append(math.log((own or SMOOTHING) / max(1, len(grams))))
        counted, matched = counted + len(grams), matched + own
    if not matched:
        return Bleu(0.0, matches)
    shorter = length / counted if ignored else len(reference) / len(candidate)
    return Bleu(min(1.0, min(1.0, math.exp(1 - shorter)) * math.exp(sum(logs) / len(logs))), matches)


def common(texts: Iterable[Sequence[str]], most: int) -> frozenset[Gram]:
    """The `most` n-grams that the most of these lists of tokens hold, each in two lists at least."""
    held: Counter[Gram] = Counter()
    for text in texts:
        held.update({gram for order in ORDERS for _, gram in _grams(text, order)})
    ranked = sorted((-count, gram) for gram, count in held.items() if count > 1)
    return frozenset(gram for _, gram in ranked[:most])


def _grams(tokens: Sequence[str], order: int, ignored: Set[Gram] = frozenset()) -> Iterable[tuple[int, Gram]]:
    """The n-grams of an order that count, each with the place of its first token."""
    grams = ((i, tuple(tokens[i : i + order])) for i in range(len(tokens) - order + 1))
    return ((i, gram) for i, gram in grams if gram not in ignored)


def word_bleu(candidate: str, reference: str) -> float:
    """BLEU-4 of two texts split at blanks; exactly 1 for the same words."""
    return bleu(candidate.split(), reference.split()).score
