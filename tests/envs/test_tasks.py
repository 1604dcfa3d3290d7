"""The tasks' own data: references pass, splits hold, prompts hide what they should."""

from __future__ import annotations

import asyncio
import difflib
import gzip
import json
import textwrap
from dataclasses import replace

import pyarrow
import pytest
from pyarrow import parquet

from envs.basics import Basics
from envs.humaneval import HumanEval
from envs.sandbox import FunctionCase, run_sync
from envs.task import Problem, TaskError, extract_fenced, seeded_split, validate


@pytest.mark.parametrize("task", [Basics(), HumanEval()], ids=["basics", "humaneval"])
def test_every_reference_passes_its_own_tests(task, sandbox):
    problems = [*task.problems("train"), *task.problems("test")]
    assert [o.id for o in asyncio.run(validate(sandbox, problems)) if o.verdict != "pass"] == []


def test_basics_has_200_to_train_on_and_hides_most_tests():
    task = Basics()
    train, test = task.problems("train"), task.problems("test")
    assert len(train) == 200
    assert len(train) + len(test) >= 240
    for problem in [*train, *test]:
        assert len(problem.cases) >= 4
        calls = [f"{problem.entry_point}({', '.join(map(repr, c.args))}) ==" for c in problem.cases]
        assert sum(call in problem.question for call in set(calls)) == 1
        assert sum(call not in problem.question for call in calls) >= 3


def test_no_near_duplicate_lies_across_the_split():
    task = Basics()
    for held_out in task.problems("test"):
        text = held_out.question.split(" For example")[0].lower()
        for seen in task.problems("train"):
            other = seen.question.split(" For example")[0].lower()
            assert difflib.SequenceMatcher(None, text, other).ratio() <= 0.85, (held_out.id, seen.id)


def test_humaneval_splits_131_to_33():
    task = HumanEval()
    assert (len(task.problems("train")), len(task.problems("test"))) == (131, 33)


def test_a_split_is_the_same_every_time_and_keeps_families_together():
    problems = [Problem(f"p/{i}", "", "f", family=f"p/{i // 3}") for i in range(30)]
    split = seeded_split(problems, 20, seed=3)
    assert split == seeded_split(list(problems), 20, seed=3)
    assert not {p.family for p in split["train"]} & {p.family for p in split["test"]}
    with pytest.raises(TaskError, match="set it to"):
        seeded_split(problems, 31, seed=0)


EXAMPLE = 'def f(x):\n    """Twice x.\n\n    ```python\n    f(2)\n    ```\n    """\n    return 2 * x\n'
ROW = {
    "name": "f",
    "family": "f",
    "signature": "def f(x):",
    "description": "d",
    "solution": "def f(x):\n    return x\n",
}
SOLVED = "def f(x):\n    return x + x % 7 - x // 3 * {}\n"
"""A reference that has the shape of no held-out one."""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("{not json", "not JSON"),
        (json.dumps({"name": "f"}), "missing"),
        (json.dumps({**ROW, "examples": [], "hidden": []}), "no tests"),
        (
            json.dumps({**ROW, "examples": [], "hidden": [{"args": [1]}]}),
            ":1: test 1 of hidden needs args",
        ),
        (
            json.dumps({**ROW, "examples": [{"args": 1, "expected": 1}], "hidden": []}),
            "args of test 1 of examples",
        ),
        (json.dumps({**ROW, "examples": {}, "hidden": []}), "examples is no list"),
        (json.dumps({**ROW, "examples": [], "hidden": [], "id": 0}), ":1: id is no text"),
        (json.dumps({**ROW, "examples": [], "hidden": [], "id": None}), "no tests"),
        *(
            (json.dumps({**ROW, **changed, "examples": [], "hidden": [{"args": [1], "expected": 1}]}), f":1: {says}")
            for changed, says in (
                ({"solution": "def f(x)"}, "the solution of f is no Python: expected ':'"),
                ({"solution": "def g(x):\n    return x\n"}, "the solution of f has no `def f`"),
                ({"solution": "(" * 10_000}, "the solution of f is no Python: "),
                ({"solution": " "}, "solution is empty"),
                ({"signature": ""}, "signature is empty"),
                ({"name": ""}, "name is empty"),
                ({"name": "f g"}, "name='f g' names no function"),
            )
        ),
    ],
)
@pytest.mark.parametrize("key", ["path", "further"])
def test_bad_data_is_refused_in_one_line(tmp_path, text, says, key):
    file = tmp_path / "mine.jsonl"
    file.write_text(text)
    with pytest.raises(TaskError, match=says) as error:
        Basics(train_size=0, **{key: str(file)})
    assert "\n" not in str(error.value) and f"task.env.{key}" in str(error.value) and str(file) in str(error.value)


@pytest.mark.parametrize("key", ["path", "further"])
def test_ones_own_rows_may_lie_in_files_of_several_forms_at_any_depth(tmp_path, key):
    tests = {"examples": [{"args": [1], "expected": 1}], "hidden": []}
    rows = [ROW | tests | {"id": f"mine/{n}", "family": str(n), "solution": SOLVED.format(n)} for n in range(4)]
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(TaskError, match=rf"holds no \.jsonl, \.jsonl\.gz, \.parquet \(task\.env\.{key}\)"):
        Basics(train_size=0, **{key: str(tmp_path)})
    (tmp_path / "a" / "b" / "deep.jsonl").write_text(json.dumps(rows[0]))
    (tmp_path / "a" / "zipped.jsonl.gz").write_bytes(gzip.compress(json.dumps(rows[1]).encode()))
    parquet.write_table(pyarrow.Table.from_pylist(rows[2:3]), tmp_path / "table.parquet")
    (tmp_path / "top.jsonl").write_text(json.dumps(rows[3]))
    (tmp_path / "README.md").write_text("no data")
    problems = Basics(train_size=0, **{key: str(tmp_path)}).problems("test" if key == "path" else "train")
    assert sorted(p.id for p in problems) == [row["id"] for row in rows]
    assert [p.cases for p in problems] == [(FunctionCase((1,), 1),)] * 4
    (tmp_path / "table.txt").write_text(json.dumps(rows[0]))
    with pytest.raises(TaskError, match=r"table\.txt is no \.jsonl"):
        Basics(train_size=0, **{key: str(tmp_path / "table.txt")})


@pytest.mark.parametrize("key", ["path", "further"])
def test_results_of_ones_own_rows_are_compared_as_json_has_them(tmp_path, sandbox, key):
    expected = [[1, 2], {"1": [0.3]}]
    row = ROW | {"solution": SOLVED.format(0), "examples": [], "hidden": [{"args": [1], "expected": expected}]}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row))
    [problem] = Basics(train_size=0, **{key: str(tmp_path / "mine.jsonl")}).problems(
        "test" if key == "path" else "train"
    )
    returned = [
        ("(1, 2), {1: (0.1 + 0.2,)}", "pass"),
        ("[[1, 2], {'1': [0.3000009]}]", "pass"),
        ("[[1, 2], {'1': [0.300002]}]", "fail"),
        ("[[1.0, 2], {'1': [0.3]}]", "pass"),
        ("[{1, 2}, {'1': [0.3]}]", "fail"),
        ("[[1, 3], {'1': [0.3]}]", "fail"),
    ]
    jobs = [problem.job(f"def f(x):\n    return {value}\n", value) for value, _ in returned]
    assert [o.verdict for o in run_sync(sandbox, jobs)] == [verdict for _, verdict in returned]


def test_a_block_inside_a_list_is_run_without_its_indent(sandbox):
    """As Markdown has it; what a prompt has begun keeps the indent of its function's body."""
    problem = Basics().problems("train")[0]
    answer = "1. The code:\n   ```python\n" + textwrap.indent(problem.reference, "   ") + "   ```\n"
    code = extract_fenced(answer)
    [outcome] = run_sync(sandbox, [problem.job(answer[code.start : code.end])])
    assert outcome.verdict == "pass"
    uneven = "   def f():\n  return 1\n"
    assert problem.job(uneven).code == uneven
    begun = replace(problem, begun="def f(x):\n")
    assert begun.job("    return x\n").code == "def f(x):\n    return x\n"


def test_two_rows_with_one_name_need_ids(tmp_path, sandbox):
    file = tmp_path / "mine.jsonl"
    rows = [ROW | {"examples": [], "hidden": [{"args": [1], "expected": value}]} for value in (1, 2)]
    rows[1] |= {"solution": "def f(x):\n    return x + 1\n", "family": "g"}
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(TaskError, match="1 ids name several problems, as basics/f: give each row its own `id`"):
        Basics(train_size=1, path=str(file))
    file.write_text("".join(f"{json.dumps(row | {'id': f'mine/{n}'})}\n" for n, row in enumerate(rows)))
    task = Basics(train_size=1, path=str(file))
    problems = [*task.problems("train"), *task.problems("test")]
    assert {p.id for p in problems} == {"mine/0", "mine/1"}
    assert [o.verdict for o in asyncio.run(validate(sandbox, problems))] == ["pass"] * 2


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(TaskError, match="nowhere"):
        Basics(path=str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("answer", "code", "closed"),
    [
        ("```python\nx = 1\n```", "x = 1\n", True),
        ("a\n```\nx = 1\n```\nb\n```py\ny = 2\n```\nc", "y = 2\n", True),
        ("```python\nx = 1\n```\nthen\n```python\ny = 2", "y = 2", False),
        ("```python\nx = 1\n```\n```python\n", "x = 1\n", True),
        ("no fence", None, None),
        ("", None, None),
        ("  ```python\n  x = 1\n  ```", "  x = 1\n", True),
        ("```python\ndef f():\n    return 1\n    ```\n", "def f():\n    return 1\n", True),
        (f"```python\n{EXAMPLE}", EXAMPLE, False),
        (f"```python\n{EXAMPLE}```\n", EXAMPLE, True),
        ("- so:\n\n      ```python\n      x = 1\n      ```\n", "      x = 1\n", True),
        ("1. ```python\n   x = 1\n   ```\n\nThis sets x.", "   x = 1\n", True),
        ("Answer: ```python\nx = 1\n```\nDone.", "x = 1\n", True),
        ("> ```\nx = 1\n```", "x = 1\n", True),
        ("Use ``` here.\nx = 1\n", None, None),
        ("```x = 1``` is code, and\n```python\ny = 2\n```", "y = 2\n", True),
        ("````python\nx = 1\n```\ny = 2\n````\nend", "x = 1\n```\ny = 2\n", True),
        ("```python\n# a draft\n```python\nx = 1\n```", "x = 1\n", True),
        ("```python\n# a draft\n```python\n", "# a draft\n", True),
        ("```python\nx = 1```\nThat is all.", "x = 1", True),
        ('```python\ns = """\nx```\n"""\n```', 's = """\nx```\n"""\n', True),
        ("```python\nx = 1  # not ```\n```", "x = 1  # not ```\n", True),
    ],
)
def test_the_last_block_wins(answer, code, closed):
    results = extract_fenced(answer)
    assert (None if results is None else answer[results.start : results.end]) == code
    assert (None if results is None else results.closed) == closed
