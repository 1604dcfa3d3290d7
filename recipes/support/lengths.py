"""How long a task's prompts are, in tokens: of the longest, since memory is made for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig
from transformers import AutoTokenizer

from envs.packaged import PACKAGE
from envs.task import Problem, Prompted, Task
from recipes.support.build import build_task
from recipes.support.evaluation import encoded
from recipes.support.main import UserError
from recipes.support.models import SCRATCH, with_template
from recipes.support.network import local_folder
from recipes.support.stages import demonstration

CHARS_A_TOKEN = 3.0
"""Of code, at the least, for tokenizers of 30,000 tokens and more; where a task's tokens cannot be counted."""
LOOKED_AT = 4
"""Of the prompts with most characters: one of these has most tokens."""


@dataclass(frozen=True)
class Lengths:
    """Tokens of the longest prompt to train on and to be evaluated on, and of the longest answer to learn from.

    test_problems: how many there are to be evaluated on, None where that is not known.
    """

    train: int
    test: int
    answer: int
    test_problems: int | None = None
    notes: tuple[str, ...] = ()


def lengths_of(cfg: DictConfig, task: Task | None = None) -> Lengths:
    """From `task.prompt_tokens`, else counted in the task's problems; `task` where it has been built already.

    Raises:
        UserError: the problems are not here, and task.prompt_tokens does not say how long their prompts are.
    """
    answer = cfg.task.max_new_tokens
    if cfg.task.prompt_tokens:
        said = f"prompts of {cfg.task.prompt_tokens} tokens (task.prompt_tokens)"
        return Lengths(cfg.task.prompt_tokens, cfg.task.prompt_tokens, answer, None, (said,))
    if task is None:
        try:
            task = build_task(cfg)
        except UserError as error:
            raise UserError(f"{error}; or say how long the prompts are: task.prompt_tokens=1024") from None
    count, how = counter(cfg)
    trains_on = task.problems("train")
    train = max((count(task.messages(p)) for p in _longest(task, trains_on)), default=0)
    if cfg.recipe.name == "sft":
        train, answer = _longest_example(task, trains_on, count)
    if cfg.recipe.name in ("pairs", "check"):
        tested = trains_on
    else:
        tested = task.problems(cfg.evaluation.split)
    test = max((count(task.messages(p)) for p in _longest(task, tested)), default=0)
    note = f"prompts of up to {max(train, test)} tokens, {how}"
    return Lengths(train or test, test or train, answer, len(tested), (note,))


def _longest(task: Task, problems: list[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda p: len(_text(task.messages(p))))[-LOOKED_AT:]


def _longest_example(task: Task, problems: list[Problem], count: Callable[[Prompted], int]) -> tuple[int, int]:
    """Prompt and answer of the longest demonstration."""
    with_answer = [p for p in problems if p.reference]
    longest = sorted(with_answer, key=lambda p: len(_text(task.messages(p))) + len(p.reference))[-LOOKED_AT:]
    pairs = [(count(m), count(demonstration(m, p.reference))) for p in longest for m in (task.messages(p),)]
    return max(pairs, key=sum, default=(0, 1))


def _text(prompt: Prompted) -> str:
    return prompt if isinstance(prompt, str) else "".join(message["content"] for message in prompt)


def counter(cfg: DictConfig) -> tuple[Callable[[Prompted], int], str]:
    """How many tokens a prompt has, by the model's tokenizer where it is on this machine, and how that is known."""
    if cfg.model.path == SCRATCH:
        return lambda prompt: len(_text(prompt)), "a token a character"
    folder = local_folder(cfg.model.path)
    if folder is not None or not cfg.model.path.startswith((PACKAGE, "/", ".")):
        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(folder or cfg.model.path, local_files_only=True)
            with_template(tokenizer)
            return lambda prompt: len(encoded(prompt, tokenizer)), "counted"
        except (OSError, ValueError):
            pass
    return lambda prompt: int(len(_text(prompt)) / CHARS_A_TOKEN) + 32, "estimated from their characters"
