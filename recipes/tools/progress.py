"""Where trainings stand: which are finished, what resumes the others, and which evaluated step was best."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from rich.table import Table
from rich.text import Text

from recipes.cli.console import log, print_table, started_as
from recipes.cli.errors import UserError
from recipes.cli.overrides import compose, is_override
from recipes.cli.schema import register
from recipes.records.checkpoint_folders import PREFIX, final_step, latest_checkpoint, step_of
from recipes.records.directory import SETTLED, differing
from recipes.records.jsonl import Record, finite, read_config, read_jsonl, setting

TRAINS = ("grpo", "ppo", "reinforce", "sft", "dpo")
"""The recipes that leave weights."""


@dataclass(frozen=True)
class Standing:
    """A run: at which of its `planned` steps its newest checkpoint is, what resumes it, and why that would be refused
    ("" where it would not). idle_s: seconds since it last wrote."""

    folder: Path
    step: int
    planned: int
    finished: bool
    command: str
    refusal: str
    idle_s: float


def trainings(root: Path, match: str = "") -> Iterator[tuple[Path, Record]]:
    """Directory and configuration of each training below `root`. Raises UserError where there is none."""
    results = False
    for file in sorted(root.rglob("config.yaml")):
        config = readable_config(file) if match in file.parent.name else {}
        if setting(config, "recipe.name") in TRAINS:
            results = True
            yield file.parent, config
    if not results:
        raise UserError(f"no training below {root}" + (f" has {match} in its name" if match else "; set runs="))


def readable_config(file: Path) -> Record:
    """A run's configuration; empty, with a warning, where the file is broken: other runs are to be shown."""
    try:
        return read_config(file)[0]
    except (OSError, ValueError) as error:
        log.warning("left out: %s", " ".join(str(error).split()))
        return {}


def standing(folder: Path, config: Record) -> Standing:
    """Where one training stands."""
    step, planned = step_of(latest_checkpoint(folder)), int(setting(config, "recipe.trl.max_steps") or 0)
    end = finished_step(folder, config)
    step, finished = max(step, end or 0), end is not None and end >= planned
    words = shlex.split(str(config.get("command") or ""))
    script = next((i for i, word in enumerate(words) if word.endswith(".py")), None)
    command, refusal = shlex.join(words), ""
    if not finished and script is None:
        refusal = "its command was not recorded"
    elif not finished and script is not None:
        more, refusal = _resumed(words[script + 1 :], config, folder)
        command += more
    written = max((file.stat().st_mtime for file in folder.glob("*.*") if file.is_file()), default=0.0)
    return Standing(folder, step, planned, finished, command, refusal, time.time() - written)


def finished_step(folder: Path, config: Record) -> int | None:
    """The step that a run was trained to, evaluated at and reported of, as final/ and evals.jsonl have it, whatever
    checkpoints are left; None where it has not come to such an end."""
    end = final_step(folder)
    if end is None or not (folder / "report.html").exists():
        return None
    evaluated = [int(row["step"]) for row in read_jsonl(folder / "evals.jsonl") if row.get("when") == "after"]
    if setting(config, "run.keep") == "best":  # final/ may have the weights of an earlier step
        return max(evaluated, default=end)
    return end if not evaluated or max(evaluated) >= end else None


def trained_to(folder: Path, config: Record) -> int:
    """The step behind which a training in this directory goes on: that of the newest checkpoint or, where none is left,
    of the run's end; 0 where neither is there."""
    return step_of(latest_checkpoint(folder)) or finished_step(folder, config) or 0


def _resumed(words: Sequence[str], config: Record, folder: Path) -> tuple[str, str]:
    """What a run's command needs at its end to resume it, and why that would be refused, "" where it would not. A run
    that was moved needs its folder."""
    register()
    try:
        now = compose([f"recipe={setting(config, 'recipe.name')}", *filter(is_override, words)])
    except UserError as error:
        return "", f"its settings no longer compose: {error}"
    changes = {key: pair for key, pair in differing(now, OmegaConf.create(config)).items() if key not in SETTLED}
    if changes:
        key, (old, new) = next(iter(changes.items()))
        return "", f"conf/ has changed since: {key} was {old}, is {new}"
    moved = Path(now.run.dir).expanduser().resolve() != folder.resolve()
    place = f" {shlex.quote(f'run.dir={folder}')}" if moved else ""
    return ("" if now.run.if_exists == "resume" else " run.if_exists=resume") + place, ""


@dataclass(frozen=True)
class Best:
    """The evaluated step of a run with the highest pass@1 (reward where a task has none) on its own task.

    share: the measure, with low and high where it has an interval. weights: where they are, "" if they were not kept.
    last: the same measure at the latest evaluation.
    """

    folder: Path
    step: int
    measure: str
    share: Record
    last: float
    evaluated: int
    split: str
    weights: str


def best(folder: Path, config: Record, trained: bool = False) -> Best | None:
    """The best step of those that were evaluated like the latest one, the earliest of equals; None where fewer than two
    were.

    trained: leave out the model before training; one evaluated step is then enough, and is the best so far.
    """
    task = setting(config, "task.name")
    rows = [row for row in read_jsonl(folder / "evals.jsonl") if row.get("task") == task]
    if not rows:
        return None
    end = max(row["step"] for row in rows)  # later evaluations may have other problems or samples than earlier ones
    latest = [row for row in reversed(rows) if row["step"] == end]
    most = max(latest, key=lambda row: (row.get("samples") or 0, row.get("temperature") or 0))
    rows = [row for row in rows if all(row.get(key) == most.get(key) for key in ("samples", "temperature", "split"))]
    judged = [row for row in rows if "1" in (row.get("pass@k") or {})]
    measured = judged or [row for row in rows if finite(row.get("reward"))]
    if len({row["step"] for row in measured if row["step"] or not trained}) < (1 if trained else 2):
        return None

    def share(row: Record) -> Record:
        return row["pass@k"]["1"] if judged else {"value": row["reward"]}

    by_step = {int(row["step"]): share(row) for row in measured}
    steps = [number for number in by_step if number] if trained else list(by_step)
    step = max(steps, key=lambda number: (by_step[number]["value"], -number))
    last = by_step[max(by_step)]["value"]
    how = "greedy" if most.get("temperature") == 0 else f"{most.get('samples')} at {most.get('temperature'):g}"
    name = f"pass@1, {how}" if judged else f"reward, {how}"
    before = setting(config, "adapter") if not setting(config, "evaluation.before_from") else None
    kept = weights_at(folder, step, max(by_step)) if step else f"adapter={before}" if before else "the base model"
    return Best(folder, step, name, by_step[step], last, len(by_step), str(most.get("split")), kept)


def _readable_best(folder: Path, config: Record) -> Best | None:
    """`best`; None, with a warning, where the run's evaluations cannot be read."""
    try:
        return best(folder, config)
    except ValueError as error:
        log.warning("left out: %s", " ".join(str(error).split()))
        return None


def weights_at(folder: Path, step: int, end: int) -> str:
    """Where a run's weights of a step are: its checkpoint, final/ for the last; else ""."""
    checkpoint: Any = folder / "checkpoints" / f"{PREFIX}{step}"
    if checkpoint.is_dir():
        return f"checkpoints/{PREFIX}{step}"
    return "final" if step == end and (folder / "final").is_dir() else ""


def show_best(root: Path, match: str) -> int:
    """Of each training below `root`: its best evaluated step, and where those weights are."""
    drawn = Table("run", "best step", "measure", "best", "at the end", "weights", title="the best evaluated step")
    results = [one for folder, config in trainings(root, match) if (one := _readable_best(folder, config))]
    if not results:
        raise UserError(f"no training below {root} was evaluated at two steps: set evaluation.every=10 for one")
    for one in results:
        ends = f" [{one.share['low']:.3f}, {one.share['high']:.3f}]" if "low" in one.share else ""
        place = one.weights or "not kept (run.keep_every)"
        name, step = str(one.folder.relative_to(root)), f"{one.step}, of {one.evaluated} evaluated"
        values = (f"{one.share['value']:.3f}{ends}", f"{one.last:.3f}")
        drawn.add_row(*map(Text, (name, step, one.measure, *values, place)))
    print_table(drawn)
    for one in results:
        if one.weights.startswith("checkpoints"):
            print(f"{started_as('export')} {shlex.quote(f'run={one.folder}')} step={one.step} to=FOLDER")
    if any(one.split == "test" for one in results):
        print("Chosen by the test split, the best number is too high: evaluate that checkpoint on other problems.")
    return 0


def show_unfinished(root: Path, match: str) -> int:
    """The trainings below `root` that are not finished: where they stand, and what to type to go on."""
    all_runs = [standing(folder, config) for folder, config in trainings(root, match)]
    unfinished = [one for one in all_runs if not one.finished]
    print(f"{len(all_runs) - len(unfinished)} of {len(all_runs)} trainings below {root} are finished.")
    for one in unfinished:
        idle = f"{one.idle_s / 60:.0f} minutes ago" if one.idle_s < 7200 else f"{one.idle_s / 3600:.0f} hours ago"
        print(f"\n{one.folder}: at step {one.step} of {one.planned}, last written {idle}")
        again = f"    to start again: {one.command} run.if_exists=replace" if one.command else "    start it anew"
        print(f"    cannot be resumed: {one.refusal}\n{again}" if one.refusal else f"    {one.command}")
    return 0
