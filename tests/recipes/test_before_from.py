"""evaluation.before_from: a training on top of another is compared with the model before both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from recipes.records.jsonl import read_jsonl
from tests import warm

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tiny_model, tmp_path):
    """Runs a recipe on a tiny model and few problems in `tmp_path`."""

    def run(name: str, *overrides: str) -> subprocess.CompletedProcess:
        settings = [f"model.path={tiny_model}", "hardware.precision=fp32", "task.max_new_tokens=6"]
        settings += ["evaluation.samples=1", "task.env.train_size=258", "task.also_evaluate=[]"]
        return warm.run([sys.executable, str(ROOT / "recipes" / f"{name}.py"), *settings, *overrides], tmp_path)

    return run


def rows(folder: Path, when: str) -> tuple[list[dict], list[dict]]:
    """An evaluation of a run: rows of evals.jsonl, without the clock, and of eval_samples.jsonl."""
    summaries, answers = (read_jsonl(folder / name) for name in ("evals.jsonl", "eval_samples.jsonl"))
    return [row for row in summaries if row["when"] == when], [row for row in answers if row["when"] == when]


def test_the_model_before_both_trainings_is_what_the_second_is_compared_with(run, tmp_path):
    first, second = tmp_path / "sft", tmp_path / "grpo"
    short = ["recipe.trl.max_steps=1", "recipe.trl.save_steps=1"]
    assert run("sft", *short, "recipe.batch_size=2", f"run.dir={first}").returncode == 0
    small = [*short, "recipe.prompts_per_step=2", "recipe.trl.num_generations=4", f"adapter={first}"]
    command = ["grpo", *small, f"evaluation.before_from={first}", f"run.dir={second}"]
    done = run(*command)
    assert done.returncode == 0, done.stderr[-2000:]
    assert rows(second, "before") == rows(first, "before")
    summaries, answers = rows(second, "after")
    assert [row["temperature"] for row in summaries] == [1.0, 0.0]
    assert len(answers) == 2 * summaries[0]["problems"]
    assert f"before: {first}; the gain is of this run and of adapter={first} together" in done.stdout.replace("\n", "")
    assert str(first) in (second / "report.html").read_text().split("What the run changed")[1].split("</p>")[0]
    again = run(*command)
    assert again.returncode == 0
    assert rows(second, "before") == rows(first, "before")

    shorter = run("sft", *short, "recipe.batch_size=2", f"run.dir={first}", "evaluation.max_new_tokens=3")
    assert shorter.returncode == 0  # a finished run's evaluations stay, and it is said
    assert [row["max_new_tokens"] for when in ("before", "after") for row in rows(first, when)[0]] == [6, 6, 6, 6]
    assert "evaluation.max_new_tokens=3: after (basics) was evaluated with 6, which stays" in shorter.stdout

    longer = run(*command, "evaluation.samples=2", f"run.dir={tmp_path / 'two'}")
    assert longer.returncode == 2
    assert "evaluation.samples is 1 there and 2 here" in longer.stderr
    assert not (tmp_path / "two").exists()


def test_an_evaluation_stands_for_the_model_before_training(run, tmp_path):
    base, trained = tmp_path / "base", tmp_path / "sft"
    assert run("eval", f"run.dir={base}").returncode == 0
    sft = ["sft", "recipe.batch_size=2", "recipe.trl.max_steps=1", f"evaluation.before_from={base}"]
    assert run(*sft, f"run.dir={trained}").returncode == 0
    summaries, answers = rows(trained, "before")
    assert [row["pass@k"] for row in summaries] == [row["pass@k"] for row in read_jsonl(base / "evals.jsonl")]
    own = [row["completion"] for row in read_jsonl(base / "samples.jsonl")]
    assert [row["completion"] for row in answers] == own
    assert {row["task"] for row in answers} == {"basics"}

    other = run(*sft, "task.env.split_seed=1", f"run.dir={tmp_path / 'other'}")
    assert other.returncode == 2
    assert "other problems were answered there" in other.stderr
    for setting, difference in (
        ("task.env.system=Briefly.", "task.env.system is You write Python functions."),
        ("task.env.functions=2", "task.env.functions is 1 there and 2 here"),
        ("task.reward.form.weight=0.3", "task.reward.form.weight is 0.1 there and 0.3 here"),
    ):
        other = run(*sft, setting, f"run.dir={tmp_path / 'other'}")
        assert other.returncode == 2
        assert difference in other.stderr
    config = (base / "config.yaml").read_text()
    (base / "config.yaml").write_text(config.replace("adapter: null", f"adapter: {trained}"))
    other = run(*sft, f"run.dir={tmp_path / 'other'}")
    assert other.returncode == 2
    assert f"it evaluated adapter={trained}, from which this run does not start" in other.stderr
    (base / "config.yaml").write_text(config)
    lines = (base / "evals.jsonl").read_text().splitlines(keepends=True)
    (base / "evals.jsonl").write_text(lines[0])
    half = run(*sft, f"run.dir={tmp_path / 'other'}")
    assert half.returncode == 2
    assert "its evaluation before training is not finished" in half.stderr
    nothing = run("sft", f"evaluation.before_from={tmp_path}", f"run.dir={tmp_path / 'other'}")
    assert nothing.returncode == 2
    assert "no evaluation before training there" in nothing.stderr
    assert not (tmp_path / "other").exists()
