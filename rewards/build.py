"""From the configuration of a task (`task.env`, `task.reward`, `sandbox`) to the objects that grade it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hydra.errors import InstantiationException
from hydra.utils import get_object, instantiate
from omegaconf import OmegaConf

from envs.episode import Episode
from envs.sandbox import Sandbox
from envs.task import TaskError
from rewards.channel import RewardChannel, pays_outside_code
from rewards.compose import Placement, Reward

PLAIN = {bool: "true or false", int: "a whole number", float: "a number", NoneType: "null"}
"""Types of settings that are checked, and what they are called."""


def made(spec: Any, name: str = "", **arguments: Any) -> Any:
    """The object that `_target_` and the other keys of `spec` describe.

    Args:
        name: of the setting that `spec` is, such as task.env, for messages.

    Raises:
        TaskError: settings that it refuses, or that are not of the type that its constructor names: a text is true
            wherever a program asks for true or false.
    """
    _check_types(spec, name)
    try:
        return instantiate(spec, _convert_="all", **arguments)
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, ValueError | TypeError | OSError):
            raise TaskError(str(cause)) from error
        if cause is None or isinstance(cause, ImportError):
            raise TaskError(f"_target_={spec['_target_']} cannot be made: {_import_fault(cause or error)}") from error
        raise cause from None  # a fault of that class: its own traceback says where


def _check_types(spec: Any, name: str) -> None:
    """Raises TaskError for a setting of which the constructor says that it is a number, or true or false, and that is
    neither."""
    try:
        made_by: Any = get_object(spec["_target_"])
        constructor = made_by.__init__ if isinstance(made_by, type) else made_by  # type: ignore[misc]
        hints = get_type_hints(constructor)
    except Exception:  # `instantiate` says what is wrong with a class that cannot be imported
        return
    for key, value in spec.items():
        if expected := expected_of(hints.get(key), value):
            raise TaskError(f"{name}{'.' if name else ''}{key}={value}: {expected} expected")


def expected_of(hint: Any, value: Any) -> str:
    """What a setting of the type `hint` must be, in words, where the value is something else; empty where it fits, and
    for types other than numbers and true or false."""
    types = set(get_args(hint)) if get_origin(hint) in (Union, UnionType) else {hint}
    fits = type(value) in types or (float in types and type(value) is int)
    if not types <= set(PLAIN) or (fits and not (isinstance(value, float) and math.isnan(value))):
        return ""
    return " or ".join(text for each, text in PLAIN.items() if each in types)


def _import_fault(error: Exception) -> str:
    """Why a class could not be imported, with file and line where that is a fault of syntax."""
    fault = error.__cause__ or error
    if isinstance(fault, SyntaxError):
        return f"{fault.filename}, line {fault.lineno}: {fault.msg}"
    return str(fault)


def channels(specs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What `task.reward` says of each channel that is not switched off (null, or `enabled: false`). Raises TaskError
    where an entry is something else."""
    plain: Any = OmegaConf.to_container(specs, resolve=True) if OmegaConf.is_config(specs) else dict(specs)
    for name, spec in plain.items():
        if not isinstance(spec, Mapping | None):
            raise TaskError(
                f"task.reward.{name}={spec}: it must be a channel's settings; task.reward.{name}=null is none"
            )
    given = {str(name): dict(spec) for name, spec in plain.items() if spec is not None}
    for name, key in itertools.product(given, ("enabled", "sandbox")):
        if not isinstance(value := given[name].get(key, True), bool):  # the text "no" is true in Python
            raise TaskError(f"task.reward.{name}.{key}={value}: {PLAIN[bool]} expected")
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
        weight = spec.pop("weight", None)
        if not isinstance(weight, int | float) or not math.isfinite(weight):
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
    runs: dict[str, Any] = {"sandbox": sandbox} if spec.pop("sandbox", False) else {}
    channel = made(spec, f"task.reward.{name}", **runs)
    if not callable(getattr(channel, "score", None)):
        what = "has no async def score(self, problems, completions)"
    elif not isinstance(outside := pays_outside_code(channel), bool):
        what = f"has pays_outside_code = {outside}, which must be True or False"
    else:
        return channel
    raise TaskError(f"task.reward.{name}: {spec['_target_']} {what} (rewards/channel.py)")


def task_episode(spec: Mapping[str, Any], feedback: Mapping[str, Any], sandbox: Sandbox) -> Episode:
    """The episode that `spec` (a file of conf/episode) describes, with the task's feedback (`task.feedback`); feedback
    that runs code gets the sandbox. Raises TaskError for settings that either refuses."""
    given = {key: value for key, value in spec.items() if key not in ("name", "kind")}
    sees = dict(feedback)
    runs: dict[str, Any] = {"sandbox": sandbox} if sees.pop("sandbox", False) else {}
    return made({"_target_": spec["kind"], **given}, feedback=made(sees, **runs))
