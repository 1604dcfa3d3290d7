"""Python Programming Puzzles: instances of a puzzle are one problem, and a solution must have the puzzle's type."""

from __future__ import annotations

import asyncio
import json

import pytest

from envs.puzzles import Puzzles
from envs.task import TaskError, validate


def puzzle(name: str, arguments: str = "", **more) -> dict:
    return {
        "name": name,
        "sat": f"def sat(x: int{arguments and ', '}{arguments}):\n    return x * 2 == {arguments.split('=')[0] or 8}",
        "ans_type": "int",
        "sol_header": f"def sol({arguments}):",
        "sol_docstring": '    """Find half\n    of it."""',
        "sol_bodies": [f"    return {arguments.split('=')[0] or 8} // 2"],
        "module": "basic.py",
        **more,
    }


ROWS = [
    puzzle("Half:0", "n=4"),
    puzzle("Half:1", "n=10"),
    puzzle("Half:2", f"n={'9' * 5000}"),
    puzzle("Four:0"),
    puzzle(
        "Words:0", sat="def sat(x: List[str]):\n    return len(x) == 2", ans_type="List[str]", sol_header="def sol():"
    )
    | {"sol_bodies": ["    return ['a', 'b']"]},
    puzzle("Open:0", sol_bodies=[]),
    puzzle("OfHumanEval:0", module="human_eval.py"),
    puzzle("DiscreteLog:0"),
]


@pytest.fixture
def path(tmp_path):
    (tmp_path / "puzzles.json").write_text(json.dumps(ROWS))
    return str(tmp_path / "puzzles.json")


def test_instances_of_a_puzzle_are_one_problem(path, sandbox):
    half, four, words = sorted(Puzzles(path, train_size=0).problems("test"), key=lambda p: -len(p.question))
    assert [p.id for p in (half, four, words)] == ["puzzles/Half", "puzzles/Words", "puzzles/Four"]
    assert "Find half of it." in half.question and "other arguments as well" in half.question
    assert "other arguments" not in four.question and half.question.endswith("```python\ndef sol(n=4):\n```")
    problems = [half, four, words]
    assert [o.verdict for o in asyncio.run(validate(sandbox, problems))] == ["pass"] * 3
    for wrong in (
        "def {name}(n=4):\n    return 2",
        "def {name}(n=4):\n    return n / 2",
        "def {name}(n=4):\n    return True",
        "class Equal(int):\n    def __eq__(self, other):\n        return True\ndef {name}(n=4):\n    return Equal()",
        "def {name}(n=4):\n    return (1, 2)",
        "def {name}(n=4):\n    return [1, 2]",
    ):
        assert all(o.verdict == "fail" for o in asyncio.run(validate(sandbox, problems, wrong))), wrong


def test_long_questions_are_left_out(path):
    lengths = [len(p.question) for p in Puzzles(path, train_size=0).problems("test")]
    assert len(Puzzles(path, train_size=0, longest=min(lengths)).problems("test")) == 1
    with pytest.raises(TaskError, match="train_size"):
        Puzzles(path, train_size=3)


def test_what_is_wrong_with_the_file_is_said(tmp_path):
    with pytest.raises(TaskError, match=r"task\.env\.path is not set.*PythonProgrammingPuzzles"):
        Puzzles()
    with pytest.raises(TaskError, match=r"no such file: .*absent.*task\.env\.path"):
        Puzzles(str(tmp_path / "absent"))
    for text, reason in (("{", "not JSON"), ("{}", "not a JSON list"), ('[{"name": "a"}]', "not a JSON list")):
        (tmp_path / "wrong.json").write_text(text)
        with pytest.raises(TaskError, match=reason):
            Puzzles(str(tmp_path / "wrong.json"))
