"""pass@k, unbiased (Chen et al. 2021, section 2.1), with a bootstrap interval over problems, for `evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import datasets
import evaluate
import numpy as np


def pass_at_k(n: int, c: int, k: int) -> float:
    """Probability that k of the n samples, c of which are right, have a right one among them: 1 - C(n-c, k) / C(n, k).

    Raises:
        ValueError: unless 0 <= c <= n and 1 <= k <= n.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@{k} of {c} right among {n} samples is not defined")
    return 1.0 - comb(n - c, k) / comb(n, k)


MOST_PICKS = 1 << 20
"""Numbers that a bootstrap draws at once, so that its memory does not grow with the problems."""


def bootstrap(values: Sequence[float], resamples: int = 4000, seed: int = 0) -> tuple[float, float]:
    """95 % percentile interval of the mean, over resampled problems."""
    array = np.asarray(values, dtype=float)
    if not len(array):
        return (float("nan"), float("nan"))
    generator, means = np.random.default_rng(seed), np.empty(resamples)
    at_once = max(1, MOST_PICKS // len(array))
    for first in range(0, resamples, at_once):
        rows = min(at_once, resamples - first)
        means[first : first + rows] = array[generator.integers(0, len(array), (rows, len(array)))].mean(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def exact(values: Sequence[float]) -> tuple[float, float] | None:
    """95 % interval (Clopper and Pearson 1934) where no problem or every problem is solved: there a bootstrap has no
    width. None for other values."""
    if set(values) not in ({0.0}, {1.0}):
        return None
    room = 1 - 0.025 ** (1 / len(values))
    return (0.0, room) if values[0] == 0 else (1 - room, 1.0)


def pass_at_each(predictions: Sequence[Sequence[bool]], k: Sequence[int] = (1,)) -> dict[str, Any]:
    """{"1": {"value", "low", "high"}, ...} for each k up to the number of samples. predictions: verdicts of each
    problem's samples, equally many."""
    out = {}
    for each in k:
        if predictions and each <= len(predictions[0]):
            values = [pass_at_k(len(p), sum(p), each) for p in predictions]
            low, high = exact(values) or bootstrap(values)
            out[str(each)] = {"value": float(np.mean(values)), "low": low, "high": high}
    return out


class PassAtK(evaluate.Metric):
    """`pass_at_each` for users of `evaluate`: `compute(predictions=[[True, False], ...], k=[1, 2])`. It needs a cache
    that can be written, which an evaluation of this project does not.
    """

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="Unbiased pass@k with a bootstrap interval over problems.",
            citation="Chen et al. 2021, Evaluating Large Language Models Trained on Code, arXiv 2107.03374",
            features=datasets.Features({"predictions": datasets.Sequence(datasets.Value("bool"))}),
        )

    def _compute(self, predictions: Sequence[Sequence[bool]], k: Sequence[int] = (1,)) -> dict[str, Any]:
        return pass_at_each(predictions, k)
