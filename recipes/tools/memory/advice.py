"""Which one change of a run makes it fit into memory: each is planned in its turn, those that cost least first."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from envs.task import Task
from recipes.cli.batches import micro_batches
from recipes.cli.errors import UserError
from recipes.cli.memory_use import GIB
from recipes.cli.schema import as_dict
from recipes.tools.memory.contents import JUDGE, OFFLINE, ONLINE, UnknownModel, policy_of
from recipes.tools.memory.network import Network, known_config, written_models
from recipes.tools.memory.planner import lengths_of, plan_of
from recipes.tools.memory.prompt_lengths import Lengths
from recipes.tools.memory.quantities import Plan


@dataclass(frozen=True)
class Change:
    """One key of the configuration and its new value. option: what to add to the command."""

    key: str
    value: Any
    option: str = ""

    def __str__(self) -> str:
        value = str(self.value).lower() if isinstance(self.value, bool) else self.value
        return self.option or f"{self.key}={value}"

    def applied(self, cfg: DictConfig) -> DictConfig:
        """A copy of the configuration with the change."""
        changed = copy.deepcopy(cfg)
        OmegaConf.update(changed, self.key, self.value, force_add=True)
        return changed


def plan_or_refuse(cfg: DictConfig, task: Task, others: Sequence[Any] = ()) -> dict[str, Any] | None:
    """The plan of the run's memory; None where how the model is built is not known on this machine.

    Plan.as_dict, and `keeps_freed`: whether there is room to keep freed memory (recipes/cli/memory_use.py); None on a
    GPU.

    Raises UserError where the run does not fit by its plan, unless `force` is set.
    """
    try:
        lengths = lengths_of(cfg, task, others)
        plan = plan_of(cfg, lengths)
    except UnknownModel:
        return None
    if plan.over and not cfg.force:
        raise UserError(f"{advice_for(cfg, plan, lengths)}; force=true trains anyway")
    return plan.as_dict() | {"keeps_freed": plan.roomy if cfg.hardware.device == "cpu" else None}


def advice_for(cfg: DictConfig, plan: Plan, lengths: Lengths) -> str:
    """One sentence: what does not fit, by how much, and what would make it fit."""
    assert plan.budget is not None
    parts = plan.phases[plan.fullest]
    largest = max(parts, key=parts.__getitem__)
    problem = (
        f"{plan.fullest} takes {plan.peak / GIB:.1f} GiB and hardware={cfg.hardware.name} has {plan.budget / GIB:.1f}: "
        f"most of it {largest}, {parts[largest] / GIB:.1f} GiB"
    )
    for change in changes(cfg):
        changed = change.applied(cfg)
        try:
            if changed.recipe.name in ONLINE + OFFLINE:
                micro_batches(changed, changed.hardware.num_processes)
            new = plan_of(changed, lengths)
        except (UnknownModel, UserError):  # such numbers do not divide
            continue
        if not new.over:
            return f"{problem}; {change} makes it fit, in {new.peak / GIB:.1f} GiB"
    return f"{problem}; no single change makes it fit"


def changes(cfg: DictConfig) -> Iterator[Change]:
    """What could be changed, from what costs nothing but time to what makes it another run."""
    hardware, recipe, evaluation = cfg.hardware, cfg.recipe, cfg.evaluation
    trains = recipe.name in ONLINE + OFFLINE
    if trains:
        yield from halves("hardware.rows_per_device", hardware.rows_per_device)
    if not trains or evaluation.samples or evaluation.greedy:
        yield from halves("hardware.eval_rows", hardware.eval_rows)
    if recipe.name == "grpo":
        at_once = recipe.prompts_per_step * recipe.trl.num_generations // hardware.num_processes
        yield from halves("hardware.rollout_rows", hardware.rollout_rows or at_once)
    if trains and not hardware.gradient_checkpointing:
        yield Change("hardware.gradient_checkpointing", True)
    yield from changes_of_judges(as_dict(cfg.task.reward))
    if recipe.name == "ppo" and cfg.value.name == "separate":
        yield Change("value.name", "shared", "value=shared")
    if trains and hardware.device == "cuda" and "8bit" not in hardware.optimizer:
        yield Change("hardware.optimizer", "paged_adamw_8bit")
    if hardware.sampling_copy and not hardware.load_in_4bit:
        yield Change("hardware.sampling_copy", False)
    samples_from_a_copy = hardware.vllm or recipe.get("lookahead")  # which 4-bit weights do not allow
    if not hardware.load_in_4bit and (cfg.model.lora_rank or not trains) and not samples_from_a_copy:
        yield Change("hardware.load_in_4bit", True)
    if trains and not cfg.model.lora_rank and cfg.adapter is None:
        yield Change("model.lora_rank", 16)
    if recipe.name in ONLINE:
        for key in ("samples_per_prompt", "prompts_per_step"):
            least = 2 if key == "samples_per_prompt" and recipe.get("baseline") == "group" else 1
            yield from (c for c in halves(f"recipe.{key}", recipe.get(key, 1)) if c.value >= least)
    yield from halves("task.max_new_tokens", cfg.task.max_new_tokens)
    own = policy_of(cfg).parameters
    sizes = [(Network(known_config(m.path) or "", torch.float32).parameters, m) for m in written_models()]
    for size, model in sorted(sizes, key=lambda pair: -pair[0]):
        if size < own:
            yield Change("model.path", model.path, f"model={model.name}")


def halves(key: str, number: int) -> Iterator[Change]:
    """Half of a number, a quarter, as long as they are whole."""
    while number > 1 and number % 2 == 0:
        number //= 2
        yield Change(key, number)


def changes_of_judges(channels: dict[str, Any]) -> Iterator[Change]:
    """What could be changed of the channels that ask a model."""
    for name, channel in channels.items():
        if not channel or channel.get("_target_") != JUDGE:
            continue
        yield from halves(f"task.reward.{name}.rows", channel.get("rows", 8))
        if not channel.get("load_in_4bit"):
            yield Change(f"task.reward.{name}.load_in_4bit", True)
        if channel.get("device", "cpu") != "cpu":
            yield Change(f"task.reward.{name}.device", "cpu")
