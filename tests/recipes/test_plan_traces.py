"""What a plan of memory traces, against what PyTorch allocates in the same passes."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from datasets import Dataset
from peft import LoraConfig
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, DynamicCache, LlamaConfig
from trl import DPOConfig, DPOTrainer, GRPOTrainer, SFTConfig, SFTTrainer

from recipes.models.load import DTYPES
from recipes.tools.memory import planner, trace
from recipes.tools.memory.network import Network
from recipes.tools.memory.trace import Batch, traced
from recipes.trainers import log_probs, packing
from recipes.trainers.packing import attend_by_segment
from tests.recipes.small_llama import SMALL, composed, config, real_model, total


def allocated(run) -> int:
    """Bytes that `run` holds at most, by PyTorch's own count of what its allocator gives and takes."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        run()
    kineto = recorded.profiler.kineto_results.events()
    events = sorted((e for e in kineto if e.name() == "[memory]"), key=lambda e: e.start_ns())
    held = most = 0
    for event in events:
        held += event.nbytes()
        most = max(most, held)
    return most


def planned_pass(folder: Path, *overrides: str) -> float:
    """Bytes that a pass of the update takes by the plan, beside weights and gradients: 4 completions of two prompts."""
    sizes = ["task.prompt_tokens=96", "task.max_new_tokens=160", "hardware.rows_per_device=4", "hardware.memory_gib=9"]
    steps = [] if {"recipe=sft", "recipe=dpo"} & set(overrides) else ["recipe.prompts_per_step=8"]
    cfg = composed("task=basics", f"model.path={folder}", "model.lora_rank=8", *sizes, *steps, *overrides)
    update = planner.plan_of(cfg, planner.lengths_of(cfg, None)).phases["update"]
    return sum(update.get(part, 0.0) for part in ("casts", "activations", "logits"))


def online_rows() -> packing.Rows:
    prompts = [[row // 2] * 96 for row in range(4)]
    return packing.Rows(prompts, [[0] * 160] * 4, 160, torch.device("cpu"), 4096)


@pytest.mark.parametrize(
    "rank, checkpointing, precision",
    [
        *((8, False, "bf16"), (8, True, "bf16"), (0, False, "fp32"), (0, True, "bf16")),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((8, False, "fp32"), (8, True, "fp32"))),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((0, False, "bf16"), (0, True, "fp32"))),
    ],
)
def test_an_update_of_ppo_takes_what_is_planned(rank, checkpointing, precision, tmp_path):
    LlamaConfig(**SMALL).save_pretrained(tmp_path)
    hardware = [f"hardware.precision={precision}", f"hardware.gradient_checkpointing={checkpointing}"]
    planned = planned_pass(tmp_path, "recipe=ppo", "recipe.samples_per_prompt=2", f"model.lora_rank={rank}", *hardware)
    dtype, rows = DTYPES[precision], online_rows()
    model = real_model(rank, checkpointing, dtype if rank else torch.float32)

    def update() -> None:
        with torch.autocast("cpu", dtype, enabled=precision != "fp32"):
            hidden = log_probs.hidden_states(packing.backbone_of(model), rows)
            head = packing.causal_lm(model).get_output_embeddings()
            logps, _ = log_probs.completion_logps(head, hidden, rows, 1.0, entropy="metric")
        del hidden
        (logps * rows.mask).sum().backward()

    update()  # the second finds gradients
    assert planned == pytest.approx(allocated(update), rel=0.1)


@pytest.fixture
def bf16_accelerator():
    """An accelerator of this test alone: Accelerate keeps one state a process, and other tests set theirs."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield Accelerator(mixed_precision="bf16", cpu=True)
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.parametrize("by_segment", [True, False])  # as on a CPU, and as on a GPU, which a plan is then for
@pytest.mark.parametrize(
    "rank, packing, bonus",
    [
        *((8, 4096, 0.01), (8, 0, 0.0), (0, 4096, 0.0), (0, 0, 0.01)),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((8, 4096, 0.0), (8, 0, 0.01))),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((0, 4096, 0.01), (0, 0, 0.0))),
    ],
)
def test_an_update_of_grpo_takes_what_is_planned(rank, packing, bonus, by_segment, bf16_accelerator, tmp_path):
    LlamaConfig(**SMALL).save_pretrained(tmp_path)
    settings = [f"recipe.packing_max_tokens={packing}", f"model.lora_rank={rank}", "hardware.precision=bf16"]
    settings += [f"+recipe.trl.entropy_coef={bonus}"] if bonus else []
    settings += [] if by_segment else ["hardware.device=cuda"]
    planned = planned_pass(tmp_path, "recipe=grpo", "recipe.trl.num_generations=2", *settings)
    model = real_model(rank, False, torch.bfloat16 if rank else torch.float32)
    if by_segment:
        attend_by_segment(torch.device("cpu"), model)
    model = bf16_accelerator.prepare(model)
    rows, ids = online_rows(), torch.zeros(4, 256, dtype=torch.long)
    mask = torch.ones_like(ids)
    mask[0, 0] = 0
    options = {"model_kwarg_keys": {"logits_to_keep"}, "temperature": 1.0, "_entropy_bonus_enabled": bool(bonus)}
    padded = partial(GRPOTrainer._get_per_token_logps_and_entropies, SimpleNamespace(**options))

    def update() -> None:
        if packing:
            logps, entropies = log_probs.packed_logps(model, rows, 1.0, entropy="loss" if bonus else "metric")
        else:
            logps, entropies = padded(model, ids, mask, 160, compute_entropy=True)[:2]
        (logps + bonus * entropies).sum().backward()

    update()
    taken = allocated(update) / planned
    assert 0.9 < taken < (1.15 if by_segment and packing else 1.1)  # pieces of attention by segment are not planned


@pytest.mark.parametrize("name", ["sft", pytest.param("dpo", marks=pytest.mark.slow)])
def test_a_pass_of_trls_trainers_takes_what_is_planned(name, tiny_tokenizer, tmp_path):
    shape = LlamaConfig(**SMALL | {"vocab_size": len(tiny_tokenizer)})
    shape.save_pretrained(tmp_path)
    rows = {"prompt": ["a b c"] * 8, "completion": [" x" * 100] * 8}
    if name == "dpo":
        rows = {"prompt": ["a b c"] * 8, "chosen": [" x" * 100] * 8, "rejected": [" y" * 100] * 8}
    kind, settings = {"sft": (SFTTrainer, SFTConfig), "dpo": (DPOTrainer, DPOConfig)}[name]
    options = {"use_cpu": True, "report_to": "none", "gradient_checkpointing": False, "bf16": True}
    args = settings(output_dir=str(tmp_path), per_device_train_batch_size=4, **options)
    lora = LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM")
    model = AutoModelForCausalLM.from_config(shape, dtype=torch.bfloat16)
    dataset = Dataset.from_dict(rows)
    trainer = kind(model=model, args=args, train_dataset=dataset, processing_class=tiny_tokenizer, peft_config=lora)
    batch = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    model, trainer.current_gradient_accumulation_steps = trainer.accelerator.prepare(trainer.model.train()), 1
    tokens = batch["input_ids"].shape[1]
    own = [f"recipe={name}", *(["recipe.pairs=x"] if name == "dpo" else []), f"recipe.trl.max_length={tokens}"]
    planned = planned_pass(tmp_path, *own, "task.max_new_tokens=100", "hardware.precision=bf16")
    trainer.training_step(model, dict(batch))
    assert planned == pytest.approx(allocated(lambda: trainer.training_step(model, dict(batch))), rel=0.1)


def test_reading_prompts_holds_what_is_traced():
    network = Network(config(), torch.float32)
    model, ids = real_model(0, False).eval(), torch.zeros(8, 256, dtype=torch.long)
    mask = torch.ones_like(ids)
    mask[0, 0] = 0
    cache = DynamicCache(config=model.config)

    @torch.no_grad()
    def reading() -> None:
        model(input_ids=ids, attention_mask=mask, past_key_values=cache, logits_to_keep=1)

    planned = traced(network, planner.padded(8, 256), cached=True)
    assert total(planned.fullest) == pytest.approx(allocated(reading), rel=0.1)
    assert planned.kept["activations"] > 8 * 256 * network.cache * 4


@pytest.mark.parametrize("passes", [1, 6])
def test_what_is_kept_grows_by_the_layer_and_the_pass_as_a_trace_of_all_says(passes):
    shallow = json.dumps(json.loads(config()) | {"num_hidden_layers": 3})
    batch = replace(planner.padded(4, 128), forwards=passes)
    hows = {"trained": True}, {"lora_rank": 4}, {"lora_rank": 4, "checkpointing": True}
    for how in hows[: 1 if passes > 1 else None]:  # what gradients of several passes hold at once grows up to three
        six, three = (traced(Network(c, torch.float32, **how), batch, learns=True) for c in (config(), shallow))
        every = trace._trace(Network(config(), torch.float32, **how), 6, batch, None, True, False)
        assert six.kept["activations"] == pytest.approx(every.kept, rel=0.01)
        assert total(six.fullest) == pytest.approx(sum(every), rel=0.1)
        assert total(three.kept) < total(six.kept)


def test_more_rows_and_tokens_take_more_and_checkpoints_less():
    def update(batch, **how):
        return total(traced(Network(config(), torch.float32, lora_rank=4, **how), batch, learns=True).fullest)

    small, more = Batch(2, 96), Batch(4, 160)
    assert update(small) < update(more)
    assert update(more, checkpointing=True) < 0.6 * update(more)


def test_no_attention_writes_its_scores_out():
    """(B, H, T, T) would be 8 * 4 * 2048^2 * 4 bytes in each layer, also on a GPU without flash attention."""
    from recipes.models.attention import repeated_sdpa

    torch.manual_seed(0)
    module = torch.nn.Module()
    module.num_key_value_groups, module.is_causal = 2, True
    query, key, value = (torch.randn(2, heads, 1024, 16) for heads in (4, 2, 2))
    scores = 2 * 4 * 1024**2 * 4
    assert allocated(lambda: repeated_sdpa(module, query, key, value, None, dropout=0.0, scaling=0.25)) < scores / 4
    layers = total(traced(Network(config(), torch.float32, lora_rank=4), Batch(8, 2048), learns=True).fullest)
    assert layers < 8 * 4 * 2048**2 * 4 * 6


def test_both_attentions_are_sdpa():
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    from recipes.models.attention import attention_for, grouped_sdpa, repeated_sdpa

    torch.manual_seed(0)
    module = torch.nn.Module()
    module.num_key_value_groups, module.is_causal = 3, True
    for tokens in (1, 7):
        query, key, value = (torch.randn(2, heads, tokens, 16) for heads in (6, 2, 2))
        options = {"dropout": 0.0, "scaling": 0.25}
        wanted, _ = sdpa_attention_forward(module, query, key, value, None, **options)
        for attention in (grouped_sdpa, repeated_sdpa):
            torch.testing.assert_close(attention(module, query, key, value, None, **options)[0], wanted)
    assert attention_for("cpu") == "sdpa"
