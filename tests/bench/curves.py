"""Learning curves of dense against sparse placement, paired by seed, from the runs of a sweep.

    python recipes/ppo.py -m task=corridor reward=dense,sparse seed=0,1,2,3,4
    python tests/bench/curves.py runs/ppo/corridor --level 0.9

Prints the mean reward of every tenth update, then one JSON object: the updates each placement needs to a reward of
`level` (mean of five), the mean reward over the whole run, and the paired difference of both with a 95 % interval
(Student's t over seeds).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from recipes.records.jsonl import read_jsonl
from tests.bench.over_seeds import interval


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--level", type=float, default=0.9)
    args = parser.parse_args()
    curves: dict[str, dict[int, list[float]]] = {"dense": {}, "sparse": {}}
    for config in sorted(args.folder.glob("*/config.yaml")):
        cfg = yaml.safe_load(config.read_text())
        if cfg["reward"]["placement"] not in curves:
            continue
        if cfg["seed"] in curves[cfg["reward"]["placement"]]:
            sys.exit(f"{config.parent}: a second run of this placement and seed; move one of them elsewhere")
        rewards = [row["reward"] for row in read_jsonl(config.parent / "metrics.jsonl")]
        curves[cfg["reward"]["placement"]][cfg["seed"]] = rewards
    seeds = sorted(set(curves["dense"]) & set(curves["sparse"]))
    if len(seeds) < 2:
        sys.exit(f"{args.folder} holds fewer than two seeds with both placements")
    for name, runs in curves.items():
        points = [statistics.mean(r[i] for r in runs.values()) for i in range(9, min(map(len, runs.values())), 10)]
        print(f"{name:>6}", " ".join(f"{p:.2f}" for p in points))
    result: dict[str, object] = {"seeds": seeds, "level": args.level}
    for label, measure in (
        ("updates_to_level", lambda r: updates_to(r, args.level)),
        ("mean_reward", statistics.mean),
    ):
        dense, sparse = ([measure(curves[name][seed]) for seed in seeds] for name in ("dense", "sparse"))
        result |= {f"{label}_dense": dense, f"{label}_sparse": sparse}
        result[f"{label}_difference"] = interval([d - s for d, s in zip(dense, sparse, strict=True)])
    print(json.dumps(result))


def updates_to(rewards: list[float], level: float) -> int:
    """The first update whose last five have a mean of `level`; the length of the run where there is none."""
    for i in range(4, len(rewards)):
        if statistics.mean(rewards[i - 4 : i + 1]) >= level:
            return i + 1
    return len(rewards)


if __name__ == "__main__":
    main()
