"""Python Programming Puzzles: instances of a puzzle are one problem, and a solution must have the puzzle's type."""

from __future__ import annotations

import asyncio
import json

import pytest

from envs.puzzles import LEFT_OUT, RELATED, Puzzles
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
    puzzle("One:0", "s='()'", sat="def sat(x: int, s='()'):\n    return x * 2 == len(s)")
    | {"sol_bodies": ["    return len(s) // 2"]},
    puzzle("Words:0", sat="def sat(x: List[str]):\n    return len(x) == 2", ans_type="List[str]")
    | {"sol_bodies": ["    return ['a', 'b']"]},
    puzzle("Open:0", sol_bodies=[]),
    puzzle("OfHumanEval:0", module="human_eval.py"),
    puzzle("DiscreteLog:0"),
    puzzle("Quine:0", sat="def sat(x: str):\n    return eval(x) == x"),
]
WRONG = (
    "def {name}(n=4):\n    return 2",
    "def {name}(n=4):\n    return n / 2 if isinstance(n, int) else 1.0",
    "def {name}(n=4):\n    return True",
    "class Equal(int):\n    def __eq__(self, other):\n        return True\ndef {name}(n=4):\n    return Equal(7)",
    "def {name}(n=4):\n    return ('a', 'b')",
    "def {name}(n=4):\n    return ['a', 2]",
)
"""Wrong for each puzzle: by value, or by type alone (2.0 and True in place of 2 and 1, a tuple in place of a list)."""


def file_of(tmp_path, rows) -> str:
    (tmp_path / "puzzles.json").write_text(json.dumps(rows))
    return str(tmp_path / "puzzles.json")


@pytest.fixture
def path(tmp_path):
    return file_of(tmp_path, ROWS)


def test_instances_of_a_puzzle_are_one_problem(path, sandbox):
    problems = sorted(Puzzles(path, train_size=0).problems("test"), key=lambda p: p.id)
    assert [p.id for p in problems] == ["puzzles/Half", "puzzles/One", "puzzles/Words"]
    half = problems[0]
    assert half.question.startswith("Find half of it.\n\nWrite") and half.question.endswith("def sol(n=4):\n```")
    assert ["takes the arguments" in p.question for p in problems] == [True, True, False]
    assert ["other arguments as well" in p.question for p in problems] == [True, False, False]
    assert [o.verdict for o in asyncio.run(validate(sandbox, problems))] == ["pass"] * 3
    for wrong in WRONG:
        assert [o.verdict for o in asyncio.run(validate(sandbox, problems, wrong))] == ["fail"] * 3, wrong


def test_related_puzzles_lie_on_one_side(tmp_path):
    names = [name for group in RELATED for name in group if name not in LEFT_OUT]
    task = Puzzles(file_of(tmp_path, [puzzle(f"{name}:0", "n=4") for name in names]), train_size=9)
    sides = [{p.id.split("/")[1] for p in task.problems(split)} for split in ("train", "test")]
    assert not any(side & set(group) and sides[0] & set(group) for group in RELATED for side in sides[1:])
    assert len(sides[0]) + len(sides[1]) == len(names)


def test_long_questions_are_left_out(path):
    lengths = [len(p.question) for p in Puzzles(path, train_size=0).problems("test")]
    assert len(Puzzles(path, train_size=0, longest=min(lengths)).problems("test")) == 1
    with pytest.raises(TaskError, match=r"task\.env\.longest=5 leaves 0 of 3 puzzles, and task\.env\.train_size=2"):
        Puzzles(path, train_size=2, longest=5)


def test_what_is_wrong_with_the_file_is_said(tmp_path):
    with pytest.raises(TaskError, match=r"task\.env\.path is not set.*PythonProgrammingPuzzles"):
        Puzzles()
    with pytest.raises(TaskError, match=r"task\.env\.path=.*absent is missing: download"):
        Puzzles(str(tmp_path / "absent"))
    with pytest.raises(TaskError, match="is a folder: name the file"):
        Puzzles(str(tmp_path))
    for rows, reason in (
        ({}, "not a JSON list"),
        ([], r"task\.env\.path=.*puzzles\.json: it has no puzzle that can be used; it should be"),
        ([{"name": "a"}], "puzzle 0: not an object with the texts name"),
        ([puzzle("A:0"), puzzle("B:0", sat=None)], "puzzle 1: not an object"),
        ([puzzle("A:0", sol_bodies="x")], "sol_bodies is not a list"),
        ([puzzle("A:0", ans_type="Dict[str, int]")], r"ans_type Dict\[str, int\] is none of"),
        ([puzzle("A:0", sat="def sat(")], "sat of the puzzle A:0 is no function"),
        ([puzzle("A:0", sat="")], "sat of the puzzle A:0 is no function"),
    ):
        with pytest.raises(TaskError, match=reason):
            Puzzles(file_of(tmp_path, rows))
    (tmp_path / "puzzles.json").write_text("{")
    with pytest.raises(TaskError, match="not JSON"):
        Puzzles(str(tmp_path / "puzzles.json"))
