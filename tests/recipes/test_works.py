"""Published works: experiments have their numbers, and their data is graded by their channels."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from omegaconf import DictConfig

from recipes.cli import schema
from recipes.cli.overrides import compose as compose_run
from recipes.evaluation.task_soundness import as_answer, planted_wrong
from recipes.run.build import build_reward, build_sandbox, build_task
from tests.recipes.test_configs import compose

SAMPLE = Path(__file__).parents[3] / "shared" / "data" / "opencodeinstruct_sample" / "sample.jsonl"
ROWS = [
    ("reinforce", 0.01, 4, 131),
    ("reinforce", 0.03, 4, 131),
    ("ppo", 0.01, 4, 131),
    ("ppo", 0.03, 4, 131),
    ("ppo", 0.01, 8, 66),
    ("ppo", 0.03, 8, 66),
]
"""Recipe, length penalty for each 100 tokens, batch, updates: four passes over 131 problems."""


def online_row(recipe: str, alpha: float, batch: int) -> DictConfig:
    """The configuration of a row, its run named, as the command line makes it."""
    schema.register()
    row = [f"recipe={recipe}", f"+experiment=humaneval_{recipe}", f"task.reward.form.length_alpha={alpha}"]
    return compose_run([*row, f"recipe.prompts_per_step={batch}"] if recipe == "ppo" else row)


def test_the_dense_rewards_works_numbers():
    cfg = compose("+experiment=mbpp_a100x2", recipe="ppo")
    r, trl, model = cfg.recipe, cfg.recipe.trl, cfg.model
    weights = {name: spec.weight for name, spec in cfg.task.reward.items()}
    assert weights == {"syntax": 0.1, "lint": 0.1, "dataflow": 0.1, "unit_tests": 0.7}
    assert (trl.kl_coef, trl.kl_estimator, r.kl_target) == (0.1, "k3", None)
    assert r.prompts_per_step * r.samples_per_prompt / trl.num_mini_batches == 8  # of both processes together
    assert cfg.hardware.num_processes == 2 and cfg.task.env.train_size == 5000
    assert trl.max_steps == 938 and (trl.temperature, r.top_p) == (1.0, 0.95)
    assert (trl.num_ppo_epochs, trl.cliprange, r.ratio, trl.learning_rate) == (4, 0.2, "token", 3e-6)
    assert (cfg.value.name, trl.cliprange_value, trl.vf_coef) == ("separate", 0.3, 1.0)
    assert (model.lora_rank, model.lora_alpha, model.lora_dropout, model.lora_targets) == (16, 32, 0.05, "all-linear")
    assert trl.response_length == 256 and cfg.task.env.validation_size == 500
    decoding = cfg.evaluation
    assert (decoding.temperature, decoding.top_p, decoding.max_new_tokens) == (0.01, 0.95, 1024)
    assert list(cfg.task.also_evaluate) == ["mbppplus"]


def test_the_dense_rewards_works_robot_numbers():
    cfg = compose("+experiment=roboeval_a100x2", "task.benchmark_dir=codebotler/benchmark", recipe="ppo")
    e, trl = cfg.evaluation, cfg.recipe.trl
    assert (e.samples, e.temperature, e.top_p, e.greedy, e.max_new_tokens) == (1, 0.01, 0.95, False, 1024)
    assert (trl.learning_rate, trl.kl_coef, trl.kl_estimator, cfg.task.reward.simulator.weight) == (
        1e-6,
        0.9,
        "k3",
        0.8,
    )
    assert cfg.task.env.benchmark_dir == "codebotler/benchmark"


def test_the_etk_works_numbers():
    cfg = compose("+experiment=etk_t4", recipe="ppo")
    r, trl, reward = cfg.recipe, cfg.recipe.trl, cfg.task.reward
    assert (trl.kl_coef, trl.lam, trl.lr_scheduler_type, trl.learning_rate) == (0.0, 1.0, "constant", 1e-7)
    assert (r.prompts_per_step, r.samples_per_prompt, trl.max_steps, trl.cliprange) == (3, 1, 925, 0.02)
    assert (cfg.model.lora_rank, cfg.hardware.load_in_4bit, cfg.value.name) == (0, False, "mlp")
    assert cfg.model.name == "qwen25_coder_0_5b" and cfg.reward.name == "sparse"
    assert (reward.bleu.weight, reward.judge.weight, reward.judge.mode) == (0.6, 0.4, "number")


def test_the_deepcoder_works_numbers():
    cfg = compose("+experiment=deepcoder_grpo", recipe="grpo")
    r, trl, e = cfg.recipe, cfg.recipe.trl, cfg.evaluation
    assert (cfg.reward.placement, r.shaping, trl.scale_rewards, trl.beta) == ("sparse", 0.0, "none", 0.0)
    assert (trl.max_grad_norm, trl.save_steps, trl.learning_rate, trl.num_generations) == (0.0, 10, 4e-5, 16)
    assert (e.every, e.samples, e.greedy) == (10, 0, True)
    assert (cfg.task.reward.form.weight, cfg.task.reward.form.no_block) == (0.1, -1.0)


@pytest.mark.parametrize(("recipe", "alpha", "batch", "updates"), ROWS)
def test_the_humaneval_works_online_rows(recipe, alpha, batch, updates):
    cfg = online_row(recipe, alpha, batch)
    r = cfg.recipe
    assert (cfg.task.reward.form.length_alpha, cfg.task.reward.form.weight) == (alpha, 1.0)
    assert (r.prompts_per_step, r.samples_per_prompt, r.trl.max_steps) == (batch, 1, updates)
    assert cfg.task.env.train_size == 131 and cfg.adapter.startswith("runs/sft/humaneval/humaneval_sft-")
    assert (r.trl.temperature, r.top_p, r.trl.learning_rate, r.trl.kl_coef) == (0.8, 0.95, 5e-6, 0.0)
    assert (cfg.task.reward.form.no_block, r.trl.response_length) == (0.0, 256)
    if recipe == "reinforce":
        assert r.baseline == "none"
    if recipe == "ppo":
        assert (r.ratio, r.trl.num_ppo_epochs, r.trl.num_mini_batches) == ("sequence", 4, 1)


def test_the_online_rows_have_directories_of_their_own_which_name_what_differs():
    names = [online_row(*row[:3]).run.name for row in ROWS]
    assert len(set(names)) == len(ROWS) and all(len(name) < 60 for name in names)
    assert names[0] == "humaneval_reinforce-0.01-smollm2_135m-seed0"
    assert names[-1] == "humaneval_ppo-0.03-batch8-smollm2_135m-seed0"


def test_the_humaneval_works_offline_rows_stand_at_equal_numbers_of_graded_samples():
    pairs = compose("+experiment=humaneval_pairs", recipe="pairs")
    assert (pairs.recipe.temperature, pairs.recipe.top_p) == (0.8, 0.95)
    dpo = compose("+experiment=humaneval_dpo", recipe="dpo")
    sft = compose("+experiment=humaneval_sft", recipe="sft")
    graded = pairs.task.env.train_size * pairs.recipe.samples_per_prompt
    assert graded == 524 and all(abs(batch * updates - graded) < batch for *_, batch, updates in ROWS)
    assert sft.recipe.trl.learning_rate == 5e-5
    for cfg in (sft, pairs, dpo):
        assert (cfg.model.lora_rank, cfg.model.lora_alpha, cfg.model.lora_dropout) == (8, 16, 0.05)
        assert cfg.task.max_new_tokens == 256
    assert dpo.recipe.pairs == pairs.run.dir and pairs.adapter == dpo.adapter == sft.run.dir
    assert not compose("+experiment=humaneval_base", recipe="eval").adapter


def test_open_code_instructs_rows_are_graded_by_the_tasks_channels():
    if not SAMPLE.exists():
        pytest.skip("../shared/data/opencodeinstruct_sample is not here")
    sizes = ["task.env.train_size=4", "task.env.validation_size=1"]
    cfg = compose("task=mbpp", f"task.env.train_path={SAMPLE}", *sizes, "sandbox.workers=1")
    task, sandbox = build_task(cfg), build_sandbox(cfg)
    reward = build_reward(cfg, sandbox)
    problems = [*task.problems("train"), *task.problems("validation")]
    right = "def sum_values(d):\n    return {k: sum(v) for k, v in d.items()}\n"
    codes = [right if p.entry_point == "sum_values" else planted_wrong(p) for p in problems]
    answers = [as_answer(task, p, code) for p, code in zip(problems, codes, strict=True)]

    async def graded():
        try:
            return await reward.grade(problems, answers)
        finally:
            await sandbox.close()

    grades = asyncio.run(graded())
    assert [grade.passed for grade in grades] == [code == right for code in codes]
    assert all(grade.results["dataflow"].silent and grade.weights["dataflow"] == 0 for grade in grades)
    assert all(sum(grade.weights.values()) == pytest.approx(1.0) for grade in grades)
    assert grades[codes.index(right)].total == pytest.approx(0.7 / 0.9)
