"""Whole PPO and REINFORCE runs: Pacman is learnt, and every way to train runs through on a tiny model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from recipes.models.load import add_lora, load_policy
from recipes.records.jsonl import read_jsonl
from recipes.records.log import CLOCK
from recipes.trainers.resumable_ppo import state_of
from tests import warm
from tests.recipes.channels import PARITY
from tests.recipes.test_configs import compose

ROOT = Path(__file__).parents[2]


def run(recipe: str, folder: Path, *overrides: str) -> Path:
    command = [sys.executable, str(ROOT / "recipes" / f"{recipe}.py"), *overrides, f"run.dir={folder}"]
    done = warm.run(command, folder.parent)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def after(folder: Path, name: str = "reward") -> float:
    return next(row[name] for row in read_jsonl(folder / "evals.jsonl") if row["when"] == "after")


@pytest.mark.parametrize(
    ("recipe", "extra"),
    [
        ("ppo", ()),
        pytest.param("ppo", ("value=separate", "reward=sparse"), marks=pytest.mark.slow),
        pytest.param(
            "ppo",
            ("value=mlp", "reward=sparse", "model.lora_rank=0", "recipe.trl.kl_coef=0", "recipe.trl.lam=1"),
            marks=pytest.mark.slow,
        ),
        pytest.param("ppo", ("recipe.ratio=sequence",), marks=pytest.mark.slow),
        ("reinforce", ()),
    ],
    ids=["dense, shared critic", "sparse, separate critic", "all weights, MLP critic", "sequence ratio", "REINFORCE"],
)
def test_pacman_is_learnt_to_95_percent_of_the_best_return(tmp_path, recipe, extra):
    folder = run(recipe, tmp_path / "run", "task=pacman", *extra)
    assert next(r["reward"] for r in read_jsonl(folder / "evals.jsonl")) < 0.5
    assert after(folder) >= 0.95
    if recipe == "ppo" and "recipe.ratio=sequence" not in extra:
        rows = read_jsonl(folder / "metrics.jsonl")
        assert all(row["value/explained_variance"] <= 1 for row in rows if "value/explained_variance" in row)
        assert "value/explained_variance" in rows[0] and "value/explained_variance" not in rows[-1]  # all returns equal


SMALL = (
    "hardware.precision=fp32",
    "recipe.trl.max_steps=2",
    "recipe.prompts_per_step=2",
    "recipe.samples_per_prompt=2",
    "task.max_new_tokens=6",
    "task.also_evaluate=[]",
    "evaluation.samples=0",
    "evaluation.greedy=false",
    *PARITY,
)


@pytest.fixture
def small_model(tiny_tokenizer, tmp_path) -> Path:
    """Layers 64 wide, the smallest that bitsandbytes packs on the CPU."""
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=len(tiny_tokenizer),
        eos_token_id=2,
        pad_token_id=2,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_4_bit_weights_with_adapters_on_policy_and_critic_and_a_run_that_starts_from_them(small_model, tmp_path):
    four_bit = ("hardware.load_in_4bit=true", "hardware.gradient_checkpointing=true", "value=separate")
    settings = (*SMALL, *four_bit, "recipe.trl.learning_rate=0.1", "recipe.trl.kl_estimator=k3")  # never negative
    first = run("ppo", tmp_path / "first", f"model.path={small_model}", *settings)
    rows = read_jsonl(first / "metrics.jsonl")
    assert rows[0]["objective/kl"] == pytest.approx(0, abs=1e-5) and rows[1]["objective/kl"] > 1e-4
    assert all(row["grad_norm"] > 0 and row["value/grad_norm"] > 0 for row in rows)
    # the reference of a run that starts from an adapter is that adapter, not the model below it
    second = run("ppo", tmp_path / "second", f"model.path={small_model}", *SMALL, f"adapter={first}", "value=shared")
    rows = read_jsonl(second / "metrics.jsonl")
    assert rows[0]["objective/kl"] == pytest.approx(0, abs=1e-5)
    assert (second / "final" / "adapter_model.safetensors").exists()


def test_4_bit_weights_pass_gradients_on_after_an_evaluation_too(small_model):
    four_bit = ("hardware.load_in_4bit=true", "hardware.precision=fp32", "model.lora_rank=4", "model.lora_dropout=0")
    cfg = compose(f"model.path={small_model}", *four_bit, recipe="sft")
    policy = add_lora(load_policy(cfg.model, cfg.hardware, None)[0], cfg.model, None)
    ids = torch.arange(5, 14)[None]

    def gradients() -> list[torch.Tensor]:
        policy.train().zero_grad()
        policy(input_ids=ids, labels=ids).loss.backward()
        return [weight.grad.clone() for name, weight in policy.named_parameters() if "lora_B" in name]

    before = gradients()
    with torch.no_grad():
        policy.eval()(input_ids=ids)
    torch.testing.assert_close(gradients(), before)


def test_stock_sampling_and_an_adaptive_kl_coefficient(tiny_model, tmp_path):
    folder = run(
        "ppo", tmp_path / "run", f"model.path={tiny_model}", *SMALL, "recipe.sampler=generate", "recipe.kl_target=1"
    )
    first, second = read_jsonl(folder / "metrics.jsonl")
    assert second["kl_coef"] < first["kl_coef"]  # the first update is far below its target


@pytest.mark.parametrize(
    ("recipe", "override", "says"),
    [
        ("ppo", "recipe.ratio=word", "it must be token or sequence"),
        ("ppo", "recipe.trl.kl_estimator=k2", "it must be k1 or k3"),
        ("ppo", "recipe.trl.num_mini_batches=3", "do not divide into recipe.trl.num_mini_batches=3"),
        ("ppo", "value=none", "value"),
        ("grpo", "hardware.rows_per_device=7", "set hardware.rows_per_device=4"),
        ("reinforce", "recipe.baseline=best", "it must be none or batch or group"),
        ("reinforce", "recipe.samples_per_prompt=1", "needs recipe.samples_per_prompt of 2"),
    ],
)
def test_a_wrong_option_is_one_line(tmp_path, recipe, override, says):
    command = [sys.executable, str(ROOT / "recipes" / f"{recipe}.py"), override]
    done = warm.run(command, tmp_path)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 2 and len(errors) == 1 and says in errors[0], done.stderr[-2000:]
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("recipe", ["ppo", "grpo"])
def test_evaluations_in_between_change_nothing_of_the_training(tmp_path, recipe):
    asked = ("task=pacman", "recipe.trl.max_steps=5", "evaluation.samples=3", "evaluation.greedy=true")
    plain = run(recipe, tmp_path / "plain", *asked)
    every = run(recipe, tmp_path / "every", *asked, "evaluation.every=2")

    def metrics(folder):
        rows = read_jsonl(folder / "metrics.jsonl")
        return [{key: value for key, value in row.items() if not key.startswith(CLOCK)} for row in rows]

    assert metrics(plain) == metrics(every)
    rows = read_jsonl(every / "evals.jsonl")
    results = [(row["when"], row["step"], row["temperature"]) for row in rows if row["task"] == "pacman"]
    wanted = [("before", 0), ("step 2", 2), ("step 4", 4), ("after", 5)]
    assert results == [(*at, temperature) for at in wanted for temperature in (1.0, 0.0)]
    assert all("memory/evaluation" in row for row in rows)
    assert "held-out" in (every / "report.html").read_text().lower()


def test_a_checkpoint_of_trls_ppo_is_read_without_the_field_that_it_adds(tmp_path):
    (tmp_path / "trainer_state.json").write_text('{"global_step": 4, "max_steps": 6, "episode": 256}')
    state = state_of(tmp_path / "trainer_state.json")
    assert (state.global_step, state.max_steps) == (4, 6) and not hasattr(state, "episode")
