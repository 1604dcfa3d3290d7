"""Attention as transformers' sdpa path computes it, in two shapes that cost less where they apply.

`grouped_sdpa`, for sampling: one new token a row folds grouped query heads into the query length instead of repeating
keys and values. `repeated_sdpa`, for GPUs before Ampere (a T4): without a mask transformers asks PyTorch for grouped
heads, which of CUDA's kernels only flash attention takes; it is not there, so the scores would be written out,
(B, H, T, T). With keys and values repeated the memory-efficient kernel takes them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

AMPERE = (8, 0)
"""The compute capability from which on CUDA has flash attention."""


def attention_for(device: str) -> str:
    """The implementation for training on `device`, "cpu" or "cuda"."""
    return "sdpa" if device == "cpu" or torch.cuda.get_device_capability() >= AMPERE else "repeated_sdpa"


def grouped_sdpa(module, query, key, value, attention_mask, **kwargs):
    """Attention of one new token a row: (B, H, 1, D) queries seen as (B, KV, H/KV, D); of several as in training."""
    heads, kv_heads = query.shape[1], key.shape[1]
    if query.shape[2] != 1 or heads == kv_heads:
        usual = sdpa_attention_forward if attention_for(query.device.type) == "sdpa" else repeated_sdpa
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


for _name, _attention in {"grouped_sdpa": grouped_sdpa, "repeated_sdpa": repeated_sdpa}.items():
    AttentionInterface.register(_name, _attention)
    AttentionMaskInterface.register(_name, sdpa_mask)
