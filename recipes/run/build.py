"""From configuration to the objects that recipes are made of: task, sandbox, reward."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig

from envs.sandbox import Sandbox
from envs.task import Split, Task, TaskError
from recipes.cli.console import log
from recipes.cli.errors import UserError
from recipes.cli.overrides import compose
from recipes.cli.schema import CONF, as_dict
from rewards.channel import RewardChannel
from rewards.compose import PLACEMENTS, Reward


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
    given = {name: spec for name, spec in as_dict(specs).items() if spec is not None}
    return {name: spec for name, spec in given.items() if spec.pop("enabled", True)}


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
