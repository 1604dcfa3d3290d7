"""Problems that can teach: their references pass, their tests refuse nonsense, and the policy solves them at times."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from envs.task import Filtered, Problem, Split, Task, TaskError
from recipes.support.console import log
from recipes.support.main import UserError
from recipes.support.records import read_jsonl
from recipes.support.stages import demonstration
from rewards.channel import Completion
from rewards.compose import Grade, Reward

WRONG_FUNCTION = "def {name}(*args, **kwargs):\n    return 'a planted wrong answer'\n"
WRONG_PROGRAM = "print('a planted wrong answer')\n"


def planted_wrong(problem: Problem) -> str:
    """Code that no honest test accepts."""
    return WRONG_PROGRAM if problem.entry_point is None else WRONG_FUNCTION.format(name=problem.entry_point)


def as_answer(task: Task, problem: Problem, code: str) -> Completion:
    """Code as the answer that a policy would give to `problem`, one token a character."""
    text = demonstration(task.messages(problem), code)
    found = task.extract(text)
    return Completion(
        text=text,
        token_ids=range(len(text)),
        offsets=[(place, place + 1) for place in range(len(text))],
        code_span=None if found is None else (found.start, found.end),
        closed=found is not None and found.closed,
    )


async def examine(
    reward: Reward, task: Task, problems: Sequence[Problem]
) -> tuple[list[dict[str, Any]], list[str], list[Grade | None]]:
    """Each problem's reference and nonsense through the task's rewards; problems without a reference are left out.

    Returns the failures ({id, what, note}), the ids of problems that could not be judged, since the reference or the
    nonsense was not graded and the other did not fail, and what the references earned. Where no channel judges
    correctness nothing fails.
    """
    asked = [p for p in problems if p.reference]
    right = await reward.grade(asked, [as_answer(task, p, p.reference) for p in asked])
    wrong = await reward.grade(asked, [as_answer(task, p, planted_wrong(p)) for p in asked])
    failing = [
        {"id": problem.id, "what": what, "note": grade.verdict}
        for problem, good, bad in zip(asked, right, wrong, strict=True)
        for grade, what, wanted in ((good, "the reference fails", True), (bad, "nonsense passes", False))
        if grade is not None and grade.passed is (not wanted)
    ]
    found = {row["id"] for row in failing}
    graded = zip(asked, right, wrong, strict=True)
    unjudged = [p.id for p, good, bad in graded if (good is None or bad is None) and p.id not in found]
    return failing, unjudged, right


def invalid(task: Task, reward: Reward, split: Split) -> set[str]:
    """Ids of the problems of `split` that `examine` finds failing."""
    problems = task.problems(split)
    failing, unjudged, _ = asyncio.run(examine(reward, task, problems))
    unwanted = {row["id"] for row in failing}
    log.info("task.drop_invalid: %d of %d %s problems dropped", len(unwanted), len(problems), split)
    if unjudged:
        log.warning("task.drop_invalid: %d could not be graded and are kept: %s", len(unjudged), unjudged[:5])
    return unwanted


def training_problems(cfg: DictConfig, task: Task, reward: Reward) -> Task:
    """The task with the training problems that the configuration wants kept.

    Raises UserError where there are none, or no file of pass rates.
    """
    try:
        problems = task.problems("train")
        if not problems:
            raise UserError(f"task={cfg.task.name} has no problems to train on: see task.env.train_size, or its like")
        unwanted: set[str] = set()
        if cfg.task.drop_invalid:
            unwanted |= invalid(task, reward, "train")
        if cfg.task.pass_rates is not None:
            hard = outside(cfg.task.pass_rates, *cfg.task.pass_rate_range)
            log.info("task.pass_rates: %d training problems outside %s", len(hard), list(cfg.task.pass_rate_range))
            unwanted |= hard
        if all(problem.id in unwanted for problem in problems):
            raise UserError(
                f"none of {len(problems)} training problems of task={cfg.task.name} is left: widen "
                "task.pass_rate_range or leave out task.drop_invalid"
            )
        return Filtered(task, lambda problem: problem.id not in unwanted) if unwanted else task
    except TaskError as error:
        raise UserError(str(error)) from None


def outside(path: str, low: float, high: float) -> set[str]:
    """Ids of the problems in a pass_rates.jsonl whose rate is not between `low` and `high`."""
    rows = read_jsonl(Path(path))
    if not rows:
        raise UserError(
            f"no pass rates in {path} (task.pass_rates): python recipes/check.py ... pass_rate=8 makes them"
        )
    return {row["id"] for row in rows if not low <= row["passed"] / row["samples"] <= high}
