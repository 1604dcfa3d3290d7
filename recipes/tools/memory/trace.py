"""How much memory a pass through a model takes, without making it: its own code, on tensors without numbers.

Networks of one layer and of two are built of fake tensors (PyTorch's FakeTensorMode: shapes, dtypes and storages, no
memory). A pass runs on them, and every storage that comes and goes is counted. What a layer keeps for the backward pass
is the difference between the two networks, so the sum for the whole depth follows, without a formula for any
architecture. Many forward passes before one backward pass follow from few in the same way. Logits are no part of it:
trainers treat them each in its own way (planner.py has their arithmetic).
"""

from __future__ import annotations

import functools
import weakref
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AttentionInterface, DynamicCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from recipes.tools.memory.network import Network
from recipes.trainers.packing import causal_lm

AttentionInterface.register("causal_sdpa", sdpa_attention_forward)  # without a mask, which fake ids would ask for
LAYERS = (1, 2)
"""Of the two networks that are traced."""
PASSES = (2, 3)
"""Forward passes that are traced in place of more than their sum; beside what is kept, three hold as much as more."""


@dataclass(frozen=True)
class Batch:
    """The ids of one pass.

    rows, tokens: of each forward pass. forwards: how many there are, one after the other, before the backward pass.
    mask: shape of the attention mask; None where attention is causal and nothing else.
    """

    rows: int
    tokens: int
    forwards: int = 1
    mask: tuple[int, ...] | None = None


class Traced(NamedTuple):
    """Bytes of a pass through all layers, beside weights and gradients: what is kept when the forward pass is done, and
    the fullest moment of the whole pass. As activations and casts (weights in the dtype of the products)."""

    kept: dict[str, float]
    fullest: dict[str, float]


class _Counted(NamedTuple):
    """Bytes: activations and casts that are kept after the forward passes, and what the fullest moment has beside."""

    kept: float
    casts: float
    on_top: float

    def and_further(self, fewer: _Counted, times: int) -> _Counted:
        """And `times` what this keeps more than `fewer`, which has a layer or a pass less."""
        kept, casts = self.kept - fewer.kept, self.casts - fewer.casts
        return _Counted(self.kept + times * kept, self.casts + times * casts, self.on_top)


class MemoryTracer(TorchDispatchMode):
    """Counts the bytes of storages that operations make, while they live: `alive` now, and `peak` at once.

    Args:
        held: tensors that are there before; their storages are not counted. Their copies in another dtype are casts.
    """

    def __init__(self, held: list[torch.Tensor]):
        super().__init__()
        self._held = {_storage(tensor) for tensor in held}
        self._counted: dict[int, weakref.ref] = {}
        self.alive, self.casts, self.peak = 0, 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        is_cast = func is torch.ops.aten._to_copy.default and _storage(args[0]) in self._held
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self._count(tensor, is_cast)
        return out

    def _count(self, tensor: torch.Tensor, is_cast: bool) -> None:
        key, storage = _storage(tensor), tensor.untyped_storage()
        if key in self._counted or key in self._held:
            return
        size = storage.nbytes()
        self._counted[key] = weakref.ref(storage, lambda _: self._freed(key, size, is_cast))
        self.alive += size
        self.casts += size * is_cast
        self.peak = max(self.peak, self.alive)

    def _freed(self, key: int, size: int, was_cast: bool) -> None:
        del self._counted[key]
        self.alive -= size
        self.casts -= size * was_cast


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


@functools.lru_cache(256)
def traced(
    network: Network, batch: Batch, autocast: torch.dtype | None = None, learns: bool = False, cached: bool = False
) -> Traced:
    """A pass of `batch` through `network`, in products of the dtype `autocast` where it is set: forward and backward
    where it `learns`, else forward alone. cached: keys and values are kept, as activations.

    The trained weights have their gradients from the start, as after an earlier pass; none are counted.
    """
    layers, passes = network.shape.num_hidden_layers, batch.forwards

    def of_depth(depth: int) -> _Counted:
        if passes <= sum(PASSES):
            return _trace(network, depth, batch, autocast, learns, cached)
        fewer, more = (
            _trace(network, depth, replace(batch, forwards=number), autocast, learns, cached) for number in PASSES
        )
        return more.and_further(fewer, passes - PASSES[1])

    whole = of_depth(min(layers, LAYERS[1]))
    if layers > LAYERS[1]:
        whole = whole.and_further(of_depth(LAYERS[0]), layers - LAYERS[1])
    kept, casts, on_top = whole
    return Traced({"activations": kept, "casts": casts}, {"activations": kept + on_top, "casts": casts})


def _trace(
    network: Network, depth: int, batch: Batch, autocast: torch.dtype | None, learns: bool, cached: bool
) -> _Counted:
    """The passes of `batch` through `depth` layers."""
    model = network.build(depth).train(learns)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model.to_empty(device="cpu")
        causal_lm(model).tie_weights()  # made anew, they are apart
        if batch.mask is None:
            causal_lm(model).set_attn_implementation("causal_sdpa")
        held = [*model.parameters(), *model.buffers()]
        for weight in [tensor for tensor in held if tensor.requires_grad]:
            weight.grad = torch.empty_like(weight)
            held.append(weight.grad)
        with MemoryTracer(held) as tracer, torch.set_grad_enabled(learns):
            ids = torch.zeros(batch.rows, batch.tokens, dtype=torch.long)
            inputs: dict[str, Any] = {"input_ids": ids, "position_ids": torch.arange(batch.tokens).expand_as(ids)}
            inputs["attention_mask"] = None if batch.mask is None else torch.ones(batch.mask, dtype=torch.bool)
            with torch.autocast("cpu", autocast) if autocast else nullcontext():
                caches = [DynamicCache(config=model.config) if cached else None for _ in range(batch.forwards)]
                calls = [{**inputs, "past_key_values": cache, "use_cache": cached} for cache in caches]
                logits = [model(**call, logits_to_keep=1).logits for call in calls]
                kept, casts = tracer.alive, tracer.casts
            if learns:
                torch.stack(logits).sum().backward()
    return _Counted(kept - casts, casts, tracer.peak - kept)
