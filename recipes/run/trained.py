"""The weights that a run has left, and the configuration to load them with on this machine."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from envs.local_models import model_source
from recipes.cli.errors import UserError
from recipes.cli.processes import check_hardware
from recipes.cli.schema import native_precision
from recipes.models.adapter_base import base_named_by, check_adapter_base
from recipes.models.load import SCRATCH, adapter_folder, carries_adapter, check_model
from recipes.records.checkpoint_folders import PREFIX, checkpoints, latest_checkpoint, step_of
from recipes.run.replay import run_folder
from recipes.tools.progress import TRAINS


@dataclass(frozen=True)
class Trained:
    """cfg: the run's configuration, with `adapter` as the weights. step: that they were saved at, None for the last.
    continued: whether the training went on with an adapter that another run had trained. start_is_gone: whether the
    weights or the adapter that the training began with are not there any more. notes: what a user should know, a
    sentence each."""

    cfg: Any
    folder: Path
    weights: Path
    step: int | None
    continued: bool
    start_is_gone: bool
    notes: tuple[str, ...] = ()


def trained(path: str, step: int | None = None, key: str = "run") -> Trained:
    """The weights of a run: of `step`, else final/, else the newest checkpoint. key: what names it in messages.

    Raises UserError where there is no run, none of these in it, or an adapter whose base is gone.
    """
    folder = run_folder(path)
    cfg: Any = OmegaConf.load(folder / "config.yaml")
    name = OmegaConf.select(cfg, "recipe.name")
    if name not in TRAINS:
        raise UserError(f"{key}={path} is a run of {name}, which trains nothing: give one of {', '.join(TRAINS)}")
    weights, results, notes = _weights(folder, cfg, step)
    started = cfg.get("adapter")
    gone = started is not None and not _is_there(started)
    continued = started is not None and not gone and carries_adapter(started)
    if gone and carries_adapter(str(weights)):
        _check_base_is_the_model(f"{key}={path}", weights, cfg)
    with open_dict(cfg):
        if continued and (Path(base_named_by(weights)) / "config.json").exists():
            cfg.model.path = base_named_by(weights)  # the first of several LoRA trainings began with these weights
        elif started is not None and not gone and not continued:
            cfg.model.path = str(adapter_folder(started))  # a new LoRA lies on these weights
        cfg.adapter = str(weights)
    if cfg.model.path == SCRATCH and carries_adapter(str(weights)):
        raise UserError(f"{key}={path}: its adapter lies on random weights, which were not kept; set model.lora_rank=0")
    return Trained(cfg, folder, weights, results, continued, gone, notes)


def _is_there(adapter: str) -> bool:
    try:
        return adapter_folder(adapter).is_dir()
    except UserError:
        return False


def _check_base_is_the_model(given: str, weights: Path, cfg: Any) -> None:
    """Raise UserError where an adapter lies on weights other than those of the run's `model`, as where the run began
    with another run's whole weights."""
    base = base_named_by(weights)
    if Path(base).name != Path(model_source(cfg.model.path)).name:
        raise UserError(
            f"{given}: its adapter lies on the weights in {cfg.adapter}, where the training began, and these are "
            "not there any more: put them back"
        )


def _weights(folder: Path, cfg: Any, step: int | None) -> tuple[Path, int | None, tuple[str, ...]]:
    final, planned = folder / "final", OmegaConf.select(cfg, "recipe.trl.max_steps")
    if step is not None:
        chosen = folder / "checkpoints" / f"{PREFIX}{step}"
        if not chosen.is_dir():
            kept = ", ".join(str(step_of(place)) for place in checkpoints(folder)) or "none"
            raise UserError(f"step={step}: {folder} has no such checkpoint; those of steps {kept} are there")
        return chosen, step, ()
    if final.is_dir():
        return final, _earlier_step(final, planned), ()
    latest = latest_checkpoint(folder)
    if latest is None:
        raise UserError(f"{folder} has neither final/ nor a checkpoint yet; go on with: {cfg.get('command')}")
    at = step_of(latest)
    return latest, at, (f"{folder} has no final/: its newest checkpoint is used, step {at} of {planned}.",)


def _earlier_step(final: Path, planned: int | None) -> int | None:
    """The step whose weights final/ holds, None for the last one: with run.keep=best it may be an earlier one."""
    state = final / "trainer_state.json"
    step = int(json.loads(state.read_text(encoding="utf-8"))["global_step"]) if state.exists() else None
    return step if step is not None and planned is not None and step < planned else None


def on_this_machine(cfg: DictConfig, load_in_4bit: bool | None = None) -> str:
    """Change the hardware of a run's configuration to one process on this machine; returns what a user should know.

    load_in_4bit: None as the run had it. Raises UserError where a GPU's run in 4 bits meets a machine without one, a
    package is missing, or the weights in `cfg.adapter` belong to another model.
    """
    hardware, note = cfg.hardware, ""
    with open_dict(cfg):
        hardware.num_processes = hardware.num_machines = 1
        hardware.zero_stage, hardware.vllm, hardware.optimizer = 0, None, "adamw_torch"
        if hardware.device == "cuda" and not torch.cuda.is_available():
            if hardware.load_in_4bit and load_in_4bit is None:
                raise UserError(
                    f"hardware.load_in_4bit=true of hardware={hardware.name}, and no GPU is visible: "
                    "load_in_4bit=false takes the base in full precision, not quite what was trained; "
                    "load_in_4bit=true stays with 4 bits on the CPU, slowly"
                )
            hardware.device, hardware.precision = "cpu", native_precision()
            note = f"No GPU is visible: the CPU computes, in {hardware.precision}."
        if hardware.device == "cpu":
            os.environ["DS_ACCELERATOR"] = "cpu"  # else DeepSpeed, where installed, warns of it
        if load_in_4bit is not None:
            hardware.load_in_4bit = load_in_4bit
    check_hardware(cfg)
    check_model(cfg.model, hardware, cfg.adapter, trains=False)
    if cfg.model.path != SCRATCH and cfg.adapter is not None and carries_adapter(cfg.adapter):
        check_adapter_base(cfg.model.path, adapter_folder(cfg.adapter))
    return note
