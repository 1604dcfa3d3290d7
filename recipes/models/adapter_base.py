"""Does an adapter belong to a model? By the name of its base and the shapes of its matrices; no weights are loaded."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.pytorch_utils import Conv1D

from envs.local_models import model_source
from recipes.cli.errors import UserError

PREFIX, FIRST = "base_model.model.", ".lora_A.weight"


def base_named_by(folder: Path) -> str:
    """The model that an adapter says it was trained on, "" if it says none."""
    return str(json.loads((folder / "adapter_config.json").read_bytes()).get("base_model_name_or_path") or "")


def check_adapter_base(model_path: str, folder: Path, by_name: bool = True) -> None:
    """Raise UserError where the adapter in `folder` was trained on another model than `model_path`, by its name (unless
    `by_name` is false: weights of another run have another) or by the shapes of its matrices."""
    source, named = model_source(model_path), base_named_by(folder)
    refused = f"adapter={folder} was trained on {named or 'another model'}, not on model={model_path}"
    if by_name and named and Path(named).name != Path(source).name:
        raise UserError(
            f"{refused}: choose that model; or, if it is the same under another name, set base_model_name_or_path in "
            "its adapter_config.json"
        )
    try:
        config = AutoConfig.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot load model={model_path}: {str(error).splitlines()[0]}") from None
    with torch.device("meta"):
        modules = dict(AutoModelForCausalLM.from_config(config).named_modules())
    weights = folder / "adapter_model.safetensors"
    if not weights.exists():
        raise UserError(f"adapter={folder} has no {weights.name}: save the adapter again with safe_serialization=True")
    with safe_open(weights, "pt") as file:
        for name in file.keys():  # noqa: SIM118  (no mapping)
            if name.startswith(PREFIX) and name.endswith(FIRST):
                place, width = name[len(PREFIX) : -len(FIRST)], file.get_slice(name).get_shape()[1]
                layer = _width(modules.get(place))
                if layer != width:
                    there = f"{layer} wide" if layer else "not there"
                    raise UserError(f"{refused}: its {place} takes {width} features, and the model's is {there}")


def _width(module: torch.nn.Module | None) -> int | None:
    """Features that a matrix takes; None for what is none."""
    if isinstance(module, Conv1D):
        return module.weight.shape[0]
    return getattr(module, "in_features", None)
