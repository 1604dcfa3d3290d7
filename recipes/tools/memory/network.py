"""What is known of a model before its weights are loaded: its configuration, how many weights it has, of which kind."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig

from envs.local_models import PACKAGE, converted
from envs.task import TaskError
from recipes.cli.errors import UserError
from recipes.cli.schema import CONF, as_dict
from recipes.models.load import SCRATCH
from recipes.models.tiny import scratch_config

NF4 = 0.5 + 4 / 64
"""Bytes a weight: four bits, and a float32 scale for each 64 (Dettmers et al. 2023, arXiv 2305.14314, not double)."""


@dataclass(frozen=True)
class Network:
    """A model as a run holds it, as far as memory goes. Numbers are of all layers.

    config: its config.json. dtype: of the weights; of a 4-bit model, of its products. trained: whether every weight is.
    four_bit: the matrices of its layers are packed. lora_rank: of its adapters, which are float32; 0 for none.
    whole_modules: those that are trained whole beside the adapters.
    checkpointing: activations are computed again in the backward pass.
    """

    config: str
    dtype: torch.dtype
    trained: bool = False
    four_bit: bool = False
    lora_rank: int = 0
    lora_targets: str = "all-linear"
    whole_modules: tuple[str, ...] = ()
    checkpointing: bool = False

    @property
    def shape(self) -> PreTrainedConfig:
        """The fields of its config.json: layers, heads, sizes."""
        return _whole(self.config).config

    @property
    def parameters(self) -> int:
        """Weights, without adapters; tied ones count once."""
        return sum(parameter.numel() for parameter in _whole(self.config).parameters())

    @property
    def adapters(self) -> int:
        """Weights of its adapters."""
        suffixes = (
            ("",) if self.lora_targets == "all-linear" else tuple(f".{name}" for name in self.lora_targets.split(","))
        )
        adapted = [m for name, m in _matrices(self.config) if f".{name}".endswith(suffixes)]
        saved = tuple(f".{name}" for name in self.whole_modules)
        whole = [m for name, m in _whole(self.config).named_modules() if saved and f".{name}".endswith(saved)]
        copied = sum(parameter.numel() for module in whole for parameter in module.parameters())
        return copied + self.lora_rank * sum(m.in_features + m.out_features for m in adapted)

    @property
    def weight_bytes(self) -> float:
        """Bytes of its weights, without adapters."""
        packed = sum(m.weight.numel() for _, m in _matrices(self.config)) if self.four_bit else 0
        return packed * NF4 + (self.parameters - packed) * self.dtype.itemsize

    @property
    def cache(self) -> int:
        """Numbers kept of one token while sampling: its keys and values."""
        shape = self.shape
        head_size = getattr(shape, "head_dim", None) or shape.hidden_size // shape.num_attention_heads
        heads = getattr(shape, "num_key_value_heads", None) or shape.num_attention_heads
        return 2 * shape.num_hidden_layers * heads * head_size

    def build(self, depth: int) -> Any:
        """The network with `depth` layers, and its adapters, on the meta device: its weights have no values."""
        model = _build(self.config, depth, self.dtype).requires_grad_(self.trained)
        if self.lora_rank:
            targets = self.lora_targets if self.lora_targets == "all-linear" else self.lora_targets.split(",")
            with torch.device("meta"):
                lora = LoraConfig(r=self.lora_rank, target_modules=targets, task_type="CAUSAL_LM")
                try:
                    model = get_peft_model(model, lora)
                except ValueError as error:
                    raise UserError(
                        f"model.lora_targets={self.lora_targets}: {' '.join(str(error).split())}; name modules of the "
                        "model, or all-linear"
                    ) from None
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.data = parameter.data.float()
        if self.checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
            model.enable_input_require_grads()
        return model


def layers_of(model: nn.Module) -> nn.ModuleList:
    """The transformer's layers."""
    return max((m for m in model.modules() if isinstance(m, nn.ModuleList)), key=len)


def _build(config_json: str, depth: int, dtype: torch.dtype) -> Any:
    config = AutoConfig.for_model(**json.loads(config_json))
    config.num_hidden_layers = depth
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:depth]
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, dtype=dtype)


@functools.lru_cache(32)
def _whole(config_json: str) -> Any:
    return _build(config_json, json.loads(config_json)["num_hidden_layers"], torch.float32)


def _matrices(config_json: str) -> list[tuple[str, nn.Linear]]:
    """The matrices of the layers with their names: what 4-bit loading packs and LoRA adapts."""
    return [(name, m) for name, m in layers_of(_whole(config_json)).named_modules() if isinstance(m, nn.Linear)]


# configurations ---------------------------------------------------------------------------------------------------


def known_config(path: str, scratch: dict[str, Any] | None = None) -> str | None:
    """The config.json of the model at `path`: from its folder, its package's or the hub's cache on this machine, or the
    file in conf/model/ that names it. The hub is not asked; None where nothing here knows it.

    scratch: model.scratch of the configuration, where `path` is "scratch".
    """
    if path == SCRATCH:
        return _json(scratch_config(**(scratch or {})))
    folder = local_folder(path)
    written = next((model for model in written_models() if model.path == path), None)
    if folder is None and written is not None:
        return _json(AutoConfig.for_model(**as_dict(written.architecture)))
    try:
        return _json(AutoConfig.from_pretrained(folder or path, local_files_only=True))
    except (OSError, ValueError):
        return None


def local_folder(path: str) -> Path | None:
    """Where the model at `path` lies on this machine: its folder, or its package's converted once. None: not yet."""
    folder = Path(path).expanduser()
    if path.startswith(PACKAGE):
        try:
            folder = converted(path.removeprefix(PACKAGE))
        except TaskError:
            return None
    return folder if (folder / "config.json").exists() else None


@functools.cache
def written_models() -> list[Any]:
    """The files of conf/model/ that have an architecture: each with `name`, `path` and `architecture`."""
    files: list[Any] = [OmegaConf.load(file) for file in sorted((Path(CONF) / "model").glob("*.yaml"))]
    return [file for file in files if file.get("architecture")]


def _json(config: PreTrainedConfig) -> str:
    return json.dumps(config.to_dict(), sort_keys=True, default=str)
