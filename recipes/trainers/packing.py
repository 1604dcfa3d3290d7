"""Log-probabilities of a group with its prompt read once.

The completions of one prompt are laid end to end behind it in a single row; positions restart after the prompt,
and the attention mask lets a completion see the prompt and itself only. Numbers and gradients are those of padded
rows, to rounding, without reading the prompt for every completion and without padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from peft import PeftModel
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel


def full_attention(config: Any) -> bool:
    """Whether every layer attends to all that came before: windows and recurrent layers would mix packed rows."""
    kinds = getattr(config, "layer_types", None)  # not every architecture has these fields
    if kinds is not None:
        return all(kind == "full_attention" for kind in kinds)
    return not getattr(config, "sliding_window", None)


def token_logps(
    logits: torch.Tensor, ids: torch.Tensor, temperature: float, with_entropy: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probability of each id and, without gradient, the entropy of each distribution.

    logits (..., V) of any float type, ids (...); both results (...) in float32.
    """
    logits = logits.float() / temperature
    normaliser = logits.logsumexp(-1)
    logps = logits.gather(-1, ids.unsqueeze(-1)).squeeze(-1) - normaliser
    if not with_entropy:
        return logps, None
    with torch.no_grad():
        detached = logits.detach()
        entropy = normaliser - (torch.exp(detached - normaliser.unsqueeze(-1)) * detached).sum(-1)
    return logps, entropy


def chunked_logps(
    head: nn.Module, hidden: torch.Tensor, ids: torch.Tensor, temperature: float, with_entropy: bool, at_once: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """`token_logps` of `head(hidden)`, `at_once` tokens at a time; the backward pass computes their logits again.

    hidden (N, d), ids (N,); results (N,). Memory in the vocabulary is at_once x V.
    """
    again = torch.is_grad_enabled() and (hidden.requires_grad or any(p.requires_grad for p in head.parameters()))

    def chunk(h: torch.Tensor, i: torch.Tensor):
        return token_logps(head(h), i, temperature, with_entropy)

    found = [
        checkpoint(chunk, h, i, use_reentrant=False, preserve_rng_state=False) if again else chunk(h, i)
        for h, i in zip(hidden.split(at_once), ids.split(at_once), strict=True)
    ]
    logps = torch.cat([logps for logps, _ in found])
    return logps, torch.cat([entropy for _, entropy in found if entropy is not None]) if with_entropy else None


@contextmanager
def without_head(model: Any) -> Iterator[Any]:
    """The model gives hidden states where it would give logits; yields its output matrix."""
    causal = model
    while not isinstance(causal, PreTrainedModel):  # within wrappers: PEFT's, data-parallel's, DeepSpeed's
        causal = causal.get_base_model() if isinstance(causal, PeftModel) else causal.module
    head = causal.get_output_embeddings()
    causal.set_output_embeddings(nn.Identity())
    try:
        yield head
    finally:
        causal.set_output_embeddings(head)


def groups_of_rows(prompt_ids: torch.Tensor, prompt_mask: torch.Tensor) -> list[list[int]]:
    """Row indices of (B, P) prompts, rows with equal prompts together, in order of first appearance."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for row, (ids, mask) in enumerate(zip(prompt_ids.tolist(), prompt_mask.tolist(), strict=True)):
        groups.setdefault(tuple(i for i, m in zip(ids, mask, strict=True) if m), []).append(row)
    return list(groups.values())


def packed_logps(
    model: PreTrainedModel,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    completion_width: int,
    temperature: float,
    with_entropy: bool = False,
    logits_at_once: int = 0,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probabilities (B, C) of the completion tokens, and entropies (B, C) where asked for; 0 at padding.

    input_ids, attention_mask: (B, P + C), prompts left-padded, completions right-padded. One forward for each prompt.
    logits_at_once: tokens whose logits are in memory together; 0: all of a prompt's completions.
    """
    width = input_ids.shape[1] - completion_width
    lengths = attention_mask[:, width:].sum(1).tolist()
    logps = torch.zeros(input_ids.shape[0], completion_width, device=input_ids.device)
    entropies = torch.zeros_like(logps) if with_entropy else None
    for rows in groups_of_rows(input_ids[:, :width], attention_mask[:, :width]):
        prompt = input_ids[rows[0], :width][attention_mask[rows[0], :width].bool()]
        sizes = [lengths[row] for row in rows]
        completions = [input_ids[row, width : width + n] for row, n in zip(rows, sizes, strict=True)]
        inputs, predicts = pack(prompt, sizes)
        ids = torch.cat([prompt, *completions]).unsqueeze(0)
        if logits_at_once:
            with without_head(model) as head:
                hidden = model(input_ids=ids, use_cache=False, logits_to_keep=predicts, **inputs).logits[0]
            hidden = hidden.to(head.weight.dtype)  # autocast's forward gives float32, also where autocast is over
            found, entropy = chunked_logps(
                head, hidden, torch.cat(completions), temperature, with_entropy, logits_at_once
            )
        else:
            logits = model(input_ids=ids, use_cache=False, logits_to_keep=predicts, **inputs).logits[0]
            found, entropy = token_logps(logits, torch.cat(completions), temperature, with_entropy)
        at = torch.repeat_interleave(torch.tensor(rows), torch.tensor(sizes)).to(ids.device)
        column = torch.cat([torch.arange(n) for n in sizes]).to(ids.device)
        logps = logps.index_put((at, column), found)
        if entropies is not None and entropy is not None:
            entropies.index_put_((at, column), entropy)
    return logps, entropies


def pack(prompt: torch.Tensor, sizes: list[int]) -> tuple[dict[str, torch.Tensor | None], torch.Tensor]:
    """Positions and mask of [prompt, completion 0, 1...], and the position that predicts each completion token.

    One completion alone needs no mask of its own: None, for which attention has faster kernels.
    """
    p, device = len(prompt), prompt.device
    segment = torch.repeat_interleave(torch.arange(len(sizes) + 1), torch.tensor([p, *sizes])).to(device)
    positions = torch.cat([torch.arange(p), *(p + torch.arange(n) for n in sizes)]).to(device)
    mask = None
    if len(sizes) > 1:
        causal = torch.ones(len(segment), len(segment), dtype=torch.bool, device=device).tril()
        mask = (causal & ((segment[:, None] == segment) | (segment == 0)))[None, None]
    predicts = torch.arange(p - 1, len(segment) - 1, device=device)  # the token before, in the row
    starts = torch.tensor([0, *sizes[:-1]], device=device).cumsum(0)
    predicts[starts[torch.tensor(sizes, device=device) > 0]] = p - 1  # a first token is predicted by the prompt's last
    return {"attention_mask": mask, "position_ids": positions[None]}, predicts
