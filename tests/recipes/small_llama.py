"""A small Llama whose passes a test can run, and configurations to plan, for the tests of the plan of memory."""

from __future__ import annotations

import json

import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig

from recipes.cli import schema
from recipes.cli.schema import CONF

SMALL = {
    "vocab_size": 4096,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 6,
    "tie_word_embeddings": True,
}


def config() -> str:
    return json.dumps(LlamaConfig(**SMALL).to_dict(), sort_keys=True, default=str)


def composed(*overrides: str):
    schema.register()
    with initialize_config_dir(CONF, version_base="1.3"):
        cfg = compose("config", list(overrides))
    OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    return cfg


def real_model(rank: int, checkpointing: bool, dtype: torch.dtype = torch.float32):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SMALL), dtype=dtype)
    if rank:
        model = get_peft_model(model, LoraConfig(r=rank, target_modules="all-linear", task_type="CAUSAL_LM"))
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    return model.train()


def total(parts) -> float:
    return sum(parts.values())
