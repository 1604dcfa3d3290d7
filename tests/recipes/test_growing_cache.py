"""The key-value cache with room to grow: what it holds is what transformers' own holds."""

from __future__ import annotations

import pytest
import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from recipes.models.tiny import scratch_model
from recipes.sampling.cache import ROOM, GrowingLayer, growing_cache


@pytest.fixture
def layers():
    return GrowingLayer(), DynamicLayer()


def states(rows, tokens):
    return torch.randn(rows, 2, tokens, 4), torch.randn(rows, 2, tokens, 4)


def both(layers, rows, tokens):
    new = states(rows, tokens)
    for got, wanted in zip(layers[0].update(*new), layers[1].update(*new), strict=True):
        assert torch.equal(got, wanted)


def test_it_holds_what_the_usual_cache_holds(layers):
    """Rows are repeated, left out and put in order between tokens, as sampling does."""
    both(layers, 3, 5)
    for layer in layers:
        layer.batch_repeat_interleave(2)
    for _ in range(ROOM + 3):
        both(layers, 6, 1)
    for layer in layers:
        layer.batch_select_indices(torch.tensor([0, 2, 5]))
    both(layers, 3, 1)
    both(layers, 3, ROOM + 2)
    for layer in layers:
        layer.crop(-4)
    both(layers, 3, 1)
    for layer in layers:
        layer.reorder_cache(torch.tensor([2, 1, 0]))
    both(layers, 3, 1)
    assert layers[0].get_seq_length() == layers[1].get_seq_length() == 5 + 2 * ROOM + 4


def test_a_token_is_written_into_it(layers):
    layer = layers[0]
    layer.update(*states(2, 5))
    layer.update(*states(2, 1))
    place = layer.keys.data_ptr()
    for _ in range(ROOM):
        layer.update(*states(2, 1))
        assert layer.keys.data_ptr() == place
    layer.update(*states(2, 1))
    assert layer.keys.data_ptr() != place


def test_what_was_returned_before_stays(layers):
    layer = layers[0]
    layer.update(*states(1, 2))
    before, _ = layer.update(*states(1, 1))
    kept = before.clone()
    layer.update(*states(1, 1))
    assert torch.equal(before, kept)


def test_layers_of_a_window_are_transformers_own():
    model, _ = scratch_model("ab", hidden_size=8, intermediate_size=8, num_hidden_layers=3, num_attention_heads=2)
    assert [type(layer) for layer in growing_cache(model).layers] == [GrowingLayer] * 3
    model.config.layer_types = ["full_attention", "sliding_attention", "full_attention"]
    model.config.sliding_window = 4
    usual = DynamicCache(config=model.config).layers
    assert [type(layer) for layer in growing_cache(model).layers] == [GrowingLayer, type(usual[1]), GrowingLayer]
