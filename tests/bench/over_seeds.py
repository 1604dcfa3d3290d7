"""Intervals over few seeds: Student's t for means and differences, Fieller's theorem for ratios.

A percentile bootstrap of five seeds contains the truth in some 85 % of cases and not in 95 %.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""97.5 % quantiles of Student's t for 1 to 15 degrees of freedom, one less than the number of seeds."""
Interval = dict[str, float | None]
"""{value, low, high}; low and high are None where one seed, or the noise, leaves them open."""


def quantile(seeds: int) -> float:
    """Of Student's t for so many seeds; beyond the table its last entry, which is slightly wide."""
    return STUDENT[min(seeds - 1, len(STUDENT)) - 1]


def interval(values: Sequence[float]) -> Interval:
    """Mean with its 95 % interval."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return {"value": mean, "low": None, "high": None}
    half = quantile(len(values)) * statistics.stdev(values) / math.sqrt(len(values))
    return {"value": mean, "low": mean - half, "high": mean + half}


def ratio(pairs: Sequence[tuple[float, float]]) -> Interval:
    """The first mean over the second, of pairs, with its 95 % interval (Fieller 1954): the ratios r for which the mean
    of a - r b is not told from 0. It is open where the second mean itself is not told from 0."""
    n, first, second = len(pairs), [a for a, _ in pairs], [b for _, b in pairs]
    a, b = statistics.fmean(first), statistics.fmean(second)
    if n < 2:
        return {"value": a / b, "low": None, "high": None}
    t2 = quantile(n) ** 2 / n
    covariance = sum((x - a) * (y - b) for x, y in pairs) / (n - 1)
    square = b * b - t2 * statistics.variance(second)
    linear = a * b - t2 * covariance
    constant = a * a - t2 * statistics.variance(first)
    root = linear * linear - square * constant
    if square <= 0 or root < 0:
        return {"value": a / b, "low": None, "high": None}
    return {"value": a / b, "low": (linear - math.sqrt(root)) / square, "high": (linear + math.sqrt(root)) / square}


def with_interval(row: Interval, digits: int) -> str:
    """`0.53 [0.52, 0.54]`, or the value alone."""
    value, low, high = (row[key] for key in ("value", "low", "high"))
    return f"{value:.{digits}f}" + ("" if low is None else f" [{low:.{digits}f}, {high:.{digits}f}]")
