"""Evaluate a policy on held-out problems: sample, grade, pass@k."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tqdm import tqdm
from transformers import PreTrainedModel

from envs.sandbox import Sandbox
from envs.task import Problem, Split, Task
from recipes.support.pass_at_k import PassAtK
from recipes.support.rollout import AnswerComplete
from recipes.support.sampling import Decoding, end_ids, sample
from rewards.attribution import TokenBytes


@dataclass(frozen=True)
class Evaluation:
    """summary: one line of evals.jsonl. rows: one dict a completion."""

    summary: dict[str, Any]
    rows: list[dict[str, Any]]


def evaluate_policy(
    policy: PreTrainedModel,
    tokenizer: Any,
    task: Task,
    sandbox: Sandbox,
    runner: asyncio.Runner,
    decoding: Decoding,
    samples: int,
    k: Sequence[int] = (1,),
    split: Split = "test",
    rows_at_once: int = 96,
    seed: int = 0,
) -> Evaluation:
    """pass@k over a split, `samples` completions a problem; greedy takes one. Ungraded problems are left out."""
    started = time.perf_counter()
    samples = 1 if decoding.temperature == 0 else samples
    problems = task.problems(split)
    answers = _sample(policy, tokenizer, task, problems, decoding, samples, rows_at_once, seed)
    texts = [[tokenizer.decode(ids, skip_special_tokens=True) for ids in group] for group in answers]
    codes = [[task.extract(text) for text in group] for group in texts]
    keys = [(i, j) for i, group in enumerate(codes) for j, code in enumerate(group) if code is not None]
    jobs = [problems[i].job(_code(texts[i][j], codes[i][j]), f"{i}.{j}") for i, j in keys]
    outcomes = dict(zip(keys, runner.run(sandbox.run(jobs)), strict=True))

    rows = []
    for i, problem in enumerate(problems):
        for j, text in enumerate(texts[i]):
            outcome = outcomes.get((i, j))
            rows.append(
                {
                    "task_id": problem.id,
                    "sample": j,
                    "completion": text,
                    "tokens": len(answers[i][j]),
                    "verdict": "no code" if outcome is None else outcome.verdict,
                    "note": "no code block" if outcome is None else outcome.note,
                }
            )
    graded = [
        [r["verdict"] == "pass" for r in rows if r["task_id"] == p.id and r["verdict"] != "error"] for p in problems
    ]
    complete = [verdicts for verdicts in graded if len(verdicts) == samples]
    summary = {
        "task": task.name,
        "split": split,
        "problems": len(problems),
        "samples": samples,
        "temperature": decoding.temperature,
        "pass@k": PassAtK().compute(predictions=complete, k=list(k)) if complete else {},
        "code": len(keys) / len(rows),
        "mean_tokens": sum(r["tokens"] for r in rows) / len(rows),
        "ungraded": sum(r["verdict"] == "error" for r in rows),
        "seconds": time.perf_counter() - started,
    }
    return Evaluation(summary, rows)


def _code(text: str, found) -> str:
    return text[found.start : found.end]


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
    prompts = [
        tokenizer.apply_chat_template(task.messages(p), add_generation_prompt=True, return_dict=True)["input_ids"]
        for p in problems
    ]
    order = sorted(range(len(problems)), key=lambda i: len(prompts[i]))
    size = max(1, rows_at_once // samples)
    generator = torch.Generator(policy.device).manual_seed(seed)
    found: dict[int, list[list[int]]] = {}
    ends = end_ids(tokenizer, policy)
    complete = AnswerComplete(task, TokenBytes(tokenizer))
    label = f"{task.name} {'greedy' if decoding.temperature == 0 else 'sampled'}"
    with tqdm(total=len(problems) * samples, desc=label, unit="answer", file=sys.stderr, leave=False) as bar:
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
                bar.update,
            )
            for place, i in enumerate(batch):
                found[i] = ids[place * samples : (place + 1) * samples]
    return [found[i] for i in range(len(problems))]
