"""Sparse placement gives TRL's own update, although degenerate groups are skipped and prompts are read once."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer

from envs.basics import Basics
from recipes.data.training_data import prompt_dataset
from recipes.records.log import RunLog
from recipes.trainers.dense_grpo import DenseGRPOTrainer
from rewards.channel import ChannelResult
from rewards.compose import Reward

GENERATIONS = 4


def sampled(prompt_ids) -> list[list[int]]:
    """Answers that depend on the prompt and the place in the batch alone: the two samplers draw differently."""
    return [
        [*torch.randint(3, 900, (2 + i * 5 % 7,), generator=torch.Generator().manual_seed(sum(p) + i)).tolist(), 2]
        for i, p in enumerate(prompt_ids)
    ]


def paid(completion_ids, problem_ids) -> list[float]:
    """Half of the problems pay every answer alike."""
    return [
        1.0 if sum(map(ord, problem)) % 2 else float(sum(ids) % 3)
        for ids, problem in zip(completion_ids, problem_ids, strict=True)
    ]


class Paid:
    pays_outside_code = True

    async def score(self, problems, completions):
        return [ChannelResult(r) for r in paid([c.token_ids for c in completions], [p.id for p in problems])]


class Stock(GRPOTrainer):
    def _generate_single_turn(self, prompt_ids, *args, **kwargs):
        return sampled(prompt_ids), None


def start(tiny_model):
    """A policy that is surer of some tokens than of others, by more than rounding."""
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(4)
    return model


def train(kind, tiny_model, tokenizer, folder, **settings):
    """Parameters after three updates, and the logged metrics."""
    task = Basics()
    torch.manual_seed(0)
    common = {
        "model": start(tiny_model),
        "args": GRPOConfig(
            output_dir=str(folder),
            max_steps=3,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=4,
            num_generations=GENERATIONS,
            max_completion_length=9,
            learning_rate=0.05,
            optim="sgd",
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            remove_unused_columns=False,
            logging_steps=1,
            gradient_checkpointing=False,
            **settings,
        ),
        "train_dataset": prompt_dataset(task),
        "processing_class": tokenizer,
    }
    if kind is Stock:
        trainer = Stock(
            reward_funcs=[lambda completion_ids, problem_id, **kw: paid(completion_ids, problem_id)], **common
        )
    else:
        folder.mkdir(exist_ok=True)
        reward = Reward({"paid": Paid()}, {"paid": 1.0}, "sparse")
        trainer = DenseGRPOTrainer(task=task, reward=reward, run_log=RunLog(folder, 0), **common)
        trainer.rollouts.external = lambda prompt_ids: (sampled(prompt_ids), None)
    trainer.train()
    return list(trainer.model.parameters()), [r for r in trainer.state.log_history if "reward" in r]


@pytest.mark.parametrize(
    "settings",
    [
        {"loss_type": "dapo", "scale_rewards": "none"},
        {"loss_type": "grpo", "scale_rewards": "group"},
        {"loss_type": "dr_grpo", "scale_rewards": "batch"},
        {"loss_type": "dapo", "scale_rewards": "none", "num_iterations": 2},
        {"loss_type": "dapo", "scale_rewards": "none", "beta": 0.5},
        {"loss_type": "dapo", "scale_rewards": "none", "entropy_coef": 0.5},
        {
            "loss_type": "grpo",
            "scale_rewards": "none",
            "use_adaptive_entropy": True,
            "entropy_target": 20.0,
            "entropy_coef_delta": 0.5,
        },
        {"loss_type": "dapo", "scale_rewards": "none", "mask_truncated_completions": True},
        {"loss_type": "dapo", "scale_rewards": "none", "top_entropy_quantile": 0.3},
        {"loss_type": "dapo", "scale_rewards": "none", "delta": 1.1, "num_iterations": 2},
        {"loss_type": "bnpo", "scale_rewards": "none"},
        {"loss_type": "cispo", "scale_rewards": "none", "num_iterations": 2},
        {"loss_type": "luspo", "scale_rewards": "none", "importance_sampling_level": "sequence"},
        {"loss_type": "sapo", "scale_rewards": "none", "num_iterations": 2},
        {"loss_type": "vespo", "scale_rewards": "none", "num_iterations": 2},
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)
def test_the_same_update_as_trl(tiny_model, tiny_tokenizer, tmp_path, monkeypatch, settings):
    # else TRL draws which rows share a micro-batch, and some losses are means over those
    monkeypatch.setattr("trl.trainer.grpo_trainer.shuffle_sequence_dict", lambda rows: rows)
    stock, stock_logs = train(Stock, tiny_model, tiny_tokenizer, tmp_path / "stock", **settings)
    ours, our_logs = train(DenseGRPOTrainer, tiny_model, tiny_tokenizer, tmp_path / "ours", **settings)
    before = start(tiny_model).parameters()
    moved = max((a - b).abs().max().item() for a, b in zip(stock, before, strict=True))
    assert moved > 1e-4
    for a, b in zip(stock, ours, strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-3 * moved)
    assert any(0 < row["groups_skipped"] < row["groups_total"] for row in our_logs)
    for a, b in zip(stock_logs, our_logs, strict=True):
        assert a["reward"] == pytest.approx(b["reward"])
        if settings["scale_rewards"] != "batch":  # there TRL speaks of the batch's deviation
            assert a["frac_reward_zero_std"] == pytest.approx(b["groups_skipped"] / b["groups_total"])
        assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-3, abs=1e-6)


def test_only_degenerate_groups_take_no_step(tiny_model, tiny_tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.paid", lambda ids, problems: [1.0] * len(ids))
    ours, logs = train(DenseGRPOTrainer, tiny_model, tiny_tokenizer, tmp_path / "ours", weight_decay=0.5)
    before = start(tiny_model).parameters()
    assert all(torch.equal(a, b) for a, b in zip(ours, before, strict=True))
    assert all(row["grad_norm"] == 0 for row in logs)
    assert not any("entropy" in row for row in logs)  # no forward was made
