"""From the configuration of a task (`task.env`, `task.reward`, `sandbox`) to the objects that grade it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import OmegaConf

from envs.episode import Episode
from envs.sandbox import Sandbox
from envs.task import TaskError
from rewards.channel import RewardChannel
from rewards.compose import Placement, Reward


def made(spec: Any, **arguments: Any) -> Any:
    """The object that `_target_` and the other keys of `spec` describe. Raises TaskError for settings it refuses."""
    try:
        return instantiate(spec, _convert_="all", **arguments)
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, ValueError | TypeError | OSError):
            raise TaskError(str(cause)) from error
        raise


def channels(specs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What `task.reward` says of each channel that is not switched off (null, or `enabled: false`)."""
    plain: Any = OmegaConf.to_container(specs, resolve=True) if OmegaConf.is_config(specs) else dict(specs)
    given = {str(name): dict(spec) for name, spec in plain.items() if spec is not None}
    return {name: spec for name, spec in given.items() if spec.pop("enabled", True)}


def task_reward(specs: Mapping[str, Any], mean: bool, placement: Placement, sandbox: Sandbox) -> Reward:
    """The channels of `task.reward` with their weights; those that run code get the sandbox.

    Args:
        mean: the weights are divided by their sum (`task.mean_reward`).

    Raises:
        TaskError: no channel, or settings or weights that cannot be used.
    """
    results: dict[str, RewardChannel] = {}
    weights: dict[str, float] = {}
    for name, spec in channels(specs).items():
        weights[name] = float(spec.pop("weight"))
        results[name] = made(spec, sandbox=sandbox) if spec.pop("sandbox", False) else made(spec)
    if not results:
        raise TaskError("task.reward names no channel")
    total = sum(weights.values()) if mean else 1.0
    try:
        return Reward(results, {name: weight / (total or 1.0) for name, weight in weights.items()}, placement)
    except ValueError as error:
        raise TaskError(f"task.reward: {error}") from None


def task_episode(spec: Mapping[str, Any], feedback: Mapping[str, Any], sandbox: Sandbox) -> Episode:
    """The episode that `spec` (a file of conf/episode) describes, with the task's feedback (`task.feedback`); feedback
    that runs code gets the sandbox. Raises TaskError for settings that either refuses."""
    given = {key: value for key, value in spec.items() if key not in ("name", "kind")}
    sees = dict(feedback)
    runs = {"sandbox": sandbox} if sees.pop("sandbox", False) else {}
    return made({"_target_": spec["kind"], **given}, feedback=made(sees, **runs))
