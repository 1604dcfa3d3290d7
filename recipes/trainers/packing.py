"""The rows of a pass as a model reads them: the completions of one prompt end to end behind it (`pack`).

Positions restart after the prompt, and a completion sees the prompt and itself only. On a CPU attention goes segment by
segment (recipes/models/attention.py), one prompt a forward pass. On a GPU, where each operator costs a call however
little it computes, all prompts of a pass are one batch under a mask: on an H100 a small model took half the time that
it takes by segment (tests/bench/results/gpu.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from peft import PeftModel
from torch import nn
from transformers import PreTrainedModel

import recipes.models.attention  # noqa: F401  (registers packed_sdpa)
from recipes.cli.console import log

BY_SEGMENT = "packed_sdpa"
"""The attention that takes the lengths of a packed row in place of a mask."""
ALIGNED = 8
"""Tokens that the width of a mask is a multiple of: others are padded anew in each layer on a GPU."""


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
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[Sequence[int]]],
    device: torch.device,
    by_segment: bool = False,
) -> tuple[dict[str, Any], torch.Tensor]:
    """Rows [prompt, completion 0, 1...], one for each prompt, as a model reads them, and for each completion token the
    place that predicts it, in these rows put end to end.

    completions: those of each prompt. by_segment: for a model whose attention is `packed_sdpa`, which takes lengths in
    place of a mask, and one prompt at a time. Where each prompt has one completion there is no mask, for which
    attention has faster kernels.
    """
    sizes = [[len(completion) for completion in group] for group in completions]
    width = max(len(prompt) + sum(each) for prompt, each in zip(prompts, sizes, strict=True))
    masked = any(len(each) > 1 for each in sizes) and not by_segment
    width += -width % ALIGNED if masked else 0
    ids = torch.zeros(len(prompts), width, dtype=torch.long)
    segment, positions = torch.full_like(ids, -1), torch.arange(width).repeat(len(prompts), 1)
    predicts = []
    for row, (prompt, group, each) in enumerate(zip(prompts, completions, sizes, strict=True)):
        p, end = len(prompt), len(prompt) + sum(each)
        ids[row, :end] = torch.tensor([*prompt, *chain.from_iterable(group)])
        positions[row, p:end] = torch.cat([p + torch.arange(n) for n in each])
        if masked:  # padding must not stand beyond what a model has positions for
            positions[row, end:] = 0
        segment[row, :end] = torch.repeat_interleave(torch.arange(len(each) + 1), torch.tensor([p, *each]))
        before = torch.arange(p - 1, end - 1)  # in the row
        starts = torch.tensor([0, *each[:-1]]).cumsum(0)
        before[starts[torch.tensor(each) > 0]] = p - 1  # a first token is predicted by the prompt's last
        predicts.append(row * width + before)
    inputs: dict[str, Any] = {"input_ids": ids.to(device), "position_ids": positions.to(device), "attention_mask": None}
    if masked:
        segment = segment.to(device)
        own = (segment[:, :, None] == segment[:, None]) | (segment[:, None] == 0)
        inputs["attention_mask"] = own.tril()[:, None]
    elif len(sizes[0]) > 1:
        inputs["segments"] = (len(prompts[0]), tuple(sizes[0]))
        inputs["attention_mask"] = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)  # transformers makes none
    return inputs, torch.cat(predicts).to(device)


def passes(model: nn.Module, groups: list[list[int]]) -> list[list[list[int]]]:
    """Which groups of rows are packed together for one forward pass: each alone where attention is by segment, else
    all."""
    return [[group] for group in groups] if attends_by_segment(model) else [groups]


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


def attend_by_segment(device: torch.device, *models: Any) -> None:
    """Let models that train on `device` attend to packed rows segment by segment (recipes/models/attention.py), where
    it is a CPU.

    A model whose hidden states would not be those with a mask, or whose attention is not sdpa, stays as it is, and so
    does what is no model of transformers' or PEFT's (None, an engine of DeepSpeed's).
    """
    for model in models if device.type == "cpu" else ():
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
    ids = [i % plain.get_input_embeddings().num_embeddings for i in range(8)]
    same = False
    try:
        masked, by_segment = (
            plain.base_model(
                use_cache=False, **pack([ids[:3]], [[ids[3:5], ids[5:]]], device, how)[0]
            ).last_hidden_state
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
    """Whether every layer attends to all that came before under a mask of rows and columns: windows and recurrent
    layers would mix packed rows, and ALiBi takes no such mask."""
    if getattr(config, "alibi", False):
        return False
    kinds = getattr(config, "layer_types", None)  # not every architecture has these fields
    if kinds is not None:
        return all(kind == "full_attention" for kind in kinds)
    return not getattr(config, "sliding_window", None)
