"""The trainer's own steps against the plain ones they replace."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from recipes.trainers.groups import degenerate_groups, nanstd_rows, weighted_alike
from recipes.trainers.packing import groups_of_rows, packed_logps, token_logps
from rewards.channel import ChannelResult
from rewards.compose import Grade

NAN = float("nan")


def batch(seed: int = 0):
    """Two prompts of different length, three completions each, one of them empty; prompts padded left."""
    g = torch.Generator().manual_seed(seed)
    prompts = [torch.randint(3, 900, (n,), generator=g).tolist() for n in (5, 3)]
    lengths, width = [4, 1, 6, 3, 0, 6], 6
    ids, mask = [], []
    for row, n in enumerate(lengths):
        prompt = prompts[row // 3]
        pad = 5 - len(prompt)
        completion = torch.randint(3, 900, (n,), generator=g).tolist()
        ids.append([2] * pad + prompt + completion + [2] * (width - n))
        mask.append([0] * pad + [1] * (len(prompt) + n) + [0] * (width - n))
    return torch.tensor(ids), torch.tensor(mask), width


def plain(model, ids, mask, width):
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits[:, :-1][:, -width:]
    return token_logps(logits, ids[:, -width:], 0.7, True)


def test_packed_groups_give_the_padded_rows_numbers_and_gradients(tiny_model):
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    ids, mask, width = batch()
    real = mask[:, -width:].bool()
    results = []
    for function in (
        lambda: plain(model, ids, mask, width),
        lambda: packed_logps(model, ids, mask, width, 0.7, True),
        lambda: packed_logps(model, ids, mask, width, 0.7, True, logits_at_once=4),
    ):
        model.zero_grad()
        logps, entropy = function()
        (logps * real * torch.arange(width)).sum().backward()
        results.append((logps[real], entropy[real], [p.grad.clone() for p in model.parameters()]))
    (logps, entropy, grads), *others = results
    for packed, packed_entropy, packed_grads in others:
        assert torch.allclose(logps, packed, atol=1e-5)
        assert torch.allclose(entropy, packed_entropy, atol=1e-4)
        assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(grads, packed_grads, strict=True))
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight  # the head is back, tied


def test_padding_is_zero_and_groups_are_found_whatever_the_padding():
    ids, mask, _ = batch()
    assert groups_of_rows(ids[:, :5], mask[:, :5]) == [[0, 1, 2], [3, 4, 5]]


def test_degenerate_groups():
    rewards = torch.tensor([[1, 1, 1], [0, 1, 0], [NAN, 1, 1], [NAN, 1, 0], [NAN, NAN, 1], [NAN] * 3])
    assert degenerate_groups(rewards).tolist() == [True, False, True, False, True, True]


def test_std_leaves_ungraded_samples_out():
    rewards = torch.tensor([[1.0, 2.0, 3.0, NAN], [5.0, NAN, NAN, NAN]])
    assert nanstd_rows(rewards).tolist() == pytest.approx([1.0, 0.0])


def test_one_weight_a_column_makes_the_totals_of_grades_with_silent_channels():
    weights = {"bleu": 0.6, "judge": 0.4, "seen": 0.0}
    quiet = {"bleu": ChannelResult(0.5), "judge": ChannelResult(0.0, silent=True), "seen": ChannelResult(0.3)}
    said = quiet | {"judge": ChannelResult(1.0)}
    grades = [Grade(quiet, {}, {"bleu": 1.0, "judge": 0.0, "seen": 0.0}), Grade(said, {}, weights)]
    columns = torch.tensor([weighted_alike(grade, weights) for grade in grades])
    totals = columns @ torch.tensor(list(weights.values()))
    assert totals.tolist() == pytest.approx([0.5, 0.7]) == [pytest.approx(grade.total) for grade in grades]
    assert columns[:, 2].tolist() == pytest.approx([0.3, 0.3])
