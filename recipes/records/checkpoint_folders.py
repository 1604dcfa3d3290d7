"""Where a run's checkpoints lie and which steps they are of; nothing here loads a library that takes seconds."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

PREFIX = "checkpoint-"


def checkpoints(run_dir: Path) -> list[Path]:
    """Complete checkpoints of a run, oldest first."""
    folders = (run_dir / "checkpoints").glob(PREFIX + "*")
    return sorted((p for p in folders if p.name.removeprefix(PREFIX).isdigit()), key=step_of)


def step_of(checkpoint: Path | None) -> int:
    """The step a checkpoint was made at, 0 for none."""
    return int(checkpoint.name.removeprefix(PREFIX)) if checkpoint else 0


def latest_checkpoint(run_dir: Path) -> Path | None:
    """The newest complete checkpoint, None where there is none."""
    complete = checkpoints(run_dir)
    return complete[-1] if complete else None


def remove_whole(folder: Path) -> None:
    """Remove a folder of weights, if it is there, under another name: a kill must leave no half of it."""
    hidden = folder.with_name(f".old-{folder.name}")
    shutil.rmtree(hidden, ignore_errors=True)
    if folder.exists():
        os.replace(folder, hidden)
        shutil.rmtree(hidden)
