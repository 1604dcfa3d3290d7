"""How long a task's prompts are, in tokens: of the longest, since memory is made for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig
from transformers import AutoTokenizer

from envs.local_models import PACKAGE
from envs.task import Problem, Prompted, Split, Task, demonstration
from recipes.cli.console import log
from recipes.cli.errors import UserError
from recipes.data.chat_tokens import encoded
from recipes.models.load import SCRATCH, with_template
from recipes.tools.memory.network import local_folder

CHARS_A_TOKEN = 3.0
"""Of code, at the least, for tokenizers of 30,000 tokens and more; where a task's tokens cannot be counted."""
CHAT_TOKENS = 32
"""Of a chat form, where tokens are estimated from characters."""
REPLY_CHARS_A_TOKEN = 3
"""Of feedback, which is code and numbers."""
MARKS_OF_A_REPLY = 40
"""Tokens of the template and of the chat's marks."""
LOOKED_AT = 4
"""Of the prompts with most characters: one of these has most tokens."""
Count = Callable[[Prompted], int]


@dataclass(frozen=True)
class Evaluated:
    """An evaluation: tokens of its longest prompt and of an answer, samples of a problem, problems."""

    prompt: int
    answer: int
    samples: int
    problems: int | None


@dataclass(frozen=True)
class Lengths:
    """Tokens of the longest prompt to train on and to be evaluated on, and of the longest answer to learn from.

    test_problems: how many there are to be evaluated on, None where that is not known. others: the same of the tasks of
    task.also_evaluate, as `Evaluated`.
    """

    train: int
    test: int
    answer: int
    test_problems: int | None = None
    notes: tuple[str, ...] = ()
    others: tuple[Evaluated, ...] = ()


def longest_prompt(task: Task, problems: Sequence[Problem], count: Count) -> int:
    """Tokens of the longest prompt, 0 where there are no problems."""
    prompts = sorted((task.messages(p) for p in problems), key=lambda prompt: len(_text(prompt)))
    return max(map(count, prompts[-LOOKED_AT:]), default=0)


def longest_demonstration(task: Task, problems: Sequence[Problem], count: Count) -> tuple[int, int]:
    """Tokens of prompt and answer of the longest demonstration; (0, 1) where no problem has a reference."""
    pairs = [(task.messages(p), p.reference) for p in problems if p.reference]
    pairs.sort(key=lambda pair: len(_text(pair[0])) + len(pair[1]))
    lengths = [(count(prompt), count(demonstration(prompt, answer))) for prompt, answer in pairs[-LOOKED_AT:]]
    return max(lengths, key=sum, default=(0, 1))


def counter(model_path: str) -> tuple[Count, str]:
    """How many tokens a prompt has, by the model's tokenizer where it is on this machine, and how that is known."""
    if model_path == SCRATCH:
        return lambda prompt: len(_text(prompt)), "a token a character"
    folder = local_folder(model_path)
    if folder is not None or not model_path.startswith((PACKAGE, "/", ".")):
        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(folder or model_path, local_files_only=True)
            with_template(tokenizer)
            return lambda prompt: len(encoded(prompt, tokenizer)), "counted"
        except (OSError, ValueError):
            pass
    return lambda prompt: int(len(_text(prompt)) / CHARS_A_TOKEN) + CHAT_TOKENS, "estimated from their characters"


def _text(prompt: Prompted) -> str:
    return prompt if isinstance(prompt, str) else "".join(message["content"] for message in prompt)


def check_context(cfg: DictConfig, task: Task, tokenizer: Any, config: Any, samples: bool) -> None:
    """Whether prompts and answers fit into the model's context. Raises UserError where the model has learnt a position
    for each token of it, and knows no further ones; others answer all the same, worse.

    config: the model's. samples: whether training problems are answered too.
    """
    context = getattr(config, "max_position_embeddings", None)
    if not context:
        return
    e = cfg.evaluation
    trl = cfg.recipe.get("trl") or {}
    sampled = trl.get("max_completion_length") or trl.get("response_length") or cfg.task.max_new_tokens
    answered: dict[Split, int] = {"train": sampled} if samples else {}
    if e.samples or e.greedy:
        answered[e.split] = max(answered.get(e.split, 0), e.max_new_tokens)
    for split, answer in answered.items():
        prompt = longest_prompt(task, task.problems(split), lambda prompt: len(encoded(prompt, tokenizer)))
        longest = prompt + row_tokens(cfg, answer)
        if longest <= context:
            continue
        problem = (
            f"model={cfg.model.name} sees {context} tokens at once, and a prompt of task={cfg.task.name} with its "
            f"answer may have {longest}"
        )
        if getattr(config, "rope_parameters", None) is None and getattr(config, "rope_theta", None) is None:
            raise UserError(f"{problem}: choose another model, or a smaller task.max_new_tokens")
        log.warning("%s: it reads further tokens worse, or not at all", problem)


def row_tokens(cfg: DictConfig, answer: int, turns: int | None = None) -> int:
    """Tokens of a row whose answers have at most `answer` tokens: one, or an episode's with the replies between; turns:
    its first ones, None for all."""
    if cfg.episode is None:
        return answer
    turns = cfg.episode.turns if turns is None else turns
    message = int(cfg.episode.max_chars // REPLY_CHARS_A_TOKEN) + MARKS_OF_A_REPLY
    return turns * answer + max(0, turns - 1) * message
