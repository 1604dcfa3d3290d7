"""Closed worlds. RoboEval's own are read from a folder that the user names, because their licence (BSD 3-Clause with a
machine-learning restriction) allows evaluation but not training."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from envs.json_lines import read_json_lines
from envs.roboeval.checks import TASKS
from envs.roboeval.published import published_rows, task_folder
from envs.task import TaskError


@dataclass(frozen=True)
class World:
    """One closed world.

    rooms: in the order of `get_all_rooms`; the robot starts in `robot_start`, one of them. objects: labels by room.
    people: for each person of a room the queue of answers. Rooms, labels and answers are regular expressions, searched
    in the program's text, ignoring case. may_timeout: a program may wait here forever; its trace is judged
    nevertheless.
    """

    rooms: tuple[str, ...]
    robot_start: str = "start_loc"
    objects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    people: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    may_timeout: bool = False

    @classmethod
    def of(cls, row: Any) -> World:
        """A world from JSON, as in worlds.json. Raises TaskError."""
        try:
            rooms = _texts("rooms", row["rooms"])
            objects = {room: _texts(f"objects of {room}", labels) for room, labels in row.get("objects", {}).items()}
            people = {
                room: tuple(_texts(f"a person in {room}", queue) for queue in _list(f"people in {room}", queues))
                for room, queues in row.get("people", {}).items()
            }
            start, may_timeout = row["robot_start"], row.get("may_timeout", False)
            for room in [start, *objects, *people]:
                if room not in rooms:
                    raise ValueError(f"{room!r} is not among the rooms")
        except (KeyError, TypeError, ValueError, AttributeError, re.error) as error:
            raise TaskError(f"not a world: {type(error).__name__}: {error}") from error
        return cls(rooms, start, objects, people, bool(may_timeout))

    @cached_property
    def data(self) -> dict[str, Any]:
        """Plain data for the simulator."""
        return {
            "rooms": list(self.rooms),
            "robot_start": self.robot_start,
            "objects": {room: list(labels) for room, labels in self.objects.items()},
            "people": {room: [list(queue) for queue in queues] for room, queues in self.people.items()},
        }


def _list(what: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{what}: {value!r:.60} must be a list")
    return value


def _texts(what: str, value: Any) -> tuple[str, ...]:
    """A list of regular expressions. Raises ValueError, or re.error."""
    for text in _list(what, value):
        if not isinstance(text, str):
            raise ValueError(f"{what}: {text!r:.60} must be a text")
        re.compile(text)
    return tuple(value)


@dataclass(frozen=True)
class Prompt:
    """One of RoboEval's 80 instructions."""

    id: str
    task: str
    prompt: str


class Benchmark:
    """RoboEval's folder: the published one (published.py), or worlds.json, prompts.jsonl and tests.jsonl.

    Raises:
        TaskError: a file is missing or invalid.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser()
        files = None if (self.folder / "worlds.json").exists() else task_folder(self.folder, TASKS)
        self._rows: dict[str, Any] = {} if files is None else published_rows(files, TASKS)
        rows_by_task = self._read("worlds.json")
        if not isinstance(rows_by_task, dict):
            raise TaskError(f"{self.folder}/worlds.json: must be an object with a list of worlds for each task")
        self.worlds: dict[str, Sequence[World]] = {}
        for task, (_, number) in TASKS.items():
            rows = rows_by_task.get(task)
            if not isinstance(rows, list) or len(rows) != number:
                raise TaskError(f"{self.folder}/worlds.json: {number} worlds are needed for {task}")
            self.worlds[task] = tuple(World.of(row) for row in rows)
        for row in self._read("tests.jsonl"):
            world = self._world(row)
            if world.may_timeout != row.get("timeout_expected"):
                raise TaskError(
                    f"{self.folder}: tests.jsonl and worlds.json differ on whether a run of {row['task']} may time "
                    "out; fetch both from the same source"
                )

    def _world(self, row: Any) -> World:
        try:
            return self.worlds[row["task"]][row["test_index"]]
        except (KeyError, IndexError, TypeError) as error:
            raise TaskError(f"{self.folder}/tests.jsonl has a row for no world of worlds.json: {row!r:.80}") from error

    def prompts(self) -> list[Prompt]:
        """The instructions, for evaluation only. Raises TaskError."""
        try:
            return [Prompt(row["id"], row["task"], row["prompt"]) for row in self._read("prompts.jsonl")]
        except (KeyError, TypeError) as error:
            raise TaskError(f"{self.folder}/prompts.jsonl: every row needs id, task and prompt") from error

    def _read(self, name: str) -> Any:
        if name in self._rows:
            return self._rows[name]
        path = self.folder / name
        try:
            return read_json_lines(path) if path.suffix == ".jsonl" else json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise TaskError(
                f"{path} cannot be read ({error.strerror}): task.benchmark_dir or --benchmark takes a folder with "
                "RoboEval's own tasks/*.py (`benchmark` of github.com/ut-amrl/codebotler), or with worlds.json, "
                "prompts.jsonl and tests.jsonl"
            ) from error
        except ValueError as error:
            raise TaskError(f"{path} cannot be read: {error}") from error
