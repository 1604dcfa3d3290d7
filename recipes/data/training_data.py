"""A task's training problems in the form that each of TRL's trainers takes."""

from __future__ import annotations

from typing import Any

from datasets import Dataset

from envs.task import Prompted, Task, demonstration
from recipes.data.completions import prompt_ids


def prompt_dataset(task: Task) -> Dataset:
    """The training problems as TRL takes them: `prompt` (messages, or text) and `problem_id`."""
    problems = task.problems("train")
    return Dataset.from_dict({"prompt": [task.messages(p) for p in problems], "problem_id": [p.id for p in problems]})


def as_turns(prompt: Prompted, answer: str) -> tuple[Any, Any]:
    """A prompt and an answer to it as TRL's offline trainers take them: messages and messages, or text and text.

    What the prompt has begun of the assistant's turn becomes the beginning of the answer.
    """
    if isinstance(prompt, str):
        return prompt, answer
    if prompt[-1]["role"] == "assistant":
        prompt, answer = prompt[:-1], prompt[-1]["content"] + answer
    return prompt, [{"role": "assistant", "content": answer}]


def demonstrations(task: Task) -> Dataset:
    """Training problems with their references as answers, as TRL's SFTTrainer takes them: `prompt`, `completion`."""
    problems = [p for p in task.problems("train") if p.reference]
    pairs = [(prompt, demonstration(prompt, p.reference)) for p in problems for prompt in (task.messages(p),)]
    turns = [as_turns(prompt, answer) for prompt, answer in pairs]
    return Dataset.from_dict({"prompt": [a for a, _ in turns], "completion": [b for _, b in turns]})


def tokenized_prompts(task: Task, tokenizer: Any) -> Dataset:
    """The training problems as DensePPOTrainer takes them: `input_ids` of the prompt and `problem_id`."""
    problems = task.problems("train")
    prompts = [prompt_ids(task, p, tokenizer) for p in problems]
    return Dataset.from_dict({"input_ids": prompts, "problem_id": [p.id for p in problems]})
