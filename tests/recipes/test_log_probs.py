"""Log-probabilities in chunks: the model's own numbers and gradients, whatever lies around a row."""

from __future__ import annotations

import copy
import gc
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch.autograd.graph import saved_tensors_hooks
from transformers import FalconConfig, LlamaConfig, MistralConfig, Qwen2Config, Qwen3NextConfig

from recipes.cli.errors import UserError
from recipes.models.attention import packed_sdpa
from recipes.models.tiny import scratch_model
from recipes.trainers import log_probs
from recipes.trainers.log_probs import completion_logps, hidden_states, packed_logps, require_plain_head
from recipes.trainers.packing import (
    Rows,
    attend_by_segment,
    attends_by_segment,
    backbone_of,
    causal_lm,
    full_attention,
    pack,
)

PROMPTS = [[3, 4, 5, 6], [7], [3, 4, 5, 6], [3, 3], [3, 4, 5, 6]]
COMPLETIONS = [[5, 6, 1], [8, 9, 10, 4, 4, 3, 1], [5, 7], [9], [3, 3, 8, 1]]
CPU = torch.device("cpu")


@pytest.fixture(params=["with a mask", "by segment", "by segment, grouped heads"])
def model(request):
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape["num_key_value_heads"] = 2 if "grouped" in request.param else 4
    model = scratch_model("abcdefghij", **shape)[0]
    if "segment" in request.param:
        attend_by_segment(CPU, model)
        assert attends_by_segment(model)
    return model


def ours(model, prompts, completions, longest=4096, temperature=0.7):
    rows = Rows(prompts, completions, max(map(len, completions)), CPU, longest)
    hidden = hidden_states(backbone_of(model), rows)
    return rows, completion_logps(causal_lm(model).get_output_embeddings(), hidden, rows, temperature, True)


def alone(model, prompt, completion, temperature=0.7):
    """Log-probabilities and entropies of one completion from the model's logits."""
    logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1] / temperature
    logps = logits.log_softmax(-1)
    entropy = -(logps.exp() * logps).sum(-1)
    return logps.gather(1, torch.tensor(completion)[:, None]).squeeze(1), entropy


@pytest.mark.parametrize("chunk", [1, 4, 256])
@pytest.mark.parametrize("lora", [False, True], ids=["all weights", "LoRA"])
@pytest.mark.parametrize("longest", [4096, 5], ids=["packed where prompts repeat", "padded"])
def test_numbers_and_gradients(model, monkeypatch, chunk, lora, longest):
    monkeypatch.setattr(log_probs, "CHUNK", chunk)
    if lora:
        model = get_peft_model(model, LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False))
    exact = copy.deepcopy(model).double()  # in float32 the plain path rounds no less than ours
    _, (logps, entropy) = ours(model, PROMPTS, COMPLETIONS, longest)
    logps.square().sum().backward()
    single = [alone(exact, p, c) for p, c in zip(PROMPTS, COMPLETIONS, strict=True)]
    sum(results.square().sum() for results, _ in single).backward()
    for row, (wanted, wanted_entropy) in enumerate(single):
        n = len(COMPLETIONS[row])
        assert torch.allclose(logps[row, :n].double(), wanted, atol=1e-5)
        assert torch.allclose(entropy[row, :n].double(), wanted_entropy, atol=1e-5)
        assert (logps[row, n:] == 0).all() and (entropy[row, n:] == 0).all()
    trained = {n: p.grad for n, p in model.named_parameters() if p.requires_grad}
    assert trained
    for name, parameter in exact.named_parameters():
        if name in trained:
            error = (trained[name] - parameter.grad).abs().max()
            assert error <= 1e-4 * parameter.grad.abs().max(), name


@pytest.mark.parametrize("checkpointing", [False, True], ids=["", "checkpointing"])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_attention_by_segment_is_attention_with_a_mask(model, precision, checkpointing):
    """An empty completion among them; each row alone in its group has no mask at all."""
    masked, completions = copy.deepcopy(model), [[], *COMPLETIONS[1:]]
    masked.set_attn_implementation("sdpa")
    results = []
    for each in (masked, model):
        if checkpointing:
            each.gradient_checkpointing_enable({"use_reentrant": False})
        each.train()
        with torch.autocast("cpu", precision, enabled=precision != torch.float32):
            logps, entropy = packed_logps(each, Rows(PROMPTS, completions, 7, CPU), 0.7, "metric")
        logps.square().sum().backward()
        results.append([logps, entropy, *(p.grad for p in each.parameters())])
    for wanted, got in zip(*results, strict=True):
        rounding = 1e-5 if precision == torch.float32 else 2e-2
        assert torch.allclose(got, wanted, atol=rounding * float(wanted.abs().max().clamp(min=1e-3)))


@pytest.mark.parametrize("checkpointing", [False, True])
def test_what_a_segment_puts_together_is_not_kept_and_checkpointing_decides_alone(checkpointing):
    query, key, value = (torch.randn(1, heads, 9, 4, requires_grad=True) for heads in (4, 2, 2))
    module = type("Layer", (), {"num_key_value_groups": 2, "is_causal": True})()
    seen = []

    def keep(tensor):
        seen.append(tuple(tensor.shape))
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor) if checkpointing else nullcontext():
        packed_sdpa(module, query, key, value, None, segments=(3, (4, 2)))[0].sum().backward()
    put_together = {(1, 2, 7, 4), (1, 2, 5, 4)}  # keys and values of a segment
    assert put_together <= set(seen) if checkpointing else not seen
    assert query.grad.any() and key.grad.any() and value.grad.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layers_keep_one_mask_together(dtype):
    """One each would be as much memory as the activations where answers are long."""
    query, key, value = (torch.randn(1, heads, 9, 4, dtype=dtype, requires_grad=True) for heads in (4, 2, 2))
    module = SimpleNamespace(num_key_value_groups=2, is_causal=True)
    kept = []
    with saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        layers = [packed_sdpa(module, query, key, value, None, segments=(3, (4, 2)))[0] for _ in range(2)]
    masks = [tensor.data_ptr() for tensor in kept if tensor.shape[-2:] == (8, 7)]  # of both heads' four tokens
    assert len(layers) == len(masks) == 2 and len(set(masks)) == 1


def test_padding_stands_at_no_position_that_a_model_may_lack():
    """Learned positions end: a row of as many tokens as the model has may be padded to a multiple of eight."""
    inputs, _ = pack([[1, 2, 3]], [[[4, 5], [6, 7, 8]]], torch.device("cpu"))
    assert inputs["input_ids"].shape == (1, 8)
    inputs, _ = pack([[1, 2, 3]], [[[4, 5], [6, 7]]], torch.device("cpu"))
    assert inputs["position_ids"].tolist() == [[0, 1, 2, 3, 4, 3, 4, 0]]


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_weights_of_16_bits_attend_by_segment(precision):
    torch.manual_seed(0)
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 8, "num_attention_heads": 4}
    model = scratch_model("abcdefghij", **shape)[0].to(precision)
    attend_by_segment(CPU, get_peft_model(model, LoraConfig(r=2, target_modules="all-linear")))
    assert attends_by_segment(model)


def test_a_model_that_passes_no_lengths_on_keeps_its_mask(model):
    model.set_attn_implementation("sdpa")
    plain = model.model.forward
    model.model.forward = lambda *args, segments=None, **kwargs: plain(*args, **kwargs)
    attend_by_segment(CPU, model)
    assert model.config._attn_implementation == "sdpa" and not attends_by_segment(model)
    model.set_attn_implementation("eager")
    attend_by_segment(CPU, model)
    assert model.config._attn_implementation == "eager"


def test_a_graph_without_a_backward_pass_is_freed():
    """An output that the hook keeps must not hold the graph that keeps it: only a backward pass would end that."""
    module = SimpleNamespace(training=True, num_key_value_groups=2)

    def pass_forward() -> None:
        query, key, value = (torch.randn(1, heads, 9, 8, requires_grad=True) * 1.0 for heads in (4, 2, 2))
        packed_sdpa(module, query, key, value, None, segments=(3, (4, 2)))

    def tensors() -> int:
        gc.collect()
        return sum(isinstance(each, torch.Tensor) for each in gc.get_objects())

    pass_forward()  # masks are kept
    before = tensors()
    for _ in range(3):
        pass_forward()
    assert tensors() <= before


def test_the_limit_of_a_pack_is_for_one_prompt_with_its_completions():
    def rows(longest: int) -> Rows:
        return Rows([[1, 2], [1, 2], [3], [3]], [[1], [2], [3, 4, 5], [4]], 3, CPU, longest)

    assert rows(5).fit and rows(5).groups() == [[0, 1], [2, 3]]  # 2 + 1 + 1 and 1 + 3 + 1 tokens
    assert not rows(4).fit and rows(4).groups() == [[0], [1], [2], [3]]


@pytest.mark.parametrize("longest", [4096, 5], ids=["packed", "padded"])
def test_a_row_does_not_see_its_neighbours(model, longest):
    _, (logps, _) = ours(model, PROMPTS, COMPLETIONS, longest)
    _, (other, _) = ours(model, PROMPTS, [COMPLETIONS[0], *([9] * 6 for _ in COMPLETIONS[1:])], longest)
    assert torch.allclose(logps[0, :3], other[0, :3], atol=1e-6)


@pytest.mark.parametrize("longest", [4096, 5], ids=["packed", "padded"])
def test_the_state_after_the_last_token_is_there_for_the_critic(model, longest):
    rows = Rows(PROMPTS, COMPLETIONS, 7, CPU, longest)
    hidden = hidden_states(backbone_of(model), rows)
    for row, (prompt, completion) in enumerate(zip(PROMPTS, COMPLETIONS, strict=True)):
        states = model.model(torch.tensor([prompt + completion])).last_hidden_state[0, len(prompt) - 1 :]
        n = min(len(completion) + 1, 7)
        assert torch.allclose(hidden[row, :n], states[:n], atol=1e-5)


def test_no_tensor_holds_the_vocabulary_of_a_batch(model, monkeypatch):
    """The widest thing the output matrix ever makes is CHUNK x V, forward and backward."""
    monkeypatch.setattr(log_probs, "CHUNK", 4)
    seen = []
    head = model.get_output_embeddings()
    head.register_forward_hook(lambda module, args, out: seen.append(out.shape))
    _, (logps, _) = ours(model, PROMPTS, COMPLETIONS)
    logps.sum().backward()
    tokens = sum(map(len, COMPLETIONS))
    assert sum(shape[0] for shape in seen) == 2 * tokens  # once forward, once again for the backward pass
    assert max(shape[0] for shape in seen) == 4


@pytest.mark.parametrize("longest", [4096, 5], ids=["packed", "padded"])
@pytest.mark.parametrize("way", ["GRPO", "GRPO in chunks", "PPO"])
def test_what_the_policy_did_not_write_meets_no_output_matrix(model, way, longest):
    """Written tokens keep their numbers and gradients; the others, which all of a row may be, have none."""
    written = torch.arange(7) % 3 != 1
    written = written.repeat(len(PROMPTS), 1)
    written[3] = False
    seen, gradients, results = [], [], []
    model.get_output_embeddings().register_forward_hook(lambda module, args, out: seen.append(out[..., 0].numel()))
    for mask in (None, written):
        rows = Rows(PROMPTS, COMPLETIONS, 7, CPU, longest, mask)
        model.zero_grad()
        seen.clear()
        if way == "PPO":
            hidden = hidden_states(backbone_of(model), rows)
            logps, entropy = completion_logps(model.get_output_embeddings(), hidden, rows, 0.7, "metric")
        else:
            logps, entropy = packed_logps(model, rows, 0.7, "metric", logits_at_once=4 if "chunks" in way else 0)
        assert sum(seen) == rows.mask.sum() == len(rows.targets)
        (logps.square() * written).sum().backward()
        results.append((logps, entropy))
        gradients.append([p.grad.clone() for p in model.parameters()])
    for everywhere, got in zip(*results, strict=True):
        assert torch.allclose(got, everywhere * written, atol=1e-6) and got.any()
    for everywhere, got in zip(*gradients, strict=True):
        assert torch.allclose(got, everywhere, atol=1e-6 * float(everywhere.abs().max().clamp(min=1)))


def test_a_model_that_changes_its_logits_is_refused(model):
    require_plain_head(model)
    model.lm_head.register_forward_hook(lambda module, args, out: out)
    plain = model.forward
    model.forward = lambda *a, **k: type("Out", (), {"logits": plain(*a, **k).logits.tanh() * 5 + 1})
    with pytest.raises(UserError, match=r"hardware\.logits_at_once=0, or another model"):
        require_plain_head(model)


@pytest.mark.parametrize(
    ("config", "full"),
    [
        (LlamaConfig(), True),
        (MistralConfig(sliding_window=8), False),
        (Qwen2Config(), True),
        (Qwen2Config(use_sliding_window=True, sliding_window=8, max_window_layers=0), False),
        (Qwen3NextConfig(), False),
        (FalconConfig(alibi=True), False),
    ],
    ids=lambda c: type(c).__name__ if not isinstance(c, bool) else str(c),
)
def test_rows_are_packed_where_every_layer_sees_everything(config, full):
    assert full_attention(config) == full
