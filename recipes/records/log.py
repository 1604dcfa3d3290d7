"""What a run records while it trains: metrics.jsonl, completions.jsonl, evals.jsonl and eval_samples.jsonl."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from recipes.cli import memory_use
from recipes.cli.console import log
from recipes.cli.stopping import current_phase
from recipes.records.jsonl import Record, read_jsonl, write_jsonl

RENAMED = {
    "rewards/accuracies": "preferred",
    "rewards/margins": "margin",
    "step_time": "seconds/update_and_rollout",
}
"""TRL's names of metrics, and those of metrics.jsonl."""
DROPPED = ("rewards/", "clip_ratio/", "num_tokens", "epoch")
"""Beginnings of the names of TRL's metrics that are not recorded."""
EXAMPLE_METRICS = ("loss", "mean_token_accuracy", "preferred", "margin")
"""What a step shows on the terminal where a run learns from examples (SFT, DPO)."""
EVALUATION = ("when", "step", "task", "temperature")
"""Keys of a row of evals.jsonl or eval_samples.jsonl that tell which evaluation it is of."""
BEFORE_UPDATE = ("rollout", "rollout_again", "continuations", "grade")
"""Parts of a step that are not its update, as metrics of seconds."""
CLOCK = ("seconds/", "tokens_per_second", "memory/")
"""Beginnings of the names of metrics that differ between two runs of the same seed."""


class RunLog(TrainerCallback):
    """Appends the run's records to files of its directory, and shows a line a step on the terminal.

    Args:
        folder: the run directory.
        per_step: how many sampled completions of a step are kept.
    """

    def __init__(self, folder: Path, per_step: int):
        self.folder, self.per_step = folder, per_step
        self._started = self._last_row = time.perf_counter()
        self._first_step = 0

    def mend(self) -> None:
        """Make the records of evaluations whole before a resumed run adds to them: a line that a kill has cut, and
        answers whose evaluation has no summary, since it is made again, are removed."""
        evals = read_jsonl(self.folder / "evals.jsonl")
        answers = read_jsonl(self.folder / "eval_samples.jsonl")
        complete = {tuple(map(row.get, EVALUATION)) for row in evals}
        kept = [row for row in answers if tuple(map(row.get, EVALUATION)) in complete]
        for name, rows in (("evals.jsonl", evals), ("eval_samples.jsonl", kept)):
            if (self.folder / name).exists():  # also one whose only line was cut
                write_jsonl(self.folder / name, rows)

    def rewind(self, step: int) -> None:
        """Remove the rows of later steps than `step`, from which the run is resumed. Evaluations too: their weights are
        gone, and where max_steps was raised, the steps that are made again have another learning rate."""
        for name in ("metrics.jsonl", "completions.jsonl"):
            rows = [row for row in read_jsonl(self.folder / name) if row["step"] <= step]
            write_jsonl(self.folder / name, rows)
        for name in ("evals.jsonl", "eval_samples.jsonl"):
            rows = read_jsonl(self.folder / name)
            if len(kept := [row for row in rows if (row.get("step") or 0) <= step]) < len(rows):
                write_jsonl(self.folder / name, kept)

    def record_completions(self, rows: Iterable[Record]) -> None:
        """Record completions sampled for training."""
        self._append("completions.jsonl", rows)

    def record_evaluation(self, row: Record) -> None:
        """Record an evaluation's summary."""
        self._append("evals.jsonl", [row])

    def record_samples(self, rows: Iterable[Record]) -> None:
        """Record the answers of an evaluation, with their verdicts."""
        self._append("eval_samples.jsonl", rows)

    def leave_out(self, seconds: float) -> None:
        """Do not count these seconds, of an evaluation between two steps, as a step's."""
        self._last_row += seconds
        self._started += seconds

    def on_train_begin(self, args, state, control, **kwargs):
        self._started = self._last_row = time.perf_counter()
        self._first_step = state.global_step

    def on_log(self, args, state, control, logs=None, **kwargs):
        if not state.is_world_process_zero or not logs or "train_runtime" in logs:
            return
        time_s = time.perf_counter()
        row = {"step": state.global_step, **run_metrics(logs)}
        row["seconds/total"] = time_s - self._last_row
        sampling = row.get("seconds/wait", sum(row.get(f"seconds/{part}", 0.0) for part in BEFORE_UPDATE))
        sampling += row.get("seconds/mixed", 0.0)  # graded after the wait
        row["seconds/update"] = max(0.0, row.pop("seconds/update_and_rollout", row["seconds/total"]) - sampling)
        self._last_row = time_s
        memory_use.settle(current_phase())
        self._append("metrics.jsonl", [row | memory_use.take()])
        steps = max(1, state.global_step - self._first_step)
        remaining_s = (time_s - self._started) / steps * (state.max_steps - state.global_step)
        log.info(_progress(row, state.max_steps, remaining_s))

    def _append(self, name: str, rows: Iterable[Record]) -> None:
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def run_metrics(logs: dict[str, Any]) -> dict[str, float]:
    """TRL's metrics under the names of metrics.jsonl, without those that are not finite or not recorded."""
    metrics = {}
    for key, value in logs.items():
        if key in RENAMED:
            key = RENAMED[key]
        elif key.startswith(DROPPED):
            continue
        if isinstance(value, int | float) and math.isfinite(value):
            metrics[key] = value
    return metrics


def _progress(row: dict[str, float], max_steps: int, remaining_s: float) -> str:
    """The line of a step."""
    step = f"step {row['step']:>4}/{max_steps}"
    minutes, seconds = divmod(int(remaining_s), 60)
    clock = f"{row['seconds/total']:5.1f} s  left {minutes}:{seconds:02d}"
    if "reward" not in row:  # the run learns from examples: nothing is sampled or graded
        metrics = [f"{name.split('/')[-1]} {row[name]:.3f}" for name in EXAMPLE_METRICS if name in row]
        return "  ".join([step, *metrics, clock])
    parts = [step, f"reward {row['reward']:6.3f}"]
    if "pass_rate" in row:  # channels that measure a similarity alone pass nothing
        parts.append(f"pass {row['pass_rate']:5.1%}")
    if "groups_total" in row:
        parts.append(f"degenerate {row['groups_skipped']:.0f}/{row['groups_total']:.0f}")
    if "objective/kl" in row:
        parts.append(f"kl {row['objective/kl']:.3f}")
    if "value/explained_variance" in row:
        parts.append(f"explained {row['value/explained_variance']:.2f}")
    if row.get("ungraded"):
        parts.append(f"ungraded {row['ungraded']:.0f}")
    parts += [f"{row.get('completion_tokens', 0):4.0f} tokens", f"{row.get('tokens_per_second', 0):5.0f} tokens/s"]
    return "  ".join([*parts, clock])
