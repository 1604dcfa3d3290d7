"""The same 1,000 programs get the same verdicts as root and as another user, in both tiers, on a busy machine, and with
an interpreter below /tmp."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from interpreters import venv

from envs.sandbox import Job

ROOT = Path(__file__).parents[3]
PROGRAMS = 1000
GRADE = """
import asyncio, json, random, sys
from envs.sandbox import LocalSandbox
sys.path[:0] = ["tests/envs/sandbox", "."]
from test_same_everywhere import programs

async def run():
    sandbox = LocalSandbox(2, tier=sys.argv[1])
    try:
        return [[o.id, o.verdict, o.passed, o.note] for o in await sandbox.run(programs())]
    except RuntimeError as error:
        return str(error)
    finally:
        await sandbox.close()

print(json.dumps(asyncio.run(run())))
"""
"""Prints identity, verdict, number of passed cases and note of each program, or why the tier is refused."""
BY_SEVERAL_LIMITS = ("fork", "threads", "files", "deep", "output", "memory", "kill", "disk", "outlive")
"""Hostile programs of the stress test that meet another limit first, by tier and machine: they only never pass."""


def programs() -> list[Job]:
    """Honest and hostile programs of the stress test, and a wrong one for each of some answers."""
    import random

    from envs.sandbox import FunctionCase
    from tests.bench.stress_sandbox import jobs

    made = jobs(0, PROGRAMS - 100, random.Random(1))
    for n in range(100):
        cases = tuple(FunctionCase((m,), m + 1) for m in range(4))
        made.append(Job(f"wrong/{n}", "function", f"def f(x): return x + (x % 4 != {n % 4})", "f", cases))
    return made


def as_root(source: str, *arguments: str, python: str = sys.executable, variables: dict[str, str] | None = None) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(variables or {})}
    done = subprocess.run(
        [python, "-c", source, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_verdicts_do_not_depend_on_the_machine(as_ordinary_user):
    runs: dict[str, Callable[[], str]] = {
        "full": lambda: as_root(GRADE, "full"),
        "landlock": lambda: as_root(GRADE, "landlock"),
        "another user, full": lambda: as_ordinary_user(GRADE, "full"),
        "another user, landlock": lambda: as_ordinary_user(GRADE, "landlock"),
        "busy, full": lambda: busy("full"),
        "busy, landlock": lambda: busy("landlock"),
        "below /tmp, full": lambda: below_tmp("full"),
        "below /tmp, landlock": lambda: below_tmp("landlock"),
    }
    answers = {name: json.loads(run().splitlines()[-1]) for name, run in runs.items()}
    refused = {name: answer for name, answer in answers.items() if isinstance(answer, str)}
    graded = {name: answer for name, answer in answers.items() if name not in refused}
    print(f"graded: {', '.join(graded)}; refused: {refused}")
    if len(graded) < 2:
        pytest.skip(f"this machine does not allow it: {refused}")
    first, *others = graded
    assert len(graded[first]) == PROGRAMS
    assert {row[0]: row for row in graded[first] if row[0].startswith("ok/") and row[1] != "pass"} == {}
    assert {row[2] for row in graded[first] if row[0].startswith("wrong/")} == {3}
    for other in others:
        pairs = zip(map(compared, graded[first]), map(compared, graded[other]), strict=True)
        assert [pair for pair in pairs if pair[0] != pair[1]] == [], f"{first} and {other}"


def compared(row: list) -> tuple:
    """What has to be equal of a program's outcome."""
    name, verdict, passed, _ = row
    if name.startswith("hostile/") and name.split("/")[1] in BY_SEVERAL_LIMITS:
        return name, verdict in ("pass", "error"), passed
    return name, verdict, passed


def busy(tier: str) -> str:
    """With four spinning processes on each processor."""
    spin = [sys.executable, "-c", "while True: pass"]
    crowd = [subprocess.Popen(spin, start_new_session=True) for _ in range(4 * len(os.sched_getaffinity(0)))]
    try:
        return as_root(GRADE, tier)
    finally:
        for process in crowd:
            process.kill()
            process.wait()


def below_tmp(tier: str) -> str:
    with tempfile.TemporaryDirectory(prefix="same-", dir="/tmp") as folder:
        environment = venv(Path(folder))
        return as_root(GRADE, tier, python=environment.python, variables=environment.variables)
