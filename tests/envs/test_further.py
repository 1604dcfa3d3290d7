"""More problems to train on beside those of basics, and MBPP's training problems as such."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envs.basics import Basics
from envs.mbpp.training_rows import main, training_rows
from envs.task import TaskError

MBPP = Path(__file__).parents[2].parent / "shared" / "data" / "mbpp" / "mbpp.jsonl.gz"
ROW = {
    "text": "Write a function to double a number. ",
    "code": "def twice(x):\r\n\treturn 2 * x\r\n",
    "task_id": 700,
    "test_setup_code": "",
    "test_list": ["assert twice(2) == 4", "assert twice(-1) == -2", "assert twice(0) == 0"],
}


def test_they_are_trained_on_and_nothing_else_changes(tmp_path):
    rows = [
        {"name": "twice", "solution": "def twice(x):\n    return 2 * x + x % 7 - x // 3\n"},
        {"name": "held_out", "solution": Basics().problems("test")[0].reference},
    ]
    fields = {"family": "a", "signature": "def f(x):", "description": "Do.", "hidden": []}
    lines = [json.dumps({**fields, **row, "examples": [{"args": [1], "expected": 3}]}) for row in rows]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    alone, more = Basics(), Basics(further=str(tmp_path / "rows.jsonl"))
    assert [p.id for p in more.problems("train")] == [p.id for p in alone.problems("train")] + ["basics/further/twice"]
    assert [p.id for p in more.problems("test")] == [p.id for p in alone.problems("test")]
    assert more.problems("train")[-1].cases[0].expected == 3
    for wrong, reason in (
        ({"examples": []}, "basics/further/twice: it has no tests"),
        ({"solution": "def twice("}, "no Python"),
        ({"again": True}, "a second problem has this id"),
    ):
        again = [json.dumps({**json.loads(lines[0]), **wrong})] * (2 if "again" in wrong else 1)
        (tmp_path / "wrong.jsonl").write_text("\n".join(again))
        with pytest.raises(TaskError, match=reason):
            Basics(further=str(tmp_path / "wrong.jsonl"))
    with pytest.raises(TaskError, match=r"no such file or folder: .*absent \(task\.env\.further\)"):
        Basics(further=str(tmp_path / "absent"))


def test_rows_of_mbpp(tmp_path, capsys):
    other = [
        {**ROW, "task_id": 510},
        {**ROW, "task_id": 701, "test_list": ["assert twice((1, 2)) == 4"]},
        {**ROW, "task_id": 702, "test_list": ["assert not twice(0)"]},
        {**ROW, "task_id": 703, "test_setup_code": "import os"},
    ]
    (tmp_path / "mbpp.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [ROW, *other]))
    [row] = training_rows(tmp_path / "mbpp.jsonl")
    assert (row["id"], row["name"], row["signature"]) == ("mbpp/700", "twice", "def twice(x):")
    assert row["solution"] == "def twice(x):\n    return 2 * x\n" and row["description"].endswith("number.")
    assert row["examples"][1] == {"args": [-1], "expected": -2} and len(row["hidden"]) == 1
    assert main([str(tmp_path / "mbpp.jsonl"), "-o", str(tmp_path / "rows.jsonl")]) == 0
    assert Basics(further=str(tmp_path / "rows.jsonl")).problems("train")[-1].id == "mbpp/700"
    assert main([str(tmp_path / "absent"), "-o", str(tmp_path / "x")]) == 1
    (tmp_path / "none.jsonl").write_text(json.dumps(other[0]))
    assert main([str(tmp_path / "none.jsonl"), "-o", str(tmp_path / "x")]) == 1
    assert "no problem of 511 to 974" in capsys.readouterr().err and not (tmp_path / "x").exists()


@pytest.mark.skipif(not MBPP.exists(), reason="shared/data/mbpp is not beside this clone")
def test_the_real_file():
    rows = list(training_rows(MBPP))
    assert len(rows) == 355 and len({row["id"] for row in rows}) == 355
