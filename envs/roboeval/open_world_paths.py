"""All runs of a program in an open world, the most probable first, as lists of choices.

The sandbox explores with it, and the trusted process repeats the exploration from the calls that were reported, so that
no probability is ever read from a report. It imports only the standard library.
"""

from __future__ import annotations

import functools
import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TypeVar

LEFT = Fraction(1, 10**9)
"""An exploration ends when the remaining probability is not above this."""
SHAKING = (Fraction(4, 5), Fraction(1, 5))
"""Whether the tests of a run are shaken."""
THIRDS = (Fraction(1, 3),) * 3
"""A shaken test becomes true, false or itself."""
Weights = Sequence[Fraction]
Result = TypeVar("Result")


class Choices:
    """The choices of a run: the first ones are given, the others random, or without `chance` the first possibility."""

    def __init__(self, given: Sequence[int] = (), chance: random.Random | None = None) -> None:
        self.given, self.chance = given, chance
        self.made: list[tuple[Weights, int]] = []

    def among(self, weights: Weights) -> int:
        if len(self.made) < len(self.given):
            chosen = min(self.given[len(self.made)], len(weights) - 1)
        elif self.chance is not None:
            chosen = self.chance.choices(range(len(weights)), [float(weight) for weight in weights])[0]
        else:
            chosen = 0
        self.made.append((weights, chosen))
        return chosen

    def uniform(self, number: int) -> int:
        return self.among(even(number)) if number > 1 else 0


@functools.cache
def even(number: int) -> Weights:
    return (Fraction(1, number),) * number


def paths(run: Callable[[Choices], Result], most: int, more: Callable[[], bool]) -> Iterator[tuple[Fraction, Result]]:
    """The probability and the result of each run, until little probability remains, after `most` runs, or when `more`
    is false."""
    left, number, serial = Fraction(1), 0, 0
    waiting: list[tuple[float, int, tuple[int, ...], Fraction]] = [(-1.0, 0, (), Fraction(1))]
    while waiting and left > LEFT and number < most and more():
        _, _, given, probability = heapq.heappop(waiting)
        choices, taken = Choices(given), given
        result = run(choices)
        number += 1
        for weights, chosen in choices.made[len(given) :]:
            for other, weight in enumerate(weights):
                if other != chosen:
                    serial += 1
                    share = probability * weight
                    heapq.heappush(waiting, (-float(share), serial, (*taken, other), share))
            probability, taken = probability * weights[chosen], (*taken, chosen)
        left -= probability
        yield probability, result
