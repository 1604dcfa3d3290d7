"""From what a task says to the ids that a policy continues: conversations, answers begun in the prompt, plain text."""

from __future__ import annotations

import pytest
from transformers import AutoModelForCausalLM
from trl import GRPOConfig

from envs.basics import Basics
from recipes.cli.errors import UserError
from recipes.data.chat_tokens import encoded, prompt_ids
from recipes.data.training_data import prompt_dataset, tokenized_prompts
from recipes.records.log import RunLog
from recipes.trainers.dense_grpo import DenseGRPOTrainer
from rewards.compose import Reward
from tests.recipes.channels import TokenParity

OPENING = "Here it is:\n```python\n"


class Begun(Basics):
    """Begins the answer."""

    def messages(self, problem):
        return [*super().messages(problem), {"role": "assistant", "content": OPENING}]


class Text(Basics):
    """No conversation."""

    def messages(self, problem):
        return f"<|user|>\n{problem.question}\n<|assistant|>\n{OPENING}"


def test_a_begun_answer_is_continued(tiny_tokenizer):
    task, plain = Begun(), Basics()
    problem = task.problems("train")[0]
    open_turn = tiny_tokenizer.decode(prompt_ids(plain, problem, tiny_tokenizer))
    assert open_turn.endswith("<|im_start|>assistant\n")
    assert tiny_tokenizer.decode(prompt_ids(task, problem, tiny_tokenizer)) == open_turn + OPENING


def test_text_is_taken_as_it_stands(tiny_tokenizer):
    task = Text()
    problem = task.problems("train")[0]
    ids = prompt_ids(task, problem, tiny_tokenizer)
    assert tiny_tokenizer.decode(ids) == task.messages(problem)
    assert not set(ids) & set(tiny_tokenizer.all_special_ids)


def test_templates_take_further_arguments(tiny_tokenizer):
    template = "{% for m in messages %}{{ word }}{{ m['content'] }}{% endfor %}"
    messages = [{"role": "assistant", "content": "begun"}]
    ids = encoded(messages, tiny_tokenizer, chat_template=template, word="now ")
    assert tiny_tokenizer.decode(ids) == "now begun"


def test_a_template_that_takes_no_system_message_is_said_in_one_line(tiny_tokenizer):
    template = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    messages = Basics().messages(Basics().problems("train")[0])
    with pytest.raises(UserError, match=r"no conversation of system, user \(System role not .*task\.env\.system=''"):
        encoded([{"role": "system", "content": "x"}, messages[-1]], tiny_tokenizer, chat_template=template)


@pytest.mark.parametrize("kind", [Basics, Begun, Text])
def test_every_trainer_and_the_evaluation_see_the_same_prompt(kind, tiny_model, tiny_tokenizer, tmp_path):
    task = kind()
    trainer = DenseGRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(tiny_model),
        args=GRPOConfig(
            output_dir=str(tmp_path),
            max_steps=1,
            per_device_train_batch_size=4,
            num_generations=2,
            max_completion_length=3,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            remove_unused_columns=False,
            gradient_checkpointing=False,
        ),
        task=task,
        reward=Reward({"parity": TokenParity()}, {"parity": 1.0}, "sparse"),
        run_log=RunLog(tmp_path, 0),
        train_dataset=prompt_dataset(task),
        processing_class=tiny_tokenizer,
    )
    seen = []
    sampler = trainer.rollouts.sampler
    trainer.rollouts.sampler = lambda policy, prompts, *rest: seen.extend(prompts) or sampler(policy, prompts, *rest)
    trainer.train()
    ours = [prompt_ids(task, p, tiny_tokenizer) for p in task.problems("train")]
    assert len(seen) == 2 and all(ids in ours for ids in seen)
    assert tokenized_prompts(task, tiny_tokenizer)["input_ids"] == ours
