"""Which problems are fit to train on: the reference passes, nonsense fails, and the policy sometimes solves them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from envs.task import Filtered, Problem, Split, Task, TaskError
from recipes.cli.console import log
from recipes.cli.errors import UserError
from recipes.evaluation.sharing import gathered, own_share, rank
from recipes.records.jsonl import named_rows, read_jsonl, write_jsonl
from rewards.audit.answers import as_answer
from rewards.compose import Grade, Reward

DROPPED = "dropped.jsonl"
"""File in a run directory with the problems that task.drop_invalid left out, and why."""
WRONG_FUNCTION = "def {name}(*args, **kwargs):\n    return 'a planted wrong answer'\n"
WRONG_PROGRAM = "print('a planted wrong answer')\n"


def planted_wrong(problem: Problem) -> str:
    """Code that sound tests reject."""
    return WRONG_PROGRAM if problem.entry_point is None else WRONG_FUNCTION.format(name=problem.entry_point)


async def judges(reward: Reward, task: Task) -> bool | None:
    """Whether a channel says of an answer to the first training problem that it is right or wrong; None where the
    answer could not be graded."""
    problem = task.problems("train")[0]
    [grade] = await reward.grade([problem], [as_answer(task, problem, planted_wrong(problem))])
    return None if grade is None else grade.passed is not None


async def examine(
    reward: Reward, task: Task, problems: Sequence[Problem]
) -> tuple[list[dict[str, Any]], list[str], list[Grade | None]]:
    """Grade the reference of each problem that has one, and a nonsense answer, by the task's own rewards; of a problem
    with parts a nonsense answer to each.

    Returns:
        The failures ({id, what, note}); none where no channel judges correctness.
        Ids of problems without a failure whose reference or nonsense could not be graded.
        The grades of the references.
    """
    problems = [p for p in problems if p.reference]
    references = await reward.grade(problems, [as_answer(task, p, p.reference) for p in problems])
    asked = [part for problem in problems for part in problem.parts or (problem,)]
    nonsense = iter(await reward.grade(asked, [as_answer(task, p, planted_wrong(p)) for p in asked]))
    failures: list[dict[str, Any]] = []
    ungraded: list[str] = []
    for problem, right in zip(problems, references, strict=True):
        before = len(failures)
        wrong = [next(nonsense) for _ in problem.parts or (problem,)]
        if right is not None and right.passed is False:
            failures.append({"id": problem.id, "what": "the reference fails", "note": _why(right)})
        if accepted := [grade for grade in wrong if grade is not None and grade.passed is True]:
            failures.append({"id": problem.id, "what": "nonsense passes", "note": accepted[0].verdict})
        if len(failures) == before and (right is None or None in wrong):
            ungraded.append(problem.id)
    return failures, ungraded, references


def _why(grade: Grade) -> str:
    """What the channels that do not accept an answer say of it."""
    notes = [result.note for result in grade.results.values() if result.passed is False and result.note]
    return ": ".join([grade.verdict, "; ".join(notes)]) if notes else grade.verdict


def invalid(task: Task, reward: Reward, split: Split, folder: Path) -> set[str]:
    """Ids of the problems of `split` with a failure that `examine` reports; all processes call it together.

    Each process grades some of the problems, and all get the same ids. They are written to the run directory `folder`,
    so that a run that is resumed leaves out the same: a reference may time out on a busy machine.
    """
    problems, file = task.problems(split), folder / DROPPED
    if stored := gathered([read_jsonl(file)] if file.exists() else []):
        return {row["id"] for row in stored[0]}
    own_failures, own_ungraded, _ = asyncio.run(examine(reward, task, own_share(problems)))
    failures, ungraded = gathered(own_failures), gathered(own_ungraded)
    if rank() == 0:
        write_jsonl(file, failures)
    failing = {row["id"] for row in failures}
    log.info("task.drop_invalid: %d of %d %s problems dropped", len(failing), len(problems), split)
    if ungraded:
        log.warning("task.drop_invalid: %d could not be graded and are kept: %s", len(ungraded), ungraded[:5])
    return failing


def training_problems(cfg: DictConfig, task: Task, reward: Reward, folder: Path) -> Task:
    """The task without the training problems that task.drop_invalid and task.pass_rates leave out. folder: see invalid.

    Raises UserError where no problem remains, or task.pass_rates has no pass rates.
    """
    try:
        problems = task.problems("train")
        if not problems:
            raise UserError(f"task={cfg.task.name} has no problems to train on; see the task's settings (task.env)")
        dropped: set[str] = set()
        if cfg.task.drop_invalid:
            dropped |= invalid(task, reward, "train", folder)
        if cfg.task.pass_rates is not None:
            outside = outside_range(cfg.task.pass_rates, *cfg.task.pass_rate_range)
            log.info("task.pass_rates: %d training problems outside %s", len(outside), list(cfg.task.pass_rate_range))
            dropped |= outside
        if all(problem.id in dropped for problem in problems):
            raise UserError(
                f"none of {len(problems)} training problems of task={cfg.task.name} is left; widen "
                "task.pass_rate_range or set task.drop_invalid=false"
            )
        return Filtered(task, lambda problem: problem.id not in dropped) if dropped else task
    except TaskError as error:
        raise UserError(str(error)) from None


def outside_range(path: str, low: float, high: float) -> set[str]:
    """Ids of the problems whose pass rate is below `low` or above `high`. path: a pass_rates.jsonl, or a run directory
    with one. Raises UserError where there is none."""
    writer = "recipes/check.py with pass_rate=8"
    file, rows = named_rows("task.pass_rates", path, "pass_rates.jsonl", ("id", "passed", "samples"), writer)
    if not rows:
        raise UserError(f"task.pass_rates={path}: no pass rates in {file}; {writer} writes them")
    return {row["id"] for row in rows if not low <= row["passed"] / row["samples"] <= high}
