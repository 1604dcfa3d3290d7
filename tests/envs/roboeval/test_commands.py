"""The commands: rows in, rows out, bad rows and bad folders answered in one line."""

from __future__ import annotations

import json

import pytest

from envs.roboeval import Benchmark, World
from envs.roboeval.__main__ import main
from envs.roboeval.checks import TASKS
from envs.task import TaskError


@pytest.fixture
def folder(tmp_path):
    """A benchmark folder of the right shape, with worlds of our own."""
    world = {"rooms": ["zarko's office", "lobby", "start_loc"], "robot_start": "start_loc", "objects": {}}
    world["people"] = {"zarko's office": [[".*"]]}
    worlds = {task: [world] * number for task, (_, number) in TASKS.items()}
    (tmp_path / "worlds.json").write_text(json.dumps(worlds))
    (tmp_path / "prompts.jsonl").write_text('{"id": "A_0", "task": "GrilledCheese", "prompt": "Do it."}\n')
    (tmp_path / "tests.jsonl").write_text('{"task": "GrilledCheese", "test_index": 0, "timeout_expected": false}\n')
    return tmp_path


def answers(capsys, *arguments: object) -> list[dict]:
    assert main([str(argument) for argument in arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


PROGRAM = """def task_program():
    go_to("zarko's office")
    ask("", "Which do you have?", ["cheese", "bread"])
    go_to("start_loc")
    say("bread")
"""


def test_judge(folder, tmp_path, capsys):
    rows = [
        {"id": 1, "task": "GrilledCheese", "program": PROGRAM},
        {"id": 2, "task": "GrilledCheese", "program": PROGRAM.replace("start_loc", "moon")},
        {"id": 3, "task": "Nothing", "program": PROGRAM},
        {"id": 4, "task": "GrilledCheese"},
        {"id": 5, "task": "GrilledCheese", "program": ""},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n")
    for mode in ("compat", "hardened"):
        results = answers(capsys, "judge", path, "--benchmark", folder, "--mode", mode)
        assert [row.get("verdict") for row in results] == [
            "Success",
            "RobotExecutionError",
            None,
            None,
            "PythonError",
            None,
        ]
        assert [row["id"] for row in results] == [1, 2, 3, 4, 5, None]
        assert all("error" in results[i] for i in (2, 3, 5)) and results[4]["extracted"] is False
        assert results[1]["error_span"]["line"] == 4 and results[0]["error_span"] is None
        assert results[0]["worlds"][0]["status"] == "success" and results[0]["worlds"][0]["world"] == 0


def test_check(folder, tmp_path, capsys):
    trace = [["GoTo", "zarko's office", None], ["Ask", "x", ["cheese", "bread"]], ["GoTo", "start_loc", None]]
    row = {"id": "a", "task": "GrilledCheese", "world": 0, "trace": [*trace, ["Say", "bread", None]]}
    odd = {**row, "trace": [["GoTo", "zarko's office", None], ["Ask", "x", [1]]]}
    rows = [row, {**row, "trace": trace}, {**row, "world": 7}, {**row, "trace": 5}, odd]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    results = answers(capsys, "check", path, "--benchmark", folder)
    assert [each.get("sat") for each in results] == [True, False, None, None, False]
    assert "error" in results[2] and "error" in results[3] and "TypeError" in results[4]["checker_error"]


def test_extract_and_robosim(tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"id": 1, "raw": f"```python\n{PROGRAM}```"}) + '\n{"id": 2, "raw": ""}\n{"id": 3}\n')
    results = answers(capsys, "extract", path)
    assert results[0] == {"id": 1, "program": PROGRAM, "extracted": True}
    assert results[1]["extracted"] is False and "error" in results[2]
    path.write_text(json.dumps({"id": 1, "program": "def task_program():\n    place('x')\n"}) + '\n{"id": 2}\n')
    results = answers(capsys, "robosim", path)
    assert results[0]["plain"] == results[0]["perturbed"] == {"RobotPlaceError": "1/1"} and results[0]["exact"] is True
    assert results[1]["id"] == 2 and "error" in results[1]


def test_a_folder_that_will_not_do(folder, tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    path.write_text("")
    assert main(["judge", str(path), "--benchmark", str(tmp_path / "none")]) == 1
    message = capsys.readouterr().err
    assert "--benchmark takes a folder" in message and len(message.splitlines()) == 1
    assert main(["judge", str(tmp_path / "no rows"), "--benchmark", str(folder)]) == 1
    assert Benchmark(folder).prompts()[0].task == "GrilledCheese"
    (folder / "tests.jsonl").write_text('{"task": "GrilledCheese", "test_index": 0, "timeout_expected": true}\n')
    with pytest.raises(TaskError, match="differ"):
        Benchmark(folder)
    (folder / "worlds.json").write_text('{"GrilledCheese": []}')
    with pytest.raises(TaskError, match="4 worlds are needed for CountSavory"):
        Benchmark(folder)


@pytest.mark.parametrize(
    "row",
    [
        5,
        {"rooms": ["a"]},
        {"rooms": ["a"], "robot_start": "b"},
        {"rooms": ["a("], "robot_start": "a("},
        {"rooms": ["a"], "robot_start": "a", "objects": {"b": ["x"]}},
        {"rooms": ["a"], "robot_start": "a", "people": {"a": [[5]]}},
    ],
)
def test_what_is_no_world(row):
    with pytest.raises(TaskError, match="not a world"):
        World.of(row)
