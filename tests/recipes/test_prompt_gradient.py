"""SFT whose prompts are read without a gradient: the loss is the same, and the gradient is that of rows read one by one
behind keys and values that are constants."""

from __future__ import annotations

import itertools

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

from recipes.cli.errors import UserError
from recipes.run.checks import check_sft
from recipes.trainers import answer_loss
from recipes.trainers.packing import attend_by_segment, attends_by_segment
from recipes.trainers.sft_dpo import SftTrainer
from tests.recipes.test_configs import compose
from tests.recipes.test_sft_packed import made

SAME = {"rtol": 1e-3, "atol": 1e-5}


def batch(shared: int, prompts: list[int], answers: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """ids, mask and labels of rows that begin with the same `shared` tokens."""
    made = torch.Generator().manual_seed(0)
    width = shared + max(p + a for p, a in zip(prompts, answers, strict=True))
    ids = torch.randint(5, 60, (len(prompts), width), generator=made)
    ids[:, :shared] = ids[0, :shared]
    mask, labels = torch.ones_like(ids), ids.clone()
    for row, (p, a) in enumerate(zip(prompts, answers, strict=True)):
        mask[row, shared + p + a :] = 0
        labels[row, : shared + p] = -100
    return ids * mask, mask, labels.masked_fill(mask == 0, -100)


def row_by_row(model, ids, mask, labels) -> torch.Tensor:
    """The same loss, one row at a time, with the cache that transformers makes and its own attention."""
    total = torch.zeros(())
    for row, length, label in zip(ids, mask.sum(1).tolist(), labels, strict=True):
        first = int((label != -100).nonzero()[0]) - 1
        cache = DynamicCache()
        if first:
            with torch.no_grad():
                model(input_ids=row[None, :first], past_key_values=cache, use_cache=True)
        logits = model(input_ids=row[None, first:length], past_key_values=cache, use_cache=True).logits[0, :-1]
        wanted = label[first + 1 : length]
        total = total + torch.nn.functional.cross_entropy(logits, wanted, ignore_index=-100, reduction="sum")
    return total


def gradients(model, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters()}


SHAPES = [(9, [3, 7, 5], [4, 1, 6]), (0, [6, 4], [3, 5]), (0, [8], [5]), (0, [1, 5], [4, 3])]
"""What rows share, what each prompt has more, and the answers; one prompt is the token that predicts alone."""


def gpt_neox(folder) -> str:
    config = AutoConfig.for_model(
        "gpt_neox", hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, vocab_size=64
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(("shape", "by_segment"), itertools.product(SHAPES, [True, False]))
def test_the_gradient_is_that_of_rows_behind_constants(shape, by_segment, tiny_model, monkeypatch):
    monkeypatch.setattr(answer_loss, "WORTH_SHARING", 8)
    monkeypatch.setattr(answer_loss, "CHUNK", 3)
    ids, mask, labels = batch(*shape)
    model = AutoModelForCausalLM.from_pretrained(tiny_model, attn_implementation="sdpa")
    expected = row_by_row(model, ids, mask, labels)
    wanted = gradients(model, expected)
    if by_segment:
        attend_by_segment(torch.device("cpu"), model)
        assert attends_by_segment(model)
    whole, *measured = answer_loss.answer_loss(model, ids, mask, labels)
    through = gradients(model, whole)
    loss, *own = answer_loss.answer_loss(model, ids, mask, labels, prompt_gradient=False)
    torch.testing.assert_close(loss, expected, **SAME)
    torch.testing.assert_close([loss, *own], [whole, *measured], **SAME)
    got = gradients(model, loss)
    for name, gradient in wanted.items():
        torch.testing.assert_close(got[name], gradient, msg=lambda text, name=name: f"{name}: {text}", **SAME)
    keys = "model.layers.0.self_attn.k_proj.weight"
    assert not torch.allclose(got[keys], through[keys], rtol=0.01)  # prompts do have a gradient otherwise


def test_other_models_are_trained_so_too(tmp_path):
    ids, mask, labels = batch(*SHAPES[0])
    model = AutoModelForCausalLM.from_pretrained(gpt_neox(tmp_path), attn_implementation="sdpa")
    wanted = gradients(model, row_by_row(model, ids, mask, labels))
    attend_by_segment(torch.device("cpu"), model)
    got = gradients(model, answer_loss.answer_loss(model, ids, mask, labels, prompt_gradient=False)[0])
    for name, gradient in wanted.items():
        torch.testing.assert_close(got[name], gradient, **SAME)


def test_a_conversation_has_its_gradient_from_its_first_answer_on(tiny_model):
    """What an environment replied stands between two answers: it has no loss, and a gradient."""
    ids, mask, labels = batch(0, [6, 4], [9, 7])
    labels[:, 8:10] = -100
    model = AutoModelForCausalLM.from_pretrained(tiny_model, attn_implementation="sdpa")
    wanted = gradients(model, row_by_row(model, ids, mask, labels))
    got = gradients(model, answer_loss.answer_loss(model, ids, mask, labels, prompt_gradient=False)[0])
    for name, gradient in wanted.items():
        torch.testing.assert_close(got[name], gradient, **SAME)


def test_weights_that_autocast_narrowed_for_the_prompts_keep_their_gradient(tiny_model):
    ids, mask, labels = batch(*SHAPES[0])
    model = AutoModelForCausalLM.from_pretrained(tiny_model, attn_implementation="sdpa")
    wanted = gradients(model, answer_loss.answer_loss(model, ids, mask, labels, prompt_gradient=False)[0])
    with torch.autocast("cpu", torch.bfloat16):
        loss, _, _ = answer_loss.answer_loss(model, ids, mask, labels, prompt_gradient=False)
    for name, gradient in gradients(model, loss).items():
        apart = (gradient - wanted[name]).norm()
        assert apart <= 0.1 * wanted[name].norm(), name


@pytest.mark.parametrize("lora", [True, False])
def test_a_training_reports_the_same_loss_and_makes_another_update(lora, tiny_model, tmp_path):
    fixed, whole = (
        made(SftTrainer, tiny_model, tmp_path / str(g), lora, False, "Return a list of them: ", prompt_gradient=g)
        for g in (False, True)
    )
    for trainer in (fixed, whole):
        trainer.train()
    first, other = (next(row for row in t.state.log_history if "loss" in row) for t in (fixed, whole))
    for key in ("loss", "entropy", "mean_token_accuracy", "num_tokens"):
        assert first[key] == pytest.approx(other[key], rel=1e-4), key
    assert first["grad_norm"] != pytest.approx(other["grad_norm"], rel=1e-3)


def test_padded_rows_are_refused(tiny_model, tmp_path):
    with pytest.raises(UserError, match=r"recipe\.prompt_gradient=false: llama is trained on padded rows"):
        made(SftTrainer, tiny_model, tmp_path, False, False, prompt_gradient=False, loss_type="dft")


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("hardware.gradient_checkpointing=true", r"set hardware\.gradient_checkpointing=false"),
        ("hardware.zero_stage=3", r"set hardware\.zero_stage=2 or less"),
        ("+recipe.trl.packing=true", r"recipe\.trl\.packing=True: .* leave it out"),
        ("+recipe.trl.loss_type=dft", r"recipe\.trl\.loss_type=dft: .* leave it out"),
    ],
)
def test_settings_that_need_one_forward_pass_are_refused(setting, says):
    check_sft(compose(setting, recipe="sft"))
    with pytest.raises(UserError, match=says):
        check_sft(compose(setting, "recipe.prompt_gradient=false", recipe="sft"))
