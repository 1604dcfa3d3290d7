"""How much memory a pass through a model takes, without making it: the code itself, on tensors without numbers.

A network of two layers and one of three are built of fake tensors (PyTorch's FakeTensorMode: shapes, dtypes and
storages, no memory). A pass runs on them, forward and backward; every storage that comes and goes is counted, and the
greatest sum at once is the pass's peak. What one layer adds is the difference between the two, so the peak for the
whole depth follows, without a formula for any architecture.

Ids, masks and positions stay real while they are small, so that code which looks at their values runs as ever.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from peft import PeftModel
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_any, tree_leaves

from recipes.support.network import Network, layers_of

DEPTHS = (2, 3)
"""Layers of the two networks that are traced: the first and the last layer may differ from those between them."""
Peak = dict[str, float]
"""Bytes alive at once: activations, logits, gradients, casts (weights in the dtype of the matrix products)."""
KINDS = ("activations", "logits", "gradients", "casts")
REAL = 1 << 22
"""Numbers that a real tensor may have: a larger one (the attention mask of a long row) is made without its values."""
MODE = FakeTensorMode(allow_non_fake_inputs=True)

aten = torch.ops.aten


class Live(TorchDispatchMode):
    """Counts the bytes of storages that operations make, while they live.

    Args:
        model: its weights are not counted.
        vocabulary: tensors with so many columns are logits.

    `peaks` has the greatest sum of each section; `cut` begins a new one.
    """

    def __init__(self, model: nn.Module, vocabulary: int):
        super().__init__()
        self._weights = {_key(t) for t in (*model.parameters(), *model.buffers())}
        self._vocabulary = vocabulary
        self._alive: dict[int, tuple[weakref.ref, int, str]] = {}
        self._bytes: Peak = dict.fromkeys(KINDS, 0)
        self.peaks: list[Peak] = [dict(self._bytes)]
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._is_gradient)

    def cut(self) -> None:
        """What comes next is a section of its own."""
        self.peaks.append(dict(self._bytes))

    def hold_gradients(self, model: nn.Module) -> None:
        """As after an earlier pass of the same update."""
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.grad = torch.empty_like(parameter)
                self._is_gradient(parameter)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is aten.index.Tensor:  # a mask says how many rows come out, which fake tensors cannot know
            args = (args[0], _places(args[1]))
        is_fake = tree_any(lambda leaf: isinstance(leaf, FakeTensor), (args, kwargs))
        out = func(*args, **kwargs) if is_fake else _small_or_fake(func, args, kwargs)
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self._see(tensor, func, args)
        return out

    def _see(self, tensor: torch.Tensor, func: Any, args: Any) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._alive or key in self._weights:
            return
        kind = "activations"
        if tensor.dim() and tensor.shape[-1] == self._vocabulary:
            kind = "logits"
        elif func is aten._to_copy.default and _key(args[0]) in self._weights:
            kind = "casts"
        size = storage.nbytes()
        self._alive[key] = (weakref.ref(storage, lambda _: self._gone(key)), size, kind)
        self._bytes[kind] += size
        if total(self._bytes) > total(self.peaks[-1]):
            self.peaks[-1] = dict(self._bytes)

    def _gone(self, key: int) -> None:
        _, size, kind = self._alive.pop(key)
        self._bytes[kind] -= size

    def _is_gradient(self, parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        key = _key(parameter.grad)
        if key in self._alive:
            reference, size, kind = self._alive[key]
            self._alive[key] = (reference, size, "gradients")
            self._bytes[kind] -= size
            self._bytes["gradients"] += size


def _key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _places(indices: Any) -> list[Any]:
    """Indices of a tensor, masks as the places where they are true."""
    found: list[Any] = []
    for index in indices:
        found += index.nonzero().unbind(1) if index is not None and index.dtype == torch.bool else [index]
    return found


def _small_or_fake(func: Any, args: Any, kwargs: Any) -> Any:
    """What an operation on real tensors gives, without its values where it is large."""
    try:
        with MODE:
            out = func(*args, **kwargs)
    except (DataDependentOutputException, DynamicOutputShapeException):
        return func(*args, **kwargs)
    large = any(isinstance(t, torch.Tensor) and t.numel() > REAL for t in tree_leaves(out))
    return out if large else func(*args, **kwargs)


def fake(module: Any) -> Any:
    """The module, its tensors replaced by fake ones that say they are on the CPU."""
    made: dict[int, torch.Tensor] = {}
    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if id(tensor) not in made:  # tied weights stay tied
                    made[id(tensor)] = _fake(tensor)
                tensors[name] = made[id(tensor)]
    return module


def _fake(tensor: torch.Tensor) -> torch.Tensor:
    made = FakeTensor(MODE, tensor.detach().to("meta"), torch.device("cpu"))
    return nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else made


def fake_model(network: Network, depth: int) -> Any:
    """The network with `depth` layers, its weights fake tensors."""
    model = fake(network.skeleton(depth))
    if not network.flash:
        (model.get_base_model() if isinstance(model, PeftModel) else model).set_attn_implementation("repeated_sdpa")
    if network.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    return model.train(network.trained or network.lora_rank > 0)


@contextmanager
def _cut_below_top_layer(model: Any, live: Live) -> Iterator[None]:
    """Begin a section where the backward pass leaves the last layer: before it all layers' activations are there,
    behind it gradients take their place, and which of the two is more depends on the depth."""

    def found(module: Any, args: Any, kwargs: Any) -> None:
        hidden = args[0] if args else kwargs["hidden_states"]
        if hidden.requires_grad:
            hidden.register_hook(lambda _: live.cut())

    handle = layers_of(model)[-1].register_forward_pre_hook(found, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def peak_of(network: Network, run: Callable[[Any, Live], None]) -> Peak:
    """The peak of `run(model, live)` at the network's whole depth, in bytes by kind."""
    depth = network.depth
    if depth <= DEPTHS[-1]:
        return max(_sections(network, depth, run), key=total)
    fewer, more = (_sections(network, d, run) for d in DEPTHS)
    whole = [
        {kind: a[kind] + (depth - DEPTHS[0]) * (b[kind] - a[kind]) / (DEPTHS[1] - DEPTHS[0]) for kind in KINDS}
        for a, b in zip(fewer, more, strict=True)
    ]
    return max(whole, key=total)


def _sections(network: Network, depth: int, run: Callable[[Any, Live], None]) -> list[Peak]:
    model = fake_model(network, depth)
    live = Live(model, model.config.vocab_size)
    with _cut_below_top_layer(model, live), live:
        run(model, live)
    return live.peaks


def total(peak: Mapping[str, float]) -> float:
    """All kinds together, bytes."""
    return sum(peak.values())
