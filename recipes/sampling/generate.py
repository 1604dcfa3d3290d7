"""Sampling from a causal language model: one prefill a prompt, finished rows leave the batch.

Faster than `generate` where many completions share a prompt: the prompt is read once and its key-value cache repeated,
rows that have ended cost nothing further, and single-token attention folds grouped query heads into the query length
instead of repeating keys and values (transformers' sdpa path copies them at every token).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

import recipes.models.attention  # noqa: F401  (registers grouped_sdpa)
from recipes.cli.errors import UserError
from recipes.sampling.cache import growing_cache

ANSWER = "an answer"
NO_NUMBERS = (
    "the model's logits are no numbers, so that nothing can be sampled: its weights are broken, or too large for "
    "hardware.precision=fp16; another precision is bf16 or fp32"
)
Ended = Callable[[int, list[int], list[float]], None]
"""Told of each completion as it ends: which it is, its ids, the log-probability that each was drawn with."""
Complete = Callable[[list[int]], bool]
Keep = Callable[[int, DynamicCache, int, torch.Tensor], None]
"""Given a completion that ended: which it is, the cache, its row there and that row's mask. The cache holds all of its
tokens but the newest."""


@dataclass(frozen=True)
class Decoding:
    """How tokens are drawn. `temperature` 0 is greedy; `top_p` 1 keeps the whole distribution."""

    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0


def end_ids(tokenizer: Any, model: PreTrainedModel) -> list[int]:
    """Ids that end a completion: the tokenizer's end of sequence, those of the model's generation config, and the end
    of an answer in the chat template, which SFT teaches."""
    configured = model.generation_config.eos_token_id
    listed = configured if isinstance(configured, list) else [configured]
    return sorted({tokenizer.eos_token_id, *listed, end_of_turn(tokenizer)} - {None})


def end_of_turn(tokenizer: Any) -> int | None:
    """The special token with which the chat template ends an answer: of some base models it is not the end of sequence
    (ChatML's <|im_end|>). None if there is no such token."""
    if not tokenizer.chat_template:
        return None
    turns = [{"role": "user", "content": "-"}, {"role": "assistant", "content": ANSWER}]
    behind = tokenizer.apply_chat_template(turns, tokenize=False).rpartition(ANSWER)[2].lstrip()
    special = {token.content: number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    return next((number for mark, number in special.items() if mark and behind.startswith(mark)), None)


def cut(
    ids: list[int], logps: list[float], eos_ids: Collection[int], complete: Complete | None, begun: Sequence[int] = ()
) -> tuple[list[int], list[float]]:
    """What another sampler drew, up to its end-of-sequence token, or to where it is complete after what had `begun` it:
    where `sample` would have stopped. logps: empty, or one for each id."""
    for end, token in enumerate(ids, 1):
        if token in eos_ids or (complete is not None and complete([*begun, *ids[:end]])):
            return ids[:end], logps[:end]
    return ids, logps


@torch.no_grad()
def sample(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    num_samples: int,
    decoding: Decoding,
    eos_ids: Sequence[int],
    pad_id: int,
    complete: Complete | None = None,
    generator: torch.Generator | None = None,
    ended: Ended | None = None,
    begun: Sequence[Sequence[int]] | None = None,
    kept: Keep | None = None,
) -> list[list[int]]:
    """Draw `num_samples` completions of each prompt.

    Returns token ids, prompt-major (`len(prompts) * num_samples` lists). Each ends with an end-of-sequence token, or
    where `complete` says of its ids that nothing further is needed, or is cut at `max_new_tokens`. `ended` hears of
    each as it ends, while others go on; `kept` just before, so that a row can be taken up again.

    begun: for each prompt the ids at its end that are the beginning of its answer. They are not returned, `complete`
    reads them before the sampled ids, and they count towards `max_new_tokens`; at least one token is drawn.

    Raises UserError where logits are no numbers, and for a model whose cache has no keys and values.
    """
    device = model.device
    width = max(len(p) for p in prompts)
    ids_BT = torch.full((len(prompts), width), pad_id, device=device)
    mask_BT = torch.zeros_like(ids_BT)
    for row, prompt in enumerate(prompts):
        ids_BT[row, width - len(prompt) :] = torch.tensor(prompt, device=device)
        mask_BT[row, width - len(prompt) :] = 1
    cache = growing_cache(model)
    logits = forward(model, ids_BT, mask_BT, cache)
    cache.batch_repeat_interleave(num_samples)
    logits = logits.repeat_interleave(num_samples, 0)
    mask_BT = mask_BT.repeat_interleave(num_samples, 0)
    begins = None if begun is None else [list(ids) for ids in begun for _ in range(num_samples)]
    return continue_sampling(model, logits, mask_BT, cache, decoding, eos_ids, complete, generator, ended, begins, kept)


@torch.no_grad()
def continue_sampling(
    model: PreTrainedModel,
    logits: torch.Tensor,
    mask_BT: torch.Tensor,
    cache: DynamicCache,
    decoding: Decoding,
    eos_ids: Sequence[int],
    complete: Complete | None = None,
    generator: torch.Generator | None = None,
    ended: Ended | None = None,
    begun: Sequence[list[int]] | None = None,
    kept: Keep | None = None,
) -> list[list[int]]:
    """Completions of rows that have been read: one for each row of `logits` (B, vocabulary), `mask_BT` and `cache`.

    begun: for each row. The rest as in `sample`.
    """
    device = model.device
    begins = begun if begun is not None else [[] for _ in range(len(logits))]
    rows = torch.arange(len(logits), device=device)  # which completion each row of the batch is
    live = torch.ones_like(rows, dtype=torch.bool)
    eos = torch.tensor(list(eos_ids), device=device)
    # tokens that each row may have at most
    room = torch.tensor([max(1, decoding.max_new_tokens - len(ids)) for ids in begins], device=device)
    completions: list[list[int]] = [[] for _ in range(len(rows))]
    drawn_with: list[list[float]] = [[] for _ in range(len(rows))]
    for step in range(int(room.max())):
        tokens, logps = draw(logits, decoding, generator)
        last = torch.isin(tokens, eos) | (step + 1 >= room[rows])
        going, over = live.tolist(), last.tolist()
        for place, (row, token, logp) in enumerate(zip(rows.tolist(), tokens.tolist(), logps.tolist(), strict=True)):
            if going[place]:
                if math.isnan(logp):
                    raise UserError(NO_NUMBERS)
                completions[row].append(token)
                drawn_with[row].append(logp)
                if over[place] or (complete and complete(begins[row] + completions[row])):
                    last[place] = True
                    if kept:
                        kept(row, cache, place, mask_BT[place])
                    if ended:
                        ended(row, completions[row], drawn_with[row])
        live = live & ~last
        if not live.any():
            break
        keep = _shrink(live)
        if len(keep) < len(rows):
            cache.batch_select_indices(keep)
            rows, tokens, mask_BT, live = rows[keep], tokens[keep], mask_BT[keep], live[keep]
        mask_BT = torch.cat([mask_BT, mask_BT.new_ones(len(rows), 1)], 1)
        logits = forward(model, tokens[:, None], mask_BT, cache)
    return completions


def _shrink(live: torch.Tensor) -> torch.Tensor:
    """Rows to keep: the live ones, filled up to a multiple of 8 (each new batch size compiles new kernels)."""
    size = -(-int(live.sum()) // 8) * 8
    order = torch.sort((~live).int(), stable=True).indices
    return order[:size].sort().values


def forward(model, ids_BT, mask_BT, cache) -> torch.Tensor:
    """Logits of the last position, float32, shape (B, vocabulary)."""
    positions = (mask_BT.cumsum(1) - 1).clamp(min=0)[:, -ids_BT.shape[1] :]
    out = model(
        input_ids=ids_BT,
        attention_mask=mask_BT,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    return out.logits[:, -1].float()


def draw(
    logits: torch.Tensor, decoding: Decoding, generator: torch.Generator | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token a row from logits (B, vocabulary), by inverting the cumulative distribution (one uniform a row).

    Returns tokens (B,) and their log-probabilities (B,) at the temperature, of the whole distribution whatever
    `top_p` cuts off it, as a trainer recomputes them; 0 where decoding is greedy. NaN where the logits have one.
    """
    if decoding.temperature == 0:
        largest, tokens = logits.max(-1)
        return tokens, torch.where(largest.isnan(), largest, 0.0)
    probs = whole = torch.softmax(logits / decoding.temperature, -1)
    if decoding.top_p < 1:
        ranked, order = probs.sort(-1, descending=True)
        ranked[ranked.cumsum(-1) - ranked >= decoding.top_p] = 0  # the token that crosses top_p stays
        probs = torch.zeros_like(probs).scatter_(-1, order, ranked)
    cumulative = probs.cumsum(-1, dtype=torch.float64)
    uniform = torch.rand(len(logits), 1, dtype=torch.float64, device=logits.device, generator=generator)
    # right=True skips tokens of zero probability at the lower end; the clamp guards the upper end against rounding
    tokens = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True).clamp(max=logits.shape[1] - 1)
    return tokens.squeeze(1), whole.gather(1, tokens).log().squeeze(1)
