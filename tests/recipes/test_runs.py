"""Whole runs on a tiny random model: a sweep, a second start, evaluation of what was trained, the report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from recipes.records.jsonl import read_jsonl
from tests import warm

ROOT = Path(__file__).parents[2]


def python(*args: str, cwd: Path) -> subprocess.CompletedProcess:
    return warm.run([sys.executable, *args], cwd)


def test_a_sweep_leaves_one_run_directory_a_job_and_eval_reads_an_adapter(tiny_model, tmp_path):
    small = [
        f"model.path={tiny_model}",
        "hardware.precision=fp32",
        "recipe.prompts_per_step=2",
        "recipe.trl.num_generations=4",
        "task.max_new_tokens=6",
        "task.also_evaluate=[]",
        "task.env.train_size=258",  # 8 of 266 problems are held out
        "evaluation.samples=1",
    ]
    grpo = str(ROOT / "recipes" / "grpo.py")
    done = python(grpo, "-m", "seed=0,1", "recipe.trl.max_steps=2", *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    runs = sorted((tmp_path / "runs" / "grpo" / "basics").iterdir())
    assert len(runs) == 2
    for folder in runs:
        assert [r["step"] for r in read_jsonl(folder / "metrics.jsonl")] == [1, 2]
        assert {r["when"] for r in read_jsonl(folder / "evals.jsonl")} == {"before", "after"}
        assert (folder / "report.html").stat().st_size > 10_000
        assert (folder / "config.yaml").exists() and (folder / "run.log").stat().st_size > 0
        row = read_jsonl(folder / "completions.jsonl")[0]
        assert "".join(row["tokens"]) == row["completion"]
        for name, rewards in row["token_rewards"].items():
            assert len(rewards) == len(row["tokens"])
            assert abs(sum(rewards) - row["scores"][name]) < 1e-4

    before = {p: p.stat().st_mtime_ns for p in runs[0].rglob("adapter_model.safetensors")}
    again = python(
        grpo, "seed=0", "recipe.trl.max_steps=2", *small, cwd=tmp_path
    )  # a job by itself is the same command
    assert again.returncode == 0 and "step " not in again.stdout.replace("steps", "")
    assert sorted((tmp_path / "runs" / "grpo" / "basics").iterdir()) == runs
    assert set(before) == set(runs[0].rglob("adapter_model.safetensors"))

    evaluated = python(
        str(ROOT / "recipes" / "eval.py"),
        *small[:2],
        "task=humaneval",
        "task.env.train_size=160",  # 4 of 164 are held out
        "task.max_new_tokens=6",
        f"adapter={runs[0]}",
        "evaluation.samples=2",
        "evaluation.k=[1,2]",
        cwd=tmp_path,
    )
    assert evaluated.returncode == 0, evaluated.stderr[-2000:]
    (folder,) = (p.parent for p in (tmp_path / "runs" / "eval" / "humaneval").glob("*/evals.jsonl"))
    sampled, greedy = read_jsonl(folder / "evals.jsonl")
    assert set(sampled["pass@k"]) == {"1", "2"} and set(greedy["pass@k"]) == {"1"}
    rows = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    assert len(rows) == 4 * 3


def test_pass_rates_of_a_task_that_judges_nothing_are_refused_before_the_model_loads(tiny_model, tmp_path):
    check = [str(ROOT / "recipes" / "check.py"), "pass_rate=2", f"run.dir={tmp_path / 'check'}"]
    small = [f"model.path={tiny_model}", "task.env.train_size=6", "+task.reward.unit_tests.enabled=false"]
    done = python(*check, *small, "evaluation.split=train", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "error: pass_rate=2: no channel of task=basics judges whether an answer is right"
    )
    assert not (tmp_path / "check" / "pass_rates.jsonl").exists() and "samples at" not in done.stderr + done.stdout


def test_pass_rates_of_episodes_are_those_of_the_last_turn(tiny_model, tmp_path):
    check = [str(ROOT / "recipes" / "check.py"), "pass_rate=2", "episode=repair", f"run.dir={tmp_path / 'check'}"]
    small = [f"model.path={tiny_model}", "hardware.precision=fp32", "task.max_new_tokens=6", "task.env.train_size=4"]
    done = python(*check, *small, "evaluation.split=train", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "after turn 1: 0.0%, 2: 0.0%" in done.stdout
    assert {row["samples"] for row in read_jsonl(tmp_path / "check" / "pass_rates.jsonl")} == {2}


def test_measured_pass_rates_choose_what_is_trained_on(tiny_model, tmp_path):
    small = [f"model.path={tiny_model}", "model.lora_rank=4", "hardware.precision=fp32", "task.max_new_tokens=6"]
    few = ["task.env.train_size=6"]
    check = [
        str(ROOT / "recipes" / "check.py"),
        "pass_rate=2",
        "evaluation.split=train",
        f"run.dir={tmp_path / 'check'}",
    ]
    done = python(*check, *small, *few, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    rates = read_jsonl(tmp_path / "check" / "pass_rates.jsonl")
    assert len(rates) == 6 and all(row["samples"] == 2 and row["passed"] == 0 for row in rates)  # a random model

    file = tmp_path / "check" / "pass_rates.jsonl"
    grpo = [str(ROOT / "recipes" / "grpo.py"), *small, *few, f"task.pass_rates={file}", f"run.dir={tmp_path / 'run'}"]
    grpo += [
        "recipe.prompts_per_step=2",
        "recipe.trl.num_generations=4",
        "recipe.trl.max_steps=2",
        "evaluation.samples=0",
    ]
    grpo += ["evaluation.greedy=false", "task.also_evaluate=[]", "run.completions_per_step=8"]
    none = python(*grpo, cwd=tmp_path)
    assert none.returncode == 2 and none.stderr.strip().splitlines()[-1].startswith("error: ")
    assert "pass_rate" in none.stderr and "Traceback" not in none.stderr
    file.write_text("".join(json.dumps({**row, "passed": n % 2}) + "\n" for n, row in enumerate(rates)))
    narrow = python(*grpo, "task.pass_rate_range=[0.6,0.9]", cwd=tmp_path)  # each problem's rate is 0 or one half
    assert narrow.returncode == 2 and "widen task.pass_rate_range" in narrow.stderr
    done = python(*grpo, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    trained = {row["task_id"] for row in read_jsonl(tmp_path / "run" / "completions.jsonl")}
    assert trained and trained <= {row["id"] for row in rates[1::2]}
