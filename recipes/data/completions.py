"""Between sampled ids and what rewards and logs see of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from accelerate.utils import gather_object
from jinja2 import TemplateError

from envs.task import Problem, Prompted, Split, Task, demonstration
from recipes.cli.errors import UserError
from rewards.attribution import TokenBytes, locate
from rewards.channel import Completion
from rewards.compose import Grade


@dataclass
class Rollout:
    """What this process sampled and how it was graded, until the step is over."""

    problems: list[Problem]
    completions: list[Completion]
    grades: list[Grade | None]


def measured(grades: Sequence[Grade | None]) -> list[str]:
    """What the channels measured beside scores (see Grade.measures), over all processes."""
    return sorted(set(gather_object([name for grade in grades if grade for name in grade.measures])))


class AnswerComplete:
    """Whether sampled ids are an answer that needs nothing further, as the task sees it.

    The text is looked at only where the newest token holds one of the task's closing characters.
    """

    def __init__(self, task: Task, token_bytes: TokenBytes):
        self._task, self._bytes = task, token_bytes
        self._closing = [character.encode() for character in task.closing]

    def __call__(self, ids: Sequence[int]) -> bool:
        newest = self._bytes[ids[-1]]
        if not any(character in newest for character in self._closing):
            return False
        return self._task.complete(b"".join(self._bytes[i] for i in ids).decode(errors="replace"))


def completion_of(
    ids: Sequence[int], token_bytes: TokenBytes, task: Task, end_ids: Collection[int], given: int = 0
) -> Completion:
    """The Completion of an answer's ids: text, offsets, the task's code span, whether it ended by itself. The first
    `given` of them were not sampled."""
    text, offsets = locate(ids, token_bytes)
    code = task.extract(text)
    return Completion(
        text=text,
        token_ids=list(ids),
        offsets=offsets,
        code_span=None if code is None else (code.start, code.end),
        finished=bool(ids) and (ids[-1] in end_ids or task.complete(text)),
        closed=code is not None and code.closed,
        given=given,
    )


def sandbox_seconds(grades: Sequence[Grade | None]) -> list[float]:
    """Seconds that each answer's programs ran, of the answers that had any run."""
    results = [result for grade in grades if grade for result in grade.results.values()]
    return [float(result.detail["seconds"]) for result in results if "seconds" in result.detail]


def completion_rows(rollout: Rollout, advantages: torch.Tensor, step: int, limit: int) -> list[dict[str, Any]]:
    """Up to `limit` rows of completions.jsonl, evenly over the batch; advantages (B,) or (B, T)."""
    return [
        completion_row(rollout.problems[i], rollout.completions[i], rollout.grades[i], advantages[i], step)
        for i in picked(len(rollout.grades), limit)
    ]


def picked(count: int, limit: int) -> list[int]:
    """At most `limit` places of `count`, evenly over them."""
    return sorted(set(torch.linspace(0, count - 1, min(limit, count)).round().int().tolist()))


def rows_of_all(
    rows_of: Callable[..., list[dict[str, Any]]], rollout: Rollout, advantages: torch.Tensor, step: int, limit: int
) -> list[dict[str, Any]]:
    """Rows of completions.jsonl that `rows_of` makes of all processes' rollouts: up to `limit` answers or episodes."""
    rows = gather_object(rows_of(rollout, advantages, step, limit))
    starts = [i for i, row in enumerate(rows) if row.get("turn", 1) == 1]
    ends = [*starts[1:], len(rows)]
    return [row for i in picked(len(starts), limit) for row in rows[starts[i] : ends[i]]]


def _mean_advantage(advantage: torch.Tensor, tokens: int) -> float:
    """Mean over a completion's own tokens of its advantage, a number or (T,)."""
    return (advantage[: max(1, tokens)] if advantage.dim() else advantage).float().mean().item()


def completion_row(
    problem: Problem, completion: Completion, grade: Grade | None, advantage: torch.Tensor, step: int
) -> dict[str, Any]:
    """A row of completions.jsonl; advantage: a number, or (T,) or longer."""
    edges = [start for start, _ in completion.offsets] + [len(completion.text)]
    row: dict[str, Any] = {
        "step": step,
        "task_id": problem.id,
        "prompt": problem.question,
        "completion": completion.text,
        "tokens": [completion.text[a : max(a, b)] for a, b in itertools.pairwise(edges)],
        "offsets": completion.offsets,
        "code_span": completion.code_span,
        "finished": completion.finished,
        "closed": completion.closed,
        **({"given": completion.given} if completion.given else {}),
        "advantage": None if grade is None else _mean_advantage(advantage, len(completion.sampled_ids)),
        "reward": None,
        "verdict": "not graded",
    }
    if grade is not None:
        row |= {
            "reward": grade.total,
            "verdict": grade.verdict,
            "scores": {name: r.score for name, r in grade.results.items()},
            "weights": dict(grade.weights),
            "notes": {name: r.note for name, r in grade.results.items()},
            "token_rewards": {name: [round(x, 6) for x in r] for name, r in grade.rewards.items()},
            "measures": grade.measures,
        }
    return row


def prompt_ids(task: Task, problem: Problem, tokenizer: Any) -> list[int]:
    """What the policy is asked to continue, as token ids."""
    return encoded(task.messages(problem), tokenizer)


def check_readable(task: Task, split: Split, tokenizer: Any, model: str, answers: bool = False) -> None:
    """Raise UserError where the tokenizer has no token for what stands in the first prompt of a split, or in the
    reference that is to be imitated (`answers`): a model of a few moves cannot read a question about Python."""
    problems = task.problems(split)[:1]
    for prompt, reference in ((task.messages(problem), problem.reference) for problem in problems):
        try:
            encoded(prompt, tokenizer)
            tokenizer(demonstration(prompt, reference) if answers else "")
        except Exception as error:  # tokenizers raises nothing narrower
            what, other = "a prompt", "model, or the task that it was trained on"
            if answers:
                what, other = "an answer to imitate", "recipe than sft, or another model"
            raise UserError(
                f"model={model}: its tokenizer cannot read {what} of task={task.name} ({error}); choose another {other}"
            ) from error


def with_answer(prompt: Prompted, answer: str, tokenizer: Any) -> tuple[list[int], list[int]]:
    """Token ids of a prompt as the policy is asked it, and of an answer behind it, with its end, as it samples it.

    A tokenizer may make one token of the prompt's last characters and the answer's first, such as a line break and the
    blanks behind it. A policy never samples such a token, so the two are then tokenized apart.
    """
    asked = encoded(prompt, tokenizer)
    if isinstance(prompt, str):
        shown, whole = prompt, prompt + answer.removesuffix(tokenizer.eos_token) + tokenizer.eos_token
        joined = list(tokenizer(whole)["input_ids"])
    else:
        begun = prompt[-1]["role"] == "assistant"
        turn = {"role": "assistant", "content": (prompt[-1]["content"] if begun else "") + answer}
        shown = tokenizer.apply_chat_template(
            prompt, tokenize=False, add_generation_prompt=not begun, continue_final_message=begun
        )
        closed = [*(prompt[:-1] if begun else prompt), turn]
        whole = tokenizer.apply_chat_template(closed, tokenize=False)
        joined = list(tokenizer.apply_chat_template(closed, return_dict=True)["input_ids"])
    if joined[: len(asked)] == asked:
        return asked, joined[len(asked) :]
    if not whole.startswith(shown):
        raise UserError(
            f"the chat template asks for an answer behind {shown[-30:]!r}, and shows a finished one in another form, "
            "so there is no example to imitate: give the model's folder another chat_template.jinja"
        )
    return asked, ids_behind(whole[len(shown) :], tokenizer)


def ids_behind(text: str, tokenizer: Any, **how: Any) -> list[int]:
    """Token ids of a text that stands behind another one, without special tokens; `how`: further arguments.

    Some tokenizers (Llama 2's) put a blank before every text that they are given, which such a text does not have: it
    is encoded behind a line break then, whose ids are left out.
    """
    ids = list(tokenizer(text, add_special_tokens=False, **how)["input_ids"])
    begun = "".join(tokenizer.convert_ids_to_tokens(ids)).replace("▁", " ").replace("Ġ", " ")
    if _blanks(begun) <= _blanks(text):
        return ids
    line = list(tokenizer("\n", add_special_tokens=False, **how)["input_ids"])
    behind = list(tokenizer(f"\n{text}", add_special_tokens=False, **how)["input_ids"])
    return behind[len(line) :] if behind[: len(line)] == line else ids


def _blanks(text: str) -> int:
    """How many blanks a text begins with."""
    return len(text) - len(text.lstrip(" "))


def encoded(prompt: Prompted, tokenizer: Any, **template: Any) -> list[int]:
    """Token ids of a prompt: of a text as it stands; of a conversation in the tokenizer's chat form, open for an answer
    or in the middle of the assistant's last message. `template`: further arguments of apply_chat_template.

    Raises UserError where the chat form does not take the conversation, as some take no system message."""
    if isinstance(prompt, str):
        return list(tokenizer(prompt)["input_ids"])
    begun = prompt[-1]["role"] == "assistant"
    try:
        tokens = tokenizer.apply_chat_template(
            prompt, add_generation_prompt=not begun, continue_final_message=begun, return_dict=True, **template
        )
    except TemplateError as error:
        roles = ", ".join(message["role"] for message in prompt)
        raise UserError(
            f"model.path={tokenizer.name_or_path}: its chat template takes no conversation of {roles} ({error}); "
            "without a system message, where the task has the setting: task.env.system=''"
        ) from error
    return list(tokens["input_ids"])
