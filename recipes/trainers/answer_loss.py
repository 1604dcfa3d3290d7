"""Cross-entropy on the answers of a pass, all in one row behind what the examples begin with, without padding.

`answer_loss` has the gradient of padded rows, or leaves out its part through the prompts (prompt_gradient=False). A
prompt's tokens have no loss; they get a gradient only because answers attend to their keys and values. Without it a
prompt costs a forward pass in place of a forward and a backward pass, and these are two thirds of the work.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache

from recipes.trainers.log_probs import CHUNK, states_at
from recipes.trainers.packing import attends_by_segment, pack, pack_behind, unwrapped

WORTH_SHARING = 16
"""Tokens of a common beginning from which on reading it once saves more than the attention to it costs."""


def answer_loss(
    model: nn.Module, ids: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor, prompt_gradient: bool = True
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sums over the trained tokens: cross-entropy, in nats and with a gradient; entropy; how many of them the model
    would choose first.

    ids, mask, labels: (B, T), padded at the right; labels are -100 where nothing is trained, as in the first column.
    prompt_gradient: whether the gradient flows through what stands before the first trained token too, except for the
        token that predicts it.
    """
    first = (labels != -100).int().argmax(1) - 1  # it predicts the first trained token
    if not prompt_gradient and int(first.max()) > 0:
        return _loss_behind_prompts(model, ids, mask, labels, first.tolist())
    lengths = mask.sum(1)
    shared = _shared(ids, labels, int(lengths.min()) - 1)
    behind = mask.bool().clone()
    behind[:, :shared] = False  # it stands at the beginning of the row, once
    rows = [row[shared:length].tolist() for row, length in zip(ids, lengths.tolist(), strict=True)]
    if shared or attends_by_segment(model):
        inputs, predicts = pack([ids[0, :shared].tolist()], [rows], ids.device, attends_by_segment(model))
    else:  # a row each, which needs no mask
        inputs, predicts = pack([[]] * len(rows), [[row] for row in rows], ids.device)
    targets = labels[behind]
    trained = targets != -100
    hidden, head = states_at(model, predicts[trained], inputs)
    return _loss_of_tokens(head, hidden, targets[trained])


def _loss_behind_prompts(
    model: nn.Module, ids: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor, first: list[int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As `answer_loss`, with keys and values of the first `first` tokens of each row, (B,), as constants."""
    device, by_segment = ids.device, attends_by_segment(model)
    shared = _shared(ids, labels, min(first))
    rows = [row[:length].tolist() for row, length in zip(ids, mask.sum(1).tolist(), strict=True)]
    prompts = [row[shared:start] for row, start in zip(rows, first, strict=True)]
    inputs, _ = pack([rows[0][:shared]], [prompts], device, by_segment)
    cache, kind = DynamicCache(), device.type
    # weights that autocast narrowed without a gradient must not be found again by the forward pass that has one
    dtype, enabled = torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)
    with torch.no_grad(), torch.autocast(kind, dtype, enabled=enabled, cache_enabled=False):
        unwrapped(model).base_model(**inputs, past_key_values=cache, use_cache=True)
    answers = [row[start:] for row, start in zip(rows, first, strict=True)]
    read = inputs["input_ids"].shape[1]
    targets = torch.cat([labels[i, start + 1 : len(rows[i])] for i, start in enumerate(first)])
    inputs, predicts = pack_behind(shared, [len(p) for p in prompts], read, answers, device, by_segment)
    trained = targets != -100
    hidden, head = states_at(model, predicts[trained], inputs | {"past_key_values": cache})
    return _loss_of_tokens(head, hidden, targets[trained])


def _shared(ids: torch.Tensor, labels: torch.Tensor, most: int) -> int:
    """How many tokens, at most `most`, all rows begin with and none is trained on; 0 where that is not worth it."""
    same = ((ids == ids[0]) & (labels == -100)).all(0)[:most]
    shared = int(same.int().cumprod(0).sum()) if len(ids) > 1 else 0
    return shared if shared >= WORTH_SHARING else 0


def _loss_of_tokens(
    head: nn.Linear, hidden: torch.Tensor, ids: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The three sums of `_loss_of_answers` from hidden states (N, d) and the ids (N,) that follow them. CHUNK of them
    meet the output matrix at once, and the backward pass makes their logits again.
    """
    weight, device = head.weight, hidden.device.type
    if torch.is_autocast_enabled(device):  # once, not for each chunk and each time
        weight = weight.to(torch.get_autocast_dtype(device))
    measured: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def chunk(start: int, h: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        logits = nn.functional.linear(h.to(weight.dtype), weight, head.bias).float()
        normaliser = logits.logsumexp(-1)
        chosen = logits.gather(-1, i[:, None]).squeeze(-1)
        if start not in measured:  # the backward pass needs the loss alone
            with torch.no_grad():
                entropy = normaliser - (torch.exp(logits - normaliser[:, None]) * logits).sum(-1)
                measured[start] = entropy.sum(), (logits.argmax(-1) == i).sum()
        return (normaliser - chosen).sum()

    parts = zip(range(0, max(len(ids), 1), CHUNK), hidden.split(CHUNK), ids.split(CHUNK), strict=True)
    losses = [checkpoint(chunk, *part, use_reentrant=False, preserve_rng_state=False) for part in parts]
    entropy, first = (torch.stack(each).sum() for each in zip(*measured.values(), strict=True))
    return torch.stack(losses).sum(), entropy, first
