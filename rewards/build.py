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
        if cause is None or isinstance(cause, ImportError):
            raise TaskError(f"_target_={spec['_target_']} cannot be made: {_import_fault(cause or error)}") from error
        raise cause from None  # a fault of that class: its own traceback says where


def _import_fault(error: Exception) -> str:
    """Why a class could not be imported, with file and line where that is a fault of syntax."""
    fault = error.__cause__ or error
    if isinstance(fault, SyntaxError):
        return f"{fault.filename}, line {fault.lineno}: {fault.msg}"
    return str(fault)


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
        if not isinstance(weight := spec.pop("weight", None), int | float):
            raise TaskError(f"task.reward.{name}.weight={weight}: it must be a number, such as 0.5")
        weights[name] = float(weight)
        results[name] = _channel(name, spec, sandbox)
    if not results:
        raise TaskError("task.reward names no channel")
    total = sum(weights.values()) if mean else 1.0
    try:
        return Reward(results, {name: weight / (total or 1.0) for name, weight in weights.items()}, placement)
    except ValueError as error:
        raise TaskError(f"task.reward: {error}") from None


def _channel(name: str, spec: dict[str, Any], sandbox: Sandbox) -> RewardChannel:
    """The channel that an entry of `task.reward` describes. Raises TaskError where that is no channel."""
    if "_target_" not in spec:
        raise TaskError(f"task.reward.{name} names no class: set _target_, such as rewards.form.Form")
    channel = made(spec, sandbox=sandbox) if spec.pop("sandbox", False) else made(spec)
    missing = "judges_form, true or false" if not isinstance(getattr(channel, "judges_form", None), bool) else ""
    if not callable(getattr(channel, "score", None)):
        missing = "async def score(self, problems, completions)"
    if missing:
        raise TaskError(f"task.reward.{name}: {spec['_target_']} has no {missing} (rewards/channel.py)")
    return channel


def task_episode(spec: Mapping[str, Any], feedback: Mapping[str, Any], sandbox: Sandbox) -> Episode:
    """The episode that `spec` (a file of conf/episode) describes, with the task's feedback (`task.feedback`); feedback
    that runs code gets the sandbox. Raises TaskError for settings that either refuses."""
    given = {key: value for key, value in spec.items() if key not in ("name", "kind")}
    sees = dict(feedback)
    runs = {"sandbox": sandbox} if sees.pop("sandbox", False) else {}
    return made({"_target_": spec["kind"], **given}, feedback=made(sees, **runs))
