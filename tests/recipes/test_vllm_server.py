"""Sampling from a vLLM server, against a stand-in that speaks its endpoint; what needs vLLM itself is one line."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from omegaconf import OmegaConf
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import GRPOConfig

from envs.basics import Basics
from envs.task import Filtered
from recipes.cli.errors import UserError
from recipes.cli.processes import check_hardware, check_server
from recipes.data.training_data import prompt_dataset
from recipes.evaluation.held_out import evaluate_policy
from recipes.records.jsonl import read_jsonl
from recipes.records.log import RunLog
from recipes.sampling import vllm as vllm_sampling
from recipes.sampling import vllm_weights
from recipes.sampling.generate import Decoding
from recipes.sampling.policy_copy import merged_weights
from recipes.sampling.vllm import ServerSampler
from recipes.sampling.vllm_weights import WeightsByFolder
from recipes.trainers.dense_grpo import DenseGRPOTrainer
from rewards.compose import Reward
from tests import warm
from tests.recipes.channels import TokenParity
from tests.recipes.completions_server import Completions
from tests.recipes.test_dense_ppo import trainer as ppo_trainer

ROOT = Path(__file__).parents[2]
PROMPTS = [[5, 6, 7], [8, 9], [11, 12, 13, 14]]


@pytest.fixture
def model(tiny_model):
    return AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval()


@pytest.fixture
def server(model, monkeypatch):
    completions = Completions(model)
    for module in (vllm_sampling, vllm_weights):
        monkeypatch.setattr(module, "PAUSES_S", (0.01,) * 5)
    with completions.serving() as completions.url:
        yield completions


class Handed:
    """In place of a delivery to the server, for what needs none."""

    def __init__(self, deliver=lambda: None):
        self.deliver = deliver

    def __call__(self):
        self.deliver()

    def keep(self):
        pass


def sampler(server, version=lambda: 0, complete=None, tokens=12):
    return ServerSampler(server.url, Decoding(tokens), [2], Handed(), version, complete)


def test_answers_come_in_order_with_the_numbers_they_were_drawn_with(server, model):
    heard = {}
    results = sampler(server)(
        None, PROMPTS, 2, torch.Generator().manual_seed(1), lambda *a: heard.update({a[0]: a[1:]})
    )
    assert len(results) == 6 and [heard[row][0] for row in range(6)] == results
    for row, ids in enumerate(results):
        prompt = PROMPTS[row // 2]
        with torch.no_grad():
            logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        drawn = logits.log_softmax(-1)[torch.arange(len(ids)), torch.tensor(ids)]
        torch.testing.assert_close(torch.tensor(heard[row][1]), drawn, atol=1e-4, rtol=1e-4)
    again = sampler(server)(None, PROMPTS, 2, torch.Generator().manual_seed(1))
    assert again == results


def test_the_turns_of_a_conversation_are_drawn_behind_all_that_was_said(server, model):
    heard = []
    with sampler(server, tokens=5).conversation(None, torch.Generator().manual_seed(1)) as conversation:
        conversation.begin(PROMPTS, 2, lambda *what: heard.append(what))
        first = {row: ids for row, ids, _ in heard}
        conversation.go_on([0, 5], [[20, 21], [22]], lambda *what: heard.append(what))
    assert sorted(row for row, *_ in heard[6:]) == [0, 5]
    for row, ids, logps in heard[6:]:
        before = PROMPTS[row // 2] + first[row] + {0: [20, 21], 5: [22]}[row]
        with torch.no_grad():
            logits = model(torch.tensor([before + ids])).logits[0, len(before) - 1 : -1]
        drawn = logits.log_softmax(-1)[torch.arange(len(ids)), torch.tensor(ids)]
        torch.testing.assert_close(torch.tensor(logps), drawn, atol=1e-4, rtol=1e-4)


def test_a_short_answer_is_heard_of_while_a_long_one_is_still_sampled(server):
    server.held = {5: threading.Event()}
    heard = []

    def ended(place, ids, logps):
        heard.append(place)
        if len(heard) == len(PROMPTS) - 1:
            server.held[5].set()

    sampler(server)(None, PROMPTS, 1, ended=ended)
    assert heard[-1] == 0 and len(heard) == len(PROMPTS)


def test_weights_are_sent_once_for_each_change(server):
    sent, step = [], [0]
    ask = ServerSampler(server.url, Decoding(3), [2], Handed(lambda: sent.append(step[0])), lambda: step[0])
    for number in (0, 0, 1, 1, 1, 2):
        step[0] = number
        ask(None, PROMPTS[:1], 1)
    assert sent == [0, 1, 2]


def test_an_evaluation_asks_the_server_for_what_this_process_would_draw(server, model, tiny_tokenizer):
    sent = []
    ask = ServerSampler(server.url, Decoding(1), (), Handed(lambda: sent.append(True)), lambda: 0)
    task = Basics(200, 0)
    few = {problem.id for problem in task.problems("test")[::6]}
    task = Filtered(task, lambda problem: problem.id in few, ("test",))
    reward = Reward({"parity": TokenParity()}, {"parity": 1.0})
    with asyncio.Runner() as runner:
        arguments = (model, tiny_tokenizer, task, reward, runner, Decoding(6, 0.0), 1)
        here, there = (evaluate_policy(*arguments, server=where) for where in (None, ask))
    assert sent == [True] and len(server.requests) == len(here.rows) == 11
    assert {asked["temperature"] for asked in server.requests} == {0.0}
    assert [row["completion"] for row in there.rows] == [row["completion"] for row in here.rows]


def test_what_is_drawn_beyond_a_complete_answer_is_cut_off(server):
    generator = torch.Generator
    whole = sampler(server)(None, PROMPTS, 2, generator().manual_seed(3))
    cut = sampler(server, complete=lambda ids: len(ids) == 4)(None, PROMPTS, 2, generator().manual_seed(3))
    assert cut == [ids[:4] for ids in whole]


def test_a_server_in_trouble_is_asked_again_and_one_that_refuses_is_not(server):
    server.failures = [500, -1, 503]
    assert all(sampler(server)(None, PROMPTS[:1], 2))
    server.failures = [422] * 9
    with pytest.raises(UserError, match=r"status 422.*as asked"):
        sampler(server)(None, PROMPTS[:1], 1)
    assert len(server.failures) == 8
    server.failures = [500] * 99
    with pytest.raises(UserError, match=r"hardware\.vllm_url"):
        sampler(server)(None, PROMPTS[:1], 1)


def test_weights_arrive_merged_and_again_where_the_server_was_started_anew(server, tiny_model, model):
    torch.manual_seed(0)
    policy = get_peft_model(
        AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32),
        LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False),
    )
    ids = torch.tensor([PROMPTS[2]])
    ask = ServerSampler(server.url, Decoding(3), [2], WeightsByFolder(policy, Accelerator(), server.url), lambda: 0)
    ask(None, PROMPTS, 1)
    with torch.no_grad():
        expected, first = policy(ids).logits, model(ids).logits
        torch.testing.assert_close(server.model(ids).logits, expected, atol=1e-5, rtol=1e-5)
        assert (expected - first).abs().max() > 1e-3
        assert {name for name, _ in merged_weights(policy)} == {name for name, _ in model.named_parameters()}
    ask(None, PROMPTS, 1)
    assert server.weights_taken == 1
    server.start_anew()
    server.failures = [503]
    ask(None, PROMPTS, 1)
    assert server.weights_taken == 2
    with torch.no_grad():
        torch.testing.assert_close(server.model(ids).logits, expected, atol=1e-5, rtol=1e-5)
    server.failures = [404]
    with pytest.raises(UserError, match=r"status 404.*launch/vllm_server\.sh"):
        WeightsByFolder(policy, Accelerator(), server.url)()


def test_grpo_samples_from_the_server_with_the_weights_it_has(server, tiny_model, tmp_path):
    """The ratio of the first update of a batch is 1: the server drew with the very policy."""
    from transformers import AutoTokenizer

    task, steps = Basics(), 3
    trainer = DenseGRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32),
        args=GRPOConfig(
            output_dir=str(tmp_path),
            max_steps=steps,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            num_generations=4,
            max_completion_length=6,
            learning_rate=1e-2,
            use_cpu=True,
            bf16=False,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            gradient_checkpointing=False,
            remove_unused_columns=False,
            scale_rewards="none",
        ),
        task=task,
        reward=Reward({"parity": TokenParity()}, {"parity": 1.0}, "sparse"),
        run_log=RunLog(tmp_path, 8),
        train_dataset=prompt_dataset(task),
        processing_class=AutoTokenizer.from_pretrained(tiny_model, padding_side="left"),
        server=server.url,
    )
    assert "as answers come from the vLLM server" in trainer.rollouts.describe()
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.train()
    assert server.weights_taken == steps
    assert [len(r["prompt"]) > 0 and r["n"] for r in server.requests] == [4] * 2 * steps
    assert any(not torch.equal(p, before[name]) for name, p in trainer.model.named_parameters())
    rows = read_jsonl(tmp_path / "metrics.jsonl")
    clipped = [value for row in rows for name, value in row.items() if name.startswith("clip_ratio")]
    assert len(rows) == steps and not any(clipped)


def test_ppo_samples_from_the_server(tmp_path):
    held = {}
    from recipes.models.tiny import scratch_model
    from tests.recipes.test_dense_ppo import SHAPE

    held["server"] = Completions(scratch_model("<>C?", **SHAPE)[0], eos=1)
    with held["server"].serving() as url:
        trainer = ppo_trainer(tmp_path, server=url)
        trainer.train()
    steps = trainer.state.global_step
    assert steps == 2 and held["server"].weights_taken == steps
    assert all(asked["n"] == 6 for asked in held["server"].requests) and len(held["server"].requests) == 2 * steps


# what is wrong, in one line ---------------------------------------------------------------------------------------


def test_no_server_is_one_line():
    with pytest.raises(UserError, match=r"launch/vllm_server\.sh"):
        check_server("http://127.0.0.1:9")


@pytest.mark.parametrize(
    "settings, recipe, message",
    [
        ({"vllm": "colocate", "device": "cpu"}, "grpo", "on a CPU choose hardware.vllm=server"),
        ({"vllm": "server", "device": "cpu"}, "grpo", "no vLLM server answers"),
        ({"vllm": "colocate"}, "ppo", "hardware.vllm=server"),
        ({"vllm": "colocate"}, "eval", r"colocate is GRPO's; recipe=eval samples .*hardware\.vllm=null"),
        ({"vllm": "colocate"}, "sft", "recipe=sft samples in this process alone; set hardware.vllm=null"),
        ({"vllm": "server", "load_in_4bit": True}, "grpo", "load_in_4bit=false"),
    ],
)
def test_what_vllm_cannot_do_is_said_before_anything_loads(settings, recipe, message, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    plain = {
        "name": "h200",
        "device": "cuda",
        "zero_stage": 0,
        "num_processes": 1,
        "num_machines": 1,
        "load_in_4bit": False,
        "optimizer": "adamw_torch",
        "vllm_url": "http://127.0.0.1:9",
    }
    with pytest.raises(UserError, match=message):
        check_hardware(OmegaConf.create({"hardware": plain | settings, "recipe": {"name": recipe}}))


def test_without_the_package_a_clear_line():
    try:
        import vllm  # noqa: F401

        pytest.skip("vllm is installed")
    except ImportError:
        pass
    asked = [sys.executable, "recipes/grpo.py", "task=basics", "hardware=h200", "hardware.vllm=colocate"]
    done = warm.run(asked, ROOT)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.strip() == 'error: hardware=h200 needs vllm: pip install -e ".[vllm]", or hardware.vllm=null'


@pytest.mark.parametrize("given", [[], [""], ["--port", "8000"], ["--help"]])
def test_the_server_script_says_how_it_is_used(given):
    done = subprocess.run([ROOT / "launch" / "vllm_server.sh", *given], capture_output=True, text=True)
    helps = given == ["--help"]
    assert done.returncode == (0 if helps else 2)
    assert (done.stdout if helps else done.stderr).startswith("usage: launch/vllm_server.sh MODEL")


def test_the_server_script_names_a_python_that_is_not_there():
    script, environment = ROOT / "launch" / "vllm_server.sh", os.environ | {"PYTHON": "/nope/python"}
    done = subprocess.run([script, "model"], capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert done.stderr == "error: PYTHON=/nope/python cannot be run: it must be a Python with vllm\n"


def test_the_server_is_asked_for_the_whole_distribution():
    """Whatever the model's generation_config.json says: the server would take it as a default."""
    sampler = ServerSampler("http://127.0.0.1:1", Decoding(8, 0.7, 0.9), (2,), None, version=lambda: 0)
    asked = sampler._request("m", [1, 2], 2, 0, 8)
    neutral = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    assert asked.items() >= {**neutral, "temperature": 0.7, "top_p": 0.9}.items()
    assert "--generation-config vllm" in (ROOT / "launch" / "vllm_server.sh").read_text()
