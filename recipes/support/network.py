"""What is known of a model before its weights are: its configuration, how many weights there are, of which kind."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, LlamaConfig, PreTrainedConfig

from envs.packaged import PACKAGE, cache_dir, package_gguf
from envs.task import TaskError
from recipes.support.build import as_dict
from recipes.support.main import CONF
from recipes.support.memory import Architecture
from recipes.support.models import SCRATCH
from recipes.support.scratch import vocabulary_of

LAYERS = "num_hidden_layers"


@dataclass(frozen=True)
class Network:
    """A model as training holds it, as far as memory goes.

    facts: its configuration, as JSON. dtype: of the weights, with `four_bit` of the products. trained: every weight.
    lora_rank: of adapters, 0 for none. head: with the output matrix; False for a critic's backbone.
    flash: flash attention is there; not on GPUs before Ampere.
    """

    facts: str
    dtype: torch.dtype
    trained: bool = False
    four_bit: bool = False
    lora_rank: int = 0
    lora_targets: str = "all-linear"
    adapter_dtype: torch.dtype = torch.float32
    checkpointing: bool = False
    head: bool = True
    flash: bool = True

    @property
    def depth(self) -> int:
        """Layers."""
        return json.loads(self.facts)[LAYERS]

    @property
    def architecture(self) -> Architecture:
        """Its numbers of weights."""
        return _architecture(self.facts, self.lora_targets, self.head)

    def skeleton(self, depth: int) -> Any:
        """The network with `depth` layers and adapters, on the meta device: shapes without numbers."""
        with torch.device("meta"):
            model = _model(self.facts, depth, self.head, self.dtype).requires_grad_(self.trained)
            if self.lora_rank:
                config = LoraConfig(
                    r=self.lora_rank,
                    target_modules=_targets(self.lora_targets),
                    task_type="CAUSAL_LM" if self.head else None,
                )
                model = get_peft_model(model, config)
                for parameter in model.parameters():
                    if parameter.requires_grad:
                        parameter.data = parameter.data.to(self.adapter_dtype)
        return model


def _targets(said: str) -> Any:
    return said if said == "all-linear" else said.split(",")


def _model(facts: str, depth: int, head: bool, dtype: torch.dtype) -> Any:
    config = config_from(json.loads(facts))
    config.num_hidden_layers = depth
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:depth]
    return (AutoModelForCausalLM if head else AutoModel).from_config(config, dtype=dtype)


@functools.lru_cache(64)
def _architecture(facts: str, lora_targets: str, head: bool) -> Architecture:
    """From skeletons of one and of two layers."""
    layers = json.loads(facts)[LAYERS]
    one, two = (Network(facts, torch.float32, False, False, 1, lora_targets, head=head).skeleton(n) for n in (1, 2))
    counts = [_count(model) for model in (one, two)]
    matrices, vectors, adapter = (b - a for a, b in zip(*counts, strict=True))
    config = one.config
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    return Architecture(
        layers=layers,
        matrices=matrices,
        vectors=vectors,
        outside=sum(counts[0][:2]) - matrices - vectors,
        largest=max(p.numel() for p in one.parameters()),
        matrix=max(m.weight.numel() for m in layers_of(one).modules() if isinstance(m, nn.Linear)),
        adapter=adapter,
        cache=2 * layers * heads * head_dim,
        vocabulary=config.vocab_size,
        hidden=config.hidden_size,
    )


def _count(model: nn.Module) -> tuple[int, int, int]:
    """Weights in the layers' matrices, elsewhere, in adapters."""
    inside = {id(m.weight) for layer in layers_of(model) for m in layer.modules() if isinstance(m, nn.Linear)}
    matrices = vectors = adapter = 0
    for name, parameter in model.named_parameters():  # tied weights come once
        if ".lora_" in name:
            adapter += parameter.numel()
        elif id(parameter) in inside:
            matrices += parameter.numel()
        else:
            vectors += parameter.numel()
    return matrices, vectors, adapter


def layers_of(model: nn.Module) -> nn.ModuleList:
    """The transformer's layers."""
    return max((m for m in model.modules() if isinstance(m, nn.ModuleList)), key=len)


def find_facts(path: str, scratch: DictConfig | None = None) -> str | None:
    """The configuration of the model at `path` as JSON: from its folder, its package's or the hub's cache on this
    machine, or the file in conf/model/ that names it. The hub is not asked; None where nothing here knows it."""
    if path == SCRATCH:
        shape = as_dict(scratch)
        size = len(vocabulary_of(shape.pop("alphabet")))
        return _json(LlamaConfig(vocab_size=size, tie_word_embeddings=False, **shape))
    folder = local_folder(path)
    if folder is None and path in (written := _architectures()):
        return _json(config_from(written[path]))
    try:
        return _json(AutoConfig.from_pretrained(folder or path, local_files_only=True))
    except (OSError, ValueError):
        return None


def local_folder(path: str) -> Path | None:
    """Where the model at `path` lies on this machine: its folder, or its package's converted once. None: not yet."""
    folder = Path(path).expanduser()
    if path.startswith(PACKAGE):
        package = path.removeprefix(PACKAGE)
        try:
            folder = cache_dir() / f"{package}-{package_gguf(package).stem}"
        except TaskError:
            return None
    return folder if (folder / "config.json").exists() else None


@functools.cache
def _architectures() -> dict[str, dict[str, Any]]:
    """The architectures in conf/model/, by the models' paths."""
    return {file.path: as_dict(file.architecture) for file in _model_files() if file.get("architecture")}


@functools.cache
def written_down() -> dict[str, str]:
    """The models whose architecture conf/model/ has: paths by names."""
    return {file.name: file.path for file in _model_files() if file.get("architecture")}


@functools.cache
def _model_files() -> list[Any]:
    return [OmegaConf.load(file) for file in sorted((Path(CONF) / "model").glob("*.yaml"))]


def _json(config: PreTrainedConfig) -> str:
    return json.dumps(config.to_dict(), sort_keys=True, default=str)


def config_from(facts: dict[str, Any]) -> PreTrainedConfig:
    """A configuration from the fields of a config.json."""
    return AutoConfig.for_model(**facts)
