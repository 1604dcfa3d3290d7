"""Statistics of a metric over a window of steps, and numbers as the findings write them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from recipes.cli.console import number
from recipes.records.jsonl import Record, finite

MIN_WINDOW = 5
"""Steps in a window at least: of fewer, at 16 to 64 samples a step, the standard error means little."""
ONE_SIDED = 1.645
"""Normal quantile of 95 %."""


class Change(NamedTuple):
    """A metric's mean in two windows; `z` is the difference in standard errors."""

    before: float
    after: float
    z: float
    error: float
    """Standard error of `after - before`."""

    @property
    def rise(self) -> float:
        return self.after - self.before

    @property
    def text(self) -> str:
        """`from 0.12 to 0.3`."""
        return f"from {three_digits(self.before)} to {three_digits(self.after)}"


def values(rows: Sequence[Record], key: str) -> list[float]:
    """The finite values of a metric."""
    return [float(row[key]) for row in rows if finite(row.get(key))]


def mean(numbers: Sequence[float]) -> float:
    """Arithmetic mean, for shares and rewards; metrics without bounds (KL, loss, seconds) take their median."""
    return sum(numbers) / len(numbers)


def median(numbers: Sequence[float]) -> float | None:
    """The median, None of fewer than MIN_WINDOW values."""
    return statistics.median(numbers) if len(numbers) >= MIN_WINDOW else None


def change(before: Sequence[float], after: Sequence[float]) -> Change | None:
    """Difference of two windows' means, with Welch's standard error; None where either has too few values."""
    if min(len(before), len(after)) < MIN_WINDOW:
        return None
    error = math.sqrt(sum(statistics.variance(numbers) / len(numbers) for numbers in (before, after)))
    rise = mean(after) - mean(before)
    return Change(mean(before), mean(after), rise / max(error, 1e-9), error)


def lower_bound(count: float, total: float) -> float:
    """Lower end of the one-sided 95 % interval of the share count / total (Wilson 1927); 0 of nothing."""
    if total <= 0:
        return 0.0
    share, z2 = min(1.0, count / total), ONE_SIDED**2
    spread = ONE_SIDED * math.sqrt(share * (1 - share) / total + z2 / (4 * total * total))
    return max(0.0, (share + z2 / (2 * total) - spread) / (1 + z2 / total))


def steps_text(rows: Sequence[Record]) -> str:
    """`step 3` or `steps 41 to 60`."""
    first, last = rows[0]["step"], rows[-1]["step"]
    return f"step {first}" if first == last else f"steps {first} to {last}"


def three_digits(value: float) -> str:
    """A number at three significant digits, with a plain hyphen."""
    return number(float(f"{value:.3g}")).replace("\N{MINUS SIGN}", "-")


def percent(share: float) -> str:
    """`3%`, with a decimal below ten per cent: `1.5%`."""
    return f"{share:.1%}" if 0 < share < 0.0995 else f"{share:.0%}"
