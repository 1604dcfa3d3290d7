"""Watching while tokens are drawn gives the flags that the finished text gets."""

from __future__ import annotations

import asyncio

import torch
from transformers import AutoModelForCausalLM, LogitsProcessor

from envs.basics import Basics
from recipes.support.rollout import completion_of
from recipes.support.syntax_watch import SyntaxWatch
from rewards.attribution import TokenBytes, attribute
from rewards.syntax import Syntax


def flag(channel: Syntax, completion) -> int | None:
    """Index of the token that the channel over finished text charges for an illegal character."""
    [result] = asyncio.run(channel.score([None], [completion]))
    rewards = attribute(completion, result, judges_form=True)
    return next((t for t, r in enumerate(rewards) if r < 0), None)


PROGRAMS = (
    "def f(x):\n    return x + 1\n",
    "def f(x):\n  if x:\n      return 1\n   return 2\n",
    "x = 1 + # c\n",
    "def f():\n    s = 'é🙂' 🙂\n    return s\n",
    "a = [1, 2\nb = 3)\n",
    "def f(:\n    pass\n",
    "print(f'{x!q}')\n",
)
FORMS = ("```python\n{}```", "Sure:\n```python\n{}", "```python\n{}```\nor\n```python\ny = = 2\n```", "{}")


def test_token_by_token_and_over_the_finished_text_agree(smollm2_tokenizer, sandbox):
    task, table = Basics(), TokenBytes(smollm2_tokenizer)
    channel = Syntax(sandbox, incomplete=0.0)
    texts = [form.format(program) for form in FORMS for program in PROGRAMS]
    rows = [smollm2_tokenizer(text, add_special_tokens=False).input_ids for text in texts]
    width, pad = max(map(len, rows)) + 1, smollm2_tokenizer.eos_token_id
    ids = torch.tensor([[7, 7, *row, *[pad] * (width - len(row))] for row in rows])
    watch = SyntaxWatch(task, table, sandbox, prompt_tokens=2)
    scores = torch.zeros(len(rows), 3)
    for step in range(3, ids.shape[1]):
        assert watch(ids[:, :step], scores) is scores
    found = watch.flags(ids)
    assert found == [flag(channel, completion_of([*row, pad], table, task, [pad])) for row in rows]
    assert sum(each is not None for each in found) >= 2 * (len(PROGRAMS) - 1)


class Sometimes(LogitsProcessor):
    """A random model's own words are noise: draw from pieces of Python instead."""

    def __init__(self, allowed):
        self.allowed = allowed

    def __call__(self, input_ids, scores):
        masked = torch.full_like(scores, -torch.inf)
        masked[:, self.allowed] = 0.0
        return masked


def test_while_a_model_generates(tiny_model, smollm2_tokenizer, sandbox):
    task, table = Basics(), TokenBytes(smollm2_tokenizer)
    policy = AutoModelForCausalLM.from_pretrained(tiny_model)
    prompt = smollm2_tokenizer("Write f.\n```python\n", return_tensors="pt", add_special_tokens=False)
    opening = smollm2_tokenizer("```python\n", add_special_tokens=False).input_ids
    start = torch.tensor([[*prompt.input_ids[0].tolist(), *opening]]).repeat(8, 1)
    words = smollm2_tokenizer("x = 1\nif x:\n    x += 2\n(x, 'é🙂')", add_special_tokens=False).input_ids
    watch = SyntaxWatch(task, table, sandbox, prompt_tokens=prompt.input_ids.shape[1])
    torch.manual_seed(0)
    output = policy.generate(
        start,
        max_new_tokens=24,
        do_sample=True,
        logits_processor=[Sometimes(sorted(set(words))), watch],
        pad_token_id=0,
    )
    completions = [completion_of(r, table, task, []) for r in output[:, prompt.input_ids.shape[1] :].tolist()]
    wanted = [flag(Syntax(sandbox), completion) for completion in completions]
    assert watch.flags(output) == wanted
    assert sum(each is not None for each in wanted) >= 4
