"""Sparse placement makes TRL's own PPO update: same seed, model, data and reward, both trained side by side.

TRL's last PPO is that of 1.12. Where a later one is installed, ours is held against the numbers that 1.12 made:
stock_ppo.json, which `python -m tests.invariants.test_sparse_ppo_is_stock` writes and the tests check, both with 1.12.
"""

from __future__ import annotations

import copy
import json
import tempfile
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset
from packaging.version import Version
from torch import nn
from transformers import LlamaForSequenceClassification, set_seed

from envs.task import Extracted, Problem
from recipes.models.critic import ValueFunction
from recipes.models.tiny import scratch_model
from recipes.records.log import RunLog
from recipes.trainers.dense_ppo import DensePPOTrainer
from recipes.trainers.own_ppo import PPOConfig
from rewards.channel import ChannelResult
from rewards.compose import Reward

TRL_HAS_PPO = Version(version("trl")) < Version("1.13")
UPDATES = 3
RECORDED = Path(__file__).parent / "stock_ppo.json"
SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


PROMPT_CHARACTERS = "abcdefghijk"


def worth(token_id):
    """Nothing for padding (id 0)."""
    return (token_id % 3 / 2 - 0.4) * (token_id > 0)


class Words:
    """Eleven prompts of different lengths."""

    name = "words"
    closing = ""

    def problems(self, split):
        return [Problem(id=f"words/{i}", question=PROMPT_CHARACTERS[: 1 + i * 3 % 7] + "k") for i in range(11)]

    def messages(self, problem):
        return [{"role": "user", "content": problem.question}]

    def extract(self, answer):
        return Extracted(0, len(answer), closed=True)

    def complete(self, answer):
        return False


class Worth:
    """An eighth of the worth of prompt and completion, end of sequence included."""

    pays_outside_code = True

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    async def score(self, problems, completions):
        prompts = [self.tokenizer(p.question)["input_ids"] for p in problems]
        rows = [[*p, *c.token_ids] for p, c in zip(prompts, completions, strict=True)]
        return [ChannelResult(sum(map(worth, row)) / 8) for row in rows]


class StandIn(nn.Module):
    """The same reward as a TRL reward model: its output at a row's last token."""

    base_model_prefix = "backbone"

    class Sums(nn.Module):
        def forward(self, input_ids, **kwargs):
            return SimpleNamespace(hidden_states=[(worth(input_ids.float()).cumsum(1) / 8).unsqueeze(-1)])

    def __init__(self):
        super().__init__()
        self.backbone, self.score = self.Sums(), nn.Identity()


def models(tokenizer_and_policy):
    policy, tokenizer = tokenizer_and_policy
    torch.manual_seed(1)
    policy.lm_head = nn.Linear(SHAPE["hidden_size"], len(tokenizer))  # TRL takes a sampled pad token for the end
    with torch.no_grad():
        policy.lm_head.bias.zero_()[tokenizer.pad_token_id] = -100.0
    value = LlamaForSequenceClassification(copy.deepcopy(policy.config)).train()
    value.config.num_labels = 1
    value.score = nn.Linear(SHAPE["hidden_size"], 1, bias=False)
    return policy, tokenizer, value


def settings(folder, epochs, **more):
    return {
        "output_dir": str(folder),
        "total_episodes": UPDATES * 8,
        "num_ppo_epochs": epochs,
        "learning_rate": 3e-3,
        "adam_epsilon": 1e-5,  # else Adam makes full steps of gradients that are rounding alone
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 1,
        "response_length": 9,
        "temperature": 0.9,
        "max_grad_norm": 0.0,
        "kl_coef": 0.1,
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_steps": 1,
        "gradient_checkpointing": False,
        "seed": 5,
        **more,
    }


def start(seed=3):
    torch.manual_seed(seed)
    policy, tokenizer = scratch_model(PROMPT_CHARACTERS, **SHAPE)
    return models((policy, tokenizer))


def stock(folder, **more):
    from trl.experimental.ppo import PPOConfig, PPOTrainer

    policy, tokenizer, value = start()
    set_seed(5)
    task = Words()
    rows = [tokenizer(p.question)["input_ids"] for p in task.problems("train")]
    trainer = PPOTrainer(
        args=PPOConfig(stop_token="eos", num_sample_generations=0, **settings(folder, **more)),
        processing_class=tokenizer,
        model=policy,
        ref_model=None,
        reward_model=StandIn(),
        value_model=value,
        train_dataset=Dataset.from_dict({"input_ids": rows}),
    )
    trainer.train()
    return policy, value, trainer.state.log_history


def ours(folder, passes=3, padding_side="left", **more):
    policy, tokenizer, value = start()
    tokenizer.padding_side = padding_side
    folder.mkdir()
    set_seed(5)
    task = Words()
    problems = task.problems("train")
    rows = [tokenizer(p.question)["input_ids"] for p in problems]
    trainer = DensePPOTrainer(
        args=PPOConfig(**settings(folder, **more)),
        rows_per_pass=passes,
        sampler="generate",
        processing_class=tokenizer,
        model=policy,
        value=ValueFunction(SHAPE["hidden_size"], value.model, value.score),
        train_dataset=Dataset.from_dict({"input_ids": rows, "problem_id": [p.id for p in problems]}),
        task=task,
        reward=Reward({"worth": Worth(tokenizer)}, {"worth": 1.0}, "sparse"),
        run_log=RunLog(folder, 2),
    )
    trainer.train()
    return policy, value, trainer.state.log_history


SAME = (
    "objective/kl",
    "objective/entropy",
    "objective/scores",
    "objective/rlhf_reward",
    "loss/policy_avg",
    "loss/value_avg",
    "policy/clipfrac_avg",
    "val/clipfrac_avg",
    "lr",
)


CASES = {
    "two epochs": {"epochs": 2},
    "mini-batches, k3": {"epochs": 1, "num_mini_batches": 2, "kl_estimator": "k3"},
    "whitened, penalty, discount": {
        "epochs": 2,
        "whiten_rewards": True,
        "missing_eos_penalty": 0.3,
        "gamma": 0.95,
        "lam": 0.8,
    },
}


def summary(policy, value, logs):
    """A training in few numbers: each update's metrics, and how far each parameter moved, along a random direction."""
    first_policy, _, first_value = start()
    moved = {}
    for which, first, after in (("policy", first_policy, policy), ("value", first_value, value)):
        for name, parameter in after.named_parameters():
            change = (parameter - first.get_parameter(name)).detach()
            direction = torch.randn(change.shape, generator=torch.Generator().manual_seed(0))
            moved[f"{which}.{name}"] = [change.norm().item(), (change * direction).sum().item()]
    return {"logs": [{key: row[key] for key in SAME} for row in logs], "moved": moved}


def check(mine, expected):
    assert len(mine["logs"]) == len(expected["logs"]) == UPDATES
    for own, theirs in zip(mine["logs"], expected["logs"], strict=True):
        for key in SAME:
            assert own[key] == pytest.approx(theirs[key], rel=1e-3, abs=1e-5), key
    assert mine["moved"].keys() == expected["moved"].keys()
    for name, (norm, along) in expected["moved"].items():
        assert mine["moved"][name] == pytest.approx([norm, along], rel=1e-2, abs=1e-2 * norm + 1e-5), name
    for which in ("policy", "value"):
        assert any(norm for name, (norm, _) in expected["moved"].items() if name.startswith(which))


@pytest.mark.parametrize("case", CASES)
def test_the_same_updates_as_trl(tmp_path, case):
    recorded = json.loads(RECORDED.read_text())
    our_policy, our_value, our_logs = ours(tmp_path / "ours", **CASES[case])
    mine = summary(our_policy, our_value, our_logs)
    if TRL_HAS_PPO:
        policy, value, logs = stock(tmp_path / "stock", **CASES[case])
        for expected, own in ((policy, our_policy), (value, our_value)):
            for name, parameter in expected.named_parameters():
                assert torch.allclose(parameter, own.get_parameter(name), rtol=1e-3, atol=1e-5), name
        assert any(row["val/num_eos_tokens"] > 0 for row in logs)  # some ended early, so padding matters
        made = summary(policy, value, logs)
        check(mine, made)
        check(made, recorded[case])
    check(mine, recorded[case])


def test_passes_and_padding_side_change_nothing(tmp_path):
    whole, _, whole_logs = ours(tmp_path / "whole", passes=8, epochs=2)
    cut, _, cut_logs = ours(tmp_path / "cut", passes=1, padding_side="right", epochs=2)
    for a, b in zip(whole_logs, cut_logs, strict=True):
        assert a["loss/policy_avg"] == pytest.approx(b["loss/policy_avg"], rel=1e-3, abs=1e-6)
    for a, b in zip(whole.parameters(), cut.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-5)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        made = {case: summary(*stock(Path(folder) / str(n), **more)) for n, (case, more) in enumerate(CASES.items())}
    RECORDED.write_text(json.dumps(made) + "\n")
