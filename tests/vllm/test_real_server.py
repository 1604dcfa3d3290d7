"""hardware.vllm=server against vLLM itself (make test-vllm): weights each step, log-probabilities, a killed server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from recipes.records.jsonl import read_jsonl
from recipes.sampling.generate import Decoding
from recipes.sampling.vllm import ServerSampler
from recipes.sampling.vllm_weights import WeightsByFolder
from tests import warm

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3600)]
ROOT = Path(__file__).parents[2]
PROMPTS = [[5, 6, 7], [8, 9], [11, 12, 13, 14]]
WITHIN = 1e-3
"""Largest difference of a log-probability, in nats; both compute in float32."""


@pytest.fixture(scope="module")
def policy(small_model):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(small_model, dtype=torch.float32)
    return get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)).eval()


def change(policy) -> None:
    """An update of adapters and all other weights, the embedding that is the head as well, that shows everywhere."""
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)


def apart(policy, ask, prompts=PROMPTS) -> float:
    """Sample, and the largest difference between what the server drew with and the policy's own log-probabilities."""
    heard = {}
    ask(None, prompts, 2, torch.Generator().manual_seed(1), lambda row, ids, logps: heard.update({row: (ids, logps)}))
    assert len(heard) == 2 * len(prompts)
    worst = 0.0
    for row, (ids, logps) in heard.items():
        prompt = prompts[row // 2]
        with torch.no_grad():
            logits = policy(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        own = logits.log_softmax(-1)[torch.arange(len(ids)), torch.tensor(ids)]
        worst = max(worst, (own - torch.tensor(logps)).abs().max().item())
    return worst


def test_each_update_reaches_the_server_and_a_killed_one_gets_it_again(vllm, policy):
    step = [0]
    weights = WeightsByFolder(policy, Accelerator(cpu=True), vllm.url)
    ask = ServerSampler(vllm.url, Decoding(12), [2], weights, lambda: step[0])
    assert apart(policy, ask) < WITHIN
    many = torch.randint(20, 1000, (8, 400), generator=torch.Generator().manual_seed(0)).tolist()
    assert apart(policy, ask, many) < WITHIN  # more tokens than the server reads at once
    change(policy)
    stale = apart(policy, ask)
    assert stale > 10 * WITHIN  # it still has the weights of step 0, and the difference is seen
    for number in (1, 2, 3):
        step[0] = number
        assert apart(policy, ask) < WITHIN
        change(policy)
    step[0] = 4
    assert apart(policy, ask) < WITHIN
    vllm.kill()
    vllm.start()
    vllm.wait()
    assert apart(policy, ask) < WITHIN  # of the same step: not the weights that it starts with


@pytest.mark.parametrize("recipe, hardware", [("grpo", "cpu"), ("ppo", "cpu"), ("grpo", "cpux2")])
def test_two_steps_of_training(vllm, small_model, recipe, hardware, tmp_path):
    done = warm.run(
        [
            sys.executable,
            ROOT / "recipes" / f"{recipe}.py",
            f"hardware={hardware}",
            "hardware.vllm=server",
            f"hardware.vllm_url={vllm.url}",
            "hardware.precision=fp32",
            f"model.path={small_model}",
            "model.lora_rank=4",
            "task=basics",
            "task.env.train_size=16",
            "task.max_new_tokens=8",
            "task.also_evaluate=[]",
            "evaluation.before=false",
            "evaluation.samples=0",
            "evaluation.max_new_tokens=4",
            "recipe.prompts_per_step=2",
            *(["recipe.trl.num_generations=4", "hardware.rows_per_device=4"] if recipe == "grpo" else []),
            "recipe.trl.max_steps=2",
            f"run.dir={tmp_path / 'run'}",
        ],
        tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = read_jsonl(tmp_path / "run" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2]
    # the ratio of the first update is 1: the server drew with the very policy
    clipped = [value for row in rows for name, value in row.items() if name.startswith("clip_ratio")]
    assert not any(clipped)
    if recipe == "ppo":
        assert all(row["val/ratio"] == pytest.approx(1, abs=0.01) for row in rows)
