"""What is rounding: how far a right result may differ from the reference's."""

from __future__ import annotations

import numpy as np

LARGEST = 1e-5
"""Difference of one cell, as a share of the field's largest value, that is never more than rounding: a file may have
six digits. A mean over many cells hides a fault in few of them."""
LEAST = 1e-10
"""The same share, up to which a difference of numbers of double precision is always rounding."""
SHARE_OF_CHANGE = 1e-3
"""Between the two: a share of the field's own change, which may be far smaller than the field (a wave in a metric)."""
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
