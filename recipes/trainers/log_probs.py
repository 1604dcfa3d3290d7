"""Log-probabilities, entropies and hidden states of completions: each prompt is read once, the vocabulary in chunks.

The completions of one prompt lie end to end behind it in a single row (recipes/trainers/packing.py). Numbers and
gradients are those of padded rows, to rounding, without reading the prompt for every completion and without padding.
Rows that share no prompt, or would be too long together, are right-padded; causal attention alone keeps that padding
out.

Only hidden states before tokens that the policy wrote meet the output matrix (not what an environment replied between
two turns), some at a time, and in training each chunk's logits are computed again in the backward pass: memory in the
vocabulary is chunk x V, whatever the batch and its length.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from peft import PeftModel
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from recipes.cli.errors import UserError
from recipes.trainers.packing import Rows, attends_by_segment, causal_lm, pack, passes, unwrapped

CHUNK = 256
"""Tokens whose logits PPO has in memory at once: 50 MB in float32 at a vocabulary of 50,000."""
Entropy = Literal["metric", "loss"] | None
"""What entropies are asked for: as a metric they have no gradient, as a term of the loss they have one."""


# through the whole model, as a trainer of TRL's has it wrapped: GRPO ------------------------------------------


def packed_logps(
    model: nn.Module, rows: Rows, temperature: float, entropy: Entropy = None, logits_at_once: int = 0
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probabilities (B, T) of the completion tokens, and entropies (B, T) where asked for; 0 at padding and at what
    the policy did not write.

    logits_at_once: tokens whose logits are in memory together; 0: all of a forward pass.
    """
    logps = torch.zeros(len(rows.prompts), rows.width, device=rows.device)
    entropies = torch.zeros_like(logps) if entropy else None
    for groups in passes(model, rows.by_prompt()):
        inputs, predicts = _packed(rows, groups, attends_by_segment(model))
        members = [row for group in groups for row in group]
        sizes = [len(rows.completions[row]) for row in members]
        targets = torch.tensor([i for row in members for i in rows.completions[row]], dtype=torch.long)
        targets = targets.to(rows.device)
        at = torch.repeat_interleave(torch.tensor(members), torch.tensor(sizes)).to(rows.device)
        column = torch.cat([torch.arange(n) for n in sizes]).to(rows.device)
        if rows.written is not None:
            kept = rows.among(members)
            predicts, targets, at, column = predicts[kept], targets[kept], at[kept], column[kept]
        if logits_at_once:
            hidden, head = states_at(model, predicts, inputs)
            hidden = hidden.to(head.weight.dtype)  # autocast's forward gives float32, also where autocast is over
            of_pass, of_tokens = chunked_logps(head, hidden, targets, temperature, entropy, logits_at_once)
        else:
            of_pass, of_tokens = token_logps(_logits_at(model, predicts, inputs), targets, temperature, entropy)
        logps = logps.index_put((at, column), of_pass)
        if entropies is not None and of_tokens is not None:
            entropies = entropies.index_put((at, column), of_tokens)
    return logps, entropies


def _packed(rows: Rows, groups: list[list[int]], by_segment: bool) -> tuple[dict[str, Any], torch.Tensor]:
    prompts = [rows.prompts[group[0]] for group in groups]
    return pack(prompts, [[rows.completions[row] for row in group] for group in groups], rows.device, by_segment)


class _HeadAt(nn.Module):
    """An output matrix that reads some places of rows (B, T, d) put end to end, (1, n, d), and no others."""

    def __init__(self, head: nn.Module, places: torch.Tensor):
        super().__init__()
        self.head, self.places = head, places

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.head(hidden.flatten(0, 1)[self.places][None])


def _logits_at(model: nn.Module, places: torch.Tensor, inputs: dict[str, Any]) -> torch.Tensor:
    """(n, V) logits of n places in rows that are put end to end."""
    if len(inputs["input_ids"]) == 1:
        return model(**inputs, use_cache=False, logits_to_keep=places).logits[0]
    head = unwrapped(model).get_output_embeddings()
    with _another_head(model, _HeadAt(head, places)):
        return model(**inputs, use_cache=False).logits[0]


def states_at(model: nn.Module, places: torch.Tensor, inputs: dict[str, Any]) -> tuple[torch.Tensor, nn.Linear]:
    """(n, d) hidden states before the output matrix, of n places in rows that are put end to end, and that matrix."""
    head = unwrapped(model).get_output_embeddings()
    with _another_head(model, _HeadAt(nn.Identity(), places)):
        return model(**inputs, use_cache=False).logits[0], head


@contextmanager
def _another_head(model: Any, other: nn.Module) -> Iterator[None]:
    causal = unwrapped(model)
    head = causal.get_output_embeddings()
    causal.set_output_embeddings(other)
    try:
        yield
    finally:
        causal.set_output_embeddings(head)


# through the transformer, whose hidden states the critic reads too: PPO -----------------------------------------


def hidden_states(backbone: nn.Module, rows: Rows) -> torch.Tensor:
    """Last hidden states before each completion token, and after the last where T has room: (B, T, d)."""
    groups = rows.groups()
    if len(groups) == len(rows.prompts):
        return _padded_states(backbone, rows)
    together = passes(backbone, groups)
    parts = [_packed_states(backbone, rows, each) for each in together]
    order = torch.tensor([row for group in groups for row in group], device=rows.device)
    return torch.cat(parts)[order.argsort()]


def _padded_states(backbone: nn.Module, rows: Rows) -> torch.Tensor:
    joined = [[*p, *c] for p, c in zip(rows.prompts, rows.completions, strict=True)]
    ids = torch.zeros(len(joined), max(map(len, joined)), dtype=torch.long)  # nothing attends to what is behind a row
    for row, sequence in enumerate(joined):
        ids[row, : len(sequence)] = torch.tensor(sequence)
    ids = ids.to(rows.device)
    positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    hidden = backbone(input_ids=ids, position_ids=positions, use_cache=False).last_hidden_state
    starts = torch.tensor([len(p) for p in rows.prompts], device=ids.device)
    at = (starts[:, None] - 1 + torch.arange(rows.width, device=ids.device)).clamp(max=ids.shape[1] - 1)
    return hidden.gather(1, at[..., None].expand(-1, -1, hidden.shape[-1]))


def _packed_states(backbone: nn.Module, rows: Rows, groups: list[list[int]]) -> torch.Tensor:
    """States of rows that share prompts, group after group: (G, T, d)."""
    inputs, _ = _packed(rows, groups, attends_by_segment(backbone))
    hidden = backbone(use_cache=False, **inputs).last_hidden_state
    places = []
    for number, group in enumerate(groups):
        prompt, sizes = len(rows.prompts[group[0]]), torch.tensor([len(rows.completions[row]) for row in group])
        ends = sizes.cumsum(0) + prompt
        at = torch.minimum((ends - sizes)[:, None] - 1 + torch.arange(rows.width), ends[:, None] - 1)
        at[:, 0] = prompt - 1
        places.append(at + number * hidden.shape[1])
    return hidden.flatten(0, 1)[torch.cat(places).to(rows.device)]


def completion_logps(
    head: nn.Module, hidden: torch.Tensor, rows: Rows, temperature: float, entropy: Entropy = None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probabilities (B, T) of completion tokens, and entropies (B, T) where asked for; 0 at padding and at what the
    policy did not write.

    head: the output matrix. hidden: (B, T, d) as `hidden_states` gives them.
    """
    mask = rows.mask
    logps, entropies = chunked_logps(head, hidden[mask], rows.targets, temperature, entropy, CHUNK)
    zeros = torch.zeros(mask.shape, device=mask.device)
    logps = zeros.masked_scatter(mask, logps)
    return logps, None if entropies is None else zeros.masked_scatter(mask, entropies)


# from logits to log-probabilities -------------------------------------------------------------------------------


def token_logps(
    logits: torch.Tensor, ids: torch.Tensor, temperature: float, entropy: Entropy = None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probability of each id and, where asked for, the entropy of each distribution, in nats.

    logits (..., V) of any float type, ids (...); both results (...) in float32.
    """
    logits = logits.float() / temperature
    normaliser = logits.logsumexp(-1)
    logps = logits.gather(-1, ids.unsqueeze(-1)).squeeze(-1) - normaliser
    if not entropy:
        return logps, None
    with torch.set_grad_enabled(entropy == "loss" and torch.is_grad_enabled()):
        entropies = normaliser - (torch.exp(logits - normaliser.unsqueeze(-1)) * logits).sum(-1)
    return logps, entropies


def chunked_logps(
    head: nn.Module, hidden: torch.Tensor, ids: torch.Tensor, temperature: float, entropy: Entropy, at_once: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """`token_logps` of `head(hidden)`, `at_once` tokens at a time; the backward pass computes their logits again.

    hidden (N, d), ids (N,); results (N,). Memory in the vocabulary is at_once x V.
    """
    again = torch.is_grad_enabled() and (hidden.requires_grad or any(p.requires_grad for p in head.parameters()))

    def chunk(h: torch.Tensor, i: torch.Tensor):
        return token_logps(head(h), i, temperature, entropy)

    chunks = [
        checkpoint(chunk, h, i, use_reentrant=False, preserve_rng_state=False) if again else chunk(h, i)
        for h, i in zip(hidden.split(at_once), ids.split(at_once), strict=True)
    ]
    logps = torch.cat([logps for logps, _ in chunks])
    return logps, torch.cat([each for _, each in chunks if each is not None]) if entropy else None


# what a model must be like --------------------------------------------------------------------------------------


def require_plain_head(model: PreTrainedModel | PeftModel) -> None:
    """Raise UserError for a model without a plain head (`has_plain_head`)."""
    if not has_plain_head(model):
        kind = causal_lm(model).config.model_type
        raise UserError(
            f"model.path: {kind} models change their logits after the output matrix, which this training does not: use "
            "recipes/grpo.py with hardware.logits_at_once=0, or another model"
        )


@torch.no_grad()
def has_plain_head(model: PreTrainedModel | PeftModel) -> bool:
    """Whether a model's logits are just hidden states times the output matrix, and not, for example, soft-capped."""
    plain = causal_lm(model)
    ids = torch.arange(1, 5, device=plain.device)[None] % plain.get_input_embeddings().weight.shape[0]
    whole = plain(input_ids=ids, use_cache=False).logits.float()
    ours = plain.get_output_embeddings()(plain.base_model(input_ids=ids, use_cache=False).last_hidden_state).float()
    return torch.allclose(whole, ours, rtol=1e-2, atol=1e-2)
