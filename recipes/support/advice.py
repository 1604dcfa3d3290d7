"""Which single change makes a run fit into memory: each is planned in its turn, those that cost least first."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from recipes.support.build import as_dict
from recipes.support.holdings import JUDGE, ONLINE, UnknownModel
from recipes.support.lengths import Lengths
from recipes.support.memory import GIB, Plan
from recipes.support.network import Network, find_facts, written_down
from recipes.support.planning import plan_of


@dataclass(frozen=True)
class Change:
    """said: what to add to the command. settings: keys and values. helps: phases it can make smaller, () for all."""

    said: str
    settings: tuple[tuple[str, Any], ...]
    helps: tuple[str, ...] = ()

    def applied(self, cfg: DictConfig) -> DictConfig:
        """A copy of the configuration with the change."""
        changed = copy.deepcopy(cfg)
        for key, value in self.settings:
            OmegaConf.update(changed, key, value, force_add=True)
        return changed


def setting(key: str, value: Any, *helps: str) -> Change:
    """A change of one key."""
    return Change(f"{key}={str(value).lower() if isinstance(value, bool) else value}", ((key, value),), helps)


def halves(number: int) -> Iterator[int]:
    """Half of it, a quarter, as long as they are whole."""
    while number > 1 and number % 2 == 0:
        number //= 2
        yield number


def changes(cfg: DictConfig) -> Iterator[Change]:
    """What could be changed, from what costs nothing but time to what makes it another run."""
    hardware, recipe = cfg.hardware, cfg.recipe
    trains = recipe.name not in ("eval", "pairs", "check")
    if trains:
        for rows in halves(hardware.rows_per_device):
            yield setting("hardware.rows_per_device", rows, "log-probabilities", "update")
    if not trains or cfg.evaluation.samples or cfg.evaluation.greedy:
        for rows in halves(hardware.eval_rows):
            if rows >= cfg.evaluation.samples:
                yield setting("hardware.eval_rows", rows, "evaluation", *([] if trains else ["rollout"]))
    if recipe.name == "grpo":
        at_once = recipe.prompts_per_step * recipe.num_generations // hardware.num_processes
        for rows in halves(hardware.rollout_rows or at_once):
            yield setting("hardware.rollout_rows", rows, "rollout")
    if trains and not hardware.gradient_checkpointing:
        yield setting("hardware.gradient_checkpointing", True, "update")
    yield from _of_judges(cfg)
    if recipe.name == "ppo" and cfg.value.name == "separate":
        yield Change("value=shared", (("value.name", "shared"),))
    if trains and hardware.device == "cuda" and "8bit" not in hardware.optimizer:
        yield setting("hardware.optimizer", "paged_adamw_8bit")
    if hardware.sampling_copy and not hardware.load_in_4bit:
        yield setting("hardware.sampling_copy", False)
    if not hardware.load_in_4bit and (cfg.model.lora_rank or not trains):
        yield setting("hardware.load_in_4bit", True)
    if trains and not cfg.model.lora_rank and cfg.adapter is None:
        yield setting("model.lora_rank", 16)
    if recipe.name in ONLINE:
        for key in ("samples_per_prompt", "prompts_per_step"):
            for number in halves(recipe.get(key, 1)):
                yield setting(f"recipe.{key}", number, "rollout")
    for tokens in halves(cfg.task.max_new_tokens):
        yield setting("task.max_new_tokens", tokens)
    yield from _smaller_models(cfg)


def _of_judges(cfg: DictConfig) -> Iterator[Change]:
    for name, spec in as_dict(cfg.task.reward).items():
        if not spec or spec.get("_target_") != JUDGE:
            continue
        for rows in halves(spec.get("rows", 8)):
            yield setting(f"task.reward.{name}.rows", rows, "grading", "rollout", "evaluation")
        if not spec.get("load_in_4bit"):
            yield setting(f"task.reward.{name}.load_in_4bit", True)
        if spec.get("device", "cpu") != "cpu":
            yield setting(f"task.reward.{name}.device", "cpu")


def _smaller_models(cfg: DictConfig) -> Iterator[Change]:
    """The models of conf/model/ that are smaller, the largest first."""
    facts = find_facts(cfg.model.path, cfg.model.scratch)
    assert facts is not None  # a plan was made of it
    sizes = {name: _parameters(find_facts(path)) for name, path in written_down().items()}
    own = _parameters(facts)
    for name in sorted((n for n, size in sizes.items() if size < own), key=lambda n: -sizes[n]):
        yield Change(f"model={name}", (("model.path", written_down()[name]),))


def _parameters(facts: str | None) -> int:
    import torch

    return Network(facts, torch.float32).architecture.parameters if facts else 0


def valid(cfg: DictConfig) -> bool:
    """Whether the numbers of a changed configuration divide as its recipe asks."""
    r, world = cfg.recipe, cfg.hardware.num_processes
    if r.name == "grpo":
        return r.prompts_per_step * r.num_generations % (cfg.hardware.rows_per_device * world) == 0
    if r.name in ("ppo", "reinforce"):
        return r.prompts_per_step % world == 0 and (r.prompts_per_step // world) % r.get("mini_batches", 1) == 0
    return r.name not in ("sft", "dpo") or r.batch_size % (min(cfg.hardware.rows_per_device, r.batch_size) * world) == 0


def advise(cfg: DictConfig, plan: Plan, lengths: Lengths) -> tuple[Change, Plan] | None:
    """The first change that makes the run fit, and its plan. None where no single change does."""
    assert plan.budget is not None
    over = [phase for phase, parts in plan.phases.items() if sum(parts.values()) > plan.budget]
    for change in changes(cfg):
        if change.helps and not set(over) <= set(change.helps):
            continue
        changed = change.applied(cfg)
        if not valid(changed):
            continue
        try:
            new = plan_of(changed, lengths)
        except UnknownModel:
            continue
        if not new.over:
            return change, new
    return None


def sentence(cfg: DictConfig, plan: Plan, lengths: Lengths) -> str:
    """What does not fit, by how much, and what would make it fit."""
    assert plan.budget is not None
    part = plan.largest_part
    said = (
        f"{plan.fullest} takes {plan.peak / GIB:.1f} GiB and hardware={cfg.hardware.name} has {plan.budget / GIB:.1f}: "
        f"most of it {part}, {plan.phases[plan.fullest][part] / GIB:.1f} GiB"
    )
    found = advise(cfg, plan, lengths)
    if found is None:
        return f"{said}; no single change makes it fit"
    return f"{said}; {found[0].said} makes it fit, in {found[1].peak / GIB:.1f} GiB"
