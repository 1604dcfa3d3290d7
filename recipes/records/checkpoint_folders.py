"""Where a run's checkpoints lie and which steps they are of; nothing here loads a library that takes seconds."""

from __future__ import annotations

import json
import os
import shutil
import struct
import zipfile
from pathlib import Path

PREFIX = "checkpoint-"
JSON_FILES = ("adapter_config.json", "config.json", "tokenizer.json", "tokenizer_config.json", "trainer_state.json")
"""Files that are read when a checkpoint, a model or an adapter is loaded."""


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


def final_step(run_dir: Path) -> int | None:
    """The step whose weights are in final/, None where it does not say."""
    try:
        state = json.loads((run_dir / "final" / "trainer_state.json").read_text(encoding="utf-8"))
        return int(state["global_step"])
    except (OSError, ValueError, LookupError, TypeError):  # not there, or cut by a copy
        return None


def broken_file(folder: Path) -> Path | None:
    """A file of a checkpoint, or of a folder of weights, that a full disk or a copy has cut; None where all are whole.

    Of weights only beginnings and ends are read: PyTorch's files are zip archives, whose index stands at the end, and
    safetensors begins with its sizes.
    """
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return next((file for file in files if not _is_whole(file)), None)


def _is_whole(file: Path) -> bool:
    """Whether a file ends where it should; true of those that are of no known kind."""
    try:
        if file.name in JSON_FILES or file.name.endswith(".index.json"):
            json.loads(file.read_text(encoding="utf-8"))
        if file.suffix == ".safetensors":
            with file.open("rb") as weights:
                (size,) = struct.unpack("<Q", weights.read(8))
                header = json.loads(weights.read(size)) if size < file.stat().st_size else {}
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            return 8 + size + max(ends, default=0) == file.stat().st_size
    except (ValueError, LookupError, TypeError, AttributeError, struct.error):
        return False
    return file.suffix not in (".pt", ".pth") or zipfile.is_zipfile(file)


def remove_whole(folder: Path) -> None:
    """Remove a folder of weights, if it is there, under another name: a kill must leave no half of it."""
    hidden = folder.with_name(f".old-{folder.name}")
    shutil.rmtree(hidden, ignore_errors=True)
    if folder.exists():
        os.replace(folder, hidden)
        shutil.rmtree(hidden)
