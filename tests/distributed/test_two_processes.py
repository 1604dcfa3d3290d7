"""Two processes make the update that one makes with twice the batch, and leave one run directory."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest import mock

import pytest
import torch
from safetensors.torch import load_file

from recipes.records.jsonl import read_jsonl
from tests import warm

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.distributed


def overrides(tiny_model: Path, folder: Path, *extra: str) -> list[str]:
    return [
        f"model.path={tiny_model}",
        "model.lora_rank=0",
        "hardware.precision=fp32",
        "recipe.trl.max_steps=2",
        "recipe.trl.warmup_steps=0",
        "recipe.trl.lr_scheduler_type=constant",
        "recipe.prompts_per_step=2",
        "task.max_new_tokens=8",
        # the position in the step decides the reward, so a group differs although its answers are equal
        "+task.reward.turns._target_=tests.recipes.channels.EveryOther",
        "+task.reward.turns.weight=1.0",
        "evaluation.samples=0",
        "evaluation.greedy=false",
        "task.also_evaluate=[]",
        "hardware.optimizer=sgd",
        "recipe.trl.learning_rate=1.0",
        f"run.dir={folder}",
        *extra,
    ]


def train_once_and_twice(recipe: str, tiny_model: Path, tmp_path: Path, *extra: str, rows: int = 4) -> None:
    """The same run by one process, in `one`, and by two with half of the batch each, in `two`. rows: of each of two."""
    script = str(ROOT / "recipes" / f"{recipe}.py")
    # the likeliest token: both must sample the same answers, whatever their random states
    extra = (*extra, f"recipe.{'trl.' if recipe == 'grpo' else ''}top_p=0.000001")
    one, two = (
        overrides(tiny_model, tmp_path / name, f"hardware.rows_per_device={own}", *extra)
        for name, own in (("one", 2 * rows), ("two", rows))
    )
    run_once_and_twice([sys.executable, script, *one], [sys.executable, script, *two], tmp_path)


def run_once_and_twice(single: list[str], double: list[str], tmp_path: Path) -> None:
    done = warm.run(single, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-8000:]
    for rank, process in enumerate(launch(double, tmp_path)):
        process.join()
        assert process.exitcode == 0, (tmp_path / f"rank{rank}" / "stderr").read_text()[-8000:]


def launch(command: list[str], folder: Path) -> list[BaseProcess]:
    """The command in two processes with what a launcher sets, which costs less than two new interpreters.

    `accelerate launch` itself is run below, by test_two_processes_share_the_problems, and in test_zero.py.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = []
    for rank in "01":
        place = folder / f"rank{rank}"
        place.mkdir()
        own = {"RANK": rank, "LOCAL_RANK": rank, "ACCELERATE_USE_CPU": "true", "ACCELERATE_MIXED_PRECISION": "no"}
        with mock.patch.dict(os.environ, {**common, **own}):
            processes.append(warm.start(command, folder, place))
    return processes


def same_weights(tiny_model: Path, tmp_path: Path) -> None:
    before = load_file(tiny_model / "model.safetensors")
    one = load_file(tmp_path / "one" / "final" / "model.safetensors")
    two = load_file(tmp_path / "two" / "final" / "model.safetensors")
    assert any(not torch.equal(before[name], one[name]) for name in one)
    for name in one:
        assert torch.allclose(one[name], two[name], atol=1e-5), name


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "lopsided", [pytest.param(False, marks=SLOW), True], ids=["both learn", "one has only degenerate groups"]
)
def test_a_grpo_step_equals_one_process_with_twice_the_batch(tiny_model, tmp_path, lopsided):
    extra = f"+task.reward.turns.lopsided={str(lopsided).lower()}"
    train_once_and_twice("grpo", tiny_model, tmp_path, "recipe.trl.num_generations=4", extra)
    same_weights(tiny_model, tmp_path)
    rows_one, rows_two = (read_jsonl(tmp_path / n / "metrics.jsonl") for n in ("one", "two"))
    assert [r["step"] for r in rows_two] == [1, 2]
    assert any(r["groups_skipped"] == 1 for r in rows_two) == lopsided
    for a, b in zip(rows_one, rows_two, strict=True):
        for key in ("reward", "groups_total", "groups_skipped", "completion_tokens", "pass_rate"):
            assert a[key] == pytest.approx(b[key]), key


def test_processes_may_read_different_numbers_of_prompts(tiny_model, tmp_path):
    """Two groups a process, some degenerate: one process's micro-batch has two prompts, so two forward passes, where
    the other's has one."""
    extra = ("recipe.trl.num_generations=4", "recipe.prompts_per_step=4", "+task.reward.turns.lopsided=true")
    train_once_and_twice("grpo", tiny_model, tmp_path, *extra, rows=8)
    same_weights(tiny_model, tmp_path)
    assert {r["groups_skipped"] for r in read_jsonl(tmp_path / "two" / "metrics.jsonl")} & {1, 3}


def test_a_group_may_lie_across_processes(tiny_model, tmp_path):
    extra = ("recipe.trl.num_generations=8", "recipe.prompts_per_step=1", "run.completions_per_step=3")
    train_once_and_twice("grpo", tiny_model, tmp_path, *extra)
    same_weights(tiny_model, tmp_path)
    for name in ("one", "two"):
        assert [row["step"] for row in read_jsonl(tmp_path / name / "completions.jsonl")] == [1, 1, 1, 2, 2, 2]
    rows_one, rows_two = (read_jsonl(tmp_path / n / "metrics.jsonl") for n in ("one", "two"))
    assert [r["groups_total"] for r in rows_one] == [r["groups_total"] for r in rows_two] == [1, 1]


@pytest.mark.parametrize("value", ["shared", pytest.param("separate", marks=SLOW)])
def test_a_ppo_update_equals_one_process_with_twice_the_batch(tiny_model, tmp_path, value):
    extra = ("recipe.samples_per_prompt=4", "recipe.trl.num_ppo_epochs=2", "recipe.trl.num_mini_batches=1")
    extra += ("recipe.trl.kl_coef=0.1",)
    # torch's loader shuffles by another generator where there are more processes: two prompts are the same in any order
    small = ("recipe.trl.learning_rate=0.1", "value.learning_rate=0.1", f"value={value}", "task.env.train_size=2")
    train_once_and_twice("ppo", tiny_model, tmp_path, *extra, *small)
    same_weights(tiny_model, tmp_path)
    rows_one, rows_two = (read_jsonl(tmp_path / n / "metrics.jsonl") for n in ("one", "two"))
    assert [r["step"] for r in rows_two] == [1, 2]
    for a, b in zip(rows_one, rows_two, strict=True):
        for key in ("reward", "pass_rate", "objective/kl", "loss/policy_avg", "loss/value_avg", "grad_norm"):
            assert a[key] == pytest.approx(b[key], rel=1e-3, abs=1e-5), key


def test_an_sft_update_equals_one_process_with_twice_the_batch(tiny_model, tmp_path):
    """Four examples, so that each update has all of them; their answers differ in length, and so do the two passes."""
    settings = ["recipe.batch_size=4", "task.env.train_size=4", "recipe.trl.max_steps=2", "hardware.optimizer=sgd"]
    settings += ["recipe.trl.learning_rate=0.1", "recipe.trl.lr_scheduler_type=constant", "task.also_evaluate=[]"]
    settings += [f"model.path={tiny_model}", "model.lora_rank=0", "hardware.precision=fp32"]
    settings += ["evaluation.samples=0", "evaluation.greedy=false"]
    script = [sys.executable, str(ROOT / "recipes" / "sft.py"), *settings]
    one, two = ([*script, f"run.dir={tmp_path / name}"] for name in ("one", "two"))
    run_once_and_twice(one, two, tmp_path)
    same_weights(tiny_model, tmp_path)
    rows_one, rows_two = (read_jsonl(tmp_path / n / "metrics.jsonl") for n in ("one", "two"))
    assert len(rows_two) == 2
    for a, b in zip(rows_one, rows_two, strict=True):
        for key in ("loss", "grad_norm", "entropy", "mean_token_accuracy"):
            assert a[key] == pytest.approx(b[key], rel=1e-3, abs=1e-5), key


@pytest.mark.parametrize(
    ("recipe", "asked", "answers"),
    [
        ("eval", ("evaluation.samples=0", "evaluation.greedy=true", "task.env.train_size=258"), 8),
        pytest.param(
            "pairs", ("recipe.problems=9", "recipe.samples_per_prompt=2", "recipe.top_p=0.000001"), 18, marks=SLOW
        ),
    ],
)
def test_two_processes_share_the_problems(recipe, asked, answers, tiny_model, tmp_path):
    """Each answers every other problem; the file is that of one process, in the same order."""
    script = str(ROOT / "recipes" / f"{recipe}.py")
    model = (f"model.path={tiny_model}", "model.lora_rank=0", "hardware.precision=fp32", "task.max_new_tokens=8")
    for hardware in ("cpu", "cpux2"):
        run = warm.run if hardware == "cpu" else partial(subprocess.run, capture_output=True, text=True)
        command = [sys.executable, script, *model, *asked, f"hardware={hardware}", f"run.dir={tmp_path / hardware}"]
        done = run(command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-8000:]
    rows_one, rows_two = (read_jsonl(tmp_path / each / "samples.jsonl") for each in ("cpu", "cpux2"))
    assert len(rows_one) == answers
    for one, two in zip(rows_one, rows_two, strict=True):
        assert {**one, "seconds": 0, "details": 0} == {**two, "seconds": 0, "details": 0}


def test_two_processes_leave_out_the_same_problems(tiny_model, tmp_path):
    """Each grades half of the references; an answer by the number of another problem would have another's id."""
    rows = [
        {"name": f"add{n}", "family": f"f{n}", "signature": f"def add{n}(a, b):", "description": "Add."}
        | {"solution": f"def add{n}(a, b):\n    return a {'-' if n in (2, 5) else '+'} b\n"}
        | {"examples": [{"args": [1, 2], "expected": 3}], "hidden": [{"args": [2, 2], "expected": 4}]}
        for n in range(9)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, str(ROOT / "recipes" / "eval.py"), "task=basics", f"model.path={tiny_model}"]
    command += ["hardware.precision=fp32", f"task.env.path={tmp_path / 'rows.jsonl'}", "task.env.train_size=1"]
    command += [
        "task.drop_invalid=true",
        "task.max_new_tokens=4",
        "evaluation.samples=0",
        f"run.dir={tmp_path / 'run'}",
    ]
    for rank, process in enumerate(launch(command, tmp_path)):
        process.join()
        assert process.exitcode == 0, (tmp_path / f"rank{rank}" / "stderr").read_text()[-8000:]
    [record] = read_jsonl(tmp_path / "run" / "evals.jsonl")
    answered = [row["task_id"] for row in read_jsonl(tmp_path / "run" / "samples.jsonl")]
    assert record["problems"] == len(answered) == len(set(answered)) == 6
    assert not {"basics/add2", "basics/add5"} & set(answered)
    assert not (tmp_path / "run" / "dropped.jsonl").exists()  # the next evaluation looks again
