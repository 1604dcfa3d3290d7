"""`python SCRIPT ARGUMENTS` in a process of its own that has what recipes import already: torch and TRL alone take as
long as a tiny model's whole run. A clean process imports them once, does what tests/warm_start.py says, and forks for
each command."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import unittest.mock
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

ROOT = str(Path(__file__).parents[1])
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "tests.warm",
        "recipes.grpo",
        "recipes.run.lifecycle",
        "recipes.tools.memory.planner",
        "recipes.tools.report.page",
        "recipes.trainers.dense_grpo",
        "recipes.trainers.dense_ppo",
        "trl.trainer.sft_trainer",
        "trl.trainer.dpo_trainer",
        "deepspeed",  # which accelerate asks for
        "matplotlib.backends.backend_svg",
        "matplotlib.figure",
        "envs.basics.families",
        "rewards.form",
        "rewards.unit_tests",
        "rewards.analysis.held_out_tests",
        "tests.warm_start",
    ]
)


def start(command: Sequence[object], cwd: Path | None = None, output: Path | None = None) -> BaseProcess:
    """The command in a session of its own; `output`: a folder for what it says, files stdout and stderr."""
    arguments = list(map(str, command))
    assert arguments[0] == sys.executable, arguments
    here = dict(os.environ)
    process = CONTEXT.Process(target=_become, args=(arguments[1:], str(cwd or Path.cwd()), str(output or ""), here))
    with unittest.mock.patch.dict(os.environ, PYTHONPATH=ROOT):  # the process that forks finds the repository there
        process.start()
    return process


def run(command: Sequence[object], cwd: Path | None = None, check: bool = False) -> subprocess.CompletedProcess[str]:
    """As subprocess.run does with its output captured as text."""
    with tempfile.TemporaryDirectory() as folder:
        process = start(command, cwd, Path(folder))
        process.join()
        message = [(Path(folder) / name).read_text() for name in ("stdout", "stderr")]
    done = subprocess.CompletedProcess(command, process.exitcode, *message)
    if check and done.returncode:
        raise AssertionError(f"exit status {done.returncode}: {done.stderr[-3000:]}")
    return done


def _become(argv: list[str], cwd: str, output: str, environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.setsid()
    os.chdir(cwd)
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(Path(output) / name if output else os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = argv
    added = [place for place in environment.get("PYTHONPATH", "").split(os.pathsep) if place]
    own = [place for place in sys.path if place not in ("", ROOT)]
    sys.path = [str(Path(argv[0]).resolve().parent), *added, *own]
    runpy.run_path(argv[0], run_name="__main__")
