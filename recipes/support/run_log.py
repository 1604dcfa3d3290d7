"""What a run leaves behind while it trains: metrics.jsonl, completions.jsonl, evals.jsonl, a line a step."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from recipes.support import peak_memory
from recipes.support.console import log
from recipes.support.diseases_hacking import Watch, said, watching
from recipes.support.history import history
from recipes.support.records import by_step, read_config, read_jsonl
from recipes.support.run_dir import write_text
from recipes.support.stopping import current_phase

RENAMED = {
    "rewards/accuracies": "preferred",
    "rewards/margins": "margin",
    "completions/mean_length": "completion_tokens",
    "step_time": "seconds/update_and_rollout",
}
DROPPED = (
    "completions/",
    "rewards/",
    "clip_ratio/",
    "num_tokens",
    "epoch",
    "frac_reward_zero_std",
    "reward_std",
)
OFFLINE = ("loss", "mean_token_accuracy", "preferred", "margin")
CLOCK = ("seconds/", "tokens_per_second", "memory/")
"""Metrics that differ between two runs of the same seed."""


class RunLog(TrainerCallback):
    """Writes the run's records. Lines past the step a run is resumed at are cut, so a file reads as one run.

    Args:
        folder: the run directory.
        per_step: sampled completions kept a step.
    """

    def __init__(self, folder: Path, per_step: int):
        self.folder, self.per_step = folder, per_step
        self._started = self._last = time.perf_counter()
        self._first_step = 0
        self._watch: Watch | None = None

    def rewind(self, step: int) -> None:
        """Drop what was recorded after `step`."""
        for name in ("metrics.jsonl", "completions.jsonl"):
            rows = [row for row in read_jsonl(self.folder / name) if row["step"] <= step]
            write_text(self.folder / name, "".join(json.dumps(row) + "\n" for row in rows))

    def completions(self, rows: Iterable[dict[str, Any]]) -> None:
        self._append("completions.jsonl", rows)

    def evaluation(self, row: dict[str, Any]) -> None:
        self._append("evals.jsonl", [row])

    def samples(self, rows: Iterable[dict[str, Any]]) -> None:
        """What an evaluation's summary was made of: the held-out answers with their verdicts."""
        self._append("eval_samples.jsonl", rows)

    def on_train_begin(self, args, state, control, **kwargs):
        self._started = self._last = time.perf_counter()
        self._first_step = state.global_step
        if state.is_world_process_zero and (self.folder / "config.yaml").exists():
            config, rows = read_config(self.folder / "config.yaml")[0], read_jsonl(self.folder / "metrics.jsonl")
            self._watch = watching(history(config, by_step(rows), (), []))

    def on_log(self, args, state, control, logs=None, **kwargs):
        if not state.is_world_process_zero or not logs or "train_runtime" in logs:
            return
        now = time.perf_counter()
        row = {"step": state.global_step, **_tidy(logs)}
        row["seconds/total"] = now - self._last
        spent = row.get("seconds/wait", row.get("seconds/rollout", 0.0) + row.get("seconds/grade", 0.0))
        row["seconds/update"] = max(0.0, row.pop("seconds/update_and_rollout", row["seconds/total"]) - spent)
        self._last = now
        peak_memory.settle(current_phase())
        self._append("metrics.jsonl", [row | peak_memory.take()])
        done = state.global_step - self._first_step
        left = (now - self._started) / max(done, 1) * (state.max_steps - state.global_step)
        log.info(_progress(row, state.max_steps, left))
        if self._watch and self._watch.add(row):
            log.warning("warning: tests gamed: %s python recipes/doctor.py run=%s", said(self._watch), self.folder)

    def _append(self, name: str, rows: Iterable[dict[str, Any]]) -> None:
        with (self.folder / name).open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def _tidy(logs: dict[str, Any]) -> dict[str, float]:
    out = {}
    for key, value in logs.items():
        if key.startswith("rewards/") and key.endswith("/mean"):
            key = "scores/" + key.removeprefix("rewards/").removesuffix("/mean")
        elif key in RENAMED:
            key = RENAMED[key]
        elif key.startswith(DROPPED):
            continue
        if isinstance(value, int | float) and math.isfinite(value):
            out[key] = value
    return out


def _progress(row: dict[str, float], steps: int, left_s: float) -> str:
    minutes, seconds = divmod(int(left_s), 60)
    ungraded = f"  ungraded {row['ungraded']:.0f}" if row.get("ungraded") else ""
    passed = f"  pass {row['pass_rate']:5.1%}" if "pass_rate" in row else ""  # a similarity alone passes nothing
    if "reward" not in row:  # learnt from examples: nothing is sampled or graded
        parts = [f"{name.split('/')[-1]} {row[name]:.3f}" for name in OFFLINE if name in row]
        said = "  ".join(parts)
        return f"step {row['step']:>4}/{steps}  {said}  {row['seconds/total']:5.1f} s  left {minutes}:{seconds:02d}"
    return (
        f"step {row['step']:>4}/{steps}  reward {row.get('reward', math.nan):6.3f}"
        f"{passed}{_algorithm(row)}{ungraded}"
        f"  {row.get('completion_tokens', 0):4.0f} tokens  {row.get('tokens_per_second', 0):5.0f} tokens/s"
        f"  {row['seconds/total']:5.1f} s  left {minutes}:{seconds:02d}"
    )


def _algorithm(row: dict[str, float]) -> str:
    """What says whether the algorithm works: degenerate groups of GRPO; KL and the critic's grip of PPO."""
    parts = []
    if "groups_total" in row:
        parts.append(f"degenerate {row['groups_skipped']:.0f}/{row['groups_total']:.0f}")
    if "objective/kl" in row:
        parts.append(f"kl {row['objective/kl']:.3f}")
    if "value/explained_variance" in row:
        parts.append(f"explained {row['value/explained_variance']:.2f}")
    return "".join("  " + part for part in parts)
