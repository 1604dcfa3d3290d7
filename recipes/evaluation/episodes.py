"""Evaluate a policy in episodes of several turns: pass@1 after each turn, beside independent samples at equal tokens.

The rival spends the tokens that the policy writes in an episode on independent first answers instead. It keeps one that
the environment has nothing to say about (the tests that the prompt shows pass), else any of them. What it would pass is
computed, not drawn, from an evaluation's own first turns: with n of them, a of which pass the shown tests, m samples
have such a one with probability 1 - C(n-a, m) / C(n, m) (pass_at_k.py). Where m is no whole number, the values next
to it are averaged. Each episode's tokens are spent on the first turns of the others: a problem's episodes that failed
wrote more tokens, so on their own first turns they would buy more answers just where these fail. Tokens that the
environment says are read, not written: `reply_tokens` counts them apart.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from statistics import fmean
from typing import Any

import torch
from transformers import PreTrainedModel

from envs.episode import Episode
from envs.task import Problem, Split, Task
from recipes.data.chat_tokens import prompt_ids
from recipes.data.episodes import turn_grades, turns_of, written_tokens
from recipes.evaluation.base_tests import BASE, base_verdicts
from recipes.evaluation.held_out import Evaluation, evaluation_sampler, grade_columns, how_decoded, measures_of
from recipes.evaluation.pass_at_k import bootstrap, pass_at_each, pass_at_k
from recipes.evaluation.pictures import with_pictures
from recipes.evaluation.sharing import Answer, of_all_processes, own_seed, own_share
from recipes.sampling.background_grading import Grader
from recipes.sampling.episodes import EpisodeBatch, Episodes
from recipes.sampling.generate import Decoding, end_ids
from recipes.sampling.vllm import ServerSampler
from rewards.channel import Completion
from rewards.compose import Grade, Reward

FEWEST = 3
"""Episodes of a problem that the rival needs: one whose tokens are spent, and two answers for them."""


def evaluate_episodes(
    policy: PreTrainedModel,
    tokenizer: Any,
    task: Task,
    reward: Reward,
    runner: asyncio.Runner,
    decoding: Decoding,
    samples: int,
    episode: Episode,
    k: Sequence[int] = (1,),
    split: Split = "test",
    rows_at_once: int = 96,
    seed: int = 0,
    drawn: int = 0,
    server: ServerSampler | None = None,
) -> Evaluation:
    """As `evaluate_policy`; what it measures is of the last turn. The summary also has `turns`, a list with pass@1
    after each turn, and `equal_tokens`, the rival; each row has its `turns`."""
    started = time.perf_counter()
    samples = 1 if decoding.temperature == 0 else samples
    problems = task.problems(split)
    own = own_share(problems)
    grader = Grader(reward, 8)
    try:
        own_rows, own_grades = _play(
            policy, tokenizer, task, own, decoding, samples, episode, grader, rows_at_once, seed, server
        )
    finally:
        grader.close()
    last = [turns_of(row)[-1].answer for row in own_rows]
    final = [turn_grades(*pair)[-1] for pair in zip(own_rows, own_grades, strict=True)]
    repeated = [problem for problem in own for _ in range(samples)]
    base = runner.run(base_verdicts(reward, repeated, last, final))
    played = of_all_processes([*map(Answer, own_rows, own_grades, base)], samples)
    rows_of = [answer.completion for answer in played]
    turns = [turns_of(row) for row in rows_of]
    by_turn = [turn_grades(answer.completion, answer.grade) for answer in played]
    answers = [
        Answer(own[-1].answer, grades[-1], answer.base)
        for own, grades, answer in zip(turns, by_turn, played, strict=True)
    ]
    rows = _rows(problems, samples, answers, rows_of, by_turn)
    summary = {"task": task.name, "split": split, "problems": len(problems)}
    summary |= {"samples": samples, **how_decoded(decoding)}
    summary |= measures_of(problems, answers, samples, k)
    summary |= {
        "mean_tokens": fmean(map(written_tokens, rows_of)),
        "reply_tokens": fmean(sum(len(turn.reply_ids) for turn in own) for own in turns),
        "turns": [_after(number, by_turn, turns, samples) for number in range(1, episode.turns + 1)],
        "equal_tokens": equal_tokens(rows_of, by_turn, samples),
        "seconds": time.perf_counter() - started,
    }
    return Evaluation(summary, with_pictures(rows, [answer.grade for answer in answers], drawn))


def _rows(
    problems: Sequence[Problem],
    samples: int,
    answers: Sequence[Answer],
    rows_of: Sequence[Completion],
    by_turn: Sequence[Sequence[Grade | None]],
) -> list[dict[str, Any]]:
    """A row of samples.jsonl for each episode; its verdict is that of the last turn."""
    based = any(BASE in problem.data for problem in problems)
    return [
        {
            "task_id": problems[i // samples].id,
            "sample": i % samples,
            "completion": answers[i].completion.text,
            "tokens": written_tokens(row),
            "finished": row.finished,
            **grade_columns(answers[i].grade),
            **({"base_passed": answers[i].base} if based else {}),
            "turns": _turn_columns(row, by_turn[i]),
        }
        for i, row in enumerate(rows_of)
    ]


def _play(
    policy: PreTrainedModel,
    tokenizer: Any,
    task: Task,
    problems: Sequence[Problem],
    decoding: Decoding,
    samples: int,
    episode: Episode,
    grader: Grader,
    rows_at_once: int,
    seed: int,
    server: ServerSampler | None,
) -> tuple[list[Completion], list[Grade | None]]:
    """Episodes by problem, with their grades; prompts of similar length are played together."""
    prompts = [prompt_ids(task, problem, tokenizer) for problem in problems]
    order = sorted(range(len(problems)), key=lambda i: len(prompts[i]))
    most = min(samples, rows_at_once)
    counts = [min(most, samples - drawn) for drawn in range(0, samples, most)]
    size = rows_at_once // most
    generator = torch.Generator("cpu" if server else policy.device).manual_seed(own_seed(seed))
    episodes = Episodes(episode, task, tokenizer, {}, end_ids(tokenizer, policy), grader)
    sampler = evaluation_sampler(policy, tokenizer, decoding, episodes.complete, server)
    played: list[tuple[EpisodeBatch, list[int]]] = []
    for first in range(0, len(order), size):
        part = order[first : first + size]
        for count in counts:
            batch = episodes.batch()
            played.append((batch, [i for i in part for _ in range(count)]))
            with ExitStack() as stack:
                conversation = stack.enter_context(sampler.conversation(policy, generator))
                batch.play(conversation, [problems[i] for i in played[-1][1]], [prompts[i] for i in part], count)
    by_problem: list[list[tuple[Completion, Grade | None]]] = [[] for _ in problems]
    for batch, places in played:
        for i, row, grade in zip(places, *batch.collect(), strict=True):
            by_problem[i].append((row, grade))
    answers = [answer for own in by_problem for answer in own]
    return [row for row, _ in answers], [grade for _, grade in answers]


def _turn_columns(row: Completion, grades: Sequence[Grade | None]) -> list[dict[str, Any]]:
    """Each turn of an episode: what was heard before it, the answer, its tokens and its verdict."""
    columns, heard = [], ""
    for turn, grade in zip(turns_of(row), grades, strict=True):
        judged = {name: grade_columns(grade)[name] for name in ("verdict", "passed", "reward")}
        answer = turn.answer
        written = {"completion": answer.text, "tokens": len(answer.token_ids), "finished": answer.finished}
        columns.append({"heard": heard, **written, **judged})
        heard = turn.reply
    return columns


def _passed(grades: Sequence[Grade | None], number: int) -> bool | None:
    """Whether what an episode stood at after a turn passes."""
    grade = grades[min(number, len(grades)) - 1]
    return None if grade is None else grade.passed


def _after(number: int, by_turn: Sequence[Any], turns: Sequence[Any], samples: int) -> dict[str, Any]:
    """pass@1 after a turn, the share of episodes that have it, its mean tokens."""
    passed = [_passed(grades, number) for grades in by_turn]
    groups = [passed[i : i + samples] for i in range(0, len(passed), samples)]
    judged = [[bool(each) for each in group] for group in groups if None not in group]
    lengths = [len(own[number - 1].answer.token_ids) for own in turns if len(own) >= number]
    return {
        "turn": number,
        "pass@1": pass_at_each(judged).get("1"),
        "share": len(lengths) / len(turns),
        "mean_tokens": fmean(lengths) if lengths else 0.0,
    }


def equal_tokens(
    rows: Sequence[Completion], by_turn: Sequence[Sequence[Grade | None]], samples: int
) -> dict[str, Any] | None:
    """The rival's pass@1 and that of the best of its samples, means over the problems with an interval; None with fewer
    than FEWEST episodes of a problem, or where no problem's first turns were all graded.

    rows, by_turn: episodes, `samples` of each problem side by side, and the grades of their turns. `samples` of the
    result: how many independent answers the tokens pay for, on average; at most one fewer than were drawn.
    """
    if samples < FEWEST:
        return None
    filtered, best, bought = [], [], []
    for at in range(0, len(rows), samples):
        group, grades = rows[at : at + samples], by_turn[at : at + samples]
        first = [_passed(each[:1], 1) for each in grades]
        if None in first:
            continue
        fine = [len(turns_of(row)) == 1 for row in group]
        firsts = [len(turns_of(row)[0].answer.token_ids) for row in group]
        count, passes, one_of = rival(fine, first, firsts, list(map(written_tokens, group)))
        bought.append(count)
        filtered.append(passes)
        best.append(one_of)
    if not bought:
        return None
    return {"samples": fmean(bought), "pass@1": _interval(filtered), "best": _interval(best)}


def rival(
    fine: Sequence[bool], passed: Sequence[bool | None], firsts: Sequence[int], written: Sequence[int]
) -> tuple[float, float, float]:
    """Of one problem's episodes, FEWEST or more: how many first answers their tokens buy, the probability that the one
    that is kept passes, and the probability that any passes. Means over the episodes, each beside the others' answers.

    fine: the episode ended after its first turn. passed: that turn's verdict. firsts, written: tokens of the first turn
    and of all turns.

    Example: every turn has 10 tokens; the first episode is right at once, the two others fail and have a second turn.
    rival([True, False, False], [True, False, False], [10, 10, 10], [10, 20, 20]) is (5/3, 2/3, 2/3). The first
    episode's 10 tokens buy one answer of the others, and both are wrong: 0. The 20 tokens of each other episode buy
    both answers beside its own; the right one passes the shown tests and is kept: 1.
    """
    results = []
    for own in range(len(fine)):
        others = [i for i in range(len(fine)) if i != own]
        shown, right = [fine[i] for i in others], [bool(passed[i]) for i in others]
        more = written[own] - firsts[own]  # tokens behind the first turn
        count = min(float(len(others)), 1 + more / max(fmean(firsts[i] for i in others), 1.0))
        kept = _between(count, partial(_filtered, shown, right))
        results.append((count, kept, _between(count, partial(pass_at_k, len(others), sum(right)))))
    count, kept, any_of = map(fmean, zip(*results, strict=True))
    return count, kept, any_of


def _filtered(fine: Sequence[bool], passed: Sequence[bool | None], m: int) -> float:
    """Probability that of m of these answers, drawn without replacement, the one that is kept passes."""
    shown = [bool(p) for f, p in zip(fine, passed, strict=True) if f]
    others = [bool(p) for f, p in zip(fine, passed, strict=True) if not f]
    some = pass_at_k(len(fine), len(shown), m)
    return (some * fmean(shown) if shown else 0.0) + ((1 - some) * fmean(others) if others else 0.0)


def _between(count: float, value: Any) -> float:
    """The value at a number of samples that may lie between two whole ones."""
    low, share = math.floor(count), count - math.floor(count)
    return value(low) if not share else (1 - share) * value(low) + share * value(low + 1)


def _interval(values: Sequence[float]) -> dict[str, float]:
    low, high = bootstrap(values)
    return {"value": fmean(values), "low": low, "high": high}
