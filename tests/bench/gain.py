"""The gain of several evaluations over a first one, in pass@1 or another score, on the held-out problems of one task.

    python tests/bench/gain.py runs/eval/basics/base runs/eval/basics/seed0 runs/eval/basics/seed1 ...
    python tests/bench/gain.py runs/ppo/etk_completion/A@before 'runs/ppo/etk_completion/A@step 6' --score reward
    python tests/bench/gain.py runs/eval/etk/base runs/eval/etk/ppo --score judge/judged     what a channel measured

Run directories of recipes/eval.py, or RUN@WHEN for an evaluation of a training run. Gains are paired by problem, with
intervals over runs and families of problems (paired.py). One JSON line a temperature, in points of 100. Problems that
one of the evaluations lacks, or did not grade, do not count. Answers without the measure do not count either; how many
they are stands on the standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from recipes.records.jsonl import read_jsonl
from tests.bench.paired import gain


def rates(evaluation: str, score: str) -> dict[float, dict[str, float]]:
    """Share of right samples, or mean score, by temperature and problem; samples without the score are left out, and
    counted on the standard error."""
    folder, _, when = evaluation.partition("@")
    rows = read_jsonl(Path(folder) / ("eval_samples.jsonl" if when else "samples.jsonl"))
    if when and rows:  # a run that was prolonged has several evaluations after training
        of_step = [row.get("step", 0) for row in rows if row["when"] == when]
        rows = [row for row in rows if row["when"] != when or row.get("step", 0) == max(of_step)]
    results: dict[float, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    rows = [row for row in rows if not when or (row["when"], row["task"]) == (when, rows[0]["task"])]
    for row in rows:
        if (value := _value(row, score)) is not None:
            results[row["temperature"]][row["task_id"]].append(value)
    if not results:
        sys.exit(f"{evaluation}: no such evaluation, or no answer of it has the score {score}")
    if without := sum(_value(row, score) is None for row in rows):
        print(f"{evaluation}: {without} of {len(rows)} answers have no score {score} and do not count", file=sys.stderr)
    return {t: {p: float(np.mean(v)) for p, v in by.items()} for t, by in results.items()}


def _value(row: Mapping[str, Any], score: str) -> float | None:
    """An answer's score by its name; None where it has none."""
    if score == "pass":
        return row.get("passed", row["verdict"] == "pass")
    if score == "reward":
        return row["reward"]
    channel, _, name = score.partition("/")
    return row.get("details", {}).get(channel, {}).get(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base")
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--score", default="pass", help="pass, reward or CHANNEL/NAME, a measure of a channel")
    args = parser.parse_args()
    base, *runs = (rates(evaluation, args.score) for evaluation in (args.base, *args.runs))
    for temperature, problems in base.items():
        pairs = [(problems, run.get(temperature, {})) for run in runs]
        result = gain(pairs)
        if result is None:
            sys.exit(f"temperature {temperature}: no problem was answered in {args.base} and in all of the others")
        compared = [p for p in problems if all(p in run.get(temperature, {}) for run in runs)]
        pairs = [({p: before[p] for p in compared}, {p: after[p] for p in compared}) for before, after in pairs]
        line = {
            "temperature": temperature,
            "problems": result["problems"],
            "base": 100 * float(np.mean([problems[p] for p in compared])),
            "gains": [each["mean"] for pair in pairs if (each := gain([pair]))],
            "mean_gain": result["mean"],
            "low": result["low"],
            "high": result["high"],
        }
        print(json.dumps({k: round(v, 2) if isinstance(v, float) else v for k, v in line.items()}))


if __name__ == "__main__":
    main()
