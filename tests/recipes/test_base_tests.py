"""Two verdicts of the same answers: on a benchmark's own tests and on more of them, through every record and table."""

from __future__ import annotations

import asyncio
import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from envs.mbpp import Mbpp
from envs.task import Problem
from recipes import table
from recipes.evaluation import held_out
from recipes.evaluation.base_tests import base_verdicts, with_base_tests
from recipes.evaluation.held_out import comparison, describe, evaluate_policy
from recipes.records.jsonl import read_jsonl
from recipes.sampling.generate import Decoding
from recipes.tools.report.page import write_report
from rewards.channel import ChannelResult, Completion
from rewards.compose import Reward
from rewards.unit_tests import UnitTests
from tests import warm

ROOT = Path(__file__).parents[2]
ROWS = [
    {
        "task_id": f"Mbpp/{number}",
        "prompt": f'"""\nDouble x.\nassert double{number}(1) == 2\n"""',
        "entry_point": f"double{number}",
        "canonical_solution": f"\ndef double{number}(x):\n  return 2 * x\n",
        "base_input": [[1], [2]],
        "plus_input": [[-1], ["ab"]],
        "atol": 0,
    }
    for number in range(1000, 1003)
]


@pytest.fixture
def rows_file(tmp_path) -> Path:
    path = tmp_path / "plus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


class Judge:
    """Passes an answer whose text names the problem's tests; records what it was asked."""

    def __init__(self):
        self.asked: list[list[str]] = []

    async def score(self, problems, completions):
        self.asked.append([completion.text for completion in completions])
        return [
            None if "lost" in c.text else ChannelResult(0.0, passed=p.check_src in c.text.split())
            for p, c in zip(problems, completions, strict=True)
        ]


class Length(Judge):
    """A channel that does not judge correctness."""

    async def score(self, problems, completions):
        self.asked.append([completion.text for completion in completions])
        return [ChannelResult(1.0) for _ in problems]


def test_only_answers_that_fail_run_again_and_only_with_the_channels_that_judge():
    problem = Problem("a/1", "", check_src="all")
    problem = replace(problem, data={"base": replace(problem, check_src="base")})
    tests, length = Judge(), Length()
    reward = Reward({"tests": tests, "length": length}, {"tests": 1.0, "length": 1.0})
    answers = ["all", "base", "nothing", "lost", "base"]
    problems = [problem] * 4 + [Problem("a/2", "", check_src="all")]
    completions = [Completion(text, [1], [(0, len(text))]) for text in answers]

    async def verdicts():
        return await base_verdicts(reward, problems, completions, await reward.grade(problems, completions))

    assert asyncio.run(verdicts()) == [True, True, False, None, None]
    assert tests.asked == [answers, ["base", "nothing", "lost"]] and length.asked == [answers]


@pytest.fixture
def summary(rows_file, tiny_model, sandbox, monkeypatch):
    """An evaluation of three problems: one solved, one on the base tests alone, one not at all."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    codes = ["return 2 * x", "return abs(x) * 2 if isinstance(x, int) else 0", "return x"]
    answers = [f"```python\ndef double{1000 + n}(x):\n    {code}\n```" for n, code in enumerate(codes)]
    monkeypatch.setattr(held_out, "_sample", lambda *_: [tokenizer(answer)["input_ids"] for answer in answers])
    monkeypatch.setattr(held_out, "end_ids", lambda *_: [2])
    task, reward = Mbpp("plus", str(rows_file)), Reward({"unit_tests": UnitTests(sandbox)}, {"unit_tests": 1.0})
    with asyncio.Runner() as runner:
        results = evaluate_policy(None, tokenizer, task, reward, runner, Decoding(64, 0.0), 1)
    assert [(row["passed"], row["base_passed"]) for row in results.rows] == [
        (True, True),
        (False, True),
        (False, False),
    ]
    return results.summary


def test_one_evaluation_has_both_shares(summary):
    assert summary["pass@k"]["1"]["value"] == pytest.approx(1 / 3)
    assert summary["base_pass@k"]["1"]["value"] == pytest.approx(2 / 3)
    line = describe(summary)
    assert "base tests pass@1 66.7%" in line and "base + extra tests pass@1 33.3%" in line


def test_tables_and_the_report_show_both_shares(summary, tmp_path):
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("recipe: {name: ppo}\ntask: {name: mbppplus}\n")
    evals = [{"when": when, "step": 0, **summary} for when in ("before", "after")]
    (run / "evals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in evals))
    assert [row["task"] for row in with_base_tests(evals)] == ["mbppplus, base tests", "mbppplus"] * 2
    shown = comparison(evals)
    assert list(shown.columns[0].cells) == ["mbppplus, base tests", "mbppplus"]
    assert [cell.split()[0] for cell in shown.columns[3].cells] == ["66.7%", "33.3%"]
    page = write_report(run).read_text()
    assert "mbppplus, base tests" in page and "66.7" in page
    html, file = tmp_path / "table.html", tmp_path / "table.csv"
    assert table.main([f"runs={tmp_path / 'runs'}", "task=mbppplus", f"html={html}", f"csv={file}"]) == 0
    assert "<th>base pass@1</th>" in html.read_text() and "<td>0.667 [" in html.read_text()
    with file.open() as lines:
        [row] = csv.DictReader(lines)
    assert float(row["pass@1"]) == pytest.approx(1 / 3) and float(row["base pass@1"]) == pytest.approx(2 / 3)


def test_an_evaluation_without_base_tests_has_one_share_and_no_column():
    row = {"task": "basics", "pass@k": {"1": {"value": 0.5, "low": 0.4, "high": 0.6}}}
    assert with_base_tests([row]) == [row] and table.base_share(row) == {}
    row = {"run": "a", "decoding": "greedy", "pass@1": 0.5, "low": 0.4, "high": 0.6, "mean_tokens": 9.0}
    row |= {"graded_samples": 1, "minutes": 1.0, "split": "test", "problems": 66}
    shown = table.table([row], "basics")
    assert [column.header for column in shown.columns] == ["run", "decoding", "pass@1", "tokens", "graded", "minutes"]


def test_the_command_writes_both_shares(rows_file, tiny_model, tmp_path):
    command = [sys.executable, str(ROOT / "recipes" / "eval.py"), "task=mbppplus", f"task.env.path={rows_file}"]
    command += [f"model.path={tiny_model}", "hardware.precision=fp32", "evaluation.max_new_tokens=4", "run.name=small"]
    done = warm.run(command, cwd=tmp_path, check=True)
    assert "base tests pass@1 0.0%" in done.stdout and "base + extra tests pass@1 0.0%" in done.stdout
    folder = tmp_path / "runs" / "eval" / "mbppplus"
    [record] = read_jsonl(folder / "small" / "evals.jsonl")
    assert record["pass@k"]["1"]["value"] == record["base_pass@k"]["1"]["value"] == 0
    assert {row["base_passed"] for row in read_jsonl(folder / "small" / "samples.jsonl")} == {False}
    with (folder / "results.csv").open() as file:
        assert [row["task"] for row in csv.DictReader(file)] == ["mbppplus, base tests", "mbppplus"]


def test_missing_data_beside_a_training_is_one_line_before_it_starts(tiny_model, tmp_path):
    command = [sys.executable, str(ROOT / "recipes" / "sft.py"), "task=basics", f"model.path={tiny_model}"]
    command += ["hardware.precision=fp32", "task.also_evaluate=[mbppplus]", "evaluation.before=false", "run.dir=run"]
    command += ["recipe.trl.max_steps=1", "recipe.batch_size=2"]
    done = warm.run(command, cwd=tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "task.env.path (or MBPP_OVERRIDE_PATH)" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
