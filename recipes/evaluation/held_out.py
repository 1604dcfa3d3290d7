"""Evaluate a policy on held-out problems: sample, grade as in training, pass@k.

In a run of several processes all of them call these functions together, and each answers some of the problems.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig
from rich.table import Table
from tqdm import tqdm
from transformers import PreTrainedModel

from envs.task import Problem, Split, Task
from recipes.data.chat_tokens import prompt_ids
from recipes.data.completions import AnswerComplete, completion_of
from recipes.evaluation.base_tests import BASE, base_verdicts, with_base_tests
from recipes.evaluation.kept_answers import KeptAnswers
from recipes.evaluation.pass_at_k import pass_at_each
from recipes.evaluation.pictures import with_pictures
from recipes.evaluation.sharing import Answer, of_all_processes, own_seed, own_share, rank
from recipes.records.jsonl import problem_count, problem_kinds
from recipes.sampling.generate import Complete, Decoding, end_ids
from recipes.sampling.policy_copy import SamplingCopy
from recipes.sampling.sampler import Sampler
from recipes.sampling.vllm import ServerSampler
from rewards.attribution import TokenBytes
from rewards.compose import Grade, Reward


@dataclass(frozen=True)
class Evaluation:
    """summary: one line of evals.jsonl. rows: a dict for each completion, a few of them with a picture."""

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
    drawn: int = 0,
    server: ServerSampler | None = None,
    keep: Path | None = None,
) -> Evaluation:
    """pass@k and mean rewards of a policy on the problems of a split.

    Args:
        samples: completions for each problem; greedy decoding draws one.
        k: for which pass@k is computed.
        rows_at_once: completions that are sampled together in one process, at most.
        drawn: rows that get a picture, where a channel makes one (pictures.py).
        server: a vLLM server's sampler, which samples in place of this process; `decoding` is used, not its own.
        keep: beginning of the name of a file with the answers as they are drawn, so that the same evaluation goes on
            after a stop (kept_answers.py); each process adds its number. A vLLM server draws all at once: none is kept.

    An answer passes where the channels that judge correctness say so. pass@k leaves out problems with an answer that
    was not graded. Problems with base tests (base_tests.py) also give `base_pass@k`, and `base_passed` in each row.
    """
    started = time.perf_counter()
    samples = 1 if decoding.temperature == 0 else samples
    problems = task.problems(split)
    own = own_share(problems)
    repeated = [problem for problem in own for _ in range(samples)]
    token_bytes, ends = TokenBytes(tokenizer), end_ids(tokenizer, policy)
    sampler = evaluation_sampler(policy, tokenizer, decoding, AnswerComplete(task, token_bytes), server)
    place = keep.with_name(f"{keep.name}-{rank()}.jsonl") if keep and server is None else None
    kept = KeptAnswers(place, policy, decoding, seed)
    token_ids = _sample(sampler, policy, tokenizer, task, own, samples, rows_at_once, seed, kept)
    completions = [completion_of(ids, token_bytes, task, ends) for ids in token_ids]
    grades = runner.run(reward.grade(repeated, completions))
    base = runner.run(base_verdicts(reward, repeated, completions, grades))
    answers = of_all_processes([*map(Answer, completions, grades, base)], samples)
    based = any(BASE in problem.data for problem in problems)
    rows = [
        {"task_id": problems[i // samples].id, "sample": i % samples, **_row(answer, based)}
        for i, answer in enumerate(answers)
    ]
    how = {"samples": samples, **how_decoded(decoding)}
    what = {"task": task.name, "split": split, "problems": len(problems)}
    measured = measures_of(problems, answers, samples, k)
    summary = what | how | measured | {"seconds": time.perf_counter() - started + kept.seconds}
    return Evaluation(summary, with_pictures(rows, [answer.grade for answer in answers], drawn))


def _row(answer: Answer, based: bool) -> dict[str, Any]:
    """What samples.jsonl says of an answer. based: with its verdict by the base tests."""
    completion = answer.completion
    return {
        "completion": completion.text,
        "tokens": len(completion.token_ids),
        "finished": completion.finished,
        **grade_columns(answer.grade),
        **({"base_passed": answer.base} if based else {}),
    }


def how_decoded(decoding: Decoding) -> dict[str, float]:
    """How an evaluation drew its answers, as its record has it."""
    return {
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "max_new_tokens": decoding.max_new_tokens,
    }


def measures_of(
    problems: Sequence[Problem], answers: Sequence[Answer], samples: int, k: Sequence[int]
) -> dict[str, Any]:
    """What is measured of `samples` answers to each problem; of base tests, too, where a problem has some."""
    grades = [answer.grade for answer in answers]
    groups = [[g for g in grades[i : i + samples] if g] for i in range(0, len(grades), samples)]
    passed = [None if grade is None else grade.passed for grade in grades]
    graded = [grade for group in groups for grade in group]
    based = any(BASE in problem.data for problem in problems)
    return {
        "judged": sum(None not in passed[i : i + samples] for i in range(0, len(passed), samples)),
        "pass@k": _pass_at_k(passed, samples, k),
        **({"base_pass@k": _pass_at_k([answer.base for answer in answers], samples, k)} if based else {}),
        **rewards_of(problems, groups),
        "code": sum(answer.completion.code is not None for answer in answers) / len(answers),
        "mean_tokens": sum(len(answer.completion.token_ids) for answer in answers) / len(answers),
        "verdicts": dict(Counter(g.verdict for g in graded).most_common()),
        "ungraded": len(grades) - len(graded),
    }


def _pass_at_k(passed: Sequence[bool | None], samples: int, k: Sequence[int]) -> dict[str, Any]:
    """pass@1 and pass@k of verdicts, `samples` for each problem, without the problems that have an answer without a
    verdict."""
    groups = [passed[i : i + samples] for i in range(0, len(passed), samples)]
    judged = [[bool(each) for each in group] for group in groups if None not in group]
    return pass_at_each(judged, sorted({1, *k}))


def rewards_of(problems: Sequence[Problem], groups: Sequence[Sequence[Grade]]) -> dict[str, Any]:
    """Means over the graded answers, weighted by their problems: `reward`, `scores` of the channels, their `measures`,
    and `best`, the mean reward of each problem's best answer. groups: [problem][sample]."""
    graded = [(grade, problem.weight) for problem, group in zip(problems, groups, strict=True) for grade in group]
    best = [(max(g.total for g in group), p.weight) for p, group in zip(problems, groups, strict=True) if group]
    return {
        "reward": 0.0,
        **_means([({"reward": grade.total}, weight) for grade, weight in graded]),
        **_means([({"best": total}, weight) for total, weight in best]),
        "scores": _means([(grade.scores, weight) for grade, weight in graded]),
        "measures": _means([(grade.measures, weight) for grade, weight in graded]),
    }


def _means(rows: Sequence[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    """The weighted mean of each number over the rows (numbers by name, weight) that have it."""
    sums: dict[str, tuple[float, float]] = {}
    for row, weight in rows:
        for name, value in row.items():
            total, weights = sums.get(name, (0.0, 0.0))
            sums[name] = total + weight * value, weights + weight
    return {name: total / weights for name, (total, weights) in sums.items() if weights}


def grade_columns(grade: Grade | None) -> dict[str, Any]:
    """An answer's verdict, whether it passed, its reward, notes and details, as rows of samples have them."""
    if grade is None:
        return {"verdict": "error", "passed": None, "reward": None, "note": "could not be graded"}
    notes = "; ".join(f"{name}: {r.note}" for name, r in grade.results.items() if r.note)
    details = {name: dict(result.detail) for name, result in grade.results.items() if result.detail}
    columns = {"verdict": grade.verdict, "passed": grade.passed, "reward": grade.total, "note": notes}
    return columns | ({"details": details} if details else {})


def evaluation_sampler(
    policy: Any, tokenizer: Any, decoding: Decoding, complete: Complete, server: ServerSampler | None
) -> Sampler | ServerSampler:
    """What an evaluation samples with: this process, or a vLLM server, to which the weights have been brought."""
    ends = end_ids(tokenizer, policy)
    if server is None:
        return Sampler(decoding, ends, tokenizer.pad_token_id, complete)
    server.bring_weights()  # by all processes together, also by one that has no problem to answer
    return replace(server, decoding=decoding, eos_ids=ends, complete=complete)


def _sample(
    sampler: Sampler | ServerSampler,
    policy: Any,
    tokenizer: Any,
    task: Task,
    problems: Sequence[Problem],
    samples: int,
    rows_at_once: int,
    seed: int,
    kept: KeptAnswers,
) -> list[list[int]]:
    """Token ids of each completion, by problem; prompts of similar length are sampled together."""
    prompts = [prompt_ids(task, p, tokenizer) for p in problems]
    order = sorted(range(len(problems)), key=lambda i: len(prompts[i]))
    served = isinstance(sampler, ServerSampler)  # the server decides how many it samples together
    most = samples if served else min(samples, rows_at_once)
    counts = [min(most, samples - drawn) for drawn in range(0, samples, most)]
    size = max(1, len(order) if served else rows_at_once // most)
    generator = torch.Generator("cpu" if served else policy.device).manual_seed(own_seed(seed))
    completions: dict[int, list[list[int]]] = defaultdict(list)
    label = f"{task.name} {'greedy' if sampler.decoding.temperature == 0 else 'sampled'}"
    pause = 0.1 if sys.stderr.isatty() else 15.0  # seconds; a file keeps every state of the bar
    bar = tqdm(total=len(problems) * samples, desc=label, unit="answer", leave=False, mininterval=pause)
    with bar:
        for first in range(0, len(order), size):
            batch = order[first : first + size]
            asked = [prompts[i] for i in batch]
            for count in counts:
                ids = kept.earlier(asked, count, generator)
                if ids is None:
                    ids = sampler(policy, asked, count, generator, lambda *_: bar.update())
                    kept.keep(asked, count, generator, ids)
                else:
                    bar.update(len(ids))
                for row, i in enumerate(batch):
                    completions[i] += ids[row * count : (row + 1) * count]
    return [ids for i in range(len(problems)) for ids in completions[i]]


def decodings(e: DictConfig) -> list[tuple[Decoding, int]]:
    """(how to decode, samples for each problem) as `cfg.evaluation` asks for: sampled, then greedy."""
    pairs = []
    if e.samples:
        pairs.append((Decoding(e.max_new_tokens, e.temperature, e.top_p), e.samples))
    if e.greedy:
        pairs.append((Decoding(e.max_new_tokens, 0.0), 1))
    return pairs


def policy_to_sample(policy: Any, dtype: torch.dtype | None) -> Any:
    """The policy in evaluation mode, or a copy of it in `dtype`, which samples faster."""
    return policy.eval() if dtype is None else SamplingCopy(policy, dtype).sync(policy)


def describe(summary: dict[str, Any]) -> str:
    """An evaluation in one line: pass@k with intervals, reward, share of answers with code, length, time."""
    decoding = (
        "greedy" if summary["temperature"] == 0 else f"{summary['samples']} samples at {summary['temperature']:g}"
    )
    passes = _passes(summary["pass@k"])
    if summary.get("base_pass@k"):
        passes = f"base tests {_passes(summary['base_pass@k'])}  base + extra tests {passes}"
    best = f", best {summary['best']:.3f}" if summary["samples"] > 1 and "best" in summary else ""
    episodes = _episodes(summary) if "turns" in summary else ""
    return (
        f"{summary['task']} {summary['split']} ({problem_count(summary)} problems, {decoding})  {passes}  "
        f"reward {summary['reward']:.3f}{best}  "
        f"code {summary['code']:.0%}  {summary['mean_tokens']:.0f} tokens  {summary['seconds']:.0f} s{episodes}"
    )


def _episodes(summary: dict[str, Any]) -> str:
    """What an evaluation of episodes adds: pass@1 after each turn, and the rival at equal tokens."""
    after = [f"{turn['turn']}: {turn['pass@1']['value']:.1%}" for turn in summary["turns"] if turn["pass@1"]]
    text = f"  after turn {', '.join(after)}" if after else ""
    if rival := summary["equal_tokens"]:
        text += f"  {rival['samples']:.1f} independent samples of as many tokens: {rival['pass@1']['value']:.1%}"
    return text


def _passes(shares: Mapping[str, Mapping[str, float]]) -> str:
    return "  ".join(f"pass@{k} {v['value']:.1%} [{v['low']:.1%}, {v['high']:.1%}]" for k, v in shares.items())


def comparison(evals: list[dict[str, Any]]) -> Table:
    """pass@1 before and after training, with 95 % intervals over problems."""
    table = Table(title=f"pass@1 on {problem_kinds(evals)} problems")
    for column in ("task", "problems", "decoding", "before", "after", "gain"):
        table.add_column(column, justify="left" if column == "task" else "right")
    pairs: dict[tuple, dict[str, Any]] = {}
    for row in with_base_tests(evals):
        if "1" in row["pass@k"]:
            key = (row["task"], row.get("split", "test"), row["problems"], row["samples"], row["temperature"])
            pairs.setdefault(key, {})[row["when"]] = row
    for (task, split, _, samples, temperature), pair in pairs.items():
        decoding = "greedy" if temperature == 0 else f"{samples} at temperature {temperature:g}"
        cells = [_cell(pair.get(when)) for when in ("before", "after")]
        gain = ""
        if {"before", "after"} <= pair.keys():
            points = 100 * (pair["after"]["pass@k"]["1"]["value"] - pair["before"]["pass@k"]["1"]["value"])
            gain = f"{points:+.1f} points"
        counts = list(dict.fromkeys(problem_count(row) for row in pair.values()))
        table.add_row(task if split == "test" else f"{task}, {split}", ", ".join(counts), decoding, *cells, gain)
    return table


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    p = row["pass@k"]["1"]
    return f"{p['value']:.1%} \\[{p['low']:.1%}, {p['high']:.1%}]"
