"""The jobs of a sweep side by side: sweep.csv and sweep.html in its folder, and a table for the terminal.

They come from the records in FOLDER/jobs, which recipes/cli/sweep.py writes, and from the jobs' run directories.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup
from rich.table import Table
from rich.text import Text

from recipes.cli.console import log, number, print_table
from recipes.records.csv_rows import write_csv
from recipes.records.directory import write_text
from recipes.records.jsonl import Record, by_step, finite, problem_kinds, read_jsonl
from recipes.tools.report.charts import Point, comparison_chart
from recipes.tools.report.templates import render

LAST = 10
"""Steps at the end of a job that its reward or loss is the mean of."""
CURVES = ("reward", "loss")
"""Metrics that stand for a job, the first that it has."""

ALIKE = ("task", "split", "samples", "temperature")
"""What the evaluations before and after training have in common."""


def write_sweep(folder: Path, swept: Sequence[str]) -> int:
    """Write sweep.csv and sweep.html, print the table and the jobs that failed; 1 where one did, else 0."""
    jobs = sorted(
        (json.loads(f.read_bytes()) for f in (folder / "jobs").glob("*.json")),
        key=lambda job: job["job"],
    )
    if not jobs:
        return 0
    curves = [_curve(Path(job["run"])) for job in jobs]
    names = list(dict.fromkeys(name for name, points in curves if points)) or [CURVES[0]]
    rows = [_job(job, swept, curve, names) for job, curve in zip(jobs, curves, strict=True)]
    write_csv(folder / "sweep.csv", rows)
    lines = {f"job {job['job']}": points for job, (_, points) in zip(jobs, curves, strict=True)}
    write_text(folder / "sweep.html", _page(folder, rows, swept, lines, names))
    drawn = Table(*_cells(rows[0], swept, names), title="jobs of the sweep")
    for column in drawn.columns:
        column.justify = "right"
    for row in rows:
        drawn.add_row(*map(Text, _cells(row, swept, names).values()))
    print_table(drawn)
    log.info("%s\n%s", folder / "sweep.csv", folder / "sweep.html")
    failed = [row for row in rows if row["status"] and not row["stopped"]]
    for row in failed:
        values = " ".join(f"{key}={row[key]}" for key in swept)
        print(f"error: job {row['job']} ({values}) ended with status {row['status']}: {row['run']}", file=sys.stderr)
    return int(bool(failed))


def _curve(run: Path) -> tuple[str, list[Point]]:
    """What stands for a run, its reward or the loss where it learns from examples, and its points (step, value)."""
    steps = by_step(read_jsonl(run / "metrics.jsonl"))
    name = next((name for name in CURVES if any(name in row for row in steps.values())), CURVES[0])
    return name, [(step, row[name]) for step, row in steps.items() if finite(row.get(name))]


def _job(job: Record, swept: Sequence[str], curve: tuple[str, list[Point]], names: Sequence[str]) -> Record:
    """A job as a line of sweep.csv. What is swept may be called reward. names: what stands for the jobs."""
    run = Path(job["run"])
    overrides = dict(o.lstrip("+~").split("=", 1) for o in job["overrides"] if "=" in o)
    own, values = curve[0], [value for _, value in curve[1]]
    mean = statistics.mean(values[-LAST:]) if values else None
    # A run's first evaluation is on its own task, sampled where it samples; recipes/eval.py makes one called eval.
    evals = [row for row in read_jsonl(run / "evals.jsonl") if "1" in row["pass@k"]]
    ends = [row for row in evals if row["when"] in ("after", "eval")]  # several where a run was prolonged
    last: Record = max(ends, key=lambda row: row.get("step") or 0, default={})
    after = last["pass@k"]["1"] if last else {}
    firsts = [row for row in evals if row["when"] == "before"]  # again where `evaluation` has changed since
    alike = [row for row in firsts if all(row.get(key) == last.get(key) for key in ALIKE)] if last else firsts
    before = alike[0]["pass@k"]["1"] if alike else {}
    return {
        "job": job["job"],
        **{key: overrides.get(key, "") for key in swept},
        "status": job["status"],
        "stopped": job["stopped"],
        "steps": len(by_step(read_jsonl(run / "metrics.jsonl"))),  # of these some have no rollout and no reward
        **{f"mean {name}": mean if name == own else None for name in names},
        "pass@1 before": before.get("value"),
        "pass@1": after.get("value"),
        "low": after.get("low"),
        "high": after.get("high"),
        "split": (last or evals[-1]).get("split", "test") if evals else None,
        "minutes": job["seconds"] / 60,
        "run": job["run"],
    }


def _cells(row: Record, swept: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """The names of the columns and what a job has there; a job that a signal stopped may have ended with status 0."""
    ended = "stopped" if row["stopped"] else f"failed ({row['status']})" if row["status"] else "done"
    measures = {f"{name}, last {LAST}": row[f"mean {name}"] for name in names}
    measures |= {key: row[key] for key in ("pass@1 before", "pass@1")}
    cells = {"job": str(row["job"])} | {key: row[key] for key in swept} | {"status": ended, "steps": str(row["steps"])}
    cells |= {name: "" if value is None else number(value) for name, value in measures.items()}
    return cells | {"minutes": f"{row['minutes']:.1f}"}


def _page(
    folder: Path,
    rows: Sequence[Record],
    swept: Sequence[str],
    curves: dict[str, list[Point]],
    names: Sequence[str],
) -> str:
    """A self-contained page: the jobs' curves in one chart, then the table with links to the jobs' reports."""
    lines = []
    for row in rows:
        cells, report = _cells(row, swept, names), Path(row["run"]) / "report.html"
        if row["status"] and not row["stopped"]:
            cells["status"] = Markup('<span class="bad">{}</span>').format(cells["status"])
        if row["low"] is not None and row["high"] is not None:
            cells["pass@1"] += f" [{number(row['low'])}, {number(row['high'])}]"
        link = Markup('<a href="{}">report</a>').format(os.path.relpath(report, folder)) if report.exists() else ""
        lines.append([*cells.values(), link])
    drawn = " or ".join(names)
    note = f"Each line is one job's {drawn}, smoothed over an eighth of its steps. "
    evaluated = [row for row in rows if row["split"]]
    note += f"pass@1 is that of {problem_kinds(evaluated)} problems, with its 95 % interval." if evaluated else ""
    chart = comparison_chart(curves, f"{drawn} by step")
    section = {"chart": chart, "columns": [*_cells(rows[0], swept, names), ""], "rows": lines}
    return render("comparison.html.j2", title=folder.name, note=note, sections=[section])
