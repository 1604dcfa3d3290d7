"""Prompts and answers as the token ids that a policy is asked with and samples: plain texts, and conversations in the
tokenizer's chat form."""

from __future__ import annotations

from typing import Any

from jinja2 import TemplateError

from envs.task import Problem, Prompted, Split, Task, demonstration
from recipes.cli.errors import UserError


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
