"""A key-value cache with room to grow: a token is written into it, where transformers' own cache is copied for it."""

from __future__ import annotations

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from recipes.cli.errors import UserError

ROOM = 32
"""Tokens for which there is room behind the last one, whenever a layer's cache is made anew."""


def growing_cache(model: PreTrainedModel) -> DynamicCache:
    """An empty cache for the model. Layers that keep only a window are transformers' own.

    Raises UserError for a model with layers that keep a state in place of keys and values (linear attention).
    """
    cache = DynamicCache(config=model.config)
    for layer in cache.layers:
        if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer):
            raise UserError(
                f"model.path: a {model.config.model_type} keeps a state in some layers ({type(layer).__name__}), from "
                "which answers cannot be sampled here: choose a model with attention alone; PPO and REINFORCE sample "
                "from it with recipe.sampler=generate evaluation.samples=0 evaluation.greedy=false"
            )
    cache.layers = [GrowingLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


class GrowingLayer(DynamicLayer):
    """Keys and values (B, KV, T, D) are the beginning of tensors with room for more tokens, as long as nobody else
    replaces them."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self._whole: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args, **kwargs
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append keys and values (B, KV, new, D); returns all of them."""
        length, new = self.get_seq_length(), key_states.shape[-2]
        if not length:
            return super().update(key_states, value_states, *args, **kwargs)
        if self._whole is None or not self._has_room(length + new):
            self._whole = self._with_room(self.keys, new), self._with_room(self.values, new)
        for whole, states in zip(self._whole, (key_states, value_states), strict=True):
            whole[:, :, length : length + new] = states
        self.keys, self.values = (whole[:, :, : length + new] for whole in self._whole)
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        super().batch_select_indices(indices)
        self._whole = None  # now, so that what all rows had is not in memory beside what these have

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)
        self._whole = None

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        super().reorder_cache(beam_idx)
        self._whole = None

    def reset(self) -> None:
        super().reset()
        self._whole = None

    def _has_room(self, length: int) -> bool:
        """Whether the tensors still begin with what is cached, and are long enough."""
        assert self._whole is not None
        whole = self._whole[0]
        return whole.data_ptr() == self.keys.data_ptr() and len(whole) == len(self.keys) and length <= whole.shape[2]

    @staticmethod
    def _with_room(states: torch.Tensor, new: int) -> torch.Tensor:
        rows, heads, length, width = states.shape
        whole = states.new_empty(rows, heads, length + new + ROOM, width)
        whole[:, :, :length] = states
        return whole
