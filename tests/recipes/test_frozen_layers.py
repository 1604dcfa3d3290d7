"""model.frozen_layers: the lowest layers and the embeddings stay bit for bit what they were, and cost no memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

from recipes.models.frozen import freeze_lowest
from recipes.tools.card.model_card import _recipe_rows
from recipes.tools.memory import planner
from recipes.tools.memory.contents import policy_of
from recipes.trainers import log_probs, packing
from tests import warm
from tests.recipes.small_llama import SMALL, composed, real_model
from tests.recipes.test_plan_traces import allocated, online_rows, planned_pass

ROOT = Path(__file__).parents[2]
LOWEST = ("model.embed_tokens.", "model.layers.0.")


def python(recipe: str, *args: str, cwd: Path) -> subprocess.CompletedProcess:
    return warm.run([sys.executable, ROOT / "recipes" / recipe, *args], cwd)


def small(tiny_model: Path) -> list[str]:
    return [
        *(f"model.path={tiny_model}", "model.lora_rank=0", "hardware.precision=fp32", "task.also_evaluate=[]"),
        *("task.max_new_tokens=6", "task.env.train_size=258", "evaluation.samples=0", "evaluation.greedy=false"),
    ]


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("sft.py", ["recipe.batch_size=2", "recipe.trl.learning_rate=1e-2"]),
        (
            "ppo.py",
            ["value=separate", "value.warmup_updates=0", "recipe.prompts_per_step=2", "recipe.trl.learning_rate=1e-2"],
        ),
    ],
)
def test_a_run_leaves_the_lowest_layer_and_the_embeddings_as_they_are(recipe, settings, tiny_model, tmp_path):
    done = python(
        recipe,
        *(*small(tiny_model), *settings, "model.frozen_layers=1", "recipe.trl.max_steps=2", "run.dir=run"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    before = dict(AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).named_parameters())
    after = dict(AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "final").named_parameters())
    same = {name for name, weight in after.items() if torch.equal(weight, before[name])}
    frozen = {name for name in after if name.startswith(LOWEST)}
    assert frozen and frozen <= same
    matrices = {name for name, weight in after.items() if weight.dim() == 2} - frozen
    assert "model.layers.1.mlp.up_proj.weight" in matrices and not matrices & same

    card = (tmp_path / "run" / "final" / "README.md").read_text()
    assert "all above the 1 lowest layers" in card


def test_embeddings_of_positions_are_frozen_and_an_output_matrix_of_its_own_is_not():
    gpt = AutoModelForCausalLM.from_config(
        GPT2Config(vocab_size=50, n_positions=16, n_embd=8, n_layer=3, n_head=2, tie_word_embeddings=False)
    )
    freeze_lowest(gpt, 2)
    trained = {name for name, weight in gpt.named_parameters() if weight.requires_grad}
    assert {name.split(".")[2] for name in trained if name.startswith("transformer.h.")} == {"2"}
    assert "lm_head.weight" in trained and "transformer.ln_f.weight" in trained
    assert not {"transformer.wte.weight", "transformer.wpe.weight"} & trained


@pytest.mark.parametrize("checkpointing", [False, True])
def test_an_update_takes_the_memory_that_is_planned(checkpointing, tmp_path):
    LlamaConfig(**SMALL).save_pretrained(tmp_path)
    settings = ["recipe.samples_per_prompt=2", "model.lora_rank=0", f"hardware.gradient_checkpointing={checkpointing}"]
    planned, all_layers = (
        planned_pass(tmp_path, "recipe=ppo", *settings, "hardware.precision=bf16", f"model.frozen_layers={frozen}")
        for frozen in (4, 0)
    )
    model, rows = freeze_lowest(real_model(0, checkpointing), 4), online_rows()

    def update() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            hidden = log_probs.hidden_states(packing.backbone_of(model), rows)
            head = packing.causal_lm(model).get_output_embeddings()
            logps, _ = log_probs.completion_logps(head, hidden, rows, 1.0, entropy="metric")
        del hidden
        (logps * rows.mask).sum().backward()

    update()  # the second finds gradients
    assert planned == pytest.approx(allocated(update), rel=0.1)
    assert planned < all_layers


def test_the_optimizer_of_a_plan_has_the_weights_that_are_trained(tmp_path):
    LlamaConfig(**SMALL).save_pretrained(tmp_path)
    sizes = ["task.prompt_tokens=96", "task.max_new_tokens=160", "hardware.memory_gib=9"]
    cfg = composed("task=basics", "recipe=sft", f"model.path={tmp_path}", "model.lora_rank=0", *sizes)
    cfg.model.frozen_layers = 4
    trained = sum(p.numel() for p in freeze_lowest(real_model(0, False), 4).parameters() if p.requires_grad)
    phases = planner.plan_of(cfg, planner.lengths_of(cfg, None)).phases
    assert policy_of(cfg).trained_parameters == trained
    assert phases["update"]["optimizer"] == 8 * trained  # Adam's two averages
    assert phases["update"]["gradients"] == 4 * trained


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["model.lora_rank=0", "model.frozen_layers=2"], "model.frozen_layers=2: the model has 2 layers"),
        (["model.lora_rank=8", "model.frozen_layers=1"], "set model.lora_rank=0, or leave it out"),
        (["model.lora_rank=0", "model.frozen_layers=-1"], "model.frozen_layers=-1"),
    ],
)
def test_what_cannot_be_frozen_is_one_line_before_anything_is_made(settings, says, tiny_model, tmp_path):
    done = python("sft.py", *small(tiny_model), *settings, cwd=tmp_path)
    assert done.returncode == 2 and says in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not list(tmp_path.iterdir())


def test_a_card_of_a_run_that_trained_everything_says_all():
    assert ("weights trained", "all") in _recipe_rows({"recipe": {"name": "sft"}, "model": {"lora_rank": 0}})
