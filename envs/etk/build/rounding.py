"""What is rounding: how far a right result may differ from the reference's."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np

from envs.etk.build.formats import NUMBER, number

LARGEST = 1e-5
"""Difference of one cell, as a share of the field's largest value, that is never more than rounding: a file may have
six digits. A mean over many cells hides a fault in few of them."""
LEAST = 1e-10
"""The same share, up to which a difference of numbers of double precision is always rounding."""
SHARE_OF_CHANGE = 1e-3
"""Between the two: a share of the field's own change, which may be far smaller than the field (a wave in a metric)."""
TIME_TOLERANCE = 1e-9
"""Relative difference up to which two times are equal."""
BETWEEN = re.compile(r"([\s=:,;()]+)")
"""What stands between the numbers of a header."""
LOOKED_AT = 10_000
"""Values, about, from which the precision of all is told."""


def allowed(change: float, values: np.ndarray) -> float:
    """The largest difference of a cell that is rounding, as a share of the field's largest value.

    change: the largest change of a cell since the initial state, as such a share. values: the reference's.
    """
    return LARGEST if few_digits(values) else min(LARGEST, max(LEAST, SHARE_OF_CHANGE * change))


def few_digits(values: np.ndarray) -> bool:
    """Whether numbers have single precision, perhaps printed with nine digits or more, or eight digits at most."""
    some = np.unique(values)  # a background of one value does not tell
    some = some[:: -(-some.size // LOOKED_AT)]
    with np.errstate(over="ignore"):
        single = np.isclose(some.astype(np.float32), some, rtol=5e-10, atol=0.0)
    short = np.char.mod("%.7e", some).astype(np.float64) == some
    return bool((single | short).all())


def without_rounding(header: str, expected: str) -> str:
    """A header with the numbers of the expected one, such as the time, where its own differ by rounding alone."""
    words, wanted = BETWEEN.split(header), BETWEEN.split(expected)
    return "".join(e if e and _rounded(w, e) else w for w, e in itertools.zip_longest(words, wanted) if w is not None)


def _rounded(word: str, expected: str) -> bool:
    if word == expected or (word.isdigit() and expected.isdigit()):  # counts are exact
        return False
    numbers = NUMBER.fullmatch(word) and NUMBER.fullmatch(expected)
    return bool(numbers) and math.isclose(number(word), number(expected), rel_tol=TIME_TOLERANCE)
