"""tests/bench/paired.py: whose answers are drawn together, and how often its intervals contain the truth."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench import paired


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("basics/new/alarm_rings/0", "basics/new/alarm_rings/13"),
        ("roboeval/errand-1", "roboeval/errand-02"),
        ("etk/arrangement/thorn/src/a.c", "etk/arrangement/thorn/src/b.c"),
    ],
)
def test_near_duplicates_are_of_one_family(one, other):
    assert paired.family_of(one) == paired.family_of(other) != paired.family_of("basics/new/all_ranks/0")


def test_problems_of_one_family_are_drawn_together():
    """Four copies of each family say no more than one."""
    gains = dict(enumerate(np.random.default_rng(1).choice([-1.0, 0.0, 1.0], 20)))
    alone = {f"basics/new/f{family}/0": gain for family, gain in gains.items()}
    copied = {f"basics/new/f{family}/{copy}": gain for family, gain in gains.items() for copy in range(4)}
    one, four = (paired.gain([(dict.fromkeys(after, 0.0), after)]) for after in (alone, copied))
    assert one is not None and four is not None
    assert (four["low"], four["high"]) == pytest.approx((one["low"], one["high"]))


@pytest.mark.parametrize(
    ("families", "runs", "between", "low", "high"),
    [(4, 1, 0, 0.7, 0.9), (49, 2, 20, 0.6, 0.85), (49, 1, 0, 0.87, 1.0), (49, 3, 4, 0.87, 1.0)],
)
def test_intervals_of_few_families_or_of_runs_that_differ_contain_the_truth_too_seldom(
    families, runs, between, low, high, monkeypatch
):
    """The true gain is 0. Families differ by 45 points, runs by `between` points, single answers by 20."""
    monkeypatch.setattr(paired, "DRAWS", 200)
    generator, repeats, contained = np.random.default_rng(0), 150, 0
    for _ in range(repeats):
        of_family = generator.normal(0, 0.45, families)
        afters = [
            of_family + generator.normal(0, between / 100) + generator.normal(0, 0.2, families) for _ in range(runs)
        ]
        names = [f"p{family}" for family in range(families)]
        result = paired.gain([(dict.fromkeys(names, 0.0), dict(zip(names, after, strict=True))) for after in afters])
        assert result is not None
        contained += result["low"] <= 0 <= result["high"]
    assert low < contained / repeats < high
