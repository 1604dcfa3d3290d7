"""From configuration to the objects that recipes are made of: task, sandbox, reward."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from envs.episode import Episode
from envs.sandbox import Sandbox
from envs.task import Split, Task, TaskError
from recipes.cli.console import log
from recipes.cli.errors import UserError
from recipes.cli.overrides import compose
from recipes.cli.schema import CONF, as_dict
from rewards.build import channels, made, task_episode, task_reward
from rewards.compose import PLACEMENTS, Reward


def build_task(cfg: DictConfig, *splits: Split) -> Task:
    """The task of `cfg.task`, with the data of `splits` read. Raises UserError for missing or broken data."""
    task = _instantiate(cfg.task.env, "task.env")
    try:
        for split in splits:
            task.problems(split)  # some tasks read a split's data when it is first asked for
    except (TaskError, OSError) as error:
        raise UserError(str(error)) from error
    return task


def evaluated_split(cfg: DictConfig) -> tuple[Split, ...]:
    """The split that is evaluated, as a tuple; empty where no evaluation is asked for."""
    return (cfg.evaluation.split,) if cfg.evaluation.samples or cfg.evaluation.greedy else ()


@dataclass(frozen=True)
class OtherTask:
    """A task of `task.also_evaluate`, and the configuration that it is evaluated by, which is its own."""

    task: Task
    cfg: DictConfig

    def reward(self, sandbox: Sandbox) -> Reward:
        """The task's own reward."""
        return _reward(self.cfg.task, "sparse", sandbox)


def check_split(cfg: DictConfig, task: Task) -> None:
    """Raise UserError where the split to evaluate has no problems."""
    split = cfg.evaluation.split
    if not task.problems(split):
        share = "task.env.validation=0.2, or " if split == "validation" and "validation" in cfg.task.env else ""
        raise UserError(
            f"evaluation.split={split}: task={cfg.task.name} has no {split} problems; set {share}evaluation.split=test"
        )


def other_task(name: str, *splits: Split) -> OtherTask:
    """The task that conf/task/<name>.yaml describes, with the data of `splits` read. Raises UserError as build_task."""
    if not (Path(CONF) / "task" / f"{name}.yaml").exists():
        raise UserError(f"task.also_evaluate names {name}, and there is no conf/task/{name}.yaml")
    cfg = compose(["recipe=eval", f"task={name}"])
    try:
        return OtherTask(build_task(cfg, *splits), cfg)
    except UserError as error:
        raise UserError(f"task.also_evaluate names {name}: {error}; or leave it out: task.also_evaluate=[]") from error


def build_sandbox(cfg: DictConfig) -> Sandbox:
    """The sandbox, started where a channel of the task runs code. Raises UserError where nothing can be confined."""
    try:
        sandbox = _instantiate(cfg.sandbox, "sandbox")
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


def build_episode(cfg: DictConfig, sandbox: Sandbox) -> Episode | None:
    """The episode of `cfg.episode` with the task's feedback; None where answers have one turn.

    Raises UserError for a task without feedback, and for values that the episode or the feedback refuses.
    """
    if cfg.episode is None:
        return None
    if cfg.task.env.get("functions", 1) > 1:
        raise UserError(
            f"episode={cfg.episode.name}: task.env.functions={cfg.task.env.functions} asks for several functions, of "
            "which the feedback tells nothing; set episode=null or task.env.functions=1"
        )
    if cfg.task.feedback is None:
        raise UserError(
            f"episode={cfg.episode.name}: task={cfg.task.name} tells nothing of a failing answer (task.feedback=null); "
            "set episode=null, or give the task a class of envs/feedback"
        )
    try:
        return task_episode(as_dict(cfg.episode), as_dict(cfg.task.feedback), sandbox)
    except TaskError as error:
        raise UserError(str(error)) from error


def ready(reward: Reward | Episode, task: Task, *splits: Split) -> None:
    """Have channels, or an episode, prepare what those problems take, before a model loads. Raises UserError."""
    try:
        asyncio.run(reward.ready([problem for split in splits for problem in task.problems(split)]))
    except (ValueError, RuntimeError, OSError) as error:
        raise UserError(str(error)) from error


def _reward(task: DictConfig, placement: Any, sandbox: Sandbox) -> Reward:
    try:
        return task_reward(task.reward, bool(task.mean_reward), placement, sandbox)
    except TaskError as error:
        raise UserError(str(error)) from error


def _instantiate(spec: Any, name: str) -> Any:
    try:
        return made(spec, name)
    except TaskError as error:
        raise UserError(str(error)) from error
