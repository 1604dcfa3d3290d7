"""From configuration to the objects that recipes are made of: task, sandbox, reward."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from envs.sandbox import Sandbox
from envs.task import Split, Task, TaskError
from recipes.support.console import log
from recipes.support.launch import processes
from recipes.support.main import CONF, UserError
from recipes.support.overrides import compose
from rewards.channel import RewardChannel
from rewards.compose import PLACEMENTS, Reward


def as_dict(node: Any) -> dict[str, Any]:
    """A configuration node as a plain dictionary, interpolations resolved."""
    plain = OmegaConf.to_container(node, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def trainer_settings(cfg: DictConfig, folder: Path) -> dict[str, Any]:
    """cfg.recipe and cfg.hardware as the fields that all of TRL's trainers share."""
    r, hardware = cfg.recipe, cfg.hardware
    on_cpu = hardware.device == "cpu"
    return {
        "output_dir": str(folder / "checkpoints"),
        "seed": cfg.seed,
        "learning_rate": r.learning_rate,
        "lr_scheduler_type": r.lr_schedule,
        "warmup_steps": r.warmup_steps,
        "max_grad_norm": r.max_grad_norm,
        "optim": hardware.optimizer,
        "gradient_checkpointing": hardware.gradient_checkpointing,
        "bf16": hardware.precision == "bf16",
        "fp16": hardware.precision == "fp16",
        "use_cpu": on_cpu and not hardware.zero_stage,  # told of a CPU, Accelerate leaves DeepSpeed out
        "ddp_backend": "gloo" if on_cpu and processes() > 1 else None,
        "save_steps": r.save_steps,
        "save_total_limit": 2,
        "logging_steps": 1,
        "report_to": list(r.report_to) or "none",
        "disable_tqdm": True,  # run_log prints a line a step
    }


def batch_settings(cfg: DictConfig, rows: int) -> dict[str, int]:
    """`rows` examples an update as per-device batch and accumulation. Raises UserError where they do not divide."""
    at_once = min(cfg.hardware.rows_per_device, max(1, rows // processes()))
    if rows % (at_once * processes()):
        raise UserError(
            f"recipe.batch_size={rows} does not divide into hardware.rows_per_device={cfg.hardware.rows_per_device} x "
            f"{processes()} processes"
        )
    return {
        "per_device_train_batch_size": at_once,
        "gradient_accumulation_steps": rows // (at_once * processes()),
    }


def trainer_config(kind: type, ours: dict[str, Any], further: Any) -> Any:
    """A trainer's configuration of class `kind` from `ours` and the user's `recipe.trl`.

    Raises UserError for a field that conf/ sets already, that does not exist, or whose value is refused.
    """
    theirs = as_dict(further)
    if twice := sorted(ours.keys() & theirs.keys()):
        raise UserError(f"recipe.trl.{twice[0]} is set by conf/ already: change it there (see --cfg job)")
    try:
        return kind(**ours, **theirs)
    except (TypeError, ValueError) as error:
        raise UserError(f"recipe or hardware settings refused: {error}") from error


def build_task(cfg: DictConfig) -> Task:
    """The task of `cfg.task`. Raises UserError for missing or broken data."""
    return _instantiate(cfg.task.env)


def other_task(name: str, sandbox: Sandbox) -> tuple[Task, Reward, DictConfig]:
    """The task that conf/task/<name>.yaml describes, with its own reward, and the configuration it is evaluated by."""
    if not (Path(CONF) / "task" / f"{name}.yaml").exists():
        raise UserError(f"no task named {name} (task.also_evaluate)")
    cfg = compose(["recipe=eval", f"task={name}"])
    return _instantiate(cfg.task.env), _reward(cfg.task, "sparse", sandbox), cfg


def build_sandbox(cfg: DictConfig) -> Sandbox:
    """The sandbox, started where a channel of the task runs code. Raises UserError where nothing can be confined."""
    try:
        sandbox = _instantiate(cfg.sandbox)
        if any(spec.get("sandbox") for spec in channels(cfg.task.reward).values()):
            log.info(asyncio.run(sandbox.describe()))
    except (RuntimeError, ValueError) as error:
        raise UserError(str(error)) from None
    return sandbox


def build_reward(cfg: DictConfig, sandbox: Sandbox) -> Reward:
    """The task's channels with their weights, placed as `reward=` says. Channels that run code get the sandbox."""
    if cfg.reward.placement not in PLACEMENTS:
        raise UserError(f"reward.placement={cfg.reward.placement}: choose {', '.join(PLACEMENTS)}")
    return _reward(cfg.task, cfg.reward.placement, sandbox)


def ready(reward: Reward, task: Task, *splits: Split) -> None:
    """Have channels prepare what grading those problems takes, before a model loads. Raises UserError."""
    try:
        asyncio.run(reward.ready([problem for split in splits for problem in task.problems(split)]))
    except (ValueError, RuntimeError, OSError) as error:
        raise UserError(str(error)) from error


def channels(specs: DictConfig) -> dict[str, dict[str, Any]]:
    """What `task.reward` says of each channel that is not switched off (`enabled: false`)."""
    found = {name: spec for name, spec in as_dict(specs).items() if spec is not None}
    return {name: spec for name, spec in found.items() if spec.pop("enabled", True)}


def _reward(task: DictConfig, placement: Any, sandbox: Sandbox) -> Reward:
    made: dict[str, RewardChannel] = {}
    weights: dict[str, float] = {}
    for name, spec in channels(task.reward).items():
        weights[name] = float(spec.pop("weight"))
        if spec.pop("sandbox", False):
            made[name] = _instantiate(spec, sandbox=sandbox)
        else:
            made[name] = _instantiate(spec)
    if not made:
        raise UserError("task.reward names no channel")
    total = sum(weights.values()) if task.mean_reward else 1.0
    try:
        return Reward(made, {name: weight / (total or 1.0) for name, weight in weights.items()}, placement)
    except ValueError as error:
        raise UserError(f"task.reward: {error}") from None


def _instantiate(spec: Any, **kwargs: Any) -> Any:
    try:
        return instantiate(spec, _convert_="all", **kwargs)
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, TaskError | ValueError | TypeError | OSError):
            raise UserError(str(cause)) from error
        raise
