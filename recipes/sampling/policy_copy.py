"""A copy of the policy to sample from, adapters merged, in the dtype that samples fastest."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from peft import LoraConfig, PeftModel
from peft.tuners.lora import LoraLayer
from torch import nn
from transformers import PreTrainedModel

import recipes.models.attention  # noqa: F401  (registers grouped_sdpa)
from recipes.cli.errors import UserError


class SamplingCopy:
    """A copy of the policy, adapters merged, in the dtype that samples fastest.

    `sync` brings over what training changed. Raises UserError for adapters that cannot be merged.

    Full-precision masters under autocast would be cast again at every token, and an unmerged adapter doubles the
    number of matrix products. Merged weights are rounded once an update; the masters never are.
    """

    def __init__(self, policy: PreTrainedModel | PeftModel, dtype: torch.dtype):
        require_mergeable(policy)
        plain = copy.deepcopy(policy)
        if isinstance(plain, PeftModel):
            plain = plain.merge_and_unload()
        # TRL (from 1.15) and Accelerate put a forward of their own into the policy; TRL's is bound to the policy itself
        vars(plain).pop("forward", None)
        exact = [(name, buffer.clone()) for name, buffer in plain.named_buffers() if buffer.is_floating_point()]
        self.model = plain.to(dtype).eval().requires_grad_(False)
        for name, buffer in exact:  # RoPE's frequencies: rounded, they turn far tokens by another angle
            owner, _, own = name.rpartition(".")
            setattr(self.model.get_submodule(owner), own, buffer)
        self.model.set_attn_implementation("grouped_sdpa")

    @torch.no_grad()
    def sync(self, policy: PreTrainedModel | PeftModel) -> PreTrainedModel:
        """Copy the trained parameters; returns the copy, ready to sample."""
        targets = dict(self.model.named_parameters())
        for name, weight in merged_weights(policy, trained_alone=True):
            targets[name].copy_(weight)
        return self.model


def require_mergeable(policy: PreTrainedModel | PeftModel) -> None:
    """Raise UserError where merged weights would not be the policy's: an adapter that is more than LoRA's two matrices
    is not merged whole, one on one side of an embedding that input and output share changes both, and one of experts
    has no weight of its own to add to."""
    if not isinstance(policy, PeftModel):
        return
    if more := _more_than_lora(policy.peft_config["default"]):
        raise UserError(
            f"hardware.sampling_copy, recipe.lookahead and vLLM sample from merged weights, and this adapter {more}: "
            "set hardware.sampling_copy=false, without lookahead and vLLM"
        )
    base = policy.get_base_model()
    ends = {id(module) for module in (base.get_input_embeddings(), base.get_output_embeddings())}
    tied = base.config.get_text_config().tie_word_embeddings
    for name, module in base.named_modules():
        if not isinstance(module, LoraLayer):
            continue
        if not isinstance(module.base_layer, nn.Module) or not hasattr(module.base_layer, "weight"):
            reason = f"its adapter on {name} cannot be merged"
        elif tied and {id(module), id(module.base_layer)} & ends:
            reason = f"its adapter on {name} is on one side of an embedding that input and output share"
        else:
            continue
        raise UserError(
            f"hardware.sampling_copy, recipe.lookahead and vLLM sample from merged weights, and {reason}: leave these "
            "modules out of model.lora_targets, or set hardware.sampling_copy=false"
        )


def _more_than_lora(config: Any) -> str | None:
    """What an adapter has that `merged_weights` leaves out."""
    if not isinstance(config, LoraConfig):
        return "is no LoRA"
    names = ("use_dora", "modules_to_save", "lora_bias", "trainable_token_indices")
    return next((f"has {name}" for name in names if getattr(config, name, None)), None)


@torch.no_grad()
def merged_weights(
    policy: PreTrainedModel | PeftModel, trained_alone: bool = False
) -> Iterator[tuple[str, torch.Tensor]]:
    """The policy's weights under the names of its base model, a shared one once; merged with an adapter in float32.

    trained_alone: leave out those that training does not change.
    """
    base = policy
    adapted: set[str] = set()
    if isinstance(policy, PeftModel):
        base = policy.get_base_model()
        for name, module in base.named_modules():
            if isinstance(module, LoraLayer):
                delta = sum(module.get_delta_weight(adapter) for adapter in module.active_adapters)
                adapted.add(f"{name}.base_layer.weight")
                yield f"{name}.weight", module.base_layer.weight.float() + delta.float()
    for name, parameter in base.named_parameters():
        if name in adapted or ".lora_" in name:
            continue
        if parameter.requires_grad or not trained_alone:
            yield name.replace(".base_layer.", "."), parameter.detach()
