"""The offline recipes: SFT, preference pairs, DPO, one after another on a tiny model; killed, resumed, refused."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from envs.basics import Basics
from recipes.cli.console import log
from recipes.cli.errors import UserError
from recipes.data.training_data import demonstrations, right_answers, tokenized_demonstrations, warn_of_cut
from recipes.evaluation.preference_pairs import preference_pairs
from recipes.evaluation.task_soundness import examine, training_problems
from recipes.records.jsonl import read_jsonl, write_jsonl
from recipes.run.lifecycle import _require_a_step
from rewards.channel import ChannelResult
from rewards.compose import Reward
from tests import warm
from tests.recipes.test_configs import compose

ROOT = Path(__file__).parents[2]


def recipe(name: str, *overrides: str, cwd: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "recipes" / f"{name}.py"), *overrides]
    return warm.run(command, cwd)


def answer(reward, tokens, sample=0):
    return {"completion": f"{reward} {tokens} {sample}", "reward": reward, "tokens": tokens, "sample": sample}


def test_pairs_differ_by_the_margin_and_little_in_length():
    rows = [answer(1.0, 50), answer(1.0, 20), answer(0.9, 20), answer(0.0, 22), answer(0.0, 90), answer(None, 20)]
    pairs = preference_pairs(rows, margin=0.5, most=2)
    assert [(a["tokens"], b["tokens"]) for a, b in pairs] == [(20, 22), (50, 90)]
    assert pairs[0][0]["reward"] == 1.0
    assert preference_pairs(rows, margin=1.5, most=2) == []
    for margin in (0.5, 0.0):
        assert preference_pairs([answer(1.0, 20), answer(1.0, 30)], margin, most=2) == []  # ties
    assert len(preference_pairs([answer(1.0, 20), answer(0.9, 30)], margin=0.0, most=2)) == 1
    assert preference_pairs([answer(1.0, 20)] * 2 + [answer(0.0, 20)] * 2, margin=0.5, most=4)[1:] == []  # one text


def test_demonstrations_are_the_references_as_the_task_wants_them_answered():
    task = Basics()
    rows = demonstrations(task)
    assert len(rows) == 200
    for row, problem in zip(rows, task.problems("train"), strict=True):
        text = row["completion"][0]["content"]
        code = task.extract(text)
        assert code.closed and text[code.start : code.end].strip() == problem.reference.strip()
        assert row["prompt"] == task.messages(problem)


def test_a_task_without_references_can_be_imitated_by_own_answers_alone():
    task = SimpleNamespace(problems=lambda split: [replace(Basics().problems("train")[0], reference=None)])
    _require_a_step(compose("recipe.answers=runs/own", recipe="sft"), task)
    with pytest.raises(UserError, match="no reference solutions to learn from"):
        _require_a_step(compose(recipe="sft"), task)


def test_examples_that_lose_the_end_of_their_answer_are_counted(smollm2_tokenizer, caplog):
    examples = tokenized_demonstrations(demonstrations(Basics(train_size=20)), smollm2_tokenizer)
    lengths = list(map(len, examples["input_ids"]))
    limit = sorted(lengths)[-3]
    warn_of_cut(examples, max(lengths))
    warn_of_cut(examples, None)
    assert not caplog.records
    warn_of_cut(examples, limit)
    count = sum(length > limit for length in lengths)
    assert f"{count} of 20 examples are longer than recipe.trl.max_length={limit} tokens" in caplog.text
    assert f"recipe.trl.max_length={max(lengths)} keeps all of them" in caplog.text and "left out" not in caplog.text
    asked = [row.index(next(label for label in row if label != -100)) for row in examples["labels"]]
    warn_of_cut(examples, max(asked))
    assert f"and {sum(prompt >= max(asked) for prompt in asked)}, whose prompts alone are longer" in caplog.text
    with pytest.raises(UserError, match="nothing of any answer is left"):
        warn_of_cut(examples, 5)


def test_right_answers_take_the_place_of_references(tmp_path):
    task = Basics()
    first, second, third, *_ = task.problems("train")

    def sample(problem, completion, passed, temperature=0.7):
        return {"task_id": problem.id, "completion": completion, "passed": passed, "temperature": temperature}

    rows = [
        sample(first, "sampled twice", True),
        sample(first, "sampled twice", True),
        sample(first, "greedy", True, 0.0),
        sample(second, "once", True),
        sample(second, "twice", True),
        sample(second, "twice", True),
        sample(second, "greedy and wrong", False, 0.0),
        sample(third, "not graded", None),
    ]
    write_jsonl(tmp_path / "samples.jsonl", rows)
    own = right_answers(str(tmp_path))
    assert own == {first.id: "greedy", second.id: "twice"} == right_answers(str(tmp_path / "samples.jsonl"))
    answers = [row["completion"][0]["content"] for row in demonstrations(task, own)]
    references = [row["completion"][0]["content"] for row in demonstrations(task)]
    assert answers == ["greedy", "twice", *references[2:]]
    alone = [row["completion"][0]["content"] for row in demonstrations(task, own, references=False)]
    assert alone == ["greedy", "twice"]
    with pytest.raises(UserError, match=r"recipe\.references=false"):
        demonstrations(task, references=False)
    with pytest.raises(UserError, match="training problem"):
        demonstrations(task, {"basics/unknown": "x"})
    write_jsonl(tmp_path / "samples.jsonl", rows[-2:])
    with pytest.raises(UserError, match=r"recipe\.answers=.*no right answers"):
        right_answers(str(tmp_path))


def test_sft_then_pairs_then_dpo(tiny_model, tmp_path):
    small = [
        f"model.path={tiny_model}",
        "hardware.precision=fp32",
        "task.max_new_tokens=6",
        "task.also_evaluate=[]",
        "evaluation.samples=0",
    ]
    steps = ["recipe.trl.max_steps=2", "recipe.trl.save_steps=1", "recipe.batch_size=4", "recipe.trl.max_length=128"]
    sft = recipe("sft", *small, *steps, "run.dir=sft", cwd=tmp_path)
    assert sft.returncode == 0, sft.stderr[-2000:]
    rows = read_jsonl(tmp_path / "sft" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2] and all(row["loss"] > 0 for row in rows)
    assert "loss" in sft.stdout and "nan" not in sft.stdout
    assert (tmp_path / "sft" / "final" / "adapter_config.json").exists()
    assert (tmp_path / "sft" / "report.html").exists()

    pairs = ["adapter=sft", "run.dir=pairs", "recipe.samples_per_prompt=2", "recipe.problems=12", *small]
    # any two answers differ in length, so a penalty on it makes pairs of a model that solves nothing
    pairs += ["recipe.margin=0.0001", "task.reward.form.length_alpha=1.0", "recipe.prompts_at_once=4"]
    done = recipe("pairs", *pairs, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    samples = read_jsonl(tmp_path / "pairs" / "samples.jsonl")
    assert len(samples) == 24 and len({row["task_id"] for row in samples}) == 12
    file = tmp_path / "pairs" / "samples.jsonl"
    kept = file.read_text().splitlines(keepends=True)
    file.write_text("".join(kept[:11]) + kept[11][:30])  # killed in the second problem of the second batch
    again = recipe("pairs", *pairs, cwd=tmp_path)
    assert again.returncode == 0, again.stderr[-2000:]
    assert [row | {"seconds": 0} for row in read_jsonl(file)] == [row | {"seconds": 0} for row in samples]
    assert read_jsonl(file)[:8] == samples[:8]  # not drawn again
    summary = json.loads((tmp_path / "pairs" / "summary.json").read_text())
    assert summary["graded_samples"] == 24
    assert summary["seconds"] == sum(row["seconds"] for row in read_jsonl(file)) > 0  # of both runs

    made = tmp_path / "pairs" / "pairs.jsonl"
    made.write_text(  # the tiny model seldom differs in reward: preferences of our own
        "".join(
            json.dumps(
                {
                    "prompt": row["prompt"],
                    "chosen": row["completion"],
                    "rejected": [{"role": "assistant", "content": "no"}],
                }
            )
            + "\n"
            for row in demonstrations(Basics()).select(range(8))
        )
    )
    pairs = ["recipe.pairs=pairs", "adapter=sft", "run.dir=dpo", "evaluation.before=false"]
    dpo = recipe("dpo", *small, *steps, *pairs, cwd=tmp_path)
    assert dpo.returncode == 0, dpo.stderr[-2000:]
    rows = read_jsonl(tmp_path / "dpo" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2]
    assert rows[0]["margin"] == pytest.approx(0, abs=1e-4)  # the reference is the SFT policy, from which DPO starts
    assert {row["when"] for row in read_jsonl(tmp_path / "sft" / "evals.jsonl")} == {"before", "after"}
    assert {row["when"] for row in read_jsonl(tmp_path / "dpo" / "evals.jsonl")} == {"after"}
    assert rows[0]["loss"] == pytest.approx(0.6931, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("sft", ["recipe.batch_size=12", "hardware.memory_gib=16"], "do not divide into hardware.rows_per_device=8"),
        ("dpo", [], "recipe.pairs"),
        ("dpo", ["recipe.pairs=nowhere"], "no preference pairs in nowhere"),
        ("pairs", ["recipe.samples_per_prompt=1"], "a pair takes two answers"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(name, overrides, message, tmp_path):
    done = recipe(name, *overrides, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr


class Judge:
    """Grades as `grades` says: True, False, or None for what it could not."""

    def __init__(self, *grades: bool | None):
        self.grades = list(grades)

    async def score(self, problems, completions):
        asked, self.grades = self.grades[: len(problems)], self.grades[len(problems) :]
        return [None if each is None else ChannelResult(float(each), passed=each) for each in asked]


def test_what_could_not_be_graded_is_said_and_is_not_dropped(monkeypatch, tmp_path):
    """A run that goes on leaves out the same problems, whatever its references do this time."""
    message: list[str] = []
    monkeypatch.setattr(log, "warning", lambda text, *values: message.append(text % values))
    task = Basics(train_size=4)
    problems = task.problems("train")
    references, nonsense = (True, None, False, None), (False, False, None, True)
    reward = Reward({"judge": Judge(*references, *nonsense)}, {"judge": 1.0})
    failing, unjudged, right = asyncio.run(examine(reward, task, problems))
    assert [row["what"] for row in failing] == ["the reference fails", "nonsense passes"]
    assert [row["id"] for row in failing] == [problems[2].id, problems[3].id] and unjudged == [problems[1].id]
    assert [grade is None for grade in right] == [False, True, False, True]

    reward = Reward({"judge": Judge(*references, *nonsense)}, {"judge": 1.0})
    kept = training_problems(compose("task.drop_invalid=true"), task, reward, tmp_path).problems("train")
    assert kept == problems[:2] and "1 could not be graded and are kept" in message[0] and problems[1].id in message[0]

    all_fail = Reward({"judge": Judge(*[False] * 8)}, {"judge": 1.0})
    assert training_problems(compose("task.drop_invalid=true"), task, all_fail, tmp_path).problems("train") == kept


def test_check_names_what_is_not_sound_and_training_drops_it(tmp_path, tiny_model):
    rows = [
        {"name": f"add{n}", "family": f"f{n}", "signature": f"def add{n}(a, b):", "description": "Add."}
        | {"solution": f"def add{n}(a, b):\n    return a + b\n", "examples": [{"args": [1, 2], "expected": 3}]}
        | {"hidden": [{"args": [2, 2], "expected": 4}]}
        for n in range(8)
    ]
    rows[3]["solution"] = rows[3]["solution"].replace("+", "-")
    rows[5] |= {"examples": [], "hidden": [{"args": [1, 1], "expected": "a planted wrong answer"}]}
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = [f"task.env.path={data}", "task.env.train_size=7"]
    done = recipe("check", *task, "evaluation.split=all", "run.dir=check", cwd=tmp_path)
    assert done.returncode == 2
    invalid = read_jsonl(tmp_path / "check" / "invalid.jsonl")
    assert {(row["id"], row["what"]) for row in invalid} == {
        ("basics/add3", "the reference fails"),
        ("basics/add5", "the reference fails"),
        ("basics/add5", "nonsense passes"),
    }
    assert "fail: case 1: expected 3, got -1" in [row["note"] for row in invalid]
    small = [f"model.path={tiny_model}", "hardware.precision=fp32", "task.max_new_tokens=4", "task.also_evaluate=[]"]
    trained = recipe(
        *("sft", *task, *small, "task.drop_invalid=true", "recipe.trl.max_steps=1", "recipe.batch_size=2"),
        *("evaluation.samples=0", "run.dir=sft"),
        cwd=tmp_path,
    )
    assert trained.returncode == 0, trained.stderr[-2000:]
    held_out = {row["id"] for row in invalid if row["split"] == "test"}
    assert f"{2 - len(held_out)} of 7 train problems dropped" in trained.stdout
