"""The lowest layers of a model, which training may leave as they are (model.frozen_layers).

An update then has no backward pass through them, and no optimizer step of them and of the embeddings: half of the
layers of SmolLM2-135M take half of its time (tests/bench/results/learning.md). Lee, Tang and Lin 2019, "What Would Elsa
Do? Freezing Layers During Transformer Fine-Tuning", arXiv 1911.03090.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from recipes.cli.errors import UserError


def layers_of(model: nn.Module) -> nn.ModuleList:
    """The transformer's layers."""
    return max((m for m in model.modules() if isinstance(m, nn.ModuleList)), key=len)


def check_frozen(frozen: int, layers: int) -> None:
    """Raise UserError where `frozen` of a model's `layers` leave none to train."""
    if frozen >= layers:
        raise UserError(f"model.frozen_layers={frozen}: the model has {layers} layers; set it below {layers}")


def freeze_lowest(model: Any, frozen: int) -> Any:
    """The model, whose `frozen` lowest layers and whose embeddings are not trained; with 0 all are. An output matrix
    that is tied to the embeddings is not trained either."""
    layers = layers_of(model)
    check_frozen(frozen, len(layers))
    if frozen:
        freeze_embeddings(model)
        layers[:frozen].requires_grad_(False)
    return model


def freeze_embeddings(model: nn.Module) -> None:
    """Leave the embeddings of tokens, and of positions where a model has them, as they are."""
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.requires_grad_(False)
