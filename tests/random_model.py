"""A Llama of two layers with random weights and SmolLM2's tokenizer, as a folder: the whole path in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def save_random_llama(folder: Path, tokenizer: Any, hidden: int, inner: int, heads: int, kv_heads: int) -> Path:
    """Write the model, seed 0, and its tokenizer to `folder`.

    Args:
        hidden, inner: widths of the layers and of their feed-forward parts.
        heads, kv_heads: number of attention heads, and of heads for keys and values.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=2,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        vocab_size=len(tokenizer),
        tie_word_embeddings=True,
        eos_token_id=2,
        pad_token_id=2,
        bos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
