"""The gain in pass@1 of several training runs over the base model, from the samples.jsonl of recipes/eval.py.

    python tests/bench/gain.py runs/eval/basics/base runs/eval/basics/seed0 runs/eval/basics/seed1 ...

The same problems, so the interval is paired: bootstrap over problems and, within each draw, over runs. One JSON line a
temperature, in points of a hundred.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from recipes.support.records import read_jsonl


def rates(folder: Path) -> dict[float, dict[str, float]]:
    """Share of right samples by temperature and problem."""
    found: dict[float, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for row in read_jsonl(folder / "samples.jsonl"):
        if row["verdict"] != "error":
            found[row["temperature"]][row["task_id"]].append(row["verdict"] == "pass")
    return {t: {p: float(np.mean(v)) for p, v in by.items()} for t, by in found.items()}


def main() -> None:
    base, *runs = (rates(Path(a)) for a in sys.argv[1:])
    generator = np.random.default_rng(0)
    for temperature, problems in base.items():
        gains = 100 * np.array([[run[temperature][p] - problems[p] for p in problems] for run in runs])
        draws = []
        for _ in range(4000):
            which = generator.integers(0, gains.shape[0], gains.shape[0])
            what = generator.integers(0, gains.shape[1], gains.shape[1])
            draws.append(gains[np.ix_(which, what)].mean())
        low, high = np.percentile(draws, [2.5, 97.5])
        line = {
            "temperature": temperature,
            "problems": gains.shape[1],
            "base": 100 * float(np.mean(list(problems.values()))),
            "gains": gains.mean(1).tolist(),
            "mean_gain": float(gains.mean()),
            "low": float(low),
            "high": float(high),
        }
        print(json.dumps({k: round(v, 2) if isinstance(v, float) else v for k, v in line.items()}))


if __name__ == "__main__":
    main()
