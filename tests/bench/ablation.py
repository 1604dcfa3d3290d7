"""Where rewards lie: dense placement against the others, paired by seed, from the runs of sweeps.

    make ablation
    python tests/bench/ablation.py runs/ppo/corridor runs/grpo/corridor --level 0.7 [--metric pass_rate] [--html FILE]

For each recipe and task: graded samples until `metric`, averaged over five updates, reaches `level` (a run that never
does counts with all its samples, and is counted), and the metric's mean over the whole run; means over seeds with 95 %
bootstrap intervals, and the differences of dense to the others, seed by seed. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from rich.console import Console
from rich.table import Table

from recipes.support import charts
from recipes.support.records import read_jsonl
from recipes.support.run_dir import write_text

PLACEMENTS = ("dense", "sparse", "uniform", "pointed")
WINDOW = 5
Runs = dict[str, dict[int, "Curve"]]


class Curve:
    """One run: the metric of each update, and how many samples an update grades."""

    def __init__(self, folder: Path, metric: str):
        cfg = yaml.safe_load((folder / "config.yaml").read_text())
        recipe = cfg["recipe"]
        self.samples = recipe["prompts_per_step"] * recipe.get("samples_per_prompt", recipe.get("num_generations", 1))
        self.key = recipe["name"], cfg["task"]["name"]
        self.placement, self.seed = cfg["reward"]["placement"], cfg["seed"]
        self.values = [row[metric] for row in read_jsonl(folder / "metrics.jsonl") if metric in row]

    def mean(self) -> float:
        return statistics.mean(self.values)

    def updates_to(self, level: float) -> int | None:
        """The first update whose last five have a mean of `level`."""
        for i in range(WINDOW - 1, len(self.values)):
            if statistics.mean(self.values[i - WINDOW + 1 : i + 1]) >= level:
                return i + 1
        return None

    def samples_to(self, level: float) -> int:
        return (self.updates_to(level) or len(self.values)) * self.samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "folders", type=Path, nargs="+", help="directories of run directories; of runs alike the last counts"
    )
    parser.add_argument("--metric", default="reward")
    parser.add_argument("--level", type=float, required=True)
    parser.add_argument("--html", type=Path)
    args = parser.parse_args()
    found: dict[tuple[str, str], Runs] = defaultdict(lambda: {name: {} for name in PLACEMENTS})
    for config in (c for folder in args.folders for c in sorted(folder.glob("*/config.yaml"))):
        curve = Curve(config.parent, args.metric)
        found[curve.key][curve.placement][curve.seed] = curve
    if not found:
        sys.exit(f"no runs in {', '.join(map(str, args.folders))}: make ablation makes them")
    results = [compared(key, runs, args.level) for key, runs in sorted(found.items())]
    for result in results:
        Console().print(table(result, args))
    if args.html:
        write_text(args.html, page(found, results, args))
    print(json.dumps({"metric": args.metric, "level": args.level, "results": results}))


def compared(key: tuple[str, str], runs: Runs, level: float) -> dict[str, Any]:
    """Means with intervals by placement, and dense minus the others over the seeds that both have."""
    result: dict[str, Any] = {"recipe": key[0], "task": key[1], "placements": {}, "dense_minus": {}}
    for name, curves in runs.items():
        if curves:
            result["placements"][name] = {
                "seeds": sorted(curves),
                "samples": interval([c.samples_to(level) for c in curves.values()]),
                "reached": sum(c.updates_to(level) is not None for c in curves.values()),
                "mean": interval([c.mean() for c in curves.values()]),
            }
    for name in PLACEMENTS[1:]:
        if seeds := sorted(set(runs["dense"]) & set(runs[name])):
            pairs = [(runs["dense"][seed], runs[name][seed]) for seed in seeds]
            result["dense_minus"][name] = {
                "samples": interval([a.samples_to(level) - b.samples_to(level) for a, b in pairs]),
                "mean": interval([a.mean() - b.mean() for a, b in pairs]),
            }
    return result


def interval(values: Sequence[float], resamples: int = 10_000) -> dict[str, float]:
    """Mean with its 95 % percentile bootstrap interval over seeds."""
    chance = random.Random(0)
    means = sorted(statistics.fmean(chance.choices(values, k=len(values))) for _ in range(resamples))
    low, high = means[int(0.025 * resamples)], means[int(0.975 * resamples) - 1]
    return {"value": statistics.fmean(values), "low": low, "high": high}


def table(result: dict[str, Any], args: argparse.Namespace) -> Table:
    drawn = Table(title=f"{result['recipe']}, {result['task']}: {args.metric} to {args.level:g}")
    for column in ("placement", "seeds", "graded samples", "reached", f"mean {args.metric}"):
        drawn.add_column(column, justify="left" if column == "placement" else "right")
    for name, row in result["placements"].items():
        reached = f"{row['reached']} of {len(row['seeds'])}"
        drawn.add_row(name, str(len(row["seeds"])), said(row["samples"], 0), reached, said(row["mean"], 3))
    for name, row in result["dense_minus"].items():
        drawn.add_row(f"dense - {name}", "", said(row["samples"], 0), "", said(row["mean"], 3))
    return drawn


def said(row: dict[str, float], digits: int) -> str:
    return f"{row['value']:.{digits}f} \\[{row['low']:.{digits}f}, {row['high']:.{digits}f}]"


def page(found: dict[tuple[str, str], Runs], results: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """A self-contained page: for each recipe and task the mean curve of each placement, and the table."""
    parts = []
    for (recipe, task), result in zip(sorted(found), results, strict=True):
        curves, bands = {}, {}
        for name, runs in found[recipe, task].items():
            shortest = min((len(c.values) for c in runs.values()), default=0)
            step = next((c.samples for c in runs.values()), 1)
            columns = zip(*(c.values[:shortest] for c in runs.values()), strict=True)
            curves[name] = [((i + 1) * step, statistics.mean(column)) for i, column in enumerate(columns)]
            smoothed = (charts.smooth(c.values[:shortest], charts.smooth_window(shortest)) for c in runs.values())
            at_steps = (interval(column, 1000) for column in zip(*smoothed, strict=True))
            bands[name] = [(row["low"], row["high"]) for row in at_steps]
        rows = "".join(
            f"<tr><td>{name}</td><td>{len(row['seeds'])}</td><td>{plain(row['samples'], 0)}</td>"
            f"<td>{row['reached']} of {len(row['seeds'])}</td><td>{plain(row['mean'], 3)}</td></tr>"
            for name, row in result["placements"].items()
        )
        rows += "".join(
            f"<tr><td>dense minus {name}, by seed</td><td></td><td>{plain(row['samples'], 0)}</td><td></td>"
            f"<td>{plain(row['mean'], 3)}</td></tr>"
            for name, row in result["dense_minus"].items()
        )
        chart = charts.comparison_chart(curves, f"{args.metric} by graded samples", "samples", bands)
        parts.append(f"<h2>{recipe}, {task}</h2>{chart}<table>{HEAD}{rows}</table>")
    return PAGE.format(metric=args.metric, level=args.level, parts="".join(parts))


def plain(row: dict[str, float], digits: int) -> str:
    return said(row, digits).replace("\\[", "[")


HEAD = "<tr><th>placement</th><th>seeds</th><th>graded samples to the level</th><th>reached</th><th>mean</th></tr>"
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Placement of rewards</title><style>
:root {{ color-scheme: light dark; --ink: #1f1f1d; --soft: #6a6863; --rule: #dedad2; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e5e3de; --soft: #9c9a94; --rule: #34373c; }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--ink); }}
svg {{ width: 100%; height: auto; overflow: visible; }} svg text {{ font: 10px sans-serif; fill: var(--soft); }}
path {{ fill: none; }} .line {{ stroke-width: 1.8; }} .grid {{ stroke: var(--rule); }} .zero {{ stroke: var(--soft); }}
.c0 {{ stroke: #1c5d99; }} .c1 {{ stroke: #c8701a; }} .c2 {{ stroke: #2e7d4f; }} .c3 {{ stroke: #7a4ea3; }}
.band {{ stroke: none; opacity: .16; }}
.band.c0 {{ fill: #1c5d99; }} .band.c1 {{ fill: #c8701a; }} .band.c2 {{ fill: #2e7d4f; }}
.band.c3 {{ fill: #7a4ea3; }}
svg text.c0 {{ fill: #1c5d99; stroke: none; }} svg text.c1 {{ fill: #c8701a; stroke: none; }}
svg text.c2 {{ fill: #2e7d4f; stroke: none; }} svg text.c3 {{ fill: #7a4ea3; stroke: none; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .3rem 1rem .3rem 0; text-align: left; font-weight: 400; }}
th {{ color: var(--soft); }} td {{ border-top: 1px solid var(--rule); }}
</style><h1>Where rewards lie</h1><p>The same rewards, on the tokens responsible (dense), on the last token (sparse), in
equal parts on all (uniform), on the last token where dense would spread them over all the code (pointed): {metric} by
graded samples, mean over seeds in its interval; the table has the samples to {level:g}. Intervals: 95 %, bootstrap over
seeds.</p>{parts}</html>
"""


if __name__ == "__main__":
    main()
