"""Ctrl-C and a full disk: one line, a non-zero exit, and a run that can go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recipes.cli.errors import Stopped
from recipes.cli.stopping import listening, phase, stop_if_asked
from recipes.records.checkpoint_folders import checkpoints
from recipes.records.jsonl import read_jsonl
from tests import warm
from tests.invariants.test_resume import GRPO, command, metrics

ROOT = Path(__file__).parents[2]
LAUNCHER = Path(sys.executable).with_name("accelerate")


def test_ctrl_c_leaves_a_run_that_goes_on(tiny_model, tmp_path):
    run = tmp_path / "run"
    process = warm.start(command(tiny_model, run, *GRPO), output=tmp_path)
    while not read_jsonl(run / "metrics.jsonl"):
        assert process.exitcode is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 0
    errors = (tmp_path / "stderr").read_text()
    assert "stopping after this step" in errors and "to resume: python" in errors and "Traceback" not in errors
    done = len(metrics(run))
    assert done < 8 and [c.name for c in checkpoints(run)][-1] == f"checkpoint-{done}"
    warm.run(command(tiny_model, run, *GRPO), check=True)
    assert [row["step"] for row in metrics(run)] == [*range(1, 9)]


SLOW_CHANNEL = """
import asyncio

from rewards.channel import ChannelResult


class Slow:
    async def score(self, problems, completions):
        await asyncio.sleep(1)
        return [ChannelResult(0.0) for _ in completions]
"""


def test_ctrl_c_under_accelerate_launch_leaves_a_run_that_goes_on(tmp_path, monkeypatch):
    """The launcher of one process ends at once and does not wait for its process; a terminal's Ctrl-C reaches both."""
    (tmp_path / "slow_channel.py").write_text(SLOW_CHANNEL)
    settings = ["task=pacman", "+task.reward.slow={_target_:slow_channel.Slow,weight:0.5}", "evaluation.samples=0"]
    settings += ["evaluation.before=false", "evaluation.greedy=false", "run.dir=run"]
    command = [sys.executable, LAUNCHER, "launch", ROOT / "recipes" / "ppo.py", *settings]
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    launcher = warm.start(command, tmp_path, tmp_path)
    while not read_jsonl(tmp_path / "run" / "metrics.jsonl"):
        assert launcher.exitcode is None, (tmp_path / "stderr").read_text()[-2000:]
        time.sleep(0.05)
    time.sleep(0.4)  # in the middle of a step of a second
    os.killpg(launcher.pid, signal.SIGINT)
    launcher.join()
    for _ in range(300):
        if "to resume: python" in (tmp_path / "stderr").read_text():
            break
        time.sleep(0.1)
    assert "to resume: python" in (tmp_path / "stderr").read_text()
    assert checkpoints(tmp_path / "run")[-1].name == f"checkpoint-{len(read_jsonl(tmp_path / 'run' / 'metrics.jsonl'))}"


@pytest.mark.parametrize(("given", "left"), [({}, "None"), ({"OMP_NUM_THREADS": "1"}, "1")])
def test_accelerates_one_thread_stays_only_where_the_user_has_asked_for_it(tmp_path, given, left):
    script = tmp_path / "script.py"
    script.write_text(
        f"import os, sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom recipes.cli.processes import use_all_cores\n"
        "asked = os.environ.get\nprint(asked('OMP_NUM_THREADS'))\nuse_all_cores()\nprint(asked('OMP_NUM_THREADS'))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"} | given
    done = subprocess.run([LAUNCHER, "launch", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["1", left]


def test_a_message_whose_reader_has_gone_ends_nothing(monkeypatch):
    """As behind `2>&1 | tee log`, which Ctrl-C ends too."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", buffering=1) as gone:
        monkeypatch.setattr(sys, "stderr", gone)
        with listening():
            os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(Stopped):
                stop_if_asked()
        monkeypatch.undo()
        with pytest.raises(BrokenPipeError):
            print("a line", file=gone, flush=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), write)  # so that closing it can write what is left


STOPS = {
    "grpo": (GRPO, [("rollout", 12), ("grading", 2), ("grpo update", 1), ("save", 1)]),
    "grpo, a batch ahead": ((*GRPO, "recipe.lookahead=1"), [("rollout", 20), ("grpo update", 1), ("save", 1)]),
    "ppo": (("ppo", "recipe.samples_per_prompt=4"), [("rollout", 12), ("grading", 1), ("ppo update", 2)]),
}
SLOW = {"grpo"}  # the one a batch ahead does the same and more; a save is the same in all


@pytest.mark.parametrize(
    ("extra", "stops"),
    [pytest.param(*stop, id=name, marks=[pytest.mark.slow] if name in SLOW else []) for name, stop in STOPS.items()],
)
def test_sigterm_in_the_middle_of_anything_costs_nothing(tiny_model, tmp_path, extra, stops):
    warm.run(command(tiny_model, tmp_path / "whole", *extra), check=True)
    cut, steps = tmp_path / "cut", []
    for place, call in stops:
        python, *rest = command(tiny_model, cut, *extra)
        stopper = [python, str(Path(__file__).with_name("stop_at.py")), place, str(call), *rest]
        done = warm.run(stopper)
        assert done.returncode == 0, done.stderr[-2000:]
        assert "to resume: python" in done.stderr and "Traceback" not in done.stderr
        steps.append(len(read_jsonl(cut / "metrics.jsonl")))
        assert not (cut / "final").exists()
    assert steps[-1] < 8 and len(set(steps)) > 1  # every stop came before the end
    warm.run(command(tiny_model, cut, *extra), check=True)
    assert metrics(cut) == metrics(tmp_path / "whole")
    (weights,) = (tmp_path / "whole" / "final").glob("*model.safetensors")
    assert (cut / "final" / weights.name).read_bytes() == weights.read_bytes()


def test_a_full_disk_is_said_and_leaves_whole_checkpoints(tiny_model, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        done = warm.run(command(tiny_model, disk / "run", *GRPO))
        assert done.returncode == 1
        assert "no space left on the disk" in done.stderr and "Traceback" not in done.stderr
        assert all((c / "trainer_state.json").exists() for c in checkpoints(disk / "run"))
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        warm.run(command(tiny_model, disk / "run", *GRPO), check=True)
        assert [row["step"] for row in metrics(disk / "run")] == [*range(1, 9)]
    finally:
        subprocess.run(["umount", disk], check=False)


def test_sigterm_again_is_the_same_request():
    """A launcher sends on each signal that it gets, and its group may have had it too."""
    cleaned = []
    with listening():
        with pytest.raises(Stopped), phase("rollout", interruptible=True):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(60)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                cleaned.append("rollout")
        with phase("save"):
            os.kill(os.getpid(), signal.SIGTERM)
            cleaned.append("save")
        with pytest.raises(Stopped):
            stop_if_asked()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
    assert cleaned == ["rollout", "save"]


def test_the_first_ctrl_c_ends_an_evaluation_and_no_step():
    with listening(), pytest.raises(Stopped), phase("evaluation", interruptible=True):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    with listening():
        with phase("rollout", interruptible=True):
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Stopped):
            stop_if_asked()
