"""What a task says of an answer to one of its problems: the problem's tests, the verdict, the token rewards."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from typing import Any

import torch
from rich.console import Group
from rich.text import Text

from envs.sandbox import FunctionCase, Job, Sandbox
from envs.task import Problem, Task, extract_fenced
from recipes.cli.console import for_terminal
from recipes.cli.errors import UserError
from recipes.data.completions import Rollout, completion_of, completion_rows
from recipes.tools.coloured_tokens import cards
from rewards.attribution import TokenBytes
from rewards.compose import Reward

SHOWN = 12
"""Tests that are shown; some problems have hundreds."""


def problem_of(task: Task, name: str) -> Problem:
    """The problem of any split with this id, with or without the task's name before it. Raises UserError."""
    problems = {p.id: p for split in ("train", "validation", "test") for p in task.problems(split)}
    for known in (name, f"{task.name}/{name}"):
        if known in problems:
            return problems[known]
    close = difflib.get_close_matches(f"{task.name}/{name.rpartition('/')[2]}", problems, 3, 0.5)
    example = f"did you mean {' or '.join(close)}?" if close else f"its ids are like {next(iter(problems), 'none')}"
    raise UserError(f"problem={name}: {task.name} has no such problem; {example}")


def cases_of(problem: Problem) -> list[str]:
    """A problem's tests, a line each, the first SHOWN of them."""
    lines = problem.check_src.strip().splitlines() if problem.check_src else []
    for part, case in ((each, case) for each in problem.parts or (problem,) for case in each.cases):
        if isinstance(case, FunctionCase):
            given = [*map(repr, case.args), *(f"{name}={value!r}" for name, value in case.kwargs.items())]
            lines.append(f"{part.entry_point}({', '.join(given)}) == {case.expected!r}")
        else:
            lines.append(f"{case.stdin!r} prints {case.stdout!r}")
    more = len(lines) - SHOWN
    return lines if more <= 0 else [*lines[:SHOWN], f"and {more} lines more"]


def graded(
    task: Task, problem: Problem, reward: Reward, tokenizer: Any, ids: Sequence[int], ends: Sequence[int]
) -> Group:
    """An answer's tokens in the colours of their rewards, with the verdict and each channel's score, to be printed."""
    completion = completion_of(ids, TokenBytes(tokenizer), task, ends)
    [grade] = asyncio.run(reward.grade([problem], [completion]))
    [row] = completion_rows(Rollout([problem], [completion], [grade]), torch.zeros(1), 0, 1)
    return Group(*cards([row | {"step": None, "advantage": None}], None))


def printed(sandbox: Sandbox, text: str) -> Text:
    """What the program in an answer prints when the sandbox runs it: its last fenced block, without input."""
    results = extract_fenced(text)
    if results is None:
        return Text("no code block in the answer: nothing was run", "yellow")
    [outcome] = asyncio.run(sandbox.run([Job("answer", "program", text[results.start : results.end])]))
    ended = f"exit status {outcome.exit_status}" if outcome.exit_status is not None else outcome.verdict
    parts = [outcome.stdout, outcome.stderr] if outcome.stdout or outcome.stderr else ["(printed nothing)\n"]
    note = f", {outcome.note}" if outcome.note and not outcome.stderr else ""
    shown = for_terminal("".join(part if not part or part.endswith("\n") else f"{part}\n" for part in parts))
    return Text.assemble((f"run in the sandbox: {ended}{note}, {outcome.seconds:.1f} s\n", "bold"), shown.rstrip("\n"))
