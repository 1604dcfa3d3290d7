"""recipes/eval.py: models with and without a chat form, what it leaves for others, rows that are left out."""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from envs.humaneval import HumanEval
from envs.sandbox import Job, run_sync
from envs.task import Problem
from recipes.cli import schema
from recipes.cli.lock import LOCK
from recipes.data.chat_tokens import encoded
from recipes.evaluation.exports import evalplus_samples
from recipes.evaluation.held_out import rewards_of
from recipes.models.load import with_template
from recipes.records.directory import WRITTEN
from recipes.records.jsonl import read_jsonl, write_jsonl
from recipes.run.build import other_task
from rewards.channel import ChannelResult
from rewards.compose import Grade
from tests import warm

ROOT = Path(__file__).parents[2]
TURNS = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Double x."}]
ROWS = {
    name: {
        "task_id": f"HumanEval/{n}",
        "prompt": f'import math\n\ndef {name}(x):\n    """Twice x."""\n',
        "entry_point": name,
        "canonical_solution": body,
        "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 6\n",
    }
    for n, (name, body) in enumerate({"double": "    return 2 * x\n", "square": "    return x * x\n"}.items())
}


@pytest.fixture
def base_model(tiny_model, tmp_path) -> Path:
    """A model whose tokenizer has no chat form."""
    folder = tmp_path / "base"
    shutil.copytree(tiny_model, folder)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert AutoTokenizer.from_pretrained(folder).chat_template is None
    return folder


def test_turns_of_a_base_model_stand_one_after_the_other(base_model):
    tokenizer = with_template(AutoTokenizer.from_pretrained(base_model))
    asked = tokenizer.decode(encoded(TURNS, tokenizer))
    assert asked == "Be brief.\n\nDouble x.\n\n"
    begun = [*TURNS, {"role": "assistant", "content": "```python\n"}]
    assert tokenizer.decode(encoded(begun, tokenizer)) == asked + "```python\n"
    whole = [*TURNS, {"role": "assistant", "content": "2 * x"}]
    assert tokenizer.apply_chat_template(whole, tokenize=False) == f"{asked}2 * x{tokenizer.eos_token}"


def test_a_base_models_evaluations_add_up_and_leave_out_what_no_answer_can_pass(base_model, tmp_path):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS.values()))
    command = [sys.executable, str(ROOT / "recipes" / "eval.py"), "task=humaneval", f"model.path={base_model}"]
    command += ["hardware.precision=fp32", f"task.env.path={tmp_path / 'rows.jsonl'}", "task.env.train_size=0"]
    command += ["task.max_new_tokens=8", "evaluation.samples=2", "run.name=small"]
    warm.run(command, cwd=tmp_path, check=True)
    done = warm.run([*command, "task.drop_invalid=true", "run.if_exists=replace"], cwd=tmp_path, check=True)
    assert "1 of 2 test problems dropped" in done.stdout
    folder = tmp_path / "runs" / "eval" / "humaneval"
    with (folder / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["run"], row["problems"], row["samples"]) for row in rows] == [
        ("small", "2", "2"),
        ("small", "2", "1"),
        ("small", "1", "2"),
        ("small", "1", "1"),
    ]
    greedy, drawn = (read_jsonl(folder / "small" / f"evalplus-{how}.jsonl") for how in ("greedy", "sampled"))
    assert [row["task_id"] for row in greedy] == ["HumanEval/0"]
    assert drawn == greedy * 2 and all(row["solution"] == "" for row in drawn)
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROWS["square"]) + "\n")
    refused = warm.run([*command, "task.drop_invalid=true", "run.name=none"], cwd=tmp_path)
    assert refused.returncode == 2 and "no problem remains" in refused.stderr and "Traceback" not in refused.stderr


def test_a_base_model_continues_the_prompts_text(base_model, tmp_path):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS.values()))
    command = [sys.executable, str(ROOT / "recipes" / "eval.py"), "task=humaneval", f"model.path={base_model}"]
    command += ["hardware.precision=fp32", f"task.env.path={tmp_path / 'rows.jsonl'}", "task.env.train_size=0"]
    command += ["task.env.style=completion", "task.max_new_tokens=8", "evaluation.samples=4"]
    command += ["evaluation.greedy=false", "run.dir=run"]
    warm.run(command, cwd=tmp_path, check=True)
    [record] = read_jsonl(tmp_path / "run" / "evals.jsonl")
    assert (record["problems"], record["samples"], record["ungraded"]) == (2, 4, 0) and record["code"] > 0.5
    prompts = {row["task_id"]: row["prompt"] for row in ROWS.values()}
    written = [row for row in read_jsonl(tmp_path / "run" / "evalplus-sampled.jsonl") if row["solution"]]
    assert written and all(row["solution"].startswith(prompts[row["task_id"]]) for row in written)
    refused = warm.run([*command, "task.env.style=poem", "run.dir=poem"], cwd=tmp_path)
    assert refused.returncode == 2 and "task.env.style=poem: must be chat or completion" in refused.stderr


def test_evalplus_gets_whole_programs(tmp_path, sandbox):
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROWS["double"]) + "\n")
    task = HumanEval(train_size=0, path=str(tmp_path / "rows.jsonl"))
    answer = "So:\n```python\ndef double(x):\n    return math.fsum([x, x])\n```"
    [sample] = evalplus_samples(task, task.problems("test"), [{"task_id": "HumanEval/0", "completion": answer}])
    job = Job("whole", "check", sample["solution"], "double", check_src=ROWS["double"]["test"])
    assert run_sync(sandbox, [job])[0].verdict == "pass"


def test_another_task_is_evaluated_during_a_training_and_checkpoints_of_some_steps_stay(tiny_model, tmp_path):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS.values()))
    command = [sys.executable, str(ROOT / "recipes" / "grpo.py"), "task=humaneval", f"model.path={tiny_model}"]
    command += ["hardware.precision=fp32", f"task.env.path={tmp_path / 'rows.jsonl'}", "task.env.train_size=1"]
    command += [
        "recipe.trl.max_steps=4",
        "recipe.trl.save_steps=1",
        "recipe.trl.save_total_limit=1",
        "run.keep_every=2",
        "evaluation.every=2",
        "evaluation.every_task=true",
        "recipe.prompts_per_step=1",
        "recipe.trl.num_generations=2",
        "task.max_new_tokens=4",
    ]
    command += ["hardware.rows_per_device=2"]
    command += ["task.also_evaluate=[pacman]", "evaluation.before=false", "evaluation.greedy=false", "run.dir=run"]
    warm.run(command, cwd=tmp_path, check=True)
    rows = read_jsonl(tmp_path / "run" / "evals.jsonl")
    both = [("humaneval", 4), ("pacman", 64)]
    assert [(row["step"], row["task"], row["samples"]) for row in rows] == [(s, *row) for s in (2, 4) for row in both]
    assert {path.name for path in (tmp_path / "run" / "checkpoints").glob("checkpoint-*")} == {
        "checkpoint-2",
        "checkpoint-4",
    }


def sft_of_rows(tiny_model: Path, folder: Path, *overrides: str) -> list[str]:
    """The command of a short SFT on ROWS, one to train on, with a checkpoint a step, in the directory folder/run."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS.values()))
    command = [sys.executable, str(ROOT / "recipes" / "sft.py"), "task=humaneval", f"model.path={tiny_model}"]
    command += ["hardware.precision=fp32", f"task.env.path={folder / 'rows.jsonl'}", "task.env.train_size=1"]
    command += ["recipe.trl.save_steps=1", "evaluation.before=false", "evaluation.samples=0", "task.max_new_tokens=4"]
    return [*command, "task.also_evaluate=[]", "run.dir=run", *overrides]


def test_the_weights_of_the_best_evaluated_step_are_kept(tiny_model, tmp_path):
    """No answer is right, so all steps are equal and the first is best; its checkpoint outlives save_total_limit."""
    command = sft_of_rows(tiny_model, tmp_path, "recipe.trl.max_steps=3", "recipe.trl.save_total_limit=1")
    command += ["evaluation.every=1", "run.keep=best"]
    done = warm.run(command, cwd=tmp_path, check=True)
    assert "final/ has the weights of step 1, pass@1, greedy 0.000" in done.stdout
    run = tmp_path / "run"
    assert {path.name for path in (run / "checkpoints").glob("checkpoint-*")} == {"checkpoint-1", "checkpoint-3"}
    final, first, last = (
        load_file(folder / "adapter_model.safetensors")
        for folder in (run / "final", run / "checkpoints" / "checkpoint-1", run / "checkpoints" / "checkpoint-3")
    )
    assert all(torch.equal(final[name], first[name]) for name in first)
    assert any(not torch.equal(final[name], last[name]) for name in last)
    saved = (run / "final" / "adapter_model.safetensors").stat().st_ino
    warm.run(command, cwd=tmp_path, check=True)
    assert (run / "final" / "adapter_model.safetensors").stat().st_ino == saved  # nothing was trained
    for wrong, message in (
        ("best", "chooses among evaluated steps"),
        ("worst", "it must be last or best"),
    ):
        refused = warm.run([*command, f"run.keep={wrong}", "evaluation.every=0"], cwd=tmp_path)
        assert refused.returncode == 2 and message in refused.stderr


@pytest.mark.parametrize("name", ["mbpp_sanitized", "mbppplus"])
def test_mbpps_other_sets_can_be_evaluated_beside_a_training(name, sandbox):
    schema.register()
    other = other_task(name)
    reward = other.reward(sandbox)
    assert other.task.name == name and set(reward.channels) == {"unit_tests", "syntax", "lint", "dataflow"}
    e = other.cfg.evaluation
    assert (e.samples, e.temperature, e.top_p, e.greedy, e.max_new_tokens) == (1, 0.01, 0.95, False, 1024)


def test_means_are_over_answers_and_over_each_problems_best_by_weight():
    def grade(score: float, **detail: float) -> Grade:
        return Grade({"simulation": ChannelResult(score, detail=detail)}, {}, {"simulation": 1.0})

    problems = [Problem("a", ""), Problem("b", "", weight=3.0), Problem("c", "")]
    results = rewards_of(problems, [[grade(0.2, exact=1), grade(0.9)], [grade(0.5)], []])
    assert results["reward"] == results["scores"]["simulation"] == pytest.approx((0.2 + 0.9 + 3 * 0.5) / 5)
    assert results["best"] == pytest.approx((0.9 + 3 * 0.5) / 4)
    assert results["measures"] == {"simulation/exact": 1.0}
    assert rewards_of(problems[:1], [[]]) == {"reward": 0.0, "scores": {}, "measures": {}}


def test_without_problems_there_is_nothing_to_evaluate(tiny_model, tmp_path):
    command = [sys.executable, str(ROOT / "recipes" / "eval.py"), f"model.path={tiny_model}", f"run.dir={tmp_path}/run"]
    done = warm.run([*command, "evaluation.split=validation"], tmp_path)
    assert done.returncode == 2 and "evaluation.split=validation: task=basics has no validation problems" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_check_of_no_problems_says_so(tmp_path):
    command = [sys.executable, str(ROOT / "recipes" / "check.py"), "task=basics", "evaluation.split=validation"]
    done = warm.run([*command, f"run.dir={tmp_path}/run"], tmp_path)
    assert done.returncode == 2 and "evaluation.split=validation: task=basics has no such problems" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(importlib.util.find_spec("nrpy") is None, reason="the package nrpy is not here (pip install nrpy)")
def test_where_no_channel_says_what_is_right_no_reference_is_wrong(tmp_path):
    command = [sys.executable, str(ROOT / "recipes" / "check.py"), "task=etk", "~task.reward.judge"]
    done = warm.run([*command, f"run.dir={tmp_path}/run"], tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "etk test: 4 problems are not checked, since no channel judges correctness" in done.stdout + done.stderr
    assert "mean score of the references, bleu: 1.000" in done.stdout + done.stderr


def test_a_random_model_is_the_same_in_every_evaluation_and_nothing_is_not_evaluated(tmp_path):
    command = [sys.executable, str(ROOT / "recipes" / "eval.py"), "task=pacman"]
    for name in ("one", "two"):
        warm.run([*command, f"run.dir={tmp_path / name}"], cwd=tmp_path, check=True)
        assert {path.name for path in (tmp_path / name).iterdir()} <= {*WRITTEN, LOCK}  # what a replaced run leaves
    assert (tmp_path / "one" / "samples.jsonl").read_text() == (tmp_path / "two" / "samples.jsonl").read_text()
    nothing = warm.run([*command, "evaluation.samples=0", f"run.dir={tmp_path / 'none'}"], cwd=tmp_path)
    assert nothing.returncode == 2 and "evaluate nothing: set one of them" in nothing.stderr
    assert not (tmp_path / "none").exists()


def test_the_mean_of_a_channel_leaves_out_what_it_is_silent_on(tmp_path):
    """Data flow is silent where the reference has none."""
    bodies = {"flows": ("n: int", [2], "    m = n + 1\n    return m * n", 6), "constant": ("", [], "    return 1", 1)}
    rows = []
    for name, (taken, args, body, value) in bodies.items():
        head = f"def {name}({taken}) -> int:"
        tests = {"examples": [{"args": args, "expected": value}], "hidden": []}
        rows.append({"name": name, "family": name, "signature": head, "description": "Return a number.", **tests})
        rows[-1]["solution"] = f"{head}\n{body}\n"
    write_jsonl(tmp_path / "mine.jsonl", rows)
    channel = "{_target_:rewards.dataflow.Dataflow,sandbox:true,weight:0.1}"
    command = [sys.executable, str(ROOT / "recipes" / "check.py"), "task=basics", f"+task.reward.dataflow={channel}"]
    command += [f"task.env.path={tmp_path}/mine.jsonl", "task.env.train_size=1", "evaluation.split=all"]
    done = warm.run([*command, f"run.dir={tmp_path}/run"], tmp_path)
    said = done.stdout + done.stderr
    for mean in ("1.000 (best 1)", "silent on all"):
        assert f"mean score of the references, dataflow: {mean}" in said, said
