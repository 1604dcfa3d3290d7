"""Programs that the sandbox is sent: this package's modules as compiled code, a batch of requests on standard input,
JSON lines on a descriptor of their own: the parts of an answer, and {} at its end.

Several programs share a job only if `program.is_plain` holds for each, so that none can reach another; a program that
is not plain answers `{"alone": true}`, which asks for jobs of its own.
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
MODULES = ("rewriting", "program", "closed", "closed_run", "lazy", "lazy_run", "serve")
"""In the order in which they import each other."""
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
    for name in [name for name in sys.modules if name.startswith({parents!r}[0])]:
        del sys.modules[name]
    return module.serve
load()({kind!r})
"""


@functools.cache
def job_program(kind: Kind) -> str:
    """The text of the job that serves requests of a kind, "closed" or "open"."""
    compiled = []
    for name in MODULES:
        path = Path(__file__).with_name(f"{name}.py")
        compiled.append((f"{PACKAGE}.{name}", compile(path.read_text(), f"<{name}>", "exec", dont_inherit=True)))
    parts = PACKAGE.split(".")
    parents = tuple(".".join(parts[: n + 1]) for n in range(len(parts)))
    return LAUNCH.format(text=base64.b64encode(marshal.dumps(compiled)).decode(), kind=kind, parents=parents)


@dataclass(frozen=True)
class Answer:
    """What a job said of one program; not `whole` where the process ended before it had said all."""

    parts: Sequence[dict[str, Any]]
    whole: bool


async def ask(
    sandbox: Sandbox,
    kind: Kind,
    requests: Sequence[dict[str, Any]],
    progress: Callable[[int], None] | None = None,
    alone: bool = False,
) -> list[Answer | None]:
    """The answer to each request, in order, None where the sandbox failed.

    Args:
        alone: a job for each request.
        progress: called with about how many are answered.
    """
    answers: list[Answer | None] = [None] * len(requests)
    size = 1 if alone else BATCH[kind]
    todo = [list(range(start, min(start + size, len(requests)))) for start in range(0, len(requests), size)]
    while todo:
        left, jobs = sum(map(len, todo)), []
        for number, places in enumerate(todo):
            data = json.dumps({"single": len(places) == 1, "requests": [requests[place] for place in places]})
            jobs.append(Job(f"roboeval/{number}", "program", job_program(kind), stdin=data, limits=LIMITS[kind]))

        def finished(done: int, left: int = left, most: int = len(jobs)) -> None:
            if progress is not None:
                progress(len(requests) - left + left * done // most)

        outcomes = await sandbox.run(jobs, finished)
        todo = [_accept(places, outcome, answers) for places, outcome in zip(todo, outcomes, strict=True)]
        todo = [places for places in todo if places]
    return answers


def _accept(places: Sequence[int], outcome: Outcome, answers: list[Answer | None]) -> list[int]:
    """Put answers in their places. The first program that has none brought the process down, since those before it
    left nothing behind; returns those after it."""
    left, parts = list(places), []
    if not outcome.graded:
        return []
    for line in outcome.stdout.split("\n")[:-1]:
        try:
            part = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not left or not isinstance(part, dict):
            break
        if part:
            parts.append(part)
        else:
            answers[left.pop(0)] = Answer(parts, True)
            parts = []
    if left:
        answers[left.pop(0)] = Answer(parts, False)
    return left
