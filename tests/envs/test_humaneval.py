"""HumanEval as completions: the prompt's text goes on, is cut where the work cuts it, and is graded as one program."""

from __future__ import annotations

import asyncio
import gzip
import json

import pyarrow
import pytest
from pyarrow import parquet

from envs.humaneval import STOPS, HumanEval
from envs.sandbox import Job, run_sync
from envs.task import TaskError, validate
from recipes.data.training_data import demonstrations
from recipes.evaluation.exports import evalplus_samples
from recipes.evaluation.task_soundness import as_answer, planted_wrong
from rewards.channel import Completion
from rewards.syntax import Syntax
from rewards.unit_tests import UnitTests

ROW = {
    "task_id": "HumanEval/0",
    "prompt": 'import math\n\n\ndef half(x):\n    return x / 2\n\n\ndef double(x):\n    """Twice x."""\n',
    "entry_point": "double",
    "canonical_solution": "    y = half(x)\n    return 4 * y\n",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(-3) == -6\n",
}


@pytest.fixture
def task(tmp_path) -> HumanEval:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW) + "\n")
    return HumanEval(train_size=0, path=str(path), style="completion", system="Not for completions.")


def completion(task: HumanEval, text: str) -> Completion:
    code = task.extract(text)
    span = None if code is None else (code.start, code.end)
    return Completion(text, range(len(text)), [(i, i + 1) for i in range(len(text))], code_span=span)


def test_every_reference_completes_its_prompt(sandbox):
    task = HumanEval(style="completion")
    problems = [*task.problems("train"), *task.problems("test")]
    assert (len(task.problems("train")), len(task.problems("test"))) == (131, 33)
    assert [p.id for p in problems] == [p.id for s in ("train", "test") for p in HumanEval().problems(s)]
    assert [o.id for o in asyncio.run(validate(sandbox, problems)) if o.verdict != "pass"] == []
    assert [o.id for o in asyncio.run(validate(sandbox, problems, "    pass\n")) if o.verdict == "pass"] == []
    assert all(task.extract(p.reference).end == len(p.reference) for p in problems)
    answers = [completion(task, p.reference) for p in problems]
    assert {result.score for result in asyncio.run(Syntax(sandbox).score(problems, answers))} == {0.0}
    assert [p.id for p in problems if p.job(p.begun + p.reference).code != p.begun + p.reference] == []


def test_the_prompt_is_the_rows_own_text(task):
    [problem] = task.problems("test")
    assert task.messages(problem) == ROW["prompt"]
    assert problem.job("    return 2 * x").code == ROW["prompt"] + "    return 2 * x"
    assert isinstance(HumanEval().messages(HumanEval().problems("test")[0]), list)


@pytest.mark.parametrize(
    "stop", ["\nclass A:", "\ndef main():", "\n# Test", "\nif __name__ == '__main__':", "\nprint(1)"]
)
def test_an_answer_ends_before_a_new_statement_at_the_top_level(task, stop):
    body = "    if x:\n        # a comment\n        print(x)\n    return 2 * x\n"
    code = task.extract(body + stop + "\n    more")
    assert (body + stop)[code.start : code.end] == body and not code.closed
    assert task.complete(body + stop) and not task.complete(body)
    [last] = [each for each in STOPS if stop.startswith(each)]
    assert last[-1] in task.closing  # the sampler looks only where one of these was drawn


def test_an_answer_without_text_has_no_code(task):
    assert task.extract("") is task.extract("\n  \n") is task.extract("\n\ndef other():\n    pass\n") is None
    assert task.extract("    return 1").end == len("    return 1")


def test_prompt_and_completion_are_graded_together(task, sandbox):
    [problem] = task.problems("test")
    answers = [
        "    return 4 * half(x)\n\nprint(double('long'))\n",
        "    return math.fsum([x, x])",
        "    return x * x\n",
        "return 2 * x\n",
        "\n",
    ]
    graded = asyncio.run(UnitTests(sandbox).score([problem] * 5, [completion(task, answer) for answer in answers]))
    assert [result.passed for result in graded] == [True, True, False, False, False]
    assert graded[-1].verdict == "no code"


def test_penalties_lie_on_the_lines_of_the_answer(task, sandbox):
    [problem] = task.problems("test")
    text = "    if x > 0:\n        return 2 * x\n    return 0\n\n\ndef unused():\n    pass\n"
    [result] = asyncio.run(UnitTests(sandbox, locate=True).score([problem], [completion(task, text)]))
    whole, *charged = result.spans
    assert not result.passed and text[whole.start : whole.end].endswith("return 0\n\n")
    assert [text[span.start : span.end] for span in charged] == ["return 0"] and "(line 3)" in result.note


def test_demonstrations_are_what_follows_the_prompt(tmp_path, task, sandbox):
    [problem] = task.problems("test")
    path = tmp_path / "two.jsonl"
    path.write_text("".join(json.dumps(ROW | {"task_id": f"HumanEval/{n}"}) + "\n" for n in range(2)))
    [row] = demonstrations(HumanEval(train_size=1, path=str(path), style="completion"))
    assert row == {"prompt": ROW["prompt"], "completion": ROW["canonical_solution"]}
    answers = [as_answer(task, problem, problem.reference), as_answer(task, problem, planted_wrong(problem))]
    graded = asyncio.run(UnitTests(sandbox).score([problem] * 2, answers))
    assert [result.passed for result in graded] == [True, False]


def test_evalplus_gets_prompt_and_completion(task, sandbox):
    answer = "    return 4 * half(x)\n\n# Tests\n"
    [sample] = evalplus_samples(task, task.problems("test"), [{"task_id": "HumanEval/0", "completion": answer}])
    assert sample["solution"].rstrip() == ROW["prompt"] + "    return 4 * half(x)"
    job = Job("whole", "check", sample["solution"], "double", check_src=ROW["test"])
    assert run_sync(sandbox, [job])[0].verdict == "pass"


def test_another_style_is_refused_in_one_line():
    with pytest.raises(TaskError, match=r"task\.env\.style=poem: must be chat or completion"):
        HumanEval(style="poem")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"test": None}, "the row 'HumanEval/0' has no text `test`; HumanEval's rows have task_id, prompt"),
        ({"prompt": "def other(x):\n"}, "the prompt of double has no line `def double"),
    ],
)
@pytest.mark.parametrize("style", ["chat", "completion"])
def test_a_row_that_cannot_be_used_is_one_line(changed, message, style, tmp_path):
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps(ROW | {"task_id": f"HumanEval/{n}"} | changed) + "\n" for n in range(2))
    )
    with pytest.raises(TaskError, match=message):
        HumanEval(train_size=1, path=str(tmp_path / "rows.jsonl"), style=style)


def test_an_empty_file_is_named(tmp_path):
    (tmp_path / "rows.jsonl").write_text("\n")
    with pytest.raises(TaskError, match=rf"task\.env\.path={tmp_path}/rows\.jsonl: it is empty"):
        HumanEval(path=str(tmp_path / "rows.jsonl"))


def test_a_blank_before_the_parameters_is_no_other_function(tmp_path):
    rows = [
        ROW | {"task_id": f"HumanEval/{n}", "prompt": ROW["prompt"].replace("double(", "double (")} for n in range(2)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = HumanEval(train_size=1, path=str(tmp_path / "rows.jsonl"))
    assert "def double" not in task.problems("test")[0].setup


def test_rows_may_lie_in_files_of_several_forms_at_any_depth(tmp_path):
    rows = [ROW | {"task_id": f"HumanEval/{n}"} for n in range(3)]
    with pytest.raises(TaskError, match=r"holds no \.jsonl, \.jsonl\.gz, \.parquet \(task\.env\.path\)"):
        HumanEval(train_size=0, path=str(tmp_path))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.jsonl").write_text(json.dumps(rows[0]))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(json.dumps(rows[1]).encode()))
    parquet.write_table(pyarrow.Table.from_pylist(rows[2:]), tmp_path / "c.parquet")
    (tmp_path / "README.md").write_text("no data")
    problems = HumanEval(train_size=0, path=str(tmp_path)).problems("test")
    assert sorted(problem.id for problem in problems) == [row["task_id"] for row in rows]
    assert {(p.entry_point, p.check_src) for p in problems} == {(ROW["entry_point"], ROW["test"])}
    assert [p.id for p in HumanEval(train_size=0, path=str(tmp_path / "c.parquet")).problems("test")] == ["HumanEval/2"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.jsonl", json.dumps(ROW) + "\n{cut", r"rows\.jsonl:2: not JSON"),
        ("rows.jsonl.gz", "not compressed", r"cannot read .*rows\.jsonl\.gz"),
        ("rows.parquet", "no table", r"cannot read .*rows\.parquet"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_setting(name, content, message, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(TaskError, match=rf"^task\.env\.path={tmp_path}/{name}: .*{message}") as error:
        HumanEval(train_size=0, path=str(tmp_path / name))
    assert "\n" not in str(error.value)


def test_two_rows_with_one_id_are_told_of_the_field_that_holds_it(tmp_path):
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(ROW)}\n" * 2)
    with pytest.raises(TaskError, match="as HumanEval/0: give each row its own `task_id`"):
        HumanEval(train_size=1, path=str(tmp_path / "rows.jsonl"))
