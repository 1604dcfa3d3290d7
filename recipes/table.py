"""One table of several runs on a task: pass@1 with intervals, length, graded samples, time; and its picture.

    python recipes/table.py task=humaneval                        every run below runs/
    python recipes/table.py task=humaneval match=humaneval_ runs=runs html=ladder.html

Each run's last evaluation counts, greedy and sampled. Graded samples are those that the policy was trained on, for DPO
those that its pairs came from, and then minutes are those of sampling and grading them too. The page draws pass@1
against the mean length of an answer. Intervals are over problems; below the table stands what one standard error is.
"""

from __future__ import annotations

import csv
import html
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from omegaconf import MISSING, OmegaConf
from rich.console import Console
from rich.table import Table

from recipes.support.main import UserError
from recipes.support.records import read_jsonl
from recipes.support.run_dir import write_text
from recipes.support.small_command import keys_of, small_command

COLUMNS = ("run", "recipe", "decoding", "pass@1", "low", "high", "problems", "mean_tokens", "graded_samples", "minutes")


@dataclass
class TableConfig:
    task: str = MISSING
    runs: str = "runs"
    """The folder below which run directories lie."""
    match: str = ""
    """Only runs whose directory's name contains it."""
    html: str | None = None
    csv: str | None = None
    """Write the rows there, one line each."""


def show(cfg: TableConfig) -> int:
    """Print the table, and write what else is asked for."""
    rows = collect(Path(cfg.runs), cfg.task, cfg.match)
    Console().print(table(rows, cfg.task))
    print(standard_error(rows))
    if cfg.csv:
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
        write_text(Path(cfg.csv), text.getvalue())
    if cfg.html:
        write_text(Path(cfg.html), page(rows, cfg.task))
        print(cfg.html)
    return 0


def collect(root: Path, task: str, match: str = "") -> list[dict[str, Any]]:
    """A row for each run and decoding of its last evaluation on `task`. Raises UserError where there is none."""
    rows = []
    for config in sorted(root.rglob("config.yaml"), key=lambda file: file.stat().st_mtime):
        if match not in config.parent.name:
            continue
        found = {row["temperature"]: row for row in read_jsonl(config.parent / "evals.jsonl") if row["task"] == task}
        for temperature, row in sorted(found.items()):
            if "1" in row["pass@k"]:
                rows.append(_row(config.parent, OmegaConf.load(config), temperature, row))
    if not rows:
        raise UserError(f"no evaluated run on {task} below {root}")
    return rows


def _row(folder: Path, cfg: Any, temperature: float, found: dict[str, Any]) -> dict[str, Any]:
    passed = found["pass@k"]["1"]
    metrics = read_jsonl(folder / "metrics.jsonl")
    pairs = pairs_summary(cfg)
    seconds = sum(row.get("seconds/total", 0.0) for row in metrics) + pairs.get("seconds", 0.0)
    return {
        "run": folder.name,
        "recipe": cfg.recipe.name,
        "decoding": "greedy" if temperature == 0 else f"{found['samples']} at {temperature:g}",
        "pass@1": passed["value"],
        "low": passed["low"],
        "high": passed["high"],
        "problems": found["problems"],
        "mean_tokens": found["mean_tokens"],
        "graded_samples": pairs.get("graded_samples", 0) + sampled(cfg, len(metrics)),
        "minutes": seconds / 60,
    }


def pairs_summary(cfg: Any) -> dict[str, Any]:
    """What recipes/pairs.py says of the pairs that a run learnt from; empty where there are none, or they are gone."""
    if "pairs" not in cfg.recipe:
        return {}
    pairs = Path(cfg.recipe.pairs)
    summary = (pairs.parent if pairs.is_file() else pairs) / "summary.json"
    return json.loads(summary.read_text()) if summary.exists() else {}


def sampled(cfg: Any, steps: int) -> int:
    """How many answers a run sampled, graded and learnt from in `steps` updates."""
    recipe = cfg.recipe
    return (
        steps * recipe.get("prompts_per_step", 0) * recipe.get("num_generations", recipe.get("samples_per_prompt", 0))
    )


def table(rows: list[dict[str, Any]], task: str) -> Table:
    """The rows for the terminal."""
    drawn = Table(title=f"pass@1 on {task}, held-out problems, 95 % intervals")
    drawn.add_column("run", overflow="fold")
    for name in ("decoding", "pass@1", "tokens", "graded", "minutes"):
        drawn.add_column(name, justify="right", no_wrap=True)
    for row, name in zip(rows, without_common_parts([row["run"] for row in rows]), strict=True):
        score = f"{row['pass@1']:.3f} \\[{row['low']:.3f}, {row['high']:.3f}]"
        drawn.add_row(
            *(name, row["decoding"], score, f"{row['mean_tokens']:.0f}"),
            *(str(row["graded_samples"]), f"{row['minutes']:.1f}"),
        )
    return drawn


def standard_error(rows: list[dict[str, Any]]) -> str:
    """What chance alone makes of the row that passes nearest to half of its problems."""
    row = min(rows, key=lambda row: abs(row["pass@1"] - 0.5))
    error = (row["pass@1"] * (1 - row["pass@1"]) / row["problems"]) ** 0.5
    return f"One standard error of {row['pass@1']:.3f} on {row['problems']} problems is {error:.3f}."


def without_common_parts(names: list[str]) -> list[str]:
    """Names of runs without the parts between hyphens that all of them have, unless nothing is left."""
    common = set.intersection(*(set(name.split("-")) for name in names))
    return ["-".join(part for part in name.split("-") if part not in common) or name for name in names]


Mark = tuple[float, float, float, float, int]


def points(marks: list[Mark], kind: str) -> str:
    """SVG of (x, y, y of the lower end, y of the upper end, number of its row); neighbours share one label."""
    drawn: list[str] = []
    near: list[Mark] = []
    for mark in [*sorted(marks, key=lambda m: (round(m[1] / 14), m[0])), None]:
        if near and (mark is None or mark[0] - near[-1][0] > 30 or abs(mark[1] - near[-1][1]) > 14):
            label = ", ".join(str(number) for *_, number in sorted(near, key=lambda m: m[4]))
            drawn.append(f'<text x="{near[-1][0] + 8:.1f}" y="{near[-1][1] - 6:.1f}">{label}</text>')
            near = []
        if mark is not None:
            x, y, low, high, _ = mark
            drawn.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>')
            drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
            near.append(mark)
    return f'<g class="{kind}">{"".join(drawn)}</g>'


def page(rows: list[dict[str, Any]], task: str) -> str:
    """A self-contained page: pass@1 against mean length, and the table."""
    width, height, left, bottom = 760, 420, 60, 50
    longest = max(row["mean_tokens"] for row in rows) * 1.25 or 1.0
    top = min(1.0, max(row["high"] for row in rows) * 1.1) or 1.0

    def x(tokens: float) -> float:
        return left + tokens / longest * (width - left - 20)

    def y(share: float) -> float:
        return height - bottom - share / top * (height - bottom - 20)

    drawn = ""
    for kind in ("greedy", "sampled"):
        shown = [(n, row) for n, row in enumerate(rows, 1) if (row["decoding"] == "greedy") == (kind == "greedy")]
        marks = [(x(r["mean_tokens"]), y(r["pass@1"]), y(r["low"]), y(r["high"]), n) for n, r in shown]
        drawn += points(marks, kind)
    ticks = "".join(
        f'<text x="{left - 8}" y="{y(top * i / 4) + 4:.1f}" text-anchor="end">{top * i / 4:.2f}</text>'
        f'<text x="{x(longest * i / 4):.1f}" y="{height - bottom + 20}" text-anchor="middle">'
        f"{longest * i / 4:.0f}</text>"
        for i in range(5)
    )
    cells = "".join(
        f"<tr><td>{n}</td><td>{html.escape(row['run'])}</td><td>{row['decoding']}</td>"
        f"<td>{row['pass@1']:.3f} [{row['low']:.3f}, {row['high']:.3f}]</td><td>{row['mean_tokens']:.0f}</td>"
        f"<td>{row['graded_samples']}</td><td>{row['minutes']:.1f}</td></tr>"
        for n, row in enumerate(rows, 1)
    )
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{html.escape(task)}: pass@1 and length</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.4 system-ui, sans-serif; max-width: 60rem; margin: 1rem auto; padding: 0 1rem; }}
svg {{ width: 100%; height: auto; }} svg text {{ fill: currentColor; font-size: 12px; }}
.greedy circle {{ fill: #d5632a; }} .sampled circle {{ fill: #2a7bd5; }}
g line {{ stroke: currentColor; opacity: .35; }} .axis {{ stroke: currentColor; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
td, th {{ padding: .2rem .6rem; text-align: right; }}
td:nth-child(2), th:nth-child(2) {{ text-align: left; }} tr + tr td {{ border-top: 1px solid #8884; }}
</style>
<h1>{html.escape(task)}: pass@1 and length</h1>
<p>Held-out problems, 95 % intervals over problems. {standard_error(rows)} Orange: greedy. Blue: sampled.</p>
<svg viewBox="0 0 {width} {height}" role="img" aria-label="pass@1 against mean answer length">
<line class="axis" x1="{left}" x2="{width - 20}" y1="{height - bottom}" y2="{height - bottom}"/>
<line class="axis" x1="{left}" x2="{left}" y1="20" y2="{height - bottom}"/>{ticks}
<text x="{width / 2}" y="{height - 8}" text-anchor="middle">mean tokens of an answer</text>
<text x="14" y="{height / 2}" text-anchor="middle" transform="rotate(-90 14 {height / 2})">pass@1</text>
{drawn}</svg>
<table><tr><th></th><th>run</th><th>decoding</th><th>pass@1</th><th>tokens</th><th>graded samples</th>
<th>minutes</th></tr>
{cells}</table></html>
"""


main = small_command(keys_of(TableConfig), __doc__, show)

if __name__ == "__main__":
    sys.exit(main())
