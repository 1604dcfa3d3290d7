"""Grade stored completions again and compare with what was stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from tqdm import tqdm

from recipes.cli.errors import UserError
from recipes.run.build import build_reward, build_sandbox, build_task
from rewards.channel import Completion
from rewards.compose import Grade

AT_ONCE = 64
TOLERANCE = 1e-6
"""Token rewards are stored with six decimals."""


def stored_completion(row: dict[str, Any]) -> Completion:
    """The completion that a row of completions.jsonl was written from. Its token ids are not kept, only how many."""
    try:
        return Completion(
            text=row["completion"],
            token_ids=range(len(row["offsets"])),
            offsets=[(start, end) for start, end in row["offsets"]],
            code_span=None if row["code_span"] is None else (row["code_span"][0], row["code_span"][1]),
            finished=row["finished"],
            closed=row["closed"],
            given=row.get("given", 0),
        )
    except KeyError as error:
        raise UserError(
            f"completions.jsonl has no {error}: written by an older version, it cannot be replayed"
        ) from None


def replay(cfg: DictConfig, rows: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """The rows whose reward now differs from the stored one, each with how; rows that were not graded are left out.

    Raises UserError where the run's task cannot be built or no longer has a row's problem.
    """
    task, sandbox = build_task(cfg, "train", "test"), build_sandbox(cfg)
    reward = build_reward(cfg, sandbox)
    problems = {p.id: p for split in ("train", "test") for p in task.problems(split)}
    rows = [row for row in rows if row["reward"] is not None]
    if missing := {row["task_id"] for row in rows} - set(problems):
        raise UserError(f"{cfg.task.name} has no problem {min(missing)}: did its data change?")
    differing = []
    with asyncio.Runner() as runner, tqdm(total=len(rows), desc="replay", unit="row", leave=False) as bar:
        for first in range(0, len(rows), AT_ONCE):
            batch = rows[first : first + AT_ONCE]
            batch_problems = [problems[row["task_id"]] for row in batch]
            grades = runner.run(reward.grade(batch_problems, [stored_completion(row) for row in batch]))
            differing += [(row, d) for row, g in zip(batch, grades, strict=True) if (d := difference(row, g))]
            bar.update(len(batch))
        runner.run(sandbox.close())
    return differing


def difference(row: dict[str, Any], grade: Grade | None) -> str:
    """How a grade differs from the stored row, in words; "" where they agree."""
    if grade is None:
        return "could not be graded"
    if set(row["scores"]) != set(grade.results):
        return f"channels {sorted(row['scores'])}, now {sorted(grade.results)}"
    if abs(row["reward"] - grade.total) > TOLERANCE:
        changed = {n: r.score for n, r in grade.results.items() if abs(row["scores"][n] - r.score) > TOLERANCE}
        return f"reward {row['reward']:.6g}, now {grade.total:.6g} {changed or '(weights)'}"
    for name, rewards in grade.rewards.items():
        stored = row["token_rewards"][name]
        if len(stored) != len(rewards) or any(abs(a - b) > TOLERANCE for a, b in zip(stored, rewards, strict=True)):
            return f"{name} lies on other tokens"
    return ""


def run_folder(path: str) -> Path:
    """A run directory. Raises UserError where there is none."""
    folder = Path(path)
    if not (folder / "config.yaml").exists():
        raise UserError(f"{folder} is no run directory (no config.yaml in it): give one of runs/<recipe>/<task>/<name>")
    return folder
