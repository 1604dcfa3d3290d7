"""Gains over a first evaluation on the same problems, with intervals over runs and families of problems.

A family is a set of near-duplicates (`family` of envs/basics/problems/*.jsonl): 49 of them make the 66 hand-written
problems that are held out. Their answers are right or wrong together, so families are drawn, not problems. For the same
reason thorns are drawn, not their files, and kinds of robot instructions, not the instructions of a kind.

With few of them such an interval is too narrow: in simulations (tests/recipes/test_paired.py) it contains the truth in
70 to 90 % of cases with fewer than twelve families, or with two or three runs that differ by 20 points, not in 95 %.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

BASICS = Path(__file__).parents[2] / "envs" / "basics"
DRAWS = 4000
NUMBER = {"roboeval/": re.compile(r"[-_]\d+$"), "basics/new/": re.compile(r"/\d+$")}
"""What tells the instructions of a kind apart, and the problems of a generated family."""

Scores = Mapping[str, float]
"""Of each problem, by its id, the share of right answers or the mean reward."""


@cache
def families() -> dict[str, str]:
    """The family of each hand-written problem of basics, and of those for practice, by the problem's id."""
    files = [*sorted(BASICS.glob("practice/*/*.jsonl")), *sorted(BASICS.glob("problems/*.jsonl"))]
    rows = (json.loads(line) for file in files for line in file.read_text().splitlines())
    return {f"basics/{row['name']}": row["family"] for row in rows}


def family_of(name: str) -> str:
    """Whose answers are right or wrong together with this problem's: its family; for a file of a thorn the thorn, for
    robot instructions and generated problems the name without its number."""
    if name.startswith("etk/"):
        return "/".join(name.split("/")[:3])
    for beginning, number in NUMBER.items():
        if name.startswith(beginning):
            return number.sub("", name)
    return families().get(name, name)


def gain(pairs: Sequence[tuple[Scores, Scores]]) -> dict[str, float] | None:
    """Mean gain in points of 100 with its 95 % bootstrap interval (Efron 1979), drawing runs, and families of problems
    whose members stay together; None without a problem that all have.

    Args:
        pairs: for each run the scores before and its own. Problems that one of them lacks do not count.

    Returns {mean, low, high, runs, problems}; the last two are numbers of what was compared.
    """
    names = sorted(set.intersection(*(set(scores) for pair in pairs for scores in pair))) if pairs else []
    if not names:
        return None
    gains = 100 * np.array([[after[name] - before[name] for name in names] for before, after in pairs])
    places: dict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        places[family_of(name)].append(place)
    sums = np.stack([gains[:, own].sum(1) for own in places.values()], axis=1)  # (runs, families)
    sizes = np.array([len(own) for own in places.values()])
    generator, draws = np.random.default_rng(0), []
    for _ in range(DRAWS):
        which = generator.integers(0, len(pairs), len(pairs))
        what = generator.integers(0, len(sizes), len(sizes))
        draws.append(sums[np.ix_(which, what)].sum() / (len(pairs) * sizes[what].sum()))
    low, high = np.percentile(draws, [2.5, 97.5])
    mean = float(gains.mean())
    return {"mean": mean, "low": float(low), "high": float(high), "runs": len(pairs), "problems": len(names)}
