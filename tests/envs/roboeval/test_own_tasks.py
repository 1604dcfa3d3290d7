"""Evaluation tasks of a user's: the example of the README is sound, and mistakes are named with the row's id."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

import envs.roboeval
from envs.roboeval.task import RoboEval
from envs.task import TaskError
from rewards.channel import Completion
from rewards.robot import Simulator

README = Path(envs.roboeval.__file__).with_name("README.md").read_text()
[EXAMPLE] = [json.loads(line) for line in re.findall(r'^ +(\{"id": "mug".*\})$', README, re.MULTILINE)]


def tasks(folder: Path, *rows: dict) -> RoboEval:
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return RoboEval(test=str(folder / "tasks.jsonl"))


def test_the_readmes_example_is_sound_and_grades_programs(tmp_path, sandbox):
    [problem] = tasks(tmp_path, EXAMPLE).problems("test")
    assert problem.id == "roboeval/mug" and len(problem.data["worlds"]) == 2
    absent_minded = problem.reference.partition("    else:")[0]
    liar = 'def task_program():\n    say("There is no mug in the kitchen")\n'
    texts = [problem.reference, absent_minded, liar]
    completions = [
        Completion(text, range(len(text)), [(i, i + 1) for i in range(len(text))], (0, len(text))) for text in texts
    ]
    results = asyncio.run(Simulator(sandbox).score([problem] * 3, completions))
    assert [result and result.passed for result in results] == [True, False, False]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"worlds": None}, "mug: worlds is missing"),
        ({"conditions": EXAMPLE["conditions"][:1]}, "mug: 2 worlds and 1 conditions"),
        ({"worlds": [{"rooms": ["a"], "robot_start": "b"}] * 2}, "mug: not a world: .*'b' is not among the rooms"),
        ({"worlds": [{"rooms": ["a"], "robot_start": "a", "objects": {"a": "mug"}}] * 2}, "objects of a: 'mug' must"),
        (
            {"worlds": [{"rooms": ["a"], "robot_start": "a", "people": {"a": ["yes"]}}] * 2},
            "a person in a: 'yes' must be a list",
        ),
        ({"worlds": [{"rooms": [1], "robot_start": 1}] * 2}, "rooms: 1 must be a text"),
        ({"worlds": 1}, "mug: worlds is no list"),
        ({"conditions": "report"}, "mug: conditions is no list"),
        ({"program": 5}, "mug: program is no text"),
        ({"text": 5}, "mug: text is no text"),
        ({"conditions": [{"visits": []}] * 2}, "mug: "),
        ({"conditions": [{"report": "("}] * 2}, "mug: not a regular expression"),
    ],
)
def test_mistakes_are_named(tmp_path, changed, message):
    with pytest.raises(TaskError, match=message) as caught:
        tasks(tmp_path, {**EXAMPLE, **changed})
    assert str(caught.value).startswith("task.env.test=") and "\n" not in str(caught.value)


def test_what_is_there_twice_or_not_at_all(tmp_path):
    with pytest.raises(TaskError, match="mug: a second task with this id"):
        tasks(tmp_path, EXAMPLE, EXAMPLE)
    with pytest.raises(TaskError, match="no row"):
        tasks(tmp_path)
    (tmp_path / "tasks.jsonl").write_text(json.dumps(EXAMPLE) + "\n" + json.dumps(EXAMPLE)[:-9])
    with pytest.raises(TaskError, match=r"tasks\.jsonl:2: not JSON"):
        RoboEval(test=str(tmp_path / "tasks.jsonl"))
    with pytest.raises(TaskError, match=r"no such file or folder: .*absent \(task\.env\.test\)"):
        RoboEval(test=str(tmp_path / "absent"))
    with pytest.raises(TaskError, match="set one of them"):
        RoboEval(test="tasks.jsonl", benchmark_dir="benchmark")
