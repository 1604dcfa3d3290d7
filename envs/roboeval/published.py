"""Reads the folder that RoboEval publishes: github.com/ut-amrl/codebotler, `benchmark/tasks/*.py`.

Each task is a Python file with three names: `prompts`, a list of texts; one `State` for each world, built by a chain of
calls; and `tests`, a list that names the state of each world and whether a run may time out. The files are parsed and
never executed. Their conditions on traces are functions, which are not read: envs/roboeval/checks.py has the same
conditions as data.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from envs.json_lines import Row
from envs.task import TaskError

PLACES = ("tasks", "benchmark/tasks", ".")
"""Where the task files may lie below the folder that a user names: the benchmark's own folder, or the repository's."""


class NotData(ValueError):
    """An expression that is not one of the forms that the published files use for data."""


def task_folder(folder: Path, tasks: Iterable[str]) -> Path | None:
    """The folder that holds the files of the named tasks; None if there is no such file."""
    places = [folder / place for place in PLACES]
    return next((place for place in places if any((place / f"{task}.py").is_file() for task in tasks)), None)


def published_rows(folder: Path, tasks: Iterable[str]) -> dict[str, Any]:
    """The contents of prompts.jsonl, tests.jsonl and worlds.json, by these names, made from `folder`/TASK.py.

    Raises:
        TaskError: a file is missing, or is not of the published form.
    """
    prompts: list[Row] = []
    tests: list[Row] = []
    worlds: dict[str, list[Row]] = {}
    for task in tasks:
        path = folder / f"{task}.py"
        values = _Module(path)
        texts = values.of("prompts")
        if not (isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts)):
            raise TaskError(f"{path}: `prompts` must be a list of texts, as in the published file")
        prompts += [
            {"id": f"{task}_{number}", "task": task, "prompt_index": number, "prompt": text}
            for number, text in enumerate(texts)
        ]
        worlds[task] = []
        for number, (state, may_timeout) in enumerate(_tests(path, values)):
            tests.append({"task": task, "test_index": number, "timeout_expected": may_timeout, "state": state})
            worlds[task].append(_world(state, may_timeout))
    return {"prompts.jsonl": prompts, "tests.jsonl": tests, "worlds.json": worlds}


def _tests(path: Path, values: _Module) -> list[tuple[Row, bool]]:
    """The state of each world, in the order of `tests`, and whether a run may time out there."""
    rows = values.of("tests")
    try:
        results = [(row["state"], row["timeout"]) for row in rows]
    except (KeyError, TypeError) as error:
        raise TaskError(
            f"{path}: every item of `tests` needs `state` and `timeout`, as in the published file"
        ) from error
    for state, may_timeout in results:
        if not isinstance(state, dict) or "locations" not in state or not isinstance(may_timeout, bool):
            raise TaskError(f"{path}: in `tests`, `state` must be a State and `timeout` True or False")
    return results


def _world(state: Row, may_timeout: bool) -> Row:
    """A row of worlds.json. The names of people are left out, because every person has the catch-all name."""
    people = {room: [list(agent["answers"]) for agent in agents] for room, agents in state["agents"].items()}
    return {
        "rooms": state["locations"],
        "robot_start": state["robot_location"],
        "objects": state["objects"],
        "people": people,
        "may_timeout": may_timeout,
    }


class _Module:
    """The values that a task file assigns to names at its top level, each computed when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "\d" is a warning, and under -W error a syntax error
                body = ast.parse(text, filename=path.name).body
        except OSError as error:
            raise TaskError(
                f"{path} cannot be read ({error.strerror}): task.benchmark_dir needs every task file of "
                "github.com/ut-amrl/codebotler/benchmark/tasks"
            ) from error
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise TaskError(f"{path} is not a Python file: {error}") from error
        self.assigned: dict[str, ast.expr] = {
            statement.targets[0].id: statement.value
            for statement in body
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
        }

    def of(self, name: str) -> Any:
        """The value of a name. Raises TaskError, with the line, for an expression that is not data."""
        if name not in self.assigned:
            raise TaskError(f"{self.path} assigns no `{name}`: task.benchmark_dir must hold RoboEval's own task files")
        try:
            return self._value(self.assigned[name])
        except NotData as error:
            raise TaskError(f"{self.path}, {error}: the file differs from RoboEval's published form") from error
        except RecursionError as error:
            raise TaskError(f"{self.path}: `{name}` is nested too deeply, or refers to itself") from error

    def _value(self, node: ast.expr) -> Any:
        """The value of an expression of the published form. The functions of a test have the value None."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.List):
            return [self._value(item) for item in node.elts]
        if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
            items = zip(node.keys, node.values, strict=True)
            return {key.value: self._value(value) for key, value in items if isinstance(key, ast.Constant)}
        if isinstance(node, ast.Name):
            return self._value(self.assigned[node.id]) if node.id in self.assigned else None
        if isinstance(node, ast.Call) and not node.keywords:
            return self._called(node)
        raise NotData(f"line {node.lineno}: `{ast.unparse(node)[:60]}` is not data")

    def _called(self, node: ast.Call) -> Any:
        """A State: State() or a method of one. Or a pattern: contain_words([...])."""
        if isinstance(node.func, ast.Name):
            arguments = [self._value(argument) for argument in node.args]
            if node.func.id == "State" and not arguments:
                return {"robot_location": "", "locations": [], "objects": {}, "agents": {}}
            if node.func.id == "contain_words" and _is_texts(arguments):
                return containing(arguments[0])
        chain: list[ast.Call] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            chain.append(inner)
            inner = inner.func.value
        state = self._value(inner) if chain else None
        if not isinstance(state, dict):
            raise NotData(f"line {node.lineno}: `{ast.unparse(node)[:60]}` is not a call that builds a State")
        for call in reversed(chain):
            assert isinstance(call.func, ast.Attribute)
            self._extend(state, call.func.attr, call)
        return state

    def _extend(self, state: dict[str, Any], method: str, call: ast.Call) -> None:
        arguments = [self._value(argument) for argument in call.args]
        match method, arguments:
            case "addLocation", [str(room)]:
                state["locations"].append(room)
            case "addRobotLocation", [str(room)]:
                state["robot_location"] = room
            case "addObject", [str(label), str(room)]:
                state["objects"].setdefault(room, []).append(label)
            case "addAgent", [".*", str(room), list(answers)] if all(isinstance(a, str) for a in answers):
                state["agents"].setdefault(room, []).append({"name": ".*", "answers": answers})
            case _:
                raise NotData(f"line {call.end_lineno}: `{method}` is not a call of State with these arguments")


def _is_texts(arguments: list[Any]) -> bool:
    """Whether the arguments are one list of texts."""
    return len(arguments) == 1 and isinstance(arguments[0], list) and all(isinstance(w, str) for w in arguments[0])


def containing(words: Iterable[str]) -> str:
    """The regular expression of the benchmark's helper `contain_words`: a line with all the words, in any order."""
    return "^" + "".join(f"(?=.*{word})" for word in words) + ".*$"
