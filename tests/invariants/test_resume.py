"""A run that was killed and started again leaves the same metrics as one that was not."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM
from trl import DPOConfig, GRPOConfig

from envs.basics import Basics
from recipes.data.training_data import prompt_dataset
from recipes.records.jsonl import read_jsonl
from recipes.records.log import CLOCK, RunLog
from recipes.trainers.dense_grpo import DenseGRPOTrainer
from recipes.trainers.sft_dpo import DpoTrainer
from rewards.compose import Reward
from tests import warm
from tests.recipes.channels import BEHIND_REFERENCE, PARITY, TokenParity

ROOT = Path(__file__).parents[2]


GRPO = ("grpo", "recipe.trl.num_generations=4")
RUNS = {
    "grpo on-policy": GRPO,
    "grpo, two updates a rollout": (*GRPO, "recipe.trl.num_iterations=2"),
    "grpo, a batch ahead, refilled, over epochs of two batches, an adaptive entropy bonus": (
        *GRPO,
        "+recipe.trl.use_adaptive_entropy=true",
        "+recipe.trl.entropy_target=20.0",
        "+recipe.trl.entropy_coef_delta=0.1",
        "recipe.lookahead=1",
        "recipe.refill=true",
        "recipe.refill_rounds=1",
        "hardware.rollout_rows=4",
        "task.env.train_size=5",
    ),
    "grpo, a curriculum, behind references, a batch ahead": (
        *GRPO,
        "recipe.lookahead=1",
        "recipe.curriculum.enabled=true",
        "task.max_new_tokens=40",
        *BEHIND_REFERENCE,
    ),
    "ppo, behind references": ("ppo", "recipe.samples_per_prompt=4", "task.max_new_tokens=40", *BEHIND_REFERENCE),
    "ppo, LoRA, shared critic, adaptive KL": ("ppo", "recipe.samples_per_prompt=4", "recipe.kl_target=0.05"),
    "ppo, all weights, separate critic": (
        "ppo",
        "recipe.samples_per_prompt=4",
        "model.lora_rank=0",
        "value=separate",
        "value.warmup_updates=1",
        "task.env.train_size=5",  # epochs of two batches: the kill falls in the second
    ),
    "grpo, episodes of two turns, a batch ahead": (*GRPO, "episode=repair", "episode.gamma=0.9", "recipe.lookahead=1"),
    "ppo, episodes paid by improvement": (
        "ppo",
        "recipe.samples_per_prompt=4",
        "episode=repair",
        "episode.pay=improvement",
    ),
    "reinforce": ("reinforce", "recipe.samples_per_prompt=4", "recipe.baseline=group"),
}


def command(tiny_model: Path, folder: Path, recipe: str, *extra: str) -> list[str]:
    return [
        sys.executable,
        str(ROOT / "recipes" / f"{recipe}.py"),
        f"model.path={tiny_model}",
        "model.lora_rank=4",
        "hardware.precision=fp32",
        "recipe.trl.max_steps=8",
        "recipe.trl.save_steps=2",
        "recipe.prompts_per_step=2",
        "task.max_new_tokens=8",
        "recipe.trl.learning_rate=0.01",
        *PARITY,
        "evaluation.samples=0",
        "evaluation.greedy=false",
        "task.also_evaluate=[]",
        f"run.dir={folder}",
        *extra,
    ]


def metrics(folder: Path) -> list[dict]:
    return [{k: v for k, v in row.items() if not k.startswith(CLOCK)} for row in read_jsonl(folder / "metrics.jsonl")]


SLOW = (
    "grpo on-policy",
    "reinforce",
    "ppo, behind references",
    "ppo, episodes paid by improvement",
    "ppo, all weights, separate critic",
    "grpo, two updates a rollout",
)
"""Others resume the same parts: an entropy bonus, prefixes and episodes in GRPO; PPO, whose trainer is REINFORCE's."""


@pytest.mark.parametrize(
    "extra",
    [pytest.param(extra, marks=pytest.mark.slow) if name in SLOW else extra for name, extra in RUNS.items()],
    ids=RUNS.keys(),
)
def test_killed_and_resumed_equals_uninterrupted(tiny_model, tmp_path, extra):
    warm.run(command(tiny_model, tmp_path / "whole", *extra), check=True)
    whole = metrics(tmp_path / "whole")
    assert [row["step"] for row in whole] == [*range(1, 9)]
    assert any(row.get("grad_norm", 0) > 0 for row in whole)

    cut = tmp_path / "cut"
    process = warm.start(command(tiny_model, cut, *extra))
    while len(read_jsonl(cut / "metrics.jsonl")) < 3:
        assert process.exitcode is None, "ended before it could be killed"
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.join()
    (cut / "metrics.jsonl").open("a").write('{"step": 4, "rew')  # a line cut off by the kill
    assert not (cut / "final").exists()

    warm.run(command(tiny_model, cut, *extra), check=True)
    assert metrics(cut) == whole
    (weights,) = (tmp_path / "whole" / "final").glob("*model.safetensors")
    assert (cut / "final" / weights.name).read_bytes() == weights.read_bytes()


@pytest.mark.parametrize("kind", ["grpo", "dpo"])
def test_a_reference_that_follows_the_policy_is_resumed(kind, tiny_model, tiny_tokenizer, tmp_path):
    def trained(name: str, steps: int, resume: Path | None = None):
        torch.manual_seed(0)
        folder = tmp_path / name
        folder.mkdir()
        args = {
            "output_dir": str(folder),
            "max_steps": steps,
            "lr_scheduler_type": "constant",
            "learning_rate": 0.01,
            "per_device_train_batch_size": 2,
            "use_cpu": True,
            "bf16": False,
            "report_to": "none",
            "logging_steps": 1,
            "gradient_checkpointing": False,
            "disable_tqdm": True,
            "sync_ref_model": True,
            "ref_model_sync_steps": 1,
            "ref_model_mixup_alpha": 0.5,
            "save_steps": 2,
        }
        common = {
            "model": AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32),
            "processing_class": tiny_tokenizer,
            "run_log": RunLog(folder, 0),
        }
        if kind == "dpo":
            pairs = [{"prompt": "x =", "chosen": f" {n}", "rejected": f" {n} {n}"} for n in range(8)]
            trainer = DpoTrainer(args=DPOConfig(**args), train_dataset=Dataset.from_list(pairs), **common)
        else:
            args |= {"num_generations": 2, "max_completion_length": 6, "remove_unused_columns": False, "beta": 0.5}
            task, reward = Basics(), Reward({"parity": TokenParity()}, {"parity": 1.0}, "sparse")
            trainer = DenseGRPOTrainer(
                args=GRPOConfig(**args), train_dataset=prompt_dataset(task), task=task, reward=reward, **common
            )
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
        return trainer

    whole = trained("whole", 3)
    trained("cut", 2)
    resumed = trained("resumed", 3, tmp_path / "cut" / "checkpoint-2")
    for model in ("ref_model", "policy"):
        for a, b in zip(getattr(whole, model).parameters(), getattr(resumed, model).parameters(), strict=True):
            assert torch.equal(a, b)
