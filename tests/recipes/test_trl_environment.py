"""Episodes as tools of TRL's own GRPOTrainer (recipes/trainers/trl_environment.py)."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen2_5_chat_template

from envs.basics import Basics
from envs.episode import Repair
from envs.feedback.python_tests import PythonTests
from envs.humaneval import HumanEval
from envs.task import TaskError, demonstration
from recipes.data.training_data import prompt_dataset
from recipes.trainers.trl_environment import HOW, TAKEN, TrlEnvironments
from rewards.compose import Reward
from rewards.form import Form
from rewards.unit_tests import UnitTests
from tests.recipes.scripted_episodes import tiny


class Few(Basics):
    """Four problems whose prompts show tests."""

    def problems(self, split):
        return super().problems(split)[:4]


def wrong(problem) -> str:
    return f"def {problem.entry_point}(*a):\n    return None\n"


def parts(sandbox):
    reward = Reward({"unit_tests": UnitTests(sandbox), "form": Form()}, {"unit_tests": 1.0, "form": 0.1}, "sparse")
    return Few(), reward, Repair(PythonTests(sandbox))


def call(code: str) -> str:
    return f"<tool_call>\n{json.dumps({'name': 'submit', 'arguments': {'code': code}})}\n</tool_call>"


class Scripted:
    """Writes what is prescribed in place of a model: rows of a group take turns among four ways to answer."""

    def __init__(self, tokenizer, task):
        self.tokenizer, self.problems, self.rows = tokenizer, task.problems("train"), 0
        self.read: list[str] = []

    def __call__(self, input_ids, **kwargs):
        texts = []
        for row in input_ids:
            prompt = self.tokenizer.decode(row)
            self.read.append(prompt)
            problem = next(p for p in self.problems if p.question in prompt)
            if "<tool_response>" in prompt:
                texts.append(self.repaired(problem, prompt))
            else:
                ways = (call(problem.reference), call(wrong(problem)), call(wrong(problem) + "x = 1\n"), "I give up.")
                texts.append(ways[self.rows % len(ways)])
                self.rows += 1
        ids = [self.tokenizer(text, add_special_tokens=False)["input_ids"] + [2] for text in texts]
        width = max(map(len, ids))
        written = torch.tensor([each + [2] * (width - len(each)) for each in ids])
        return torch.cat([input_ids, written], 1)

    def repaired(self, problem, prompt: str) -> str:
        if TAKEN in prompt:
            return "Done."
        # one repairs by the tool, the other in its last message
        return demonstration([{"role": "user"}], problem.reference) if "x = 1" in prompt else call(problem.reference)


def test_two_steps_of_trls_own_trainer_with_an_environment(tiny_model, tiny_tokenizer, sandbox, tmp_path):
    """Each way to answer earns what its last code earns; TRL masks what the tool says; weights move."""
    task, reward, episode = parts(sandbox)
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.chat_template = qwen2_5_chat_template
    environments = TrlEnvironments(task, reward, episode, tokenizer)
    seen = []

    class Stock(GRPOTrainer):
        def _compute_loss(self, model, inputs):
            seen.append({name: inputs[name] for name in ("completion_mask", "tool_mask", "advantages")})
            return super()._compute_loss(model, inputs)

    model = tiny(tiny_model)
    before = [p.detach().clone() for p in model.parameters()]
    script = model.generate = Scripted(tokenizer, task)
    trainer = Stock(
        model,
        environments.reward,
        GRPOConfig(
            output_dir=str(tmp_path),
            max_steps=2,
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=400,
            learning_rate=0.01,
            scale_rewards="none",
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            gradient_checkpointing=False,
        ),
        train_dataset=prompt_dataset(task),
        processing_class=tokenizer,
        environment_factory=environments,
    )
    trainer.train()
    environments.close()
    assert type(trainer).__mro__[1] is GRPOTrainer and len(seen) == 2
    for batch in seen:
        # rewards 1.1, 1.1, 1.1 and 0: one wrote no code; TRL shuffles the rows
        written = batch["completion_mask"] * batch["tool_mask"]
        masked = (batch["completion_mask"].sum(1) - written.sum(1)).tolist()
        rows = sorted(zip(masked, batch["advantages"].tolist(), strict=True))
        assert [advantage for _, advantage in rows] == pytest.approx([-0.825, 0.275, 0.275, 0.275], abs=1e-4)
        assert rows[0][0] == 0 and 0 < rows[1][0] < rows[2][0]  # "taken" is shorter than a reply
    assert any("This fails: " in text and "Repair it." in text for text in script.read)
    assert all(HOW.strip() in text and '"submit"' in text for text in script.read)
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_an_environment_takes_no_more_answers_than_turns(tiny_tokenizer, sandbox):
    task, reward, episode = parts(sandbox)
    environments = TrlEnvironments(task, reward, episode, tiny_tokenizer)
    one, problem = environments(), task.problems("train")[0]
    one.reset(problem_id=problem.id, prompt=task.messages(problem))
    assert "This fails: " in one.submit(wrong(problem)) and one.submit(wrong(problem)) == TAKEN
    with pytest.raises(ValueError, match="The episode is over"):
        one.submit(problem.reference)
    last = {"role": "assistant", "content": demonstration([{"role": "user"}], problem.reference)}
    assert environments.reward([[last]], [one]) == [pytest.approx(0.1)]  # too late: the second answer counts
    one.reset(problem_id=problem.id)
    assert environments.reward([[last]], [one]) == [pytest.approx(1.1)]  # as an answer of one turn
    environments.close()
    with pytest.raises(TaskError, match="use EpisodeRollout"):
        TrlEnvironments(HumanEval(style="completion"), reward, episode, tiny_tokenizer)
