"""The sampler draws from the model's own distribution, and stops where it should."""

from __future__ import annotations

import copy
import functools
import types

import pytest
import torch
from omegaconf import OmegaConf
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Lfm2Config, LlamaConfig, Qwen3MoeConfig

from recipes.cli.errors import UserError
from recipes.models.load import PLAIN_TURNS, sampling_dtype
from recipes.sampling.generate import Decoding, draw, end_ids, end_of_turn, sample
from recipes.sampling.policy_copy import SamplingCopy, require_mergeable
from recipes.sampling.sampler import generate

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
PROMPTS = [[1, 523, 7, 99], [1, 88]]


def load(folder, **kwargs):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **kwargs).eval()


def with_another_forward(model):
    """As TRL's trainers leave it: a forward in the instance that calls the original's."""
    original = model.forward
    own = functools.wraps(type(model).forward)(lambda self, *args, **kwargs: original(*args, **kwargs))
    model.forward = types.MethodType(own, model)
    return model


def test_greedy_equals_generate_with_prompts_of_different_length(tiny_model):
    model = load(tiny_model)
    got = sample(model, PROMPTS, 2, Decoding(12, 0.0), [], 2)
    for prompt, pair in zip(PROMPTS, (got[:2], got[2:]), strict=True):
        ids = torch.tensor([prompt])
        want = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, eos_token_id=None
        )
        assert pair[0] == pair[1] == want[0, len(prompt) :].tolist()


def test_rows_end_by_themselves_and_the_rest_go_on(tiny_model):
    model = load(tiny_model)
    free = sample(model, PROMPTS, 1, Decoding(12, 0.0), [], 2)
    end = free[0][4]
    got = sample(model, PROMPTS, 12, Decoding(12, 0.0), [end], 2)
    assert all(row == free[0][: free[0].index(end) + 1] for row in got[:12])
    stop = free[1].index(end) + 1 if end in free[1] else 12
    assert all(row == free[1][:stop] for row in got[12:])
    cut = sample(model, PROMPTS, 1, Decoding(12, 0.0), [], 2, complete=lambda ids: len(ids) == 5)
    assert cut == [free[0][:5], free[1][:5]]


def test_transformers_own_loop_ends_answers_where_ours_does(tiny_model):
    """At the end of sequence, where the answer is complete after what began it, and at the limit that counts both."""
    model, greedy = load(tiny_model), Decoding(9, 0.0)
    free = sample(model, PROMPTS, 1, greedy, [], 2)
    begun = [PROMPTS[0][2:], PROMPTS[1][1:]]
    for complete in (None, lambda ids: len(ids) == 5, lambda ids: ids[-1] == free[0][2]):
        for first in (None, begun):
            how = (model, PROMPTS, 2, greedy, [free[1][6]], 2, complete)
            assert generate(*how, begun=first) == sample(*how, begun=first)
    read = []
    generate(model, PROMPTS, 1, greedy, [], 2, lambda ids: read.append(len(ids)) or len(ids) == 3)
    assert max(read) == 3  # no token is drawn after the last answer is complete


def test_each_completion_is_told_as_it_ends_with_the_log_probabilities_it_was_drawn_with(tiny_model):
    model, told = load(tiny_model), {}
    decoding = Decoding(6, 0.7, top_p=0.9)
    torch.manual_seed(0)
    hear = {"complete": lambda ids: ids[-1] % 3 == 0, "ended": lambda i, ids, logps: told.update({i: (ids, logps)})}
    got = sample(model, PROMPTS, 3, decoding, [], 2, **hear)
    assert [told[i][0] for i in range(6)] == got and len({len(ids) for ids in got}) > 1
    shortest = min(range(6), key=lambda i: len(got[i]))
    assert list(told).index(shortest) < 5  # while others went on
    for i, ids in enumerate(got):
        prompt = PROMPTS[i // 3]
        with torch.no_grad():
            logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1] / decoding.temperature
        want = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).squeeze(1)
        assert torch.allclose(torch.tensor(told[i][1]), want, atol=1e-4)


def test_draw_follows_the_probabilities():
    torch.manual_seed(0)
    logits = torch.log(torch.tensor([0.5, 0.0, 0.3, 0.2])).repeat(40_000, 1)
    share = torch.bincount(draw(logits, Decoding(1))[0], minlength=4) / 40_000
    assert torch.allclose(share, torch.tensor([0.5, 0.0, 0.3, 0.2]), atol=0.01)
    narrow, _ = draw(logits, Decoding(1, top_p=0.6))
    assert set(narrow.tolist()) == {0, 2}
    assert set(draw(logits, Decoding(1, temperature=0.0))[0].tolist()) == {0}


def test_logits_that_are_no_numbers_are_not_sampled(tiny_model):
    model = load(tiny_model)
    with torch.no_grad():
        model.model.norm.weight[0] = torch.nan
    for temperature in (0.0, 1.0):
        with pytest.raises(UserError, match="logits are no numbers"):
            sample(model, PROMPTS, 1, Decoding(3, temperature), [], 2)


def test_a_model_with_a_state_in_place_of_keys_is_named():
    config = Lfm2Config(**SMALL, layer_types=["conv", "full_attention"], intermediate_size=64)
    with pytest.raises(UserError, match="a lfm2 keeps a state in some layers"):
        sample(AutoModelForCausalLM.from_config(config).eval(), [[1, 2]], 2, Decoding(3), [], 0)


@pytest.mark.parametrize("target", ["embed_tokens", "lm_head"])
def test_an_adapter_on_one_side_of_a_shared_embedding_is_not_merged(target):
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SMALL, intermediate_size=64, tie_word_embeddings=True))
    plain = get_peft_model(model, LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM"))
    SamplingCopy(plain, torch.float32)
    adapted = get_peft_model(plain.unload(), LoraConfig(target_modules=["q_proj", target], task_type="CAUSAL_LM"))
    with pytest.raises(UserError, match=f"its adapter on .*{target} is on one side of an embedding"):
        SamplingCopy(adapted, torch.float32)


def test_an_adapter_on_experts_is_not_merged():
    config = Qwen3MoeConfig(**SMALL, intermediate_size=64, moe_intermediate_size=32, num_experts=4, head_dim=16)
    model = AutoModelForCausalLM.from_config(config)
    targets = {"target_modules": ["q_proj"], "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]}
    with pytest.raises(UserError, match=r"its adapter on .*experts.* cannot be merged"):
        SamplingCopy(get_peft_model(model, LoraConfig(**targets, task_type="CAUSAL_LM")), torch.float32)


def test_a_seeded_generator_repeats_its_draws(tiny_model):
    model = load(tiny_model)
    one, two = (
        sample(model, PROMPTS, 2, Decoding(8), [], 2, generator=torch.Generator().manual_seed(5)) for _ in range(2)
    )
    assert one == two


def test_the_sampling_copy_follows_full_and_lora_training(tiny_model):
    from peft import LoraConfig, get_peft_model

    ids = torch.tensor([PROMPTS[0]])
    for policy in (
        load(tiny_model),
        get_peft_model(load(tiny_model), LoraConfig(r=4, target_modules="all-linear")),
        with_another_forward(load(tiny_model)),
        get_peft_model(with_another_forward(load(tiny_model)), LoraConfig(r=4, target_modules="all-linear")),
    ):
        sampled = SamplingCopy(policy, torch.float32)
        with torch.no_grad():
            for p in policy.parameters():
                if p.requires_grad:
                    p.add_(torch.randn_like(p) * 0.05)
            before = sampled.model(ids).logits
            after = sampled.sync(policy)(ids).logits
            want = policy(ids).logits
        assert torch.allclose(after, want, atol=1e-5)
        assert not torch.allclose(before, want, atol=1e-3)


def test_the_sampling_copy_turns_tokens_by_the_policys_angles(tiny_model):
    """RoPE's frequencies stay float32, as where a model is loaded in bfloat16."""
    policy = load(tiny_model)
    sampled = SamplingCopy(policy, torch.bfloat16)
    assert {p.dtype for p in sampled.model.parameters()} == {torch.bfloat16}
    copied = dict(sampled.model.named_buffers())
    floating = {name: buffer for name, buffer in policy.named_buffers() if buffer.is_floating_point()}
    assert floating and all(torch.equal(copied[name], buffer) for name, buffer in floating.items())
    assert all(copied[name].dtype == torch.float32 for name in floating)


def test_the_end_of_an_answer_in_the_chat_template_ends_a_completion(tiny_model, tiny_tokenizer):
    """A base model's end of sequence may be another token than the one that its chat template teaches."""
    model, tokenizer = load(tiny_model), copy.deepcopy(tiny_tokenizer)
    [turn] = tokenizer("<|im_end|>", add_special_tokens=False)["input_ids"]
    assert end_of_turn(tokenizer) == turn == tokenizer.eos_token_id
    tokenizer.eos_token = "<|endoftext|>"
    assert tokenizer.eos_token_id != turn
    assert {turn, tokenizer.eos_token_id} <= set(end_ids(tokenizer, model))
    tokenizer.chat_template = PLAIN_TURNS
    assert end_of_turn(tokenizer) == tokenizer.eos_token_id
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    assert end_of_turn(tokenizer) is None
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}\n<|im_end|>\n{% endfor %}"  # as DeepSeek's
    assert end_of_turn(tokenizer) == turn
    tokenizer.chat_template = None
    assert end_of_turn(tokenizer) is None


def test_the_sampling_copy_is_a_choice_that_four_bits_and_zero_3_overrule():
    hardware = OmegaConf.create({"sampling_copy": True, "load_in_4bit": False, "zero_stage": 0, "precision": "bf16"})
    assert sampling_dtype(hardware) == torch.bfloat16
    for other in ({"sampling_copy": False}, {"load_in_4bit": True}, {"zero_stage": 3}):
        assert sampling_dtype(OmegaConf.merge(hardware, other)) is None


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"use_dora": True}, "use_dora"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"lora_bias": True}, "lora_bias"),
        ({"trainable_token_indices": [3]}, "trainable_token_indices"),
    ],
)
def test_an_adapter_that_is_more_than_lora_is_not_merged(tiny_model, more, named):
    adapted = get_peft_model(
        load(tiny_model), LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM", **more)
    )
    with pytest.raises(UserError, match=f"this adapter has {named}"):
        require_mergeable(adapted)
