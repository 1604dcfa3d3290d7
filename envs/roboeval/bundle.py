"""Programs that the sandbox is sent: this package's modules as compiled code, a batch of requests on standard input,
one JSON line an answer on a descriptor that programs do not find under a number of their own.

Several programs share a job only if `program.is_plain` holds for each, so that none can reach another; a program that
is not plain answers `{"alone": true}`, which asks for jobs of its own.
"""

from __future__ import annotations

import base64
import functools
import json
import marshal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from envs.sandbox import Job, Limits, Outcome, Sandbox

PACKAGE = "envs.roboeval"
MODULES = ("rewriting", "program", "closed", "closed_run", "lazy", "lazy_run", "serve")
"""In the order in which they import each other."""
LIMITS = {
    "closed": Limits(wall_s=4.0, most_wall_s=60.0, cpu_s=4.0, memory_mib=512, output_kib=1 << 14, processes=8),
    "open": Limits(wall_s=30.0, most_wall_s=120.0, cpu_s=30.0, memory_mib=512, output_kib=1 << 14, processes=8),
}
BATCH = {"closed": 16, "open": 4}
CRASH: dict[str, Any] = {"crash": "killed"}
LAUNCH = """
import ast, base64, bisect, builtins, collections.abc, io, json, marshal, math, os, random, re, signal, string, sys
import time, traceback, types
TEXT = {text!r}
def load():
    for name in ("envs", "envs.roboeval"):
        sys.modules[name] = types.ModuleType(name)
    for name, code in marshal.loads(base64.b64decode(TEXT)):
        module = sys.modules[name] = types.ModuleType(name)
        exec(code, vars(module))
    for name in [name for name in sys.modules if name.partition(".")[0] == "envs"]:
        del sys.modules[name]
    return module.serve
load()({kind!r})
"""


@functools.cache
def job_program(kind: str) -> str:
    """The text of the job that serves requests of a kind, "closed" or "open"."""
    compiled = []
    for name in MODULES:
        path = Path(__file__).with_name(f"{name}.py")
        compiled.append((f"{PACKAGE}.{name}", compile(path.read_text(), f"<{name}>", "exec", dont_inherit=True)))
    return LAUNCH.format(text=base64.b64encode(marshal.dumps(compiled)).decode(), kind=kind)


async def ask(
    sandbox: Sandbox, kind: str, requests: Sequence[dict[str, Any]], progress: Callable[[int], None] | None = None
) -> list[dict[str, Any] | None]:
    """The answer to each request, in order; CRASH for a program that brings its process down, None where the sandbox
    failed. `progress` is called with about how many are answered."""
    answers: list[dict[str, Any] | None] = [None] * len(requests)
    size = BATCH[kind]
    todo = [list(range(start, min(start + size, len(requests)))) for start in range(0, len(requests), size)]
    while todo:
        left, jobs = sum(map(len, todo)), []
        for number, places in enumerate(todo):
            jobs.append(_job(kind, number, [requests[place] for place in places]))

        def finished(done: int, left: int = left, most: int = len(jobs)) -> None:
            if progress is not None:
                progress(len(requests) - left + left * done // most)

        following: list[list[int]] = []
        for places, outcome in zip(todo, await sandbox.run(jobs, finished), strict=True):
            if outcome.graded:
                following += _accept(places, _lines(outcome, len(places)), answers)
        todo = following
    return answers


async def ask_alone(
    sandbox: Sandbox, kind: str, requests: Sequence[dict[str, Any]], progress: Callable[[int], None] | None = None
) -> list[dict[str, Any] | None]:
    """The same with a job for each request."""
    jobs = [_job(kind, number, [request]) for number, request in enumerate(requests)]
    answers: list[dict[str, Any] | None] = [None] * len(jobs)
    for place, outcome in enumerate(await sandbox.run(jobs, progress)):
        if outcome.graded:
            _accept([place], _lines(outcome, 1), answers)
    return answers


def _job(kind: str, number: int, requests: list[dict[str, Any]]) -> Job:
    data = json.dumps({"single": len(requests) == 1, "requests": requests})
    return Job(f"roboeval/{number}", "program", job_program(kind), stdin=data, limits=LIMITS[kind])


def _lines(outcome: Outcome, most: int) -> list[dict[str, Any]]:
    """Complete answers; what comes after one that is unreadable is not believed."""
    found: list[dict[str, Any]] = []
    for line in outcome.stdout.split("\n")[:-1][:most]:
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(answer, dict):
            break
        found.append(answer)
    return found


def _accept(
    places: list[int], found: Iterable[dict[str, Any]], answers: list[dict[str, Any] | None]
) -> list[list[int]]:
    """Put answers in their places; returns the batches that have to be asked again."""
    again: list[list[int]] = []
    answered = 0
    for place, answer in zip(places, found, strict=False):
        answered += 1
        answers[place] = answer
    left = places[answered:]
    if left and len(places) == 1:
        answers[left[0]] = CRASH
    elif left:
        again.append(left[:1])
        again += [left[1:]] if left[1:] else []
    return again
