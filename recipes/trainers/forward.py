"""What PPO needs of a forward pass: log-probabilities, entropies and values of completions, the vocabulary in chunks.

Rows are right-padded, so causal attention alone keeps padding out: no mask, and positions count from the first token.
Completions of one prompt are laid behind it in a single row instead (recipes/trainers/packing.py), so it is read once.
Only hidden states of completion tokens meet the output matrix, `CHUNK` at a time, and in training each chunk's logits
are computed again in the backward pass. Memory in the vocabulary is CHUNK x V, whatever the batch and its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from peft import PeftModel
from torch import nn
from transformers import PreTrainedModel

from recipes.trainers.packing import chunked_logps, pack

CHUNK = 256
"""Tokens whose logits are in memory at once: 50 MB in float32 at a vocabulary of 50,000."""


@dataclass(frozen=True)
class Rows:
    """Prompts and completions of one pass.

    prompts, completions: B lists of token ids. width: T, columns of every result, at least the longest completion.
    packing_max_tokens: longest row of a prompt and its completions (its attention mask is the square); 0: never pack.
    """

    prompts: Sequence[Sequence[int]]
    completions: Sequence[Sequence[int]]
    width: int
    device: torch.device
    packing_max_tokens: int = 4096

    @property
    def mask(self) -> torch.Tensor:
        """(B, T), True at completion tokens."""
        lengths = torch.tensor([len(c) for c in self.completions], device=self.device)
        return torch.arange(self.width, device=self.device) < lengths[:, None]

    @property
    def targets(self) -> torch.Tensor:
        """Ids of all completion tokens, row after row: as many as `mask` has True."""
        return torch.tensor([i for c in self.completions for i in c], device=self.device)

    def groups(self) -> list[list[int]]:
        """Rows that share a prompt and fit into one pack."""
        found: dict[tuple[int, ...], list[int]] = {}
        for row, prompt in enumerate(self.prompts):
            found.setdefault(tuple(prompt), []).append(row)
        groups = list(found.values())
        longest = max(len(self.prompts[g[0]]) + sum(len(self.completions[r]) for r in g) for g in groups)
        return groups if longest <= self.packing_max_tokens else [[row] for row in range(len(self.prompts))]


def backbone_of(model: PreTrainedModel | PeftModel) -> nn.Module:
    """The transformer below the output matrix, adapters included."""
    return causal_lm(model).base_model


def causal_lm(model: PreTrainedModel | PeftModel) -> PreTrainedModel:
    return model.get_base_model() if isinstance(model, PeftModel) else model


def hidden_states(backbone: nn.Module, rows: Rows) -> torch.Tensor:
    """Last hidden states before each completion token, and after the last where T has room: (B, T, d)."""
    groups = rows.groups()
    if len(groups) == len(rows.prompts):
        return _padded(backbone, rows)
    parts = [_packed(backbone, rows, group) for group in groups]
    order = torch.tensor([row for group in groups for row in group], device=rows.device)
    return torch.cat(parts)[order.argsort()]


def _padded(backbone: nn.Module, rows: Rows) -> torch.Tensor:
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


def _packed(backbone: nn.Module, rows: Rows, group: Sequence[int]) -> torch.Tensor:
    """States of rows that share a prompt: (G, T, d)."""
    prompt = rows.prompts[group[0]]
    completions = [rows.completions[row] for row in group]
    sizes = [len(c) for c in completions]
    ids = torch.tensor([*prompt, *(i for c in completions for i in c)], device=rows.device)[None]
    inputs, _ = pack(ids[0, : len(prompt)], sizes)
    hidden = backbone(input_ids=ids, use_cache=False, **inputs).last_hidden_state[0]
    ends = torch.tensor(sizes).cumsum(0) + len(prompt)
    first = ends - torch.tensor(sizes)
    at = first[:, None] - 1 + torch.arange(rows.width)
    at = torch.minimum(at, ends[:, None] - 1)
    at[:, 0] = len(prompt) - 1
    return hidden[at.to(rows.device)]


def completion_logps(
    head: nn.Module, hidden: torch.Tensor, rows: Rows, temperature: float, with_entropy: bool = False
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probabilities (B, T) of completion tokens and, without gradient, entropies (B, T); 0 at padding.

    head: the output matrix. hidden: (B, T, d) as `hidden_states` gives them.
    """
    mask = rows.mask
    flat, ids = hidden[mask], rows.targets
    logps, entropy = chunked_logps(head, flat, ids, temperature, with_entropy, CHUNK)
    zeros = torch.zeros(mask.shape, device=mask.device)
    logps = zeros.masked_scatter(mask, logps)
    return logps, None if entropy is None else zeros.masked_scatter(mask, entropy)


@torch.no_grad()
def require_plain_head(model: PreTrainedModel | PeftModel) -> None:
    """Raise ValueError for a model whose logits are not just hidden states times the output matrix (soft-capped)."""
    plain = causal_lm(model)
    ids = torch.arange(1, 5, device=plain.device)[None]
    whole = plain(input_ids=ids, use_cache=False).logits.float()
    ours = plain.get_output_embeddings()(plain.base_model(input_ids=ids, use_cache=False).last_hidden_state).float()
    if not torch.allclose(whole, ours, rtol=1e-2, atol=1e-2):
        raise ValueError(f"{plain.config.model_type} models change their logits after the output matrix: not supported")
