"""Where rewards lie: dense placement and credit for lines against the others, paired by seed, from runs of sweeps.

    python tests/bench/run_ablation.py all
    python tests/bench/ablation.py runs/ablation/corridor/ppo runs/ablation/corridor/grpo --level 0.7 [--html FILE]

For each recipe and task: graded samples until `metric`, averaged over --window updates, reaches `level` (a run that
never does counts with all its samples, and is counted), and the metric's mean over the whole run; means over seeds,
and the differences of dense and lines to the others, seed by seed, with 95 % intervals (over_seeds.py). The last line
is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
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
from rich.text import Text

from recipes.records.directory import write_text
from recipes.records.jsonl import read_jsonl
from recipes.tools.report import charts
from recipes.tools.report.curves import completions_per_prompt
from recipes.tools.report.templates import render
from tests.bench.over_seeds import interval, ratio, with_interval

PLACEMENTS = ("dense", "sparse", "uniform", "pointed", "lines")
COMPARED = {
    "dense": ("sparse", "uniform", "pointed"),
    "pointed": ("sparse",),
    "lines": ("sparse", "dense", "uniform", "pointed"),
}
"""What dense, pointed and lines (recipe.credit=lines, whatever the placement) are compared with."""
WINDOW = 5
"""Updates that are averaged. Where an update has one prompt, take as many as there are prompts."""
Runs = dict[str, dict[int, "Curve"]]


class Curve:
    """One run: the metric of each update, and how many samples an update grades."""

    def __init__(self, folder: Path, metric: str, window: int):
        self.run, self.window = folder, window
        cfg = yaml.safe_load((folder / "config.yaml").read_text())
        recipe = cfg["recipe"]
        self.samples = recipe["prompts_per_step"] * (completions_per_prompt(cfg) or 1)
        self.key = recipe["name"], cfg["task"]["name"]
        by_lines = recipe.get("credit") == "lines"
        self.placement, self.seed = "lines" if by_lines else cfg["reward"]["placement"], cfg["seed"]
        steps = read_jsonl(folder / "metrics.jsonl")
        self.values = [row[metric] for row in steps if metric in row]
        self.seconds = [row.get("seconds/total", 0.0) for row in steps if metric in row]
        if not self.values:
            known = sorted({name for row in steps for name, value in row.items() if isinstance(value, float)})
            sys.exit(f"--metric {metric}: {folder} has none; it has {', '.join(known) or 'no update'}")

    def mean(self) -> float:
        return statistics.mean(self.values)

    def updates_to(self, level: float) -> int | None:
        """How many updates it takes until the last `window` of them have a mean of `level`; None if that never is."""
        for i in range(self.window - 1, len(self.values)):
            if statistics.mean(self.values[i - self.window + 1 : i + 1]) >= level:
                return i + 1
        return None

    def samples_to(self, level: float) -> int:
        return (self.updates_to(level) or len(self.values)) * self.samples

    def minutes_to(self, level: float) -> float:
        return sum(self.seconds[: self.updates_to(level) or len(self.values)]) / 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "folders", type=Path, nargs="+", help="directories of run directories; a run of a later one goes first"
    )
    parser.add_argument("--metric", default="reward")
    parser.add_argument("--level", type=level, required=True, help="a number; sparse: what sparse reaches at its end")
    parser.add_argument("--window", type=int, default=WINDOW, help=f"updates that are averaged; {WINDOW}")
    parser.add_argument("--updates", type=int, help="of each run only the first so many count")
    parser.add_argument("--html", type=Path)
    args = parser.parse_args()
    if args.window < 1:
        parser.error(f"--window {args.window}: must be at least 1")
    if args.updates is not None and args.updates < args.window:
        parser.error(f"--updates {args.updates}: must be at least --window, {args.window}")
    if args.html and not args.html.resolve().parent.is_dir():
        parser.error(f"--html {args.html}: there is no folder {args.html.resolve().parent}")
    matches = read(args.folders, args.metric, args.window, args.updates)
    if not matches:
        sys.exit(f"no runs in {', '.join(map(str, args.folders))}: tests/bench/run_ablation.py makes them")
    shortest = min(len(c.values) for runs in matches.values() for seeds in runs.values() for c in seeds.values())
    if shortest < args.window:
        parser.error(f"--window {args.window}: must be at most {shortest}, the updates of the shortest run")
    levels = {key: level_of(runs) if args.level == "sparse" else args.level for key, runs in matches.items()}
    results = [compared(key, runs, levels[key]) for key, runs in sorted(matches.items())]
    for result in results:
        Console().print(table(result, args))
    if args.html:
        write_text(args.html, page(matches, results, args))
    print(json.dumps({"metric": args.metric, "level": args.level, "results": results}))


def read(
    folders: Sequence[Path], metric: str, window: int = WINDOW, updates: int | None = None
) -> dict[tuple[str, str], Runs]:
    """The runs below `folders` by recipe and task, each as long as the shortest of them, and `updates` at most. A run
    takes the place of one with the same placement and seed in a folder before its own. SystemExit where one folder has
    two of them."""
    matches: dict[tuple[str, str], Runs] = defaultdict(lambda: {name: {} for name in PLACEMENTS})
    for config in (c for folder in folders for c in sorted(folder.glob("*/config.yaml"))):
        curve = Curve(config.parent, metric, window)
        before = matches[curve.key][curve.placement].get(curve.seed)
        if before is not None and before.run.parent == curve.run.parent:
            sys.exit(f"{curve.run}: a second run of {curve.placement} with seed {curve.seed} in its folder: remove one")
        if before is not None:
            print(f"{curve.run} in place of {before.run}", file=sys.stderr)
        matches[curve.key][curve.placement][curve.seed] = curve
    for runs in matches.values():
        curves = [curve for seeds in runs.values() for curve in seeds.values()]
        shortest, longest = (f(len(curve.values) for curve in curves) for f in (min, max))
        if shortest < longest:
            print(f"runs of {shortest} to {longest} updates: the first {shortest} of each count", file=sys.stderr)
        for curve in curves:
            curve.values = curve.values[:shortest][:updates]
    return dict(matches)


def level(text: str) -> float | str:
    value = text if text == "sparse" else float(text)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError
    return value


def level_of(runs: Runs) -> float:
    """The mean of the last updates of the sparse runs: what they reach at their end."""
    if not runs["sparse"]:
        sys.exit("--level sparse: there are no sparse runs; give a number, or make them with reward=sparse")
    return statistics.mean(statistics.mean(curve.values[-curve.window :]) for curve in runs["sparse"].values())


def compared(key: tuple[str, str], runs: Runs, level: float) -> dict[str, Any]:
    """Means with intervals by placement, and over the seeds that both have dense, pointed and lines minus the others,
    and how many times the samples of the others they take. `minutes` are those of the updates until the level."""
    result: dict[str, Any] = {"recipe": key[0], "task": key[1], "level": level, "placements": {}}
    for name, curves in runs.items():
        if curves:
            result["placements"][name] = {
                "seeds": sorted(curves),
                "samples": interval([c.samples_to(level) for c in curves.values()]),
                "samples_by_seed": [curves[seed].samples_to(level) for seed in sorted(curves)],
                "minutes": interval([c.minutes_to(level) for c in curves.values()]),
                "reached": sum(c.updates_to(level) is not None for c in curves.values()),
                "mean": interval([c.mean() for c in curves.values()]),
            }
    for first, others in COMPARED.items():
        result[f"{first}_minus"] = {
            name: _difference([(runs[first][seed], runs[name][seed]) for seed in seeds], level)
            for name in others
            if (seeds := sorted(set(runs[first]) & set(runs[name])))
        }
    return result


def _difference(pairs: Sequence[tuple[Curve, Curve]], level: float) -> dict[str, Any]:
    return {
        "samples": interval([a.samples_to(level) - b.samples_to(level) for a, b in pairs]),
        "mean": interval([a.mean() - b.mean() for a, b in pairs]),
        "times": ratio([(a.samples_to(level), b.samples_to(level)) for a, b in pairs]),
    }


def columns(args: argparse.Namespace) -> tuple[str, ...]:
    return "placement", "seeds", "graded samples", "reached", f"mean {args.metric}"


def cells(result: dict[str, Any]) -> list[list[str]]:
    """Rows of the table of one recipe and task: each placement, then the differences to the others, by seed."""
    rows = []
    for name, row in result["placements"].items():
        seeds = len(row["seeds"])
        reached, mean = f"{row['reached']} of {seeds}", with_interval(row["mean"], 3)
        rows.append([name, str(seeds), with_interval(row["samples"], 0), reached, mean])
    for first in COMPARED:
        for name, row in result[f"{first}_minus"].items():
            rows.append([f"{first} - {name}", "", with_interval(row["samples"], 0), "", with_interval(row["mean"], 3)])
            rows.append([f"{first} / {name}", "", with_interval(row["times"], 2), "", ""])
    return rows


def table(result: dict[str, Any], args: argparse.Namespace) -> Table:
    drawn = Table(title=f"{result['recipe']}, {result['task']}: {args.metric} to {result['level']:.3g}")
    for column in columns(args):
        drawn.add_column(column, justify="left" if column == "placement" else "right")
    for row in cells(result):
        drawn.add_row(*map(Text, row))
    return drawn


def page(matches: dict[tuple[str, str], Runs], results: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """A self-contained page: for each recipe and task the mean curve of each placement, and the table."""
    sections = []
    for key, result in zip(sorted(matches), results, strict=True):
        curves, bands = {}, {}
        for name, runs in matches[key].items():
            values = [curve.values for curve in runs.values()]
            shortest = min(map(len, values), default=0)
            samples = next((curve.samples for curve in runs.values()), 1)
            means = map(statistics.mean, zip(*(v[:shortest] for v in values), strict=True))
            curves[name] = [(update * samples, mean) for update, mean in enumerate(means, 1)]
            smoothed = (charts.smooth(v[:shortest]) for v in values)
            intervals = (interval(column) for column in zip(*smoothed, strict=True))
            bands[name] = [(row["low"], row["high"]) for row in intervals] if len(values) > 1 else []
        chart = charts.comparison_chart(curves, f"{args.metric} by graded samples", "samples", bands)
        title = f"{', '.join(key)}: to {result['level']:.3g}"
        sections.append({"title": title, "chart": chart, "columns": columns(args), "rows": cells(result)})
    note = NOTE.format(metric=args.metric)
    return render("comparison.html.j2", title="Where rewards lie", note=note, sections=sections)


NOTE = """The same rewards, on the tokens responsible (dense), on the last token (sparse), in equal parts on all tokens
(uniform), and on the last token where dense would spread them over all the code (pointed). Where answers have parts,
dense also takes the other parts' rewards off. Lines: what an exchange of lines between answers changes. Curves:
{metric} by graded samples, mean over seeds in its interval.
Table: the samples until {metric} reaches the level above it. Intervals: 95 %, Student's t over seeds."""


if __name__ == "__main__":
    main()
