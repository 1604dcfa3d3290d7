"""What PPO needs of a forward pass: log-probabilities, entropies and values of completions, the vocabulary in chunks.

Rows are right-padded, so causal attention alone keeps padding out: no mask, and positions count from the first token.
Only hidden states of completion tokens meet the output matrix, `CHUNK` at a time, and in training each chunk's logits
are computed again in the backward pass. Memory in the vocabulary is CHUNK x V, whatever the batch and its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from peft import PeftModel
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from recipes.trainers.packing import token_logps

CHUNK = 256
"""Tokens whose logits are in memory at once: 50 MB in float32 at a vocabulary of 50,000."""


@dataclass(frozen=True)
class Rows:
    """Prompts and completions as one right-padded batch.

    ids: (B, W). starts: (B,) prompt lengths. lengths: (B,) completion lengths. width: T, columns of every result.
    """

    ids: torch.Tensor
    starts: torch.Tensor
    lengths: torch.Tensor
    width: int

    @property
    def mask(self) -> torch.Tensor:
        """(B, T), True at completion tokens."""
        return torch.arange(self.width, device=self.ids.device) < self.lengths[:, None]

    @property
    def completion_ids(self) -> torch.Tensor:
        """(B, T), whatever lies there where `mask` is False."""
        return self.ids.gather(1, self._at(self.starts))

    def before(self, hidden: torch.Tensor) -> torch.Tensor:
        """(B, W, d) to (B, T, d): the state before each completion token (and after the last, where T has room)."""
        at = self._at(self.starts - 1)
        return hidden.gather(1, at[..., None].expand(-1, -1, hidden.shape[-1]))

    def _at(self, first: torch.Tensor) -> torch.Tensor:
        columns = first[:, None] + torch.arange(self.width, device=first.device)
        return columns.clamp(max=self.ids.shape[1] - 1)


def rows_of(
    prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]], width: int, device: torch.device
) -> Rows:
    """Lay prompts and completions end to end. Padding is id 0 behind the last token: nothing attends to it."""
    joined = [[*p, *c] for p, c in zip(prompts, completions, strict=True)]
    ids = torch.zeros(len(joined), max(map(len, joined)), dtype=torch.long)
    for row, sequence in enumerate(joined):
        ids[row, : len(sequence)] = torch.tensor(sequence)
    starts = torch.tensor([len(p) for p in prompts], device=device)
    lengths = torch.tensor([len(c) for c in completions], device=device)
    return Rows(ids.to(device), starts, lengths, width)


def backbone_of(model: PreTrainedModel | PeftModel) -> nn.Module:
    """The transformer below the output matrix, adapters included."""
    return causal_lm(model).base_model


def causal_lm(model: PreTrainedModel | PeftModel) -> PreTrainedModel:
    return model.get_base_model() if isinstance(model, PeftModel) else model


def hidden_states(backbone: nn.Module, rows: Rows) -> torch.Tensor:
    """Last hidden states before each completion token: (B, T, d)."""
    positions = torch.arange(rows.ids.shape[1], device=rows.ids.device).expand_as(rows.ids)
    out = backbone(input_ids=rows.ids, position_ids=positions, use_cache=False)
    return rows.before(out.last_hidden_state)


def completion_logps(
    head: nn.Module, hidden: torch.Tensor, rows: Rows, temperature: float, with_entropy: bool = False
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probabilities (B, T) of completion tokens and, without gradient, entropies (B, T); 0 at padding.

    head: the output matrix. hidden: (B, T, d) as `hidden_states` gives them.
    """
    mask = rows.mask
    flat, ids = hidden[mask], rows.completion_ids[mask]
    again = torch.is_grad_enabled() and (flat.requires_grad or any(p.requires_grad for p in head.parameters()))

    def chunk(h: torch.Tensor, i: torch.Tensor):
        return token_logps(head(h), i, temperature, with_entropy)

    found = [
        checkpoint(chunk, h, i, use_reentrant=False, preserve_rng_state=False) if again else chunk(h, i)
        for h, i in zip(flat.split(CHUNK), ids.split(CHUNK), strict=True)
    ]
    zeros = torch.zeros(mask.shape, device=mask.device)
    logps = zeros.masked_scatter(mask, torch.cat([logps for logps, _ in found]))
    if not with_entropy:
        return logps, None
    return logps, zeros.masked_scatter(mask, torch.cat([entropy for _, entropy in found if entropy is not None]))


@torch.no_grad()
def require_plain_head(model: PreTrainedModel | PeftModel) -> None:
    """Raise ValueError for a model whose logits are more than hidden states times the output matrix (soft-capped...)."""
    plain = causal_lm(model)
    ids = torch.arange(1, 5, device=plain.device)[None]
    whole = plain(input_ids=ids, use_cache=False).logits.float()
    ours = plain.get_output_embeddings()(plain.base_model(input_ids=ids, use_cache=False).last_hidden_state).float()
    if not torch.allclose(whole, ours, rtol=1e-2, atol=1e-2):
        raise ValueError(f"{plain.config.model_type} models change their logits after the output matrix: not supported")
