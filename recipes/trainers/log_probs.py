"""Log-probabilities, entropies and hidden states of completions: each prompt is read once, the vocabulary in chunks.

The completions of one prompt lie end to end behind it in a single row (`pack`): positions restart after the prompt, and
a completion sees the prompt and itself only, by segments or by a mask. Numbers and gradients are those of padded rows,
to rounding, without reading the prompt for every completion and without padding. Rows that share no prompt, or would be
too long together, are right-padded; causal attention alone keeps that padding out.

Only hidden states before tokens that the policy wrote meet the output matrix (not what an environment replied between
two turns), some at a time, and in training each chunk's logits are computed again in the backward pass: memory in the
vocabulary is chunk x V, whatever the batch and its length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from peft import PeftModel
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

import recipes.models.attention  # noqa: F401  (registers packed_sdpa)
from recipes.cli.console import log

BY_SEGMENT = "packed_sdpa"
"""The attention that takes the lengths of a packed row in place of a mask."""
CHUNK = 256
"""Tokens whose logits PPO has in memory at once: 50 MB in float32 at a vocabulary of 50,000."""
Entropy = Literal["metric", "loss"] | None
"""What entropies are asked for: as a metric they have no gradient, as a term of the loss they have one."""


@dataclass(frozen=True)
class Rows:
    """Prompts and completions of one pass.

    prompts, completions: B lists of token ids. width: T, columns of every result, at least the longest completion.
    packing_max_tokens: longest row of a prompt and its completions, whose attention mask has as many entries as the
        square of its tokens; 0: never pack.
    written: (B, T), True at tokens that the policy wrote; others are read and have no log-probability. None: it wrote
        all.
    """

    prompts: Sequence[Sequence[int]]
    completions: Sequence[Sequence[int]]
    width: int
    device: torch.device
    packing_max_tokens: int = 4096
    written: torch.Tensor | None = None

    @classmethod
    def of_padded(
        cls,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        width: int,
        packing: int,
        written: torch.Tensor | None = None,
    ) -> Rows:
        """From (B, P + T) tensors as TRL makes them, prompts padded at the left, completions of T = `width` columns at
        the right."""
        edge, ids, mask = input_ids.shape[1] - width, input_ids.tolist(), attention_mask.sum(1).tolist()
        prompt_mask = attention_mask[:, :edge].sum(1).tolist()
        prompts = [row[edge - n : edge] for row, n in zip(ids, prompt_mask, strict=True)]
        lengths = [both - n for both, n in zip(mask, prompt_mask, strict=True)]
        completions = [row[edge : edge + n] for row, n in zip(ids, lengths, strict=True)]
        return cls(prompts, completions, width, input_ids.device, packing, written)

    @property
    def mask(self) -> torch.Tensor:
        """(B, T), True at tokens that have a log-probability."""
        lengths = torch.tensor([len(c) for c in self.completions], device=self.device)
        within = torch.arange(self.width, device=self.device) < lengths[:, None]
        return within if self.written is None else within & self.written.bool()

    @property
    def targets(self) -> torch.Tensor:
        """Ids of the tokens that have a log-probability, row after row: as many as `mask` has True."""
        ids = torch.tensor([i for c in self.completions for i in c], dtype=torch.long, device=self.device)
        return ids if self.written is None else ids[self.among(range(len(self.completions)))]

    def among(self, group: Sequence[int]) -> torch.Tensor:
        """(n,) bool over the n completion tokens of these rows, row after row: True at those that have a
        log-probability."""
        sizes = [len(self.completions[row]) for row in group]
        if self.written is None:
            return torch.ones(sum(sizes), dtype=torch.bool, device=self.device)
        return torch.cat([self.written[row, :size].bool() for row, size in zip(group, sizes, strict=True)])

    def by_prompt(self) -> list[list[int]]:
        """Rows that share a prompt, in order of its first appearance."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for row, prompt in enumerate(self.prompts):
            groups.setdefault(tuple(prompt), []).append(row)
        return list(groups.values())

    def groups(self) -> list[list[int]]:
        """Rows that share a prompt where each such group fits into one pack, else single rows."""
        return self.by_prompt() if self.fit else [[row] for row in range(len(self.prompts))]

    @property
    def fit(self) -> bool:
        """Whether each prompt and all its completions fit into one pack."""
        groups = self.by_prompt()
        longest = max(len(self.prompts[g[0]]) + sum(len(self.completions[r]) for r in g) for g in groups)
        return longest <= self.packing_max_tokens


def pack(
    prompt_length: int, sizes: list[int], device: torch.device, by_segment: bool = False
) -> tuple[dict[str, Any], torch.Tensor]:
    """Positions and mask of one row [prompt, completion 0, 1...], and the position that predicts each completion token.

    sizes: tokens of each completion. One completion alone needs no mask of its own: None, for which attention has
    faster kernels. by_segment: for a model whose attention is `packed_sdpa`, which takes lengths in place of a mask.
    """
    p = prompt_length
    segment = torch.repeat_interleave(torch.arange(len(sizes) + 1), torch.tensor([p, *sizes])).to(device)
    positions = torch.cat([torch.arange(p), *(p + torch.arange(n) for n in sizes)]).to(device)
    mask, lengths = None, {}
    if len(sizes) > 1 and by_segment:
        lengths = {"segments": (p, tuple(sizes))}
        mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)  # so that transformers makes none
    elif len(sizes) > 1:
        causal = torch.ones(len(segment), len(segment), dtype=torch.bool, device=device).tril()
        mask = (causal & ((segment[:, None] == segment) | (segment == 0)))[None, None]
    predicts = torch.arange(p - 1, len(segment) - 1, device=device)  # the token before, in the row
    starts = torch.tensor([0, *sizes[:-1]], device=device).cumsum(0)
    predicts[starts[torch.tensor(sizes, device=device) > 0]] = p - 1  # a first token is predicted by the prompt's last
    return {"attention_mask": mask, "position_ids": positions[None], **lengths}, predicts


# through the whole model, as a trainer of TRL's has it wrapped: GRPO ------------------------------------------


def packed_logps(
    model: nn.Module, rows: Rows, temperature: float, entropy: Entropy = None, logits_at_once: int = 0
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probabilities (B, T) of the completion tokens, and entropies (B, T) where asked for; 0 at padding and at what
    the policy did not write.

    One forward pass for each prompt. logits_at_once: tokens whose logits are in memory together; 0: all of a prompt's
    completions.
    """
    logps = torch.zeros(len(rows.prompts), rows.width, device=rows.device)
    entropies = torch.zeros_like(logps) if entropy else None
    for group in rows.by_prompt():
        prompt, sizes = rows.prompts[group[0]], [len(rows.completions[row]) for row in group]
        inputs, predicts = pack(len(prompt), sizes, rows.device, attends_by_segment(model))
        targets = torch.tensor(
            [i for row in group for i in rows.completions[row]], dtype=torch.long, device=rows.device
        )
        ids = torch.cat([torch.tensor(prompt, device=rows.device), targets])[None]
        at = torch.repeat_interleave(torch.tensor(group), torch.tensor(sizes)).to(rows.device)
        column = torch.cat([torch.arange(n) for n in sizes]).to(rows.device)
        if rows.written is not None:
            kept = rows.among(group)
            predicts, targets, at, column = predicts[kept], targets[kept], at[kept], column[kept]
        call = {"input_ids": ids, "use_cache": False, "logits_to_keep": predicts, **inputs}
        if logits_at_once:
            with without_head(model) as head:
                hidden = model(**call).logits[0]
            hidden = hidden.to(head.weight.dtype)  # autocast's forward gives float32, also where autocast is over
            group_logps, of_group = chunked_logps(head, hidden, targets, temperature, entropy, logits_at_once)
        else:
            group_logps, of_group = token_logps(model(**call).logits[0], targets, temperature, entropy)
        logps = logps.index_put((at, column), group_logps)
        if entropies is not None and of_group is not None:
            entropies = entropies.index_put((at, column), of_group)
    return logps, entropies


@contextmanager
def without_head(model: Any) -> Iterator[Any]:
    """The model gives hidden states where it would give logits; yields its output matrix."""
    causal = unwrapped(model)
    head = causal.get_output_embeddings()
    causal.set_output_embeddings(nn.Identity())
    try:
        yield head
    finally:
        causal.set_output_embeddings(head)


# through the transformer, whose hidden states the critic reads too: PPO -----------------------------------------


def hidden_states(backbone: nn.Module, rows: Rows) -> torch.Tensor:
    """Last hidden states before each completion token, and after the last where T has room: (B, T, d)."""
    groups = rows.groups()
    if len(groups) == len(rows.prompts):
        return _padded_states(backbone, rows)
    parts = [_packed_states(backbone, rows, group) for group in groups]
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


def _packed_states(backbone: nn.Module, rows: Rows, group: Sequence[int]) -> torch.Tensor:
    """States of rows that share a prompt: (G, T, d)."""
    prompt = rows.prompts[group[0]]
    completions = [rows.completions[row] for row in group]
    sizes = [len(c) for c in completions]
    ids = torch.tensor([*prompt, *(i for c in completions for i in c)], device=rows.device)[None]
    inputs, _ = pack(len(prompt), sizes, rows.device, attends_by_segment(backbone))
    hidden = backbone(input_ids=ids, use_cache=False, **inputs).last_hidden_state[0]
    ends = torch.tensor(sizes).cumsum(0) + len(prompt)
    first = ends - torch.tensor(sizes)
    at = torch.minimum(first[:, None] - 1 + torch.arange(rows.width), ends[:, None] - 1)
    at[:, 0] = len(prompt) - 1
    return hidden[at.to(rows.device)]


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


def unwrapped(model: Any) -> PreTrainedModel:
    """The model within what training wraps it in: PEFT's, data-parallel's, DeepSpeed's, torch.compile's."""
    while not isinstance(model, PreTrainedModel):
        if isinstance(model, PeftModel):
            model = model.get_base_model()
        else:
            model = model._orig_mod if hasattr(model, "_orig_mod") else model.module
    return model


def attends_by_segment(model: Any) -> bool:
    """Whether a model's attention takes the lengths of a packed row in place of a mask."""
    return unwrapped(model).config._attn_implementation == BY_SEGMENT


def attend_by_segment(*models: Any) -> None:
    """Let models attend to packed rows segment by segment (recipes/models/attention.py).

    A model whose hidden states would not be those with a mask, or whose attention is not sdpa, stays as it is, and so
    does what is no model of transformers' or PEFT's (None, an engine of DeepSpeed's).
    """
    for model in models:
        if isinstance(model, PreTrainedModel | PeftModel):
            _attend_by_segment(model)


@torch.no_grad()
def _attend_by_segment(model: PreTrainedModel | PeftModel) -> None:
    plain = causal_lm(model)
    before, training = plain.config._attn_implementation, plain.training
    if before not in ("sdpa", "repeated_sdpa"):
        return
    plain.set_attn_implementation(BY_SEGMENT)
    plain.eval()
    device = next(plain.parameters()).device
    ids = torch.arange(8, device=device)[None] % plain.get_input_embeddings().num_embeddings
    same = False
    try:
        masked, by_segment = (
            plain.base_model(input_ids=ids, use_cache=False, **pack(3, [2, 3], device, how)[0]).last_hidden_state
            for how in (False, True)
        )
        # far above the rounding of 16 bits, and far below what attention to a neighbour changes
        same = bool((masked - by_segment).float().norm() <= 0.05 * masked.float().norm())
    except (AttributeError, TypeError, RuntimeError, ValueError):  # its attention gets no such argument
        pass
    finally:
        plain.train(training)
        if not same:
            plain.set_attn_implementation(before)
            log.info(f"{plain.config.model_type}: packed rows are attended with a mask")


def causal_lm(model: PreTrainedModel | PeftModel) -> PreTrainedModel:
    """The model without PEFT's wrapper; adapters stay in it."""
    return model.get_base_model() if isinstance(model, PeftModel) else model


def backbone_of(model: PreTrainedModel | PeftModel) -> nn.Module:
    """The transformer below the output matrix, adapters included."""
    return causal_lm(model).base_model


def full_attention(config: Any) -> bool:
    """Whether every layer attends to all that came before: windows and recurrent layers would mix packed rows."""
    kinds = getattr(config, "layer_types", None)  # not every architecture has these fields
    if kinds is not None:
        return all(kind == "full_attention" for kind in kinds)
    return not getattr(config, "sliding_window", None)


def require_plain_head(model: PreTrainedModel | PeftModel) -> None:
    """Raise ValueError for a model without a plain head (`has_plain_head`)."""
    if not has_plain_head(model):
        kind = causal_lm(model).config.model_type
        raise ValueError(f"{kind} models change their logits after the output matrix: not supported")


@torch.no_grad()
def has_plain_head(model: PreTrainedModel | PeftModel) -> bool:
    """Whether a model's logits are just hidden states times the output matrix, and not, for example, soft-capped."""
    plain = causal_lm(model)
    ids = torch.arange(1, 5, device=plain.device)[None]
    whole = plain(input_ids=ids, use_cache=False).logits.float()
    ours = plain.get_output_embeddings()(plain.base_model(input_ids=ids, use_cache=False).last_hidden_state).float()
    return torch.allclose(whole, ours, rtol=1e-2, atol=1e-2)
