"""Starts that cannot work are one line: from a checkpoint that was cut, of a model that cannot read the task."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recipes.records.checkpoint_folders import latest_checkpoint
from recipes.records.jsonl import read_jsonl
from tests import warm

ROOT = Path(__file__).parents[2]
SHORT = ("recipe.trl.max_steps=2", "recipe.trl.save_steps=2", "evaluation.samples=0", "evaluation.greedy=false")


def run(name: str, folder: Path, *overrides: str) -> subprocess.CompletedProcess:
    command = [sys.executable, ROOT / "recipes" / f"{name}.py", f"run.dir={folder}", *SHORT, *overrides]
    return warm.run(command, cwd=folder.parent)


def refusal(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 2, done.stderr[-2000:]
    (line,) = done.stderr.splitlines()
    return line


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A finished run of two steps on pacman, whose model knows six tokens."""
    folder = tmp_path_factory.mktemp("finished") / "moves"
    done = run("reinforce", folder, "task=pacman")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "pass@1 on held-out problems" not in done.stdout  # nothing was evaluated, so there is no table
    return folder


@pytest.fixture
def moves(finished, tmp_path) -> Path:
    """A copy of it, to spoil."""
    return shutil.copytree(finished, tmp_path / "moves")


def test_what_is_not_measured_is_not_reported(moves):
    """Without a reference policy there is no KL."""
    rows = read_jsonl(moves / "metrics.jsonl")
    assert len(rows) == 2 and not any("objective/kl" in row for row in rows)


def test_a_checkpoint_that_was_cut_is_named(moves):
    newest = latest_checkpoint(moves)
    assert newest is not None
    file = newest / "optimizer.pt"
    file.write_bytes(file.read_bytes()[:100])
    told = refusal(run("reinforce", moves, "task=pacman", "recipe.trl.max_steps=3"))
    assert f"{file} is not whole: remove {newest} to go on from the checkpoint before it" in told


def test_weights_that_were_cut_are_named_before_they_load(moves, tmp_path):
    file = moves / "final" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    told = refusal(run("grpo", tmp_path / "next", "task=pacman", f"adapter={moves}"))
    assert "model.safetensors is not whole" in told and not (tmp_path / "next").exists()


def test_a_model_that_cannot_read_the_task_is_named(moves, tmp_path):
    for recipe, asked in (("grpo", f"adapter={moves}"), ("eval", f"model.path={moves / 'final'}")):
        how = ["evaluation.greedy=true"] if recipe == "eval" else []
        command = [sys.executable, ROOT / "recipes" / f"{recipe}.py", "task=basics", "task.also_evaluate=[]", asked]
        done = warm.run([*command, *how, f"run.dir={tmp_path / 'next'}"], cwd=tmp_path)
        assert "its tokenizer cannot read a prompt of task=basics" in refusal(done)
        assert not (tmp_path / "next").exists()
    told = refusal(run("sft", tmp_path / "next", "task=pacman"))
    assert "cannot read an answer to imitate of task=pacman" in told and not (tmp_path / "next").exists()
