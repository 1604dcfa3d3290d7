"""RoboSim's runs, inside the sandbox: all runs of a program, or random ones.

Every random event is a finite choice (a coin for an unknown fact, an option, the replacement of a shaken test), so a
run is a list of choices, and `open_world_paths.paths` goes through them. What is reported are the calls of each run;
the trusted process replays them (`exploration.py`) and computes all else.

Shaking: the rooms of an open world have names that match no word of a task. Therefore, with probability 0.8, each test
of a literal in a name is replaced by true, false or itself. "tree" replaces the whole comparison and decides when it is
first reached; "text" replaces text as in the original, so that `"a" in b.lower()` can become `True.lower()`.
"""

from __future__ import annotations

import io
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from envs.roboeval.closed_world_run import Function, Sink, caller, error_text, virtual_time
from envs.roboeval.open_world import open_world
from envs.roboeval.open_world_paths import SHAKING, THIRDS, Choices, paths
from envs.roboeval.program import (
    SHAKE,
    SHAKEN,
    TICK,
    Prepared,
    Source,
    TimeLimit,
    counter,
    namespace,
    place_of,
)
from envs.roboeval.rewriting import Text, rewrite

TURNS = 20_000
"""Limit on loop iterations and function entries of one run."""
ALL_TURNS = 1_000_000
"""The same for all runs of an exploration together."""
ALL_CALLS = 100_000
"""Limit on the calls of all runs of an exploration together."""
NAMED = re.compile(r'"[^"\n]*"\s+(?:not\s+)?in\s+\w+')
LISTED = re.compile(r'"[^"\n]*"\s+(?:not\s+)?in\s+(?:get_all_rooms|get_current_location)\(\)')
FAILED = re.compile(r"Robot\w+Error")
Run = tuple[str, list[int] | None, list[Any]]
"""Outcome, place of the error and record: the calls as [method of OpenWorld, arguments], between them [SHAKEN] and
[SHAKE] for the choices of shaking, so that a record tells every choice of its run in order."""


class Explored:
    """A program that runs many times.

    Args:
        shaking: "none", "tree" or "text".
        rooms: what `get_all_rooms` returns; None for the original's.
        limited: calls a function with a limit of processor time.
    """

    def __init__(
        self,
        program: str,
        compat: bool,
        shaking: str,
        limited: Callable[[Callable[[], Any]], Any],
        rooms: Sequence[str] | None = None,
    ) -> None:
        self.program, self.compat, self.shaking, self.limited, self.rooms = program, compat, shaking, limited, rooms
        self.tests = text_tests(program) if shaking == "text" else []
        self.prepared: dict[tuple[int, ...], Prepared | tuple[str, list[int] | None]] = {}
        self.turns = self.calls = 0

    def variant(self, changes: tuple[int, ...]) -> Prepared | tuple[str, list[int] | None]:
        """The compiled program with tests of its text replaced; or the outcome and place of its syntax error."""
        if changes not in self.prepared:
            text = Text(self.program)
            words = ("True", "False")
            text.put([(*span, words[new]) for span, new in zip(self.tests, changes, strict=False) if new < 2])
            source = Source(self.program, self.compat, rewrite(text) if self.compat else text)
            try:
                self.prepared[changes] = Prepared(source, shake=self.shaking == "tree")
            except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
                self.prepared[changes] = f"Python:{type(error).__name__}", place_of(source, error)
        return self.prepared[changes]

    def run(self, choices: Choices) -> Run:
        """One run."""
        changes: tuple[int, ...] = ()
        record: list[Any] = [[SHAKEN]] if self.tests else []
        if self.tests and choices.among(SHAKING) == 0:
            record += [[SHAKE]] * len(self.tests)
            changes = tuple(choices.among(THIRDS) for _ in self.tests)
        prepared = self.variant(changes)
        if isinstance(prepared, tuple):
            return *prepared, record
        space = self.space(prepared, choices, record)
        tick, turns = counter(TURNS)
        space[TICK] = tick
        sys.stdin, sys.stdout, sys.stderr = io.StringIO(), Sink(), io.StringIO()
        outcome, place = "ok", None
        try:
            self.limited(lambda: exec(prepared.code, space))
        except TimeLimit as error:
            outcome, place = "timeout", place_of(prepared.source, error)
        except SystemExit as error:
            if error.code is not None and not (isinstance(error.code, int) and error.code & 0xFF == 0):
                outcome, place = "Python:SystemExit", place_of(prepared.source, error)
        except BaseException as error:
            named = FAILED.match(error_text(error).partition(": ")[2]) if type(error) is Exception else None
            outcome = named.group() if named else f"Python:{type(error).__name__}"
            place = place_of(prepared.source, error)
        sys.stdin = sys.stdout = sys.stderr = None
        self.turns += turns()
        self.calls += len(record)
        return ("timeout" if turns() > TURNS else outcome), place, record

    def space(self, prepared: Prepared, choices: Choices, record: list[Any]) -> dict[str, Any]:
        """Globals of one run."""
        world = open_world(choices.uniform, record, self.rooms)
        next(world)
        functions = robot_functions(caller(world.send), str if self.compat else str.lower)
        clock, _ = virtual_time()
        space = namespace(prepared.plain, "__main__" if self.compat else "program", {"time": clock})
        space["time"] = clock
        if not prepared.plain:  # it imports the modules of its process
            random.seed(0)
            vars(time).update({key: value for key, value in vars(clock).items() if not key.startswith("__")})
            space["time"] = time
        if self.compat:
            space["sys"] = sys
            space["robot"] = type("Robot", (), {})()
            vars(space["robot"]).update(functions)
        else:
            space.update(functions)
        if prepared.tests:
            space.update(shakers(choices, record))
        return space


def text_tests(program: str) -> list[tuple[int, int]]:
    """The spans of tests that shaking replaces, in the program's text."""
    named = [
        match.span()
        for match in NAMED.finditer(program)
        if not any(word in match.group() for word in ("ask", "get_all_rooms", "get_current_location"))
    ]
    return sorted([*named, *(match.span() for match in LISTED.finditer(program))])


def shakers(choices: Choices, record: list[Any]) -> dict[str, Callable[[int], bool]]:
    """The functions that decide shaken tests, each test once in a run."""
    shaken: list[bool] = []
    become: dict[int, int] = {}

    def is_shaken(number: int) -> bool:
        if not shaken:
            record.append([SHAKEN])
            shaken.append(choices.among(SHAKING) == 0)
        if shaken[0] and number not in become:
            record.append([SHAKE])
            become[number] = choices.among(THIRDS)
        return shaken[0] and become[number] < 2

    return {SHAKEN: is_shaken, SHAKE: lambda number: become[number] == 0}


def robot_functions(put: Function, fold: Callable[[str], str]) -> dict[str, Function]:
    """The eight functions of an open world; names are stripped and passed through `fold`."""

    def name_of(value: Any, kind: str, empty: bool = False) -> str:
        text = fold(str.__str__(value)).strip() if isinstance(value, str) else ""
        if not isinstance(value, str) or not (text or empty):
            raise Exception(f"Robot{kind}Error: a name must be a string that is not empty")
        return text

    def get_current_location():
        return put("where")

    def get_all_rooms():
        return put("all_rooms")

    def is_in_room(entity):
        return put("check", name_of(entity, "IsInRoom"))

    def go_to(location):
        put("go", name_of(location, "GoTo"))

    def ask(person, question, options):
        person = name_of(person, "Ask", empty=True)
        if not isinstance(question, str) or not question.strip() or not isinstance(options, list) or not options:
            raise Exception("RobotAskError: a question and a list of options are needed")
        if not all(isinstance(option, str) and option.strip() for option in options):
            raise Exception("RobotAskError: an option must be a string that is not empty")
        offered = list(options)
        return offered[put("ask", person, str.__str__(question), [str.__str__(option) for option in offered])]

    def say(message):
        if not isinstance(message, str):
            raise Exception("RobotSayError: message must be a string")
        put("say", str.__str__(message))

    def pick(obj):
        put("pick", name_of(obj, "Pick"))

    def place(obj):
        put("place", name_of(obj, "Place"))

    functions = (get_current_location, get_all_rooms, is_in_room, go_to, ask, say, pick, place)
    return {function.__name__: function for function in functions}


def answer(
    request: dict[str, Any], single: bool, limited: Callable[[Callable[[], Any]], Any]
) -> Iterator[dict[str, Any]]:
    """Runs of a program, {kind of shaking: [run, ...], ..., "sampled": [run, ...]}, or {"alone": true}.

    Args:
        request: {program, compat, explore: [kinds of shaking], paths: limit, sample: kind, runs: number, seed, rooms}.
        single: whether the process has no other program.
        limited: calls a function with a limit of processor time.
    """
    program, compat = request["program"], request["compat"]
    first = Explored(program, compat, "none", limited).variant(())
    if isinstance(first, Prepared) and not first.plain and not single:
        yield {"alone": True}
        return
    report: dict[str, list[Run]] = {}
    for kind in request["explore"]:
        explored = Explored(program, compat, kind, limited, request["rooms"])
        if kind == "text" and not explored.tests and "none" in report:
            report[kind] = report["none"]
            continue

        def unspent(explored: Explored = explored) -> bool:
            return explored.turns < ALL_TURNS and explored.calls < ALL_CALLS

        report[kind] = [run for _, run in paths(explored.run, request["paths"], unspent)]
    sampled, chance = Explored(program, compat, request["sample"], limited), random.Random(request["seed"])
    report["sampled"] = [sampled.run(Choices((), chance)) for _ in range(request["runs"])]
    yield report
