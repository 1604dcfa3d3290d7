"""Evaluate a policy on held-out problems: sample, grade as in training, pass@k."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tqdm import tqdm
from transformers import PreTrainedModel

from envs.task import Problem, Prompted, Split, Task
from recipes.support.pass_at_k import PassAtK
from recipes.support.rollout import AnswerComplete, completion_of
from recipes.support.sampling import Decoding, end_ids, sample
from rewards.attribution import TokenBytes
from rewards.compose import Grade, Reward


@dataclass(frozen=True)
class Evaluation:
    """summary: one line of evals.jsonl. rows: one dict a completion."""

    summary: dict[str, Any]
    rows: list[dict[str, Any]]


def evaluate_policy(
    policy: PreTrainedModel,
    tokenizer: Any,
    task: Task,
    reward: Reward,
    runner: asyncio.Runner,
    decoding: Decoding,
    samples: int,
    k: Sequence[int] = (1,),
    split: Split = "test",
    rows_at_once: int = 96,
    seed: int = 0,
) -> Evaluation:
    """pass@k, mean reward and mean of each problem's best over a split; `samples` completions a problem, greedily one.

    An answer passes where the channels that judge correctness say so. Problems with an ungraded answer are left out.
    """
    started = time.perf_counter()
    samples = 1 if decoding.temperature == 0 else samples
    problems = task.problems(split)
    answers = _sample(policy, tokenizer, task, problems, decoding, samples, rows_at_once, seed)
    token_bytes, ends = TokenBytes(tokenizer), end_ids(tokenizer, policy)
    completions = [completion_of(ids, token_bytes, task, ends) for group in answers for ids in group]
    asked = [problem for problem in problems for _ in range(samples)]
    grades = runner.run(reward.grade(asked, completions))
    rows = [
        {
            "task_id": problem.id,
            "sample": place % samples,
            "completion": completion.text,
            "tokens": len(completion.token_ids),
            **_graded(grade),
        }
        for place, (problem, completion, grade) in enumerate(zip(asked, completions, grades, strict=True))
    ]
    groups = [[g for g in grades[i : i + samples] if g] for i in range(0, len(grades), samples)]
    verdicts = [[g.passed for g in group] for group in groups]
    complete = [group for group in verdicts if len(group) == samples and None not in group]
    done = [grade for group in groups for grade in group]
    summary = {
        "task": task.name,
        "split": split,
        "problems": len(problems),
        "samples": samples,
        "temperature": decoding.temperature,
        "pass@k": PassAtK().compute(predictions=complete, k=list(k)) if complete else {},
        **rewards_of(problems, groups),
        "code": sum(c.code is not None for c in completions) / len(completions),
        "mean_tokens": sum(len(c.token_ids) for c in completions) / len(completions),
        "verdicts": dict(Counter(g.verdict for g in done).most_common()),
        "ungraded": len(grades) - len(done),
        "seconds": time.perf_counter() - started,
    }
    return Evaluation(summary, rows)


def rewards_of(problems: Sequence[Problem], groups: Sequence[Sequence[Grade]]) -> dict[str, Any]:
    """Means over graded answers, each with its problem's weight: reward, scores and measures; `best`: that of each
    problem's best answer. groups: [problem][sample]."""
    done = [(grade, problem.weight) for problem, group in zip(problems, groups, strict=True) for grade in group]
    best = [(max(g.total for g in group), p.weight) for p, group in zip(problems, groups, strict=True) if group]
    return {
        "reward": 0.0,
        **_means([({"reward": grade.total}, weight) for grade, weight in done]),
        **_means([({"best": total}, weight) for total, weight in best]),
        "scores": _means([(grade.scores, weight) for grade, weight in done]),
        "measures": _means([(grade.measures, weight) for grade, weight in done]),
    }


def _means(rows: Sequence[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    """Each number's weighted mean over the rows (numbers, weight) that have it."""
    sums: dict[str, tuple[float, float]] = {}
    for row, weight in rows:
        for name, value in row.items():
            total, weights = sums.get(name, (0.0, 0.0))
            sums[name] = total + weight * value, weights + weight
    return {name: total / weights for name, (total, weights) in sums.items() if weights}


def _graded(grade: Grade | None) -> dict[str, Any]:
    if grade is None:
        return {"verdict": "error", "passed": None, "reward": None, "note": "could not be graded"}
    notes = "; ".join(f"{name}: {r.note}" for name, r in grade.results.items() if r.note)
    details = {name: dict(result.detail) for name, result in grade.results.items() if result.detail}
    said = {"verdict": grade.verdict, "passed": grade.passed, "reward": grade.total, "note": notes}
    return said | ({"details": details} if details else {})


def prompt_ids(task: Task, problem: Problem, tokenizer: Any) -> list[int]:
    """What the policy is asked to continue, as token ids."""
    return encoded(task.messages(problem), tokenizer)


def encoded(prompt: Prompted, tokenizer: Any, **template: Any) -> list[int]:
    """Token ids of a prompt: of a text as it stands; of a conversation in the tokenizer's chat form, open for an answer
    or in the middle of the assistant's last message. `template`: further arguments of apply_chat_template."""
    if isinstance(prompt, str):
        return list(tokenizer(prompt)["input_ids"])
    begun = prompt[-1]["role"] == "assistant"
    tokens = tokenizer.apply_chat_template(
        prompt, add_generation_prompt=not begun, continue_final_message=begun, return_dict=True, **template
    )
    return list(tokens["input_ids"])


def _sample(
    policy,
    tokenizer,
    task: Task,
    problems: Sequence[Problem],
    decoding: Decoding,
    samples,
    rows_at_once,
    seed,
) -> list[list[list[int]]]:
    """Token ids, [problem][sample], in the problems' order; prompts of like length are sampled together."""
    prompts = [prompt_ids(task, p, tokenizer) for p in problems]
    order = sorted(range(len(problems)), key=lambda i: len(prompts[i]))
    size = max(1, rows_at_once // samples)
    generator = torch.Generator(policy.device).manual_seed(seed)
    found: dict[int, list[list[int]]] = {}
    ends = end_ids(tokenizer, policy)
    complete = AnswerComplete(task, TokenBytes(tokenizer))
    label = f"{task.name} {'greedy' if decoding.temperature == 0 else 'sampled'}"
    pause = 0.1 if sys.stderr.isatty() else 15.0  # seconds: a file keeps every state of the bar
    bar = tqdm(total=len(problems) * samples, desc=label, unit="answer", leave=False, mininterval=pause)
    with bar:
        for first in range(0, len(order), size):
            batch = order[first : first + size]
            ids = sample(
                policy,
                [prompts[i] for i in batch],
                samples,
                decoding,
                ends,
                tokenizer.pad_token_id,
                complete,
                generator,
                lambda *_: bar.update(),
            )
            for place, i in enumerate(batch):
                found[i] = ids[place * samples : (place + 1) * samples]
    return [found[i] for i in range(len(problems))]
