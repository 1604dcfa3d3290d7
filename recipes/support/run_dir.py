"""The run directory: made, resumed, refused or replaced; and its configuration, kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from recipes.support.console import UserError
from recipes.support.launch import command_line, processes

CHANGEABLE = (
    "run",
    "recipe.max_steps",
    "recipe.save_steps",
    "recipe.report_to",
    "evaluation",
    "command",
    "sandbox",
    "force",
    "hardware.memory_gib",
    "model.architecture",
    "task.prompt_tokens",
)
"""What may differ when a run is resumed; anything else would make it another run."""
BEGUN = ("config.yaml", "run.log", "plan.json")
"""What a directory holds before there are results."""


def open_run_dir(cfg: DictConfig, is_main: bool = True) -> Path:
    """Create the directory or take up the existing one, as `run.if_exists` says, and write config.yaml.

    Raises:
        UserError: it exists and is refused, or it was made with other settings.
    """
    folder = Path(cfg.run.dir)
    kept = folder / "config.yaml"
    if cfg.run.if_exists not in ("resume", "refuse", "replace"):
        raise UserError(f"run.if_exists={cfg.run.if_exists}: choose resume, refuse or replace")
    if kept.exists():
        if cfg.run.if_exists == "refuse":
            raise UserError(f"{folder} exists; set run.name, or run.if_exists=resume or replace")
        if cfg.run.if_exists == "resume":
            _require_same(cfg, OmegaConf.load(kept), folder)
        elif is_main:
            shutil.rmtree(folder)
    if is_main:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder / "checkpoints" / ".saving", ignore_errors=True)
        resolved = OmegaConf.create(OmegaConf.to_container(cfg, resolve=True))
        said = {"command": command_line(cfg), "processes": processes()}
        write_text(kept, OmegaConf.to_yaml(OmegaConf.merge(resolved, said)))
    return folder


@contextmanager
def gone_if_refused(folder: Path, is_main: bool = True) -> Iterator[None]:
    """Where what is done in it fails, what was begun in a directory without results goes again, and the directory if
    nothing else is in it: the next try may have other settings."""
    try:
        yield
    except Exception:
        others = [path for path in folder.rglob("*") if path.is_file() and path.name not in BEGUN]
        if is_main and not any(path.stat().st_size for path in others):
            for name in BEGUN:
                (folder / name).unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()
        raise


def write_text(path: Path, text: str) -> None:
    """Write under a temporary name, then rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    os.replace(temporary, path)


def _require_same(cfg: DictConfig, kept: Any, folder: Path) -> None:
    now, then = _flat(OmegaConf.to_container(cfg, resolve=True)), _flat(OmegaConf.to_container(kept))
    now["processes"] = processes()  # each has its random states and its share of the data
    differ = [
        key
        for key in sorted(now.keys() | then.keys())
        if now.get(key) != then.get(key) and not any(key == c or key.startswith(c + ".") for c in CHANGEABLE)
    ]
    if differ:
        what = ", ".join(f"{k} was {then.get(k)}, is {now.get(k)}" for k in differ[:3])
        raise UserError(f"{folder} was made with other settings ({what}); set run.name, or run.if_exists=replace")


def _flat(node: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(node, dict) or not node:
        return {prefix: node}
    out: dict[str, Any] = {}
    for key, value in node.items():
        out |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
    return out
