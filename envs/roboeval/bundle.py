"""Runs simulations as sandbox jobs.

A job consists of this package's modules as compiled code and a batch of requests on standard input. It writes JSON
lines to a descriptor of its own: the parts of each answer, followed by {}. Several programs share a job only if
`program.is_plain` holds for each, so that none can access another. A program that is not plain has the answer
`{"alone": true}`, and then gets a job of its own.
"""

from __future__ import annotations

import base64
import functools
import json
import marshal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from envs.sandbox import Job, Limits, Outcome, Sandbox

Kind = Literal["closed", "open"]
PACKAGE = __name__.rpartition(".")[0]
CLOSED = ("rewriting", "program", "closed_world", "reference_world", "closed_world_run")
OPEN = ("open_world", "open_world_paths", "open_world_run")
MODULES: dict[Kind, tuple[str, ...]] = {"closed": (*CLOSED, "serve"), "open": (*CLOSED, *OPEN, "serve")}
"""Modules of a job; each imports only earlier ones. Each process loads them anew."""
LIMITS: dict[Kind, Limits] = {
    "closed": Limits(wall_s=4.0, most_wall_s=60.0, cpu_s=4.0, memory_mib=512, output_kib=1 << 14, processes=8),
    "open": Limits(wall_s=30.0, most_wall_s=120.0, cpu_s=30.0, memory_mib=512, output_kib=1 << 14, processes=8),
}
BATCH: dict[Kind, int] = {"closed": 16, "open": 4}
LAUNCH = """
import ast, base64, bisect, builtins, collections.abc, contextlib, fractions, functools, gc, heapq, io, json, marshal
import math, os, random, re, signal, string, sys, time, traceback, types
TEXT = {text!r}
def load():
    for name in {parents!r}:
        sys.modules[name] = types.ModuleType(name)
    for name, code in marshal.loads(base64.b64decode(TEXT)):
        module = sys.modules[name] = types.ModuleType(name)
        exec(code, vars(module))
    run = sys.modules[{run!r}]
    for name in [name for name in sys.modules if name.startswith({parents!r}[0])]:
        del sys.modules[name]
    return functools.partial(module.serve, run.answer)
load()()
"""


@functools.cache
def job_program(kind: Kind) -> str:
    """The program of a job that serves requests of a kind, "closed" or "open"."""
    compiled = []
    for name in MODULES[kind]:
        path = Path(__file__).with_name(f"{name}.py")
        compiled.append((f"{PACKAGE}.{name}", compile(path.read_bytes(), f"<{name}>", "exec", dont_inherit=True)))
    parts = PACKAGE.split(".")
    parents = tuple(".".join(parts[: n + 1]) for n in range(len(parts)))
    text = base64.b64encode(marshal.dumps(compiled)).decode()
    return LAUNCH.format(text=text, run=f"{PACKAGE}.{kind}_world_run", parents=parents)


@dataclass(frozen=True)
class Answer:
    """A job's answer to one request. `whole` is False if the process ended before the answer was complete."""

    parts: Sequence[dict[str, Any]]
    whole: bool


async def ask(
    sandbox: Sandbox,
    kind: Kind,
    requests: Sequence[dict[str, Any]],
    progress: Callable[[int], None] | None = None,
    alone: bool = False,
) -> list[Answer | None]:
    """The answer to each request, in order; None if the sandbox failed.

    Args:
        alone: True runs each request in a job of its own.
        progress: called with the approximate number of answered requests.
    """
    answers: list[Answer | None] = [None] * len(requests)
    size = 1 if alone else BATCH[kind]
    batches = [list(range(start, min(start + size, len(requests)))) for start in range(0, len(requests), size)]
    while batches:
        remaining, jobs = sum(map(len, batches)), []
        for number, indices in enumerate(batches):
            data = json.dumps({"single": len(indices) == 1, "requests": [requests[index] for index in indices]})
            jobs.append(Job(f"roboeval/{number}", "program", job_program(kind), stdin=data, limits=LIMITS[kind]))

        def finished(done: int, remaining: int = remaining, total: int = len(jobs)) -> None:
            if progress is not None:
                progress(len(requests) - remaining + remaining * done // total)

        outcomes = await sandbox.run(jobs, finished)
        left = [_accept(indices, outcome, answers) for indices, outcome in zip(batches, outcomes, strict=True)]
        batches = [indices for parts in left for indices in parts if indices]
    return answers


def _accept(indices: Sequence[int], outcome: Outcome, answers: list[Answer | None]) -> list[list[int]]:
    """Store the answers of one job, and return the batches of requests that must run again.

    The first program without a complete answer ended the process, or those before it left it no time, so it runs again
    alone, and those after it together. One that was alone has what it answered.
    """
    unanswered, parts = list(indices), []
    if not outcome.graded:
        return []
    for line in outcome.stdout.split("\n")[:-1]:
        try:
            part = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not unanswered or not isinstance(part, dict):
            break
        if part:
            parts.append(part)
        else:
            answers[unanswered.pop(0)] = Answer(parts, True)
            parts = []
    if unanswered and len(indices) == 1:
        answers[unanswered.pop(0)] = Answer(parts, False)
    return [unanswered[:1], unanswered[1:]]
