"""The run directory: created, resumed, refused or replaced, with the configuration it was made with."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from recipes.cli.console import log_to
from recipes.cli.errors import UserError
from recipes.cli.lock import LOCK, hold, release
from recipes.cli.overrides import LENGTH_AND_LOGGING
from recipes.cli.processes import command_line, join_processes, processes
from recipes.cli.schema import CONF, as_dict

CHANGEABLE = (
    "run",
    *LENGTH_AND_LOGGING,
    "command",
    "commit",
    "sandbox",
    "force",
    "hardware.memory_gib",
    "model.architecture",
    "task.prompt_tokens",
)
"""Keys that may differ when a run is resumed; any other would make it another run."""
SETTLED = ("hardware.num_processes", "hardware.zero_stage", "processes")
"""Settings that a start decides by how many processes it has."""
ALIKE = {"hardware.optimizer": {"adamw_torch_fused": "adamw_torch"}}
"""Values that differ in rounding alone. An optimizer's state brings its own back, but not in PPO under ZeRO."""
EVALUATES = ("eval", "check")
"""Recipes whose results depend on `evaluation`; in the others it may differ when a run is resumed."""
SETUP_FILES = ("config.yaml", "run.log", "plan.json", "dropped.jsonl", LOCK)
"""Files that a directory holds before it has results."""
WRITTEN = (
    *("config.yaml", "run.log", "plan.json", "dropped.jsonl", "metrics.jsonl", "completions.jsonl", "evals.jsonl"),
    *("eval_samples.jsonl", "samples.jsonl", "evalplus-greedy.jsonl", "evalplus-sampled.jsonl", "fields.svg"),
    *("pairs.jsonl", "summary.json", "invalid.jsonl", "pass_rates.jsonl", "report.html", "checkpoints", "final"),
    ".answers",
)
"""What a run writes to its directory: all that run.if_exists=replace removes."""
TrainedTo = Callable[[Path, dict[str, Any]], int]
REPLACED = ".replaced"
"""Folder in a run directory that holds the run to be replaced, until the new one is set up."""
REMOVED = ".removed"
"""Its name while it is being removed."""


def open_run_dir(cfg: DictConfig, is_main: bool = True, trained_to: TrainedTo | None = None) -> Path:
    """Create the run directory, or resume or replace an existing one (`run.if_exists`), and write config.yaml.

    Args:
        trained_to: of a training, the step behind which it goes on, by its directory and configuration. Where no step
            is left to train, config.yaml keeps the command, commit and length that made the weights.

    Raises:
        UserError: the directory exists and run.if_exists refuses it, it was made with other settings, or another
            process works in it.
    """
    folder = Path(cfg.run.dir)
    if cfg.run.if_exists not in ("resume", "refuse", "replace"):
        raise UserError(f"run.if_exists={cfg.run.if_exists}: choose resume, refuse or replace")
    try:
        if not cfg.run.dir or (folder.exists() and not folder.is_dir()):
            raise UserError(f"run.dir={cfg.run.dir}: that is no folder; leave it out, or name one that may be made")
        _open(cfg, folder, is_main, trained_to)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise  # the recipe says so
        raise UserError(f"run.dir={folder} cannot be written ({error.strerror}); set run.dir") from error
    return folder


def _open(cfg: DictConfig, folder: Path, is_main: bool, trained_to: TrainedTo | None) -> None:
    """`open_run_dir`, whose arguments have been looked at. Raises OSError where the disk does not allow it."""
    config = folder / "config.yaml"
    if is_main and (folder / REPLACED).exists():  # a kill during set-up
        hold(folder)
        _put_back(folder)
    if config.exists():
        if cfg.run.if_exists == "refuse" and is_main:  # which may have written the file for the others
            raise UserError(f"run.if_exists=refuse: {folder} exists; set run.name, or run.if_exists=resume or replace")
        if cfg.run.if_exists == "resume":
            _require_same(cfg, _kept(config), folder)
        elif is_main:
            _require_replaceable(cfg, folder)
            hold(folder)
            _set_aside(folder)
    elif is_main and (foreign := [name for name in WRITTEN if name not in SETUP_FILES and (folder / name).exists()]):
        raise UserError(f"run.dir={folder} holds {foreign[0]} without a config.yaml, so it is not a run's: set run.dir")
    if is_main:
        folder.mkdir(parents=True, exist_ok=True)
        hold(folder)
        for left in (folder / "checkpoints" / ".saving", folder / REMOVED):  # by a kill
            shutil.rmtree(left, ignore_errors=True)
        new: Any = OmegaConf.to_container(cfg, resolve=True)
        new |= {"command": command_line(cfg), "commit": commit(), "processes": processes()}
        if config.exists() and trained_to:
            kept = as_dict(_kept(config))
            if trained_to(folder, kept) >= new["recipe"]["trl"]["max_steps"]:
                new |= {key: kept.get(key) for key in ("command", "commit")}
                new["recipe"]["trl"] = kept["recipe"]["trl"]
        write_text(config, OmegaConf.to_yaml(OmegaConf.create(new)))


def _require_replaceable(cfg: DictConfig, folder: Path) -> None:
    """Raises UserError where a folder is not a run's, or holds what this run needs."""
    if not (folder / "run.log").exists() and "recipe" not in _kept(folder / "config.yaml"):
        raise UserError(f"run.if_exists=replace: {folder} is not the directory of a run; set run.dir")
    inside = folder.resolve()
    for key, value in _flat(OmegaConf.to_container(cfg, resolve=True)).items():
        is_path = isinstance(value, str) and not key.startswith("run.") and os.path.exists(value)
        needed = Path(value).resolve() if is_path else folder.parent
        if needed == inside or any(needed.is_relative_to(inside / name) for name in WRITTEN):
            raise UserError(f"run.if_exists=replace would remove {key}={value}: set run.name")


def _set_aside(folder: Path) -> None:
    """Move what a run has written to its directory into REPLACED there; other files and folders stay."""
    aside = folder / REPLACED
    aside.mkdir()
    for path in (folder / name for name in WRITTEN):
        if path.exists():
            path.rename(aside / path.name)


def _put_back(folder: Path) -> None:
    """Undo `_set_aside`, in place of what has been set up since."""
    for name in SETUP_FILES[:-1]:
        (folder / name).unlink(missing_ok=True)
    for path in list((folder / REPLACED).iterdir()):
        path.rename(folder / path.name)
    (folder / REPLACED).rmdir()


def _kept(config: Path) -> Any:
    """The configuration that a directory was made with. Raises UserError where its file is broken."""
    try:
        return OmegaConf.load(config)
    except (OSError, YAMLError, OmegaConfBaseException) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{config} cannot be read ({reason}): set run.if_exists=replace to start again") from error


def open_together(cfg: DictConfig) -> tuple[Path, bool]:
    """The run directory of a recipe that trains nothing, opened by all of its processes together, and whether this one
    is the main process, which alone writes there. Raises UserError as `open_run_dir`."""
    state = join_processes(cfg.hardware, by_accelerate=False)
    folder = open_run_dir(cfg, state.is_main_process)
    state.wait_for_everyone()
    if state.is_main_process:
        log_to(folder)
    return folder, state.is_main_process


def commit() -> str | None:
    """The commit of this repository, with "and changes" where a tracked file differs; None outside of a repository."""
    root = Path(CONF).parent
    if not (root / ".git").exists():
        return None
    git = ["git", "-C", str(root)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD"], capture_output=True).returncode
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head} and changes" if changed else head


@contextmanager
def remove_if_setup_fails(folder: Path, is_main: bool = True) -> Iterator[None]:
    """Removes a run directory without results where the block fails, so that the next try may have other settings; a
    run that was to be replaced is then there again. If the block succeeds, that run is removed.

    Only SETUP_FILES are removed, and the directory where nothing else is in it.
    """
    try:
        yield
    except BaseException:  # Ctrl-C too
        if is_main and (folder / REPLACED).exists():
            _put_back(folder)
            release(folder)
            raise
        others = [path for path in folder.rglob("*") if path.is_file() and path.name not in SETUP_FILES]
        if is_main and not any(path.stat().st_size for path in others):
            for name in SETUP_FILES:
                (folder / name).unlink(missing_ok=True)
            release(folder)
            with suppress(OSError):
                folder.rmdir()
        raise
    if is_main:
        _remove_replaced(folder)


def _remove_replaced(folder: Path) -> None:
    """Remove REPLACED, under another name, so that a kill meanwhile leaves no half of a run to put back."""
    if (folder / REPLACED).exists():
        (folder / REPLACED).rename(folder / REMOVED)
    shutil.rmtree(folder / REMOVED, ignore_errors=True)


@contextmanager
def appears_whole(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder` to write to, which takes its name if the block succeeds and is removed if not."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = folder.with_name(f".{folder.name}.{os.getpid()}")
    staging.mkdir()
    try:
        yield staging
        os.replace(staging, folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a file under a temporary name, then rename it, so that it is never half written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    os.replace(temporary, path)


def differing(cfg: DictConfig, kept: Any) -> dict[str, tuple[Any, Any]]:
    """The settings, by key, in which a directory's configuration and a new one differ and which would make it another
    run: (the directory's value, the new one)."""
    new, old = _flat(OmegaConf.to_container(cfg, resolve=True)), _flat(OmegaConf.to_container(kept))
    new["processes"] = processes()  # each has its random states and its share of the data
    changeable = CHANGEABLE if cfg.recipe.name in EVALUATES else (*CHANGEABLE, "evaluation")
    return {
        key: (old.get(key), new.get(key))
        for key in sorted(new.keys() | old.keys())
        if _plain(key, new.get(key)) != _plain(key, old.get(key))
        and not any(key == c or key.startswith(c + ".") for c in changeable)
    }


def _plain(key: str, value: Any) -> Any:
    """A setting's value, or the one that computes the same."""
    return ALIKE[key].get(value, value) if key in ALIKE else value


def _require_same(cfg: DictConfig, kept: Any, folder: Path) -> None:
    """Raises UserError where the directory's configuration differs in a key that is not CHANGEABLE."""
    if changed := differing(cfg, kept):
        count, started = changed.get("processes", (None, None))
        if isinstance(count, int) and set(changed) <= {*SETTLED}:
            raise UserError(
                f"{folder} was made by {count} processes, and {started} were started: start {count} "
                f"(hardware.num_processes={count}; sbatch has --nodes and --gres), set run.name, or "
                "run.if_exists=replace"
            )
        changes = ", ".join(f"{key} was {old}, is {new}" for key, (old, new) in list(changed.items())[:3])
        raise UserError(f"{folder} was made with other settings ({changes}); set run.name, or run.if_exists=replace")


def _flat(node: Any, prefix: str = "") -> dict[str, Any]:
    """The leaves of nested mappings by their dotted keys."""
    if not isinstance(node, dict) or not node:
        return {prefix: node}
    leaves: dict[str, Any] = {}
    for key, value in node.items():
        leaves |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
    return leaves
