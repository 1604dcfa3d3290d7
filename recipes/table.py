"""Runs side by side: those on one task, or the jobs of a sweep, as a table for the terminal, as CSV and as a page.

    python recipes/table.py task=humaneval                        every run below runs/
    python recipes/table.py task=humaneval match=humaneval_ runs=runs html=ladder.html
    python recipes/table.py sweep=runs/grpo/sweeps/NAME           the jobs of a sweep, as a sweep prints them at its end
    python recipes/table.py best runs=runs/grpo/basics            of each run: its best evaluated step, and where it is
    python recipes/table.py resume                                which runs are not finished, and what to type to go on

On a task, each run's last evaluation counts, greedy and sampled, and the steps up to it. Graded samples are all answers
that training graded, such as replaced groups and second turns; for DPO, those that its pairs came from. DPO's minutes
include the time to sample and grade them. The page draws pass@1 against the mean length of an answer. Intervals are
over problems. On roboeval a second table counts the outcomes of answers, in the columns of the dense-rewards paper's
Table 2. On mbppplus pass@1 counts MBPP+'s tests, and a column of its own MBPP's tests alone, on the same answers.

Of a sweep: sweep.csv and sweep.html go into its folder, from the records in FOLDER/jobs, which recipes/cli/sweep.py
writes. The page draws the jobs' rewards, or their losses, in one chart and links to their reports.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.table import Table
from rich.text import Text

from recipes.cli.arguments import keys_of, small_command
from recipes.cli.console import log, print_table
from recipes.cli.errors import UserError
from recipes.cli.places import require_folder
from recipes.records.csv_rows import write_csv
from recipes.records.directory import write_text
from recipes.records.jsonl import Record, problem_count, problem_kinds, read_config, read_jsonl, setting
from recipes.tools.progress import show_best, show_unfinished
from recipes.tools.report.charts import Interval, scatter_chart
from recipes.tools.report.curves import completions_per_prompt, graded_samples
from recipes.tools.report.templates import render
from recipes.tools.sweep_jobs import write_sweep

SHARE = {"pass@1": "value", "low": "low", "high": "high"}
OUTCOMES = {
    "Python err.": ("PythonError", "no program"),
    "no program": ("no program",),
    "Simulation err.": ("RobotExecutionError",),
    "Completion err.": ("CompletionError",),
    "Success": ("Success",),
}
"""Columns of the dense-rewards paper's Table 2, with the verdicts that each counts. An answer without a program is a
Python error there; how many there are stands in a column of its own."""
WIDE = ("problems", "pass@1", "base pass@1")
"""Columns that are broken into lines on a narrow terminal, so that the names of runs have room."""
OUTCOME_COLUMNS = ("run", "decoding", "answers", *OUTCOMES)


@dataclass
class TableConfig:
    what: str = "compare"
    """What the first word says: compare, best or resume."""
    task: str | None = None
    """The task to compare runs on; not needed for a sweep."""
    sweep: str | None = None
    """The folder of a sweep: its jobs side by side, written to sweep.csv and sweep.html there."""
    runs: str = "runs"
    """The folder below which run directories lie."""
    match: str = ""
    """Only runs whose directory's name contains it."""
    html: str | None = None
    csv: str | None = None
    """Write the rows there, one line each."""


def show(cfg: TableConfig) -> int:
    """Print the table and write the files that `cfg` names. Returns 1 where a job of the sweep failed, else 0.

    Raises:
        UserError: neither a task nor a sweep is named, there is no such run or sweep, or a key has no effect.
    """
    check_words(cfg)
    if cfg.what == "best":
        return show_best(Path(cfg.runs), cfg.match)
    if cfg.what == "resume":
        return show_unfinished(Path(cfg.runs), cfg.match)
    if cfg.sweep:
        if not (swept := Path(cfg.sweep) / "swept.json").exists():
            raise UserError(f"sweep={cfg.sweep}: no sweep has run there; name a folder such as runs/grpo/sweeps/NAME")
        return write_sweep(Path(cfg.sweep), json.loads(swept.read_text(encoding="utf-8")))
    if cfg.task is None:
        raise UserError("task or sweep is needed: task=humaneval compares runs, sweep=FOLDER the jobs of a sweep")
    for name in ("csv", "html"):
        if file := getattr(cfg, name):
            require_folder(f"{name}={file}", Path(file))
    rows = collect(Path(cfg.runs), cfg.task, cfg.match)
    print_table(table(rows, cfg.task))
    if has_outcomes(rows):
        print_table(outcome_table(rows))
    if cfg.csv:
        write_csv(Path(cfg.csv), rows)
    if cfg.html:
        write_text(Path(cfg.html), page(rows, cfg.task))
        print(cfg.html)
    return 0


def check_words(cfg: TableConfig) -> None:
    """Raise UserError for another first word, and for what `best` and `resume` would ignore."""
    if cfg.what not in ("compare", "best", "resume"):
        raise UserError(f"what={cfg.what}: it must be compare, best or resume")
    for name in ("task", "sweep", "csv", "html") if cfg.what != "compare" else ():
        if (value := getattr(cfg, name)) is not None:
            raise UserError(f"{name}={value}: `{cfg.what}` prints all trainings below runs= alone; leave it out")


def collect(root: Path, task: str, match: str = "") -> list[Record]:
    """A row for each run, split and decoding of its last evaluation on `task`, of what it has trained: what was before
    is no result of the run. Runs of one name are told apart by their paths. Raises UserError where there is none."""
    rows: list[Record] = []
    folders: list[Path] = []
    for config in sorted(root.rglob("config.yaml"), key=lambda file: file.stat().st_mtime):
        if match not in config.parent.name:
            continue
        try:
            evals = read_jsonl(config.parent / "evals.jsonl")
            own = [row for row in evals if row["task"] == task and "1" in row["pass@k"] and row.get("when") != "before"]
            last = {(row.get("split", "test"), row["temperature"]): row for row in own}
            rows += [_row(config.parent, last[key]) for key in sorted(last)]
            folders += [config.parent] * len(last)
        except ValueError as error:  # a broken file: the other runs are to be shown
            log.warning("left out: %s", " ".join(str(error).split()))
    if not rows:
        raise UserError(f"no evaluated run on {task} below {root}")
    names = Counter(folder.name for folder in set(folders))
    for row, folder in zip(rows, folders, strict=True):
        if names[folder.name] > 1:
            row["run"] = str(folder.relative_to(root))
    return rows


def _row(folder: Path, evaluation: Record) -> Record:
    """A run's evaluation as a line of the CSV file."""
    passed, temperature = evaluation["pass@k"]["1"], evaluation["temperature"]
    config, _ = read_config(folder / "config.yaml")
    until = evaluation["step"] if evaluation.get("step") is not None else math.inf
    steps = [row for row in read_jsonl(folder / "metrics.jsonl") if row.get("step", 0) <= until]
    pairs = pairs_summary(config)
    seconds = sum(row.get("seconds/total", 0.0) for row in steps) + pairs.get("seconds", 0.0)
    return {
        "run": folder.name,
        "recipe": setting(config, "recipe.name"),
        "decoding": "greedy" if temperature == 0 else f"{evaluation['samples']} at {temperature:g}",
        "pass@1": passed["value"],
        "low": passed["low"],
        "high": passed["high"],
        "split": evaluation.get("split", "test"),
        "problems": problem_count(evaluation),
        "mean_tokens": evaluation["mean_tokens"],
        "graded_samples": pairs.get("graded_samples", 0) + sampled(config, steps),
        "minutes": seconds / 60,
        **base_share(evaluation),
        **outcomes(evaluation.get("verdicts") or {}),
    }


def base_share(evaluation: Record) -> dict[str, float]:
    """pass@1 on the base tests of an evaluation that has them (recipes/evaluation/base_tests.py), with its interval."""
    passed = (evaluation.get("base_pass@k") or {}).get("1")
    return {} if passed is None else {f"base {name}": passed[key] for name, key in SHARE.items()}


def outcomes(verdicts: Mapping[str, int]) -> dict[str, int]:
    """How many answers have each of RoboEval's outcomes, by column of `OUTCOMES`; empty for verdicts of other tasks."""
    known = {verdict for names in OUTCOMES.values() for verdict in names}
    if not verdicts or not verdicts.keys() <= known:
        return {}
    return {column: sum(verdicts.get(name, 0) for name in names) for column, names in OUTCOMES.items()}


def has_outcomes(rows: Sequence[Record]) -> bool:
    """Whether a row counts RoboEval's outcomes."""
    return any("Success" in row for row in rows)


def outcome_table(rows: Sequence[Record]) -> Table:
    """The outcomes of the answers of each run, for the terminal."""
    drawn = Table(*OUTCOME_COLUMNS, title="outcomes of the answers, as the dense-rewards paper's Table 2")
    for column in drawn.columns[1:]:
        column.justify = "right"
    for cells in _outcome_rows(rows):
        drawn.add_row(*map(Text, cells))
    return drawn


def _outcome_rows(rows: Sequence[Record]) -> list[list[str]]:
    """For each run that has outcomes: its name, decoding, answers, and the count and share of each outcome."""
    names = without_common_parts([row["run"] for row in rows])
    lines = []
    for row, name in zip(rows, names, strict=True):
        if "Success" in row:
            answers = sum(row[column] for column in OUTCOMES if column != "no program")  # a part of the Python errors
            cells = [f"{row[column]} ({row[column] / answers:.1%})" for column in OUTCOMES]
            lines.append([name, row["decoding"], str(answers), *cells])
    return lines


def pairs_summary(config: Record) -> Record:
    """What recipes/pairs.py wrote about the pairs that a run learnt from; empty where there is no such file."""
    if setting(config, "recipe.pairs") is None:
        return {}
    pairs = Path(setting(config, "recipe.pairs"))
    summary = (pairs.parent if pairs.is_file() else pairs) / "summary.json"
    return json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else {}


def sampled(config: Record, steps: Sequence[Record]) -> int:
    """How many answers a run graded in these rows of metrics.jsonl. Rows of older versions do not say it: then those
    that it learnt from, of a rollout once, however many updates are made of it (recipe.trl.num_iterations)."""
    if (graded := graded_samples(steps)) is not None:
        return graded
    rollouts = -(-len(steps) // int(setting(config, "recipe.trl.num_iterations") or 1))
    return rollouts * (setting(config, "recipe.prompts_per_step") or 0) * completions_per_prompt(config)


def table(rows: list[Record], task: str) -> Table:
    """The rows for the terminal, without the parts of the names that all runs share."""
    drawn = Table(title=f"pass@1 on {task}, {_which(rows)}, 95 % intervals")
    drawn.add_column("run", overflow="fold")
    texts = [_texts(row) for row in rows]
    columns = _columns(texts)
    for column in columns:
        drawn.add_column(column, justify="right", no_wrap=column not in WIDE)
    for row, name in zip(texts, without_common_parts([row["run"] for row in rows]), strict=True):
        drawn.add_row(*map(Text, (name, *(row[column] for column in columns))))
    return drawn


def _columns(texts: Sequence[Mapping[str, str]]) -> list[str]:
    """The columns of `_texts` that hold something in some row; the problems only where they differ, or where some were
    not graded."""
    held = [column for column in texts[0] if any(row[column] for row in texts)]
    problems = {row["problems"] for row in texts}
    return [c for c in held if c != "problems" or len(problems) > 1 or " of " in next(iter(problems))]


def _which(rows: Sequence[Record]) -> str:
    """Which problems the rows are of, for a title."""
    splits = {row["split"] for row in rows}
    return f"{splits.pop()} problems" if len(splits) == 1 else "problems as the column says"


def _texts(row: Record) -> dict[str, str]:
    """What both tables show of a row, by column; pass@1 with its interval."""
    scores = {
        name: f"{row[name]:.3f} [{row[low]:.3f}, {row[high]:.3f}]" if name in row else ""
        for name, low, high in (("pass@1", "low", "high"), ("base pass@1", "base low", "base high"))
    }
    spent = {"graded": str(row["graded_samples"]), "minutes": f"{row['minutes']:.1f}"}
    problems = f"{row['problems']} {row['split']}"
    return {"problems": problems, "decoding": row["decoding"], **scores, "tokens": f"{row['mean_tokens']:.0f}", **spent}


def without_common_parts(names: list[str]) -> list[str]:
    """Names of runs without the parts between hyphens that all of them have, unless nothing is left."""
    common = set.intersection(*(set(name.split("-")) for name in names))
    return ["-".join(part for part in name.split("-") if part not in common) or name for name in names]


def page(rows: list[Record], task: str) -> str:
    """A self-contained page: pass@1 against mean length, greedy and sampled in two colours, and the table."""
    points: dict[bool, list[tuple[float, Interval, str]]] = {True: [], False: []}
    for place, row in enumerate(rows, 1):
        share = Interval(row["pass@1"], row["low"], row["high"])
        points[row["decoding"] == "greedy"].append((row["mean_tokens"], share, str(place)))
    texts = [_texts(row) for row in rows]
    columns = _columns(texts)
    cells = [
        [n, row["run"], *(text[c] for c in columns)] for n, (row, text) in enumerate(zip(rows, texts, strict=True), 1)
    ]
    chart = scatter_chart([points[False], points[True]], "mean tokens", "pass@1")
    note = f"{problem_kinds(rows).capitalize()} problems, 95 % intervals over problems. Blue: sampled. Orange: greedy."
    sections = [{"chart": chart, "columns": ["", "run", *columns], "rows": cells}]
    if has_outcomes(rows):
        title = "Outcomes of the answers, as the dense-rewards paper's Table 2"
        sections.append({"title": title, "columns": OUTCOME_COLUMNS, "rows": _outcome_rows(rows)})
    return render("comparison.html.j2", title=f"{task}: pass@1 and length", note=note, sections=sections)


def read(arguments: Sequence[str]) -> TableConfig:
    """Arguments KEY=VALUE, with `best` or `resume` before them, as a TableConfig."""
    what = [word for word in arguments if word in ("best", "resume")]
    return keys_of(TableConfig)([*(a for a in arguments if a not in what), *(f"what={word}" for word in what)])


main = small_command(read, __doc__, show)

if __name__ == "__main__":
    sys.exit(main())
