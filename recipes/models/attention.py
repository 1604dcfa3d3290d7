"""Attention as transformers' sdpa path computes it, in three shapes that cost less where they apply.

`grouped_sdpa`, for sampling: one new token a row folds grouped query heads into the query length instead of repeating
keys and values. `repeated_sdpa`, for GPUs before Ampere (a T4): without a mask transformers asks PyTorch for grouped
heads, which of CUDA's kernels only flash attention takes; it is not there, so the scores would be written out,
(B, H, T, T). With keys and values repeated the memory-efficient kernel takes them.

`packed_sdpa`, on CPUs for rows of a prompt and completions (recipes/trainers/packing.py): the prompt attends to
itself, each completion to the prompt and itself. A mask of the whole row would have the completions' scores with each
other computed and thrown away: with eight completions as long as their prompt, three quarters of all. Rows of examples
that begin alike (recipes/trainers/sft_dpo.py) are the same; where they share nothing, the prompt has no tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

AMPERE = (8, 0)
"""The compute capability from which on CUDA has flash attention."""
SHORT = 256
"""Tokens up to which PyTorch's attention on CPUs, backward pass included, takes less time in float32 than in bf16
(tests/bench/results/speed.md)."""


def attention_for(device: str) -> str:
    """The implementation for training on `device`, "cpu" or "cuda"."""
    return "sdpa" if device == "cpu" or torch.cuda.get_device_capability() >= AMPERE else "repeated_sdpa"


def usual(module, query, key, value, attention_mask, **kwargs):
    """The attention that training has without packed rows."""
    attention = sdpa_attention_forward if attention_for(query.device.type) == "sdpa" else repeated_sdpa
    return attention(module, query, key, value, attention_mask, **kwargs)


def grouped_sdpa(module, query, key, value, attention_mask, **kwargs):
    """Attention of one new token a row: (B, H, 1, D) queries seen as (B, KV, H/KV, D); of several as in training."""
    heads, kv_heads = query.shape[1], key.shape[1]
    if query.shape[2] != 1 or heads == kv_heads:
        return usual(module, query, key, value, attention_mask, **kwargs)
    folded = query.reshape(query.shape[0], kv_heads, heads // kv_heads, query.shape[3])
    out = scaled_dot_product_attention(folded, key, value, attn_mask=attention_mask, scale=kwargs.get("scaling"))
    return out.reshape(query.shape[0], 1, heads, query.shape[3]), None


def repeated_sdpa(module, query, key, value, attention_mask, **kwargs):
    """Attention without a mask, (B, H, T, D) queries and (B, KV, T, D) keys: the keys repeated. With a mask sdpa's path
    does that itself."""
    groups = query.shape[1] // key.shape[1]
    if attention_mask is not None or groups == 1:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    is_causal: Any = kwargs.get("is_causal")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    out = scaled_dot_product_attention(
        query,
        key.repeat_interleave(groups, 1),
        value.repeat_interleave(groups, 1),
        dropout_p=kwargs.get("dropout", 0.0),
        is_causal=causal and query.shape[2] > 1,
        scale=kwargs.get("scaling"),
    )
    return out.transpose(1, 2).contiguous(), None


def packed_sdpa(module, query, key, value, attention_mask, segments: tuple[int, Sequence[int]] | None = None, **kwargs):
    """Attention of a row of a prompt and completions, where `segments` gives their lengths in tokens; else as usual.

    query (B, H, T, D), key and value (B, KV, T, D); the result is (B, T, H, D). With segments the mask is not read.
    """
    if segments is None:
        return usual(module, query, key, value, attention_mask, **kwargs)
    device = query.device.type
    if torch.is_autocast_enabled(device):  # here, so that the backward pass can make the copies below again
        query, key, value = (states.to(torch.get_autocast_dtype(device)) for states in (query, key, value))
    # pieces by split, whose backward pass puts their gradients together once; slices would add up rows of zeros
    lengths = [segments[0], *segments[1]]
    prompt, *completions = zip(*(states.split(lengths, 2) for states in (query, key, value)), strict=True)
    how = {"dropout_p": kwargs.get("dropout", 0.0), "scale": kwargs.get("scaling")}

    def alone(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = _wide(q.shape[2], query, q, k, v)
        return usual(module, q, k, v, None, **kwargs)[0].to(query.dtype)

    with torch.autocast(device, enabled=False):  # which would narrow what is widened
        out = [alone(*prompt)] if segments[0] else []
        for piece, length in zip(completions, segments[1], strict=True):
            if length:
                out.append(_behind(prompt, piece, how) if segments[0] else alone(*piece))
    return torch.cat(out, 1), None


Pieces = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Query (B, H, T, D), key and value (B, KV, T, D) of some of a row's tokens."""


def _wide(tokens: int, query: torch.Tensor, *states: torch.Tensor) -> list[torch.Tensor]:
    """`states` in float32 where the backward pass through `tokens` tokens is faster so."""
    short = query.device.type == "cpu" and query.requires_grad and tokens <= SHORT
    return [each.float() for each in states] if short else list(states)


def _behind(prompt: Pieces, piece: Pieces, how: dict[str, Any]) -> torch.Tensor:
    """Attention of a completion's tokens to the prompt and to themselves: (B, T, H, D).

    Heads that share keys are folded into the query length, so that keys are not repeated, and what is put together here
    is not kept for the backward pass but made again, unless gradient checkpointing makes everything again.
    """
    query, (_, shared_key, shared_value), (_, key, value) = piece[0], prompt, piece
    rows, heads, size, width = query.shape
    kv_heads = key.shape[1]
    (folded,) = _wide(size, query, query.reshape(rows, kv_heads, heads // kv_heads * size, width))

    def seen(*both: torch.Tensor) -> torch.Tensor:
        return _wide(size, query, torch.cat(both, 2))[0]

    keys, values = seen(shared_key, key), seen(shared_value, value)
    sources = {
        keys.data_ptr(): (shared_key.detach(), key.detach()),
        values.data_ptr(): (shared_value.detach(), value.detach()),
    }
    shape = keys.shape

    def pack(kept: torch.Tensor) -> torch.Tensor | int:
        # detached: an output that its own graph keeps would hold that graph for ever where no backward pass frees it
        return kept.data_ptr() if kept.data_ptr() in sources and kept.shape == shape else kept.detach()

    def unpack(kept: torch.Tensor | int) -> torch.Tensor:
        return seen(*sources[kept]) if isinstance(kept, int) else kept

    mask = _causal_behind(shared_key.shape[2], size, heads // kv_heads, folded.dtype, query.device)
    # the innermost hooks alone are asked, so these would take from checkpointing what it wants to drop
    with nullcontext() if others_keep() else saved_tensors_hooks(pack, unpack):
        out = scaled_dot_product_attention(folded, keys, values, attn_mask=mask, **how)
    return out.reshape(rows, heads, size, width).transpose(1, 2).to(query.dtype)


def others_keep() -> bool:
    """Whether somebody else, such as gradient checkpointing, decides what is kept for the backward pass."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


@lru_cache(maxsize=16)
def _causal_behind(prompt: int, size: int, groups: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """(1, 1, groups * size, prompt + size): 0 at what each new token sees, else minus infinity.

    A mask of booleans would be converted in each layer, and each would keep its own for the backward pass.
    """
    unseen = torch.ones(size, prompt + size, dtype=torch.bool, device=device).triu(prompt + 1)
    mask = torch.zeros(unseen.shape, dtype=dtype, device=device).masked_fill_(unseen, -torch.inf)
    return mask.repeat(groups, 1)[None, None]


ATTENTIONS = {"grouped_sdpa": grouped_sdpa, "repeated_sdpa": repeated_sdpa, "packed_sdpa": packed_sdpa}
for _name, _attention in ATTENTIONS.items():
    AttentionInterface.register(_name, _attention)
    AttentionMaskInterface.register(_name, sdpa_mask)
