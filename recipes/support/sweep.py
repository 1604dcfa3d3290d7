"""A sweep: each job a command of its own with its own processes and directory; at the end one table and one page.

The folder of the sweep holds jobs/ (a record each), sweep.csv, sweep.html and Hydra's multirun.yaml. A job that fails
stops no other.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import re
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from jinja2 import Environment, FileSystemLoader
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from recipes.support import charts
from recipes.support.charts import Interval, Record, finite
from recipes.support.console import UserError, log
from recipes.support.launch import Interrupted, run_group
from recipes.support.overrides import CONF, compose, folder_name, is_override, key_of, name_run, one_line
from recipes.support.records import by_step, records

LAST = 10
"""Steps at the end of a run that its reward is the mean of."""


def sweep(script: str, choice: str, given: Sequence[str], hydra_main: Callable[[Callable], None]) -> int:
    """Start each job of `script`, write what compares them; 0 where every job ended well, 1 where one did not.

    choice: the override that names the recipe. given: the other arguments. Raises UserError where a job does not
    compose or two share a directory.
    """
    overrides = [choice, *filter(is_override, given)]
    swept = checked(overrides)
    named = [o.split("=", 1)[1].strip("'\"") for o in overrides if key_of(o) == "hydra.sweep.dir"]
    folder = Path(*named or ["runs", choice.removeprefix("recipe="), "sweeps", folder_name(overrides)])
    flags = [a for a in given if not is_override(a)]
    sys.argv[1:] = ["-m", *flags, *overrides, f"hydra.sweep.dir='{folder}'", f"run.swept=[{','.join(swept)}]"]
    # what a launcher of Hydra's starts on another machine finds this repository by
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(CONF).parent), os.environ.get("PYTHONPATH")]))
    shutil.rmtree(folder / "jobs", ignore_errors=True)
    (folder / "jobs").mkdir(parents=True)
    status = 0
    try:
        hydra_main(job_of(script, flags))
    except (Interrupted, KeyboardInterrupt) as error:
        status = error.status if isinstance(error, Interrupted) else 130
        print("stopped; the same command goes on with what is left", file=sys.stderr)
    return finish(folder, swept) or status


def checked(overrides: Sequence[str]) -> list[str]:
    """The keys that a sweep varies. Raises UserError where a job does not compose or two share a directory."""
    try:
        with hydra.initialize_config_dir(CONF, version_base="1.3"):
            jobs, swept = jobs_of(overrides)
    except HydraException as error:
        raise UserError(one_line(error, overrides)) from error
    folders: dict[str, str] = {}
    for job in jobs:
        cfg = compose([*job, f"run.swept=[{','.join(swept)}]"])
        said = " ".join(o for o in job if key_of(o) in swept)
        if (other := folders.setdefault(cfg.run.dir, said)) != said:
            raise UserError(f"two jobs share {cfg.run.dir}: {other}, and {said}; leave run.name and run.dir to them")
    return swept


def jobs_of(overrides: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """The overrides of each job, and the keys that differ between jobs. Hydra must be initialised.

    No jobs where another sweeper than Hydra's own chooses them. Raises HydraException for what it cannot parse.
    """
    loader = GlobalHydra.instance().config_loader()
    parsed = OverridesParser.create(loader).parse_overrides(list(overrides))
    own = [o for o in parsed if not o.get_key_element().startswith("hydra")]
    swept = [o.get_key_element().lstrip("+") for o in own if o.is_sweep_override()]
    if any(o.get_key_element() == "hydra/sweeper" for o in parsed):
        return [], swept
    choices = [
        [f"{o.get_key_element()}={value}" for value in o.sweep_string_iterator()]
        if o.is_sweep_override()
        else [str(o.input_line)]
        for o in own
    ]
    return [list(job) for job in itertools.product(*choices)], swept


def job_of(script: str, flags: Sequence[str]) -> Callable[[DictConfig], None]:
    """What Hydra's launcher calls for each job, here or on another machine: the job as a command of its own."""

    def job(cfg: DictConfig) -> None:
        # Hydra has written true as True, which would make another name than that of the command by itself
        overrides = [re.sub("=(True|False)$", lambda m: m[0].lower(), o) for o in HydraConfig.get().overrides.task]
        name_run(cfg, overrides)
        arguments = [o for o in overrides if not o.startswith("recipe=")]
        run_job(cfg, [sys.executable, script, *flags, *arguments], HydraConfig.get())

    return job


def run_job(cfg: DictConfig, command: Sequence[str], settings: DictConfig) -> None:
    """Run one job to its end and record how it ended. Raises Interrupted where a signal ended it."""
    overrides = [o for o in settings.overrides.task if not o.startswith(("recipe=", "run.swept="))]
    number, started = int(settings.job.num), time.monotonic()
    log.info("\njob %d: %s", number, " ".join(overrides))
    record: Record = {"job": number, "overrides": overrides, "run": str(cfg.run.dir), "status": None, "stopped": False}
    try:
        record["status"] = run_group(command)
    except Interrupted as error:
        record |= {"status": error.status, "stopped": True}
        raise
    finally:
        record["seconds"] = time.monotonic() - started
        (Path(settings.sweep.dir) / "jobs" / f"{number}.json").write_text(json.dumps(record))


def finish(folder: Path, swept: Sequence[str]) -> int:
    """Write sweep.csv and sweep.html, print the table and the jobs that failed; 1 where one did, else 0."""
    found = sorted((json.loads(f.read_text()) for f in (folder / "jobs").glob("*.json")), key=lambda r: r["job"])
    if not found:
        return 0
    rows = [_row(record, swept) for record in found]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    for name, content in (("sweep.csv", text.getvalue()), ("sweep.html", page(folder, rows, swept))):
        temporary = folder / f".{name}.{os.getpid()}"
        temporary.write_text(content)
        os.replace(temporary, folder / name)
    Console().print(table(rows, swept))
    log.info("%s\n%s", folder / "sweep.csv", folder / "sweep.html")
    failed = [row for row in rows if row["status"] and not row["stopped"]]
    for row in failed:
        said = " ".join(f"{key}={row[key]}" for key in swept)
        print(f"error: job {row['job']} ({said}) ended with status {row['status']}: {row['run']}", file=sys.stderr)
    return int(bool(failed))


def _row(record: Record, swept: Sequence[str]) -> Record:
    """A job as a line of sweep.csv. What is swept may be called reward."""
    run = Path(record["run"])
    said = dict(o.lstrip("+~").split("=", 1) for o in record["overrides"] if "=" in o)
    rewards = [value for _, value in _curve(run)]
    before, after = (_score(run, when) for when in ("before", "after"))
    return {
        "job": record["job"],
        **{key: said.get(key, "") for key in swept},
        "status": record["status"],
        "stopped": record["stopped"],
        "steps": len(rewards),
        "mean reward": statistics.mean(rewards[-LAST:]) if rewards else None,
        "pass@1 before": before and before.value,
        "pass@1": after and after.value,
        "low": after and after.low,
        "high": after and after.high,
        "minutes": record["seconds"] / 60,
        "run": record["run"],
    }


def _curve(run: Path) -> list[tuple[int, float]]:
    """(step, reward) of a run; its loss where it learns from examples."""
    steps = by_step(row for _, row in records(run / "metrics.jsonl"))
    key = "reward" if any("reward" in row for row in steps.values()) else "loss"
    return [(step, row[key]) for step, row in steps.items() if finite(row.get(key))]


def _score(run: Path, when: str) -> Interval | None:
    """pass@1 of a run's first evaluation then: its own task, sampled where it samples. An eval counts as after."""
    for _, row in records(run / "evals.jsonl"):
        if row["when"] in (when, "eval" if when == "after" else when) and "1" in row["pass@k"]:
            return Interval(**row["pass@k"]["1"])
    return None


def table(rows: list[Record], swept: Sequence[str]) -> Table:
    """The rows for the terminal."""
    drawn = Table(title="jobs of the sweep")
    for name in ("job", *swept, "status", "steps", f"reward, last {LAST}", "pass@1 before", "pass@1", "minutes"):
        drawn.add_column(name, justify="right")
    for row in rows:
        numbers = (
            "" if row[key] is None else charts.number(row[key]) for key in ("mean reward", "pass@1 before", "pass@1")
        )
        ended = (outcome(row), str(row["steps"]))
        drawn.add_row(str(row["job"]), *(row[key] for key in swept), *ended, *numbers, f"{row['minutes']:.1f}")
    return drawn


def outcome(row: Record) -> str:
    """How a job ended, in words; a job that a signal stopped ends with 0 where all it had was saved."""
    if row["stopped"]:
        return "stopped"
    return f"failed ({row['status']})" if row["status"] else "done"


def page(folder: Path, rows: list[Record], swept: Sequence[str]) -> str:
    """A self-contained page: the jobs' curves in one chart, pass@1 before and after, each with its report."""
    curves = {f"job {row['job']}": _curve(Path(row["run"])) for row in rows}
    scores = [row[key] for row in rows for key in ("pass@1 before", "pass@1", "high") if row[key] is not None]
    top = min(1.0, max(scores, default=1.0)) or 1.0
    shown: list[dict[str, Any]] = []
    for row in rows:
        before = None if row["pass@1 before"] is None else Interval(row["pass@1 before"])
        after = None if row["pass@1"] is None else Interval(row["pass@1"], row["low"], row["high"])
        svg = charts.interval_chart(before, after, top, f"job {row['job']}: pass@1") if before or after else ""
        report = Path(row["run"]) / "report.html"
        link = os.path.relpath(report, folder) if report.exists() else None
        shown.append(row | {"swept": [row[key] for key in swept], "svg": svg, "report": link})
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": charts.number, "outcome": outcome}
    return environment.get_template("sweep.html.j2").render(
        name=folder.name, swept=swept, rows=shown, last=LAST, chart=charts.comparison_chart(curves, "reward by step")
    )
