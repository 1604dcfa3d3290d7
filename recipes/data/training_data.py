"""A task's training problems in the form that each of TRL's trainers takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from datasets import Dataset

from envs.task import Prompted, Task, demonstration
from recipes.cli.console import log
from recipes.cli.errors import UserError
from recipes.data.chat_tokens import prompt_ids, with_answer
from recipes.data.repairs import Failed, samples


def prompt_dataset(task: Task) -> Dataset:
    """The training problems as TRL takes them: `prompt` (messages, or text) and `problem_id`."""
    problems = task.problems("train")
    return Dataset.from_dict({"prompt": [task.messages(p) for p in problems], "problem_id": [p.id for p in problems]})


def as_turns(prompt: Prompted, answer: str) -> tuple[Any, Any]:
    """A prompt and an answer to it as TRL's offline trainers take them: messages and messages, or text and text.

    The prompt may have begun the assistant's turn, of which the answer is then the rest.
    """
    return prompt, answer if isinstance(prompt, str) else [{"role": "assistant", "content": answer}]


def of_turns(prompt: Any, answer: Any, tokenizer: Any) -> tuple[list[int], list[int]]:
    """The token ids of a prompt and an answer that `as_turns` gave (chat_tokens.with_answer)."""
    return with_answer(prompt, answer if isinstance(answer, str) else answer[0]["content"], tokenizer)


def tokenized_demonstrations(examples: Dataset, tokenizer: Any) -> Dataset:
    """The `input_ids` of prompts and completions, and `labels`, which are -100 in the prompt: tokenized as the policy
    is asked and samples. TRL's SFTTrainer takes these as they are."""

    def row(example: dict[str, Any]) -> dict[str, list[int]]:
        asked, answer = of_turns(example["prompt"], example["completion"], tokenizer)
        return {"input_ids": asked + answer, "labels": [-100] * len(asked) + answer}

    return examples.map(row, remove_columns=examples.column_names)


def right_answers(path: str, needed: bool = True) -> dict[str, str]:
    """The right answer of an evaluation to each problem that has one, by the problem's id.

    The greedy answer where it is right, else the most frequent of the right samples. An answer that the length limit
    cut is left out: it has no end to imitate.

    Args:
        path: a run directory of recipes/eval.py with evaluation.split=train, or a file of such samples.
        needed: False where references do without them.

    Raises UserError where there is no right answer and some are needed.
    """
    file, rows = samples(path)
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        if row["passed"] and row.get("finished", True):
            weight = 1 if row.get("temperature", 1) else 1_000_000  # a row of recipes/pairs.py has none
            counts.setdefault(row["task_id"], Counter())[row["completion"]] += weight
    if not counts and needed:
        raise UserError(
            f"recipe.answers={path}: no right answers in {file}; recipes/eval.py evaluation.split=train writes them"
        )
    return {problem: answers.most_common(1)[0][0] for problem, answers in counts.items()}


def imitated(task: Task, prompt: Prompted, answer: str) -> str:
    """A sampled answer as an example: to a text, without the stop text behind its code that ended it."""
    code = task.extract(answer) if isinstance(prompt, str) else None
    return answer[: code.end] if code else answer


def demonstrations(
    task: Task,
    own: Mapping[str, str] | None = None,
    references: bool = True,
    failed: Mapping[str, Sequence[Failed]] | None = None,
    broken: Callable[[str], str] = str,
) -> Dataset:
    """Training problems with their answers, as TRL's SFTTrainer takes them: `prompt`, `completion`.

    The answer is the one that `own` has for the problem's id, else the problem's reference, where `references` allows
    it. Problems with neither are left out. A problem that `failed` knows is there once more behind each conversation,
    with the answer that repaired it, else with that same answer; `broken` is as `Failed.messages` takes it.

    Raises UserError where `own` has answers and none of them is to a training problem, or no problem has an answer.
    """
    own, failed = own or {}, failed or {}
    problems = task.problems("train")
    if own and not any(p.id in own for p in problems):
        raise UserError(f"recipe.answers: none of its {len(own)} right answers is to a training problem of this task")
    turns = []
    for problem in problems:
        prompt = task.messages(problem)
        answer = imitated(task, prompt, own[problem.id]) if problem.id in own else None
        if answer is None and references and problem.reference:
            answer = demonstration(prompt, problem.reference)
        if answer is not None:
            turns.append(as_turns(prompt, answer))
        for conversation in failed.get(problem.id, ()):
            own_repair = conversation.repaired
            repaired = answer if own_repair is None else imitated(task, prompt, own_repair)
            if repaired is not None:
                turns.append(as_turns(conversation.messages(prompt, broken), repaired))
    if not turns:
        raise UserError("recipe.references=false leaves nothing to imitate without recipe.answers: set one of them")
    return Dataset.from_dict({"prompt": [a for a, _ in turns], "completion": [b for _, b in turns]})


def warn_of_cut(examples: Dataset, max_length: int | None) -> None:
    """Log how many examples TRL cuts at `max_length` tokens, which takes the end of their answers, or leaves out since
    nothing of the answer remains. examples: with `input_ids` and `labels`.

    Raises UserError where nothing of any answer remains.
    """
    wholes = list(map(len, examples["input_ids"]))
    cut = [whole for whole in wholes if max_length and whole > max_length]
    if not cut:
        return
    lost = sum(all(label == -100 for label in labels[:max_length]) for labels in examples["labels"])
    if lost == len(wholes):
        raise UserError(
            f"recipe.trl.max_length={max_length}: the prompts alone are longer, so that nothing of any answer is left; "
            f"recipe.trl.max_length={max(cut)} keeps all"
        )
    log.warning(
        "%d of %d examples are longer than recipe.trl.max_length=%d tokens: %d lose the end of their answers%s; "
        "recipe.trl.max_length=%d keeps all of them",
        *(len(cut), len(wholes), max_length, len(cut) - lost),
        f" and {lost}, whose prompts alone are longer, are left out" if lost else "",
        max(cut),
    )


def tokenized_prompts(task: Task, tokenizer: Any) -> Dataset:
    """The training problems as DensePPOTrainer takes them: `input_ids` of the prompt and `problem_id`."""
    problems = task.problems("train")
    prompts = [prompt_ids(task, p, tokenizer) for p in problems]
    return Dataset.from_dict({"input_ids": prompts, "problem_id": [p.id for p in problems]})
