"""The models that a run holds, from its configuration: how the policy and a judge are built and held."""

from __future__ import annotations

import json
from typing import Any

import torch
from omegaconf import DictConfig

from recipes.cli.errors import UserError
from recipes.cli.schema import as_dict
from recipes.models.load import DTYPES, adapter_folder, carries_adapter
from recipes.tools.memory.network import Network, known_config

ONLINE = ("ppo", "reinforce", "grpo")
OFFLINE = ("sft", "dpo")
BY_TRL = ("grpo", "sft", "dpo")
JUDGE = "rewards.judge.Judge"


class UnknownModel(UserError):
    """Nothing on this machine says how the model is built."""


def policy_of(cfg: DictConfig) -> Network:
    """The model that is trained or evaluated. Raises UnknownModel."""
    hardware, model = cfg.hardware, cfg.model
    config = known_config(model.path, as_dict(model.scratch))
    if config is None:
        raise UnknownModel(
            f"nothing here says how model.path={model.path} is built: set model.path to a local folder, or write "
            "its architecture into conf/model/"
        )
    trains, rank, targets, whole_modules = cfg.recipe.name in ONLINE + OFFLINE, 0, model.lora_targets, ()
    if carries_adapter(cfg.adapter):
        carried = json.loads((adapter_folder(cfg.adapter) / "adapter_config.json").read_text(encoding="utf-8"))
        rank, whole_modules = carried["r"], tuple(carried.get("modules_to_save") or ())
        named = carried.get("target_modules")
        targets = ",".join(named) if isinstance(named, list) else targets
    elif trains:
        rank = model.lora_rank
    whole = not rank and (trains or not model.lora_rank)
    return Network(
        config=config,
        dtype=torch.float32 if whole and not hardware.load_in_4bit else DTYPES[hardware.precision],
        trained=whole and trains,
        four_bit=hardware.load_in_4bit,
        lora_rank=rank,
        lora_targets=targets,
        whole_modules=whole_modules,
        checkpointing=hardware.gradient_checkpointing and trains,
    )


def has_frozen_copy(recipe: DictConfig, policy: Network) -> bool:
    """Whether the reference policy is a second model: with adapters it is the policy without them."""
    if recipe.name in ("ppo", "reinforce"):
        return policy.trained and bool(recipe.trl.kl_coef)
    return policy.trained and (recipe.name == "dpo" or (recipe.name == "grpo" and bool(recipe.trl.beta)))


def has_critic(cfg: DictConfig) -> bool:
    """Whether there is a critic with a backbone of its own."""
    return cfg.recipe.name == "ppo" and cfg.value.name == "separate" and cfg.recipe.ratio == "token"


def judge_of(channels: dict[str, Any], device: str) -> tuple[Network, dict[str, Any]] | None:
    """The model of the channel that asks one on `device`, and the channel's settings. Raises UnknownModel."""
    for channel in channels.values():
        if channel and channel.get("_target_") == JUDGE and channel.get("device", "cpu") == device:
            config = known_config(channel["path"])
            if config is None:
                raise UnknownModel(f"nothing here says how the judge {channel['path']} is built: name a local folder")
            dtype = DTYPES[channel.get("precision", "fp32")]
            return Network(config, dtype, four_bit=channel.get("load_in_4bit", False)), channel
    return None
