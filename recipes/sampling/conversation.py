"""Conversations sampled turn after turn; their key-value caches are kept between turns where the model allows it.

Both classes are used alike: `begin` draws the first turn of each conversation, `go_on` adds tokens to some of them and
draws their next turn. `ended` hears of each turn as it ends: which conversation, its ids, the log-probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from recipes.sampling.cache import growing_cache
from recipes.sampling.generate import Complete, Decoding, Ended, continue_sampling, forward, sample

Draw = Callable[[Sequence[Sequence[int]], int, Ended], Any]
"""Draws so many completions of each prompt and tells of each as it ends."""


class Conversation(Protocol):
    """Conversations of one batch, numbered prompt-major. last: no turn follows, so nothing is kept for one."""

    def begin(self, prompts: Sequence[Sequence[int]], num_samples: int, ended: Ended) -> None: ...

    def go_on(self, rows: Sequence[int], added: Sequence[Sequence[int]], ended: Ended, last: bool = False) -> None: ...


class Reread:
    """Sends each conversation whole, turn after turn: for samplers that keep no cache here (a vLLM server keeps its
    own), and for models whose cache cannot be cut."""

    def __init__(self, draw: Draw):
        self._draw = draw
        self._ids: list[list[int]] = []

    def begin(self, prompts: Sequence[Sequence[int]], num_samples: int, ended: Ended) -> None:
        self._ids = [list(prompt) for prompt in prompts for _ in range(num_samples)]
        self._draw(prompts, num_samples, self._told(range(len(self._ids)), ended))

    def go_on(self, rows: Sequence[int], added: Sequence[Sequence[int]], ended: Ended, last: bool = False) -> None:
        for row, ids in zip(rows, added, strict=True):
            self._ids[row] += ids
        self._draw([self._ids[row] for row in rows], 1, self._told(rows, ended))

    def _told(self, rows: Sequence[int], ended: Ended) -> Ended:
        def told(place: int, ids: list[int], logps: list[float]) -> None:
            self._ids[rows[place]] += ids
            ended(rows[place], ids, logps)

        return told


class Cached:
    """Keeps of each conversation that ended a turn the keys and values of its tokens, without padding, so that the next
    turn reads only what was added."""

    def __init__(
        self,
        model: PreTrainedModel,
        decoding: Decoding,
        eos_ids: Sequence[int],
        pad_id: int,
        complete: Complete | None,
        generator: torch.Generator | None,
    ):
        self.model, self._how = model, (decoding, eos_ids, pad_id, complete, generator)
        self._kept: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        self._last: dict[int, int] = {}
        """The newest token of each conversation, which no pass has read yet."""

    def begin(self, prompts: Sequence[Sequence[int]], num_samples: int, ended: Ended) -> None:
        told = self._told(range(len(prompts) * num_samples), ended)
        sample(self.model, prompts, num_samples, *self._how, told, kept=self._keep)

    @torch.no_grad()
    def go_on(self, rows: Sequence[int], added: Sequence[Sequence[int]], ended: Ended, last: bool = False) -> None:
        decoding, eos_ids, pad_id, complete, generator = self._how
        kept = [self._kept.pop(row) for row in rows]
        self._kept.clear()  # those that ended for good
        cache, mask_BT = _batched(kept, self.model)
        del kept  # copied: while this turn is drawn there is one cache
        unread = [[self._last[row], *ids] for row, ids in zip(rows, added, strict=True)]
        width = max(map(len, unread))
        ids_BT = torch.full((len(rows), width), pad_id, device=self.model.device)
        new_BT = torch.zeros_like(ids_BT)
        for place, ids in enumerate(unread):
            ids_BT[place, width - len(ids) :] = torch.tensor(ids, device=ids_BT.device)
            new_BT[place, width - len(ids) :] = 1
        mask_BT = torch.cat([mask_BT, new_BT], 1)
        logits = forward(self.model, ids_BT, mask_BT, cache)

        def keep(place: int, *what: Any) -> None:
            self._keep(rows[place], *what)

        told = self._told(rows, ended)
        again = None if last else keep
        continue_sampling(self.model, logits, mask_BT, cache, decoding, eos_ids, complete, generator, told, kept=again)

    def _told(self, rows: Sequence[int], ended: Ended) -> Ended:
        def told(place: int, ids: list[int], logps: list[float]) -> None:
            self._last[rows[place]] = ids[-1]
            ended(rows[place], ids, logps)

        return told

    def _keep(self, row: int, cache: DynamicCache, place: int, mask: torch.Tensor) -> None:
        """Copy a row's keys and values, (heads, tokens, head size), without padding; mask: (tokens in the cache,)."""
        own = mask.bool()
        self._kept[row] = [(layer.keys[place][:, own], layer.values[place][:, own]) for layer in cache.layers]


def _batched(
    kept: Sequence[list[tuple[torch.Tensor, torch.Tensor]]], model: PreTrainedModel
) -> tuple[DynamicCache, torch.Tensor]:
    """A cache of conversations of different length, padded at the left, and the mask (B, longest) of what is no
    padding."""
    lengths = [row[0][0].shape[1] for row in kept]
    longest = max(lengths)
    mask = torch.zeros(len(kept), longest, dtype=torch.long, device=model.device)
    for place, length in enumerate(lengths):
        mask[place, longest - length :] = 1
    cache = growing_cache(model)
    for number in range(len(kept[0])):
        both = []
        for part in (0, 1):
            first = kept[0][number][part]
            padded = first.new_zeros(len(kept), first.shape[0], longest, first.shape[2])
            for place, length in enumerate(lengths):
                padded[place, :, longest - length :] = kept[place][number][part]
            both.append(padded)
        cache.update(*both, number)
    return cache, mask


def keeps_cache(model: PreTrainedModel) -> bool:
    """Whether every layer's cache holds each token: windows and recurrent layers keep less or something else."""
    return all(type(layer) is DynamicLayer for layer in DynamicCache(config=model.config).layers)
