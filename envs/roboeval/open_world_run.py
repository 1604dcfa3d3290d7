"""RoboSim's runs, inside the sandbox: all outcomes of a program with their exact probabilities, or random runs.

Every random event is a finite choice (a coin for an unknown fact, an option, the replacement of a shaken test), so a
run is a list of choices. The most probable prefix runs next, until little probability remains. Probabilities are
fractions.

Shaking: the rooms of an open world have names that match no word of a task. Therefore, with probability 0.8, each test
of a literal in a name is replaced by true, false or itself. "tree" replaces the whole comparison and decides when it is
first reached; "text" replaces text as in the original, so that `"a" in b.lower()` can become `True.lower()`.
"""

from __future__ import annotations

import functools
import heapq
import io
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from envs.roboeval.closed_world_run import Function, Sink, caller, error_text, virtual_time
from envs.roboeval.open_world import open_world
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
LEFT = Fraction(1, 10**9)
"""An exploration ends when the remaining probability is not above this."""
SHAKING = (Fraction(4, 5), Fraction(1, 5))
THIRDS = (Fraction(1, 3),) * 3
TEXTS = 400
"""Number of different events of an exploration that are reported."""
NAMED = re.compile(r'"[^"\n]*"\s+(?:not\s+)?in\s+\w+')
LISTED = re.compile(r'"[^"\n]*"\s+(?:not\s+)?in\s+(?:get_all_rooms|get_current_location)\(\)')
FAILED = re.compile(r"Robot\w+Error")
Weights = Sequence[Fraction]


class Choices:
    """The choices of a run: the first ones are given, the others random, or without `chance` the first possibility."""

    def __init__(self, given: Sequence[int] = (), chance: random.Random | None = None) -> None:
        self.given, self.chance = given, chance
        self.made: list[tuple[Weights, int]] = []

    def among(self, weights: Weights) -> int:
        if len(self.made) < len(self.given):
            chosen = self.given[len(self.made)]
        elif self.chance is not None:
            chosen = self.chance.choices(range(len(weights)), [float(weight) for weight in weights])[0]
        else:
            chosen = 0
        self.made.append((weights, chosen))
        return chosen

    def uniform(self, number: int) -> int:
        return self.among(even(number)) if number > 1 else 0


@functools.cache
def even(number: int) -> Weights:
    return (Fraction(1, number),) * number


class Explored:
    """A program that runs many times.

    Args:
        shaking: "none", "tree" or "text".
        limited: calls a function with a limit of processor time.
    """

    def __init__(self, program: str, compat: bool, shaking: str, limited: Callable[[Callable[[], Any]], Any]) -> None:
        self.program, self.compat, self.shaking, self.limited = program, compat, shaking, limited
        self.tests = text_tests(program) if shaking == "text" else []
        self.prepared: dict[tuple[int, ...], Prepared | tuple[str, list[int] | None]] = {}
        self.turns = 0

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

    def run(self, choices: Choices) -> tuple[str, list[int] | None, list[Any]]:
        """Outcome, place of the error and calls of one run."""
        changes: tuple[int, ...] = ()
        if self.tests and choices.among(SHAKING) == 0:
            changes = tuple(choices.among(THIRDS) for _ in self.tests)
        prepared = self.variant(changes)
        if isinstance(prepared, tuple):
            return *prepared, []
        calls: list[Any] = []
        space = self.space(prepared, choices, calls)
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
        return ("timeout" if turns() > TURNS else outcome), place, calls

    def space(self, prepared: Prepared, choices: Choices, calls: list[Any]) -> dict[str, Any]:
        """Globals of one run."""
        world = open_world(choices.uniform, calls)
        next(world)
        functions = robot_functions(caller(world.send), str if self.compat else str.lower)
        clock, _ = virtual_time()
        space = namespace(prepared.plain, "__main__" if self.compat else "program", {"time": clock})
        space["time"] = clock
        if self.compat:
            space["sys"] = sys
            space["robot"] = type("Robot", (), {})()
            vars(space["robot"]).update(functions)
        else:
            space.update(functions)
        if prepared.tests:
            space.update(shakers(choices))
        return space


def text_tests(program: str) -> list[tuple[int, int]]:
    """The spans of tests that shaking replaces, in the program's text."""
    named = [
        match.span()
        for match in NAMED.finditer(program)
        if not any(word in match.group() for word in ("ask", "get_all_rooms", "get_current_location"))
    ]
    return sorted([*named, *(match.span() for match in LISTED.finditer(program))])


def shakers(choices: Choices) -> dict[str, Callable[[int], bool]]:
    """The functions that decide shaken tests, each test once in a run."""
    shaken: list[bool] = []
    become: dict[int, int] = {}

    def is_shaken(number: int) -> bool:
        if not shaken:
            shaken.append(choices.among(SHAKING) == 0)
        if shaken[0] and number not in become:
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


def explore(program: Explored, most_paths: int) -> dict[str, Any]:
    """Outcomes with exact probabilities; the most probable runs come first."""
    outcomes: dict[str, Fraction] = {}
    failures: dict[tuple[str, tuple[int, ...] | None], Fraction] = {}
    events: dict[str, list[Any]] = {}
    least_calls = least_events = None
    left, paths, serial = Fraction(1), 0, 0
    waiting: list[tuple[float, int, tuple[int, ...], Fraction]] = [(-1.0, 0, (), Fraction(1))]
    while waiting and left > LEFT and paths < most_paths and program.turns < ALL_TURNS:
        _, _, given, before = heapq.heappop(waiting)
        choices = Choices(given)
        outcome, place, calls = program.run(choices)
        paths += 1
        probability, taken = before, given
        for weights, chosen in choices.made[len(given) :]:
            for other, weight in enumerate(weights):
                if other != chosen:
                    serial += 1
                    share = probability * weight
                    heapq.heappush(waiting, (-float(share), serial, (*taken, other), share))
            probability, taken = probability * weights[chosen], (*taken, chosen)
        left -= probability
        outcomes[outcome] = outcomes.get(outcome, Fraction(0)) + probability
        if outcome != "ok":
            key = outcome, tuple(place) if place else None
            failures[key] = failures.get(key, Fraction(0)) + probability
        acted = [call for call in calls if len(call) > 1]
        least_calls = len(calls) if least_calls is None else min(least_calls, len(calls))
        least_events = len(acted) if least_events is None else min(least_events, len(acted))
        for event in acted if len(events) < TEXTS else ():
            events.setdefault(repr(event), event)
    return {
        "outcomes": {name: str_of(share) for name, share in sorted(outcomes.items())},
        "unexplored": str_of(left),
        "paths": paths,
        "failures": [[name, place, str_of(share)] for (name, place), share in failures.items()],
        "least_calls": least_calls or 0,
        "least_events": least_events or 0,
        "events": list(events.values())[:TEXTS],
    }


def str_of(share: Fraction) -> str:
    return f"{share.numerator}/{share.denominator}"


def answer(
    request: dict[str, Any], single: bool, limited: Callable[[Callable[[], Any]], Any]
) -> Iterator[dict[str, Any]]:
    """Explorations and random runs of a program: {kind of shaking: exploration, ..., "passes": n}, or {"alone": true}.

    Args:
        request: {program, compat, explore: [kinds of shaking], paths: limit, sample: kind, runs: number, seed}.
        single: whether the process has no other program.
        limited: calls a function with a limit of processor time.
    """
    program, compat = request["program"], request["compat"]
    first = Explored(program, compat, "none", limited).variant(())
    if isinstance(first, Prepared) and not first.plain and not single:
        yield {"alone": True}
        return
    report: dict[str, Any] = {}
    for kind in request["explore"]:
        explored = Explored(program, compat, kind, limited)
        same = kind == "text" and not explored.tests and "none" in report
        report[kind] = report["none"] if same else explore(explored, request["paths"])
    sampled, chance = Explored(program, compat, request["sample"], limited), random.Random(request["seed"])
    report["passes"] = sum(sampled.run(Choices((), chance))[0] == "ok" for _ in range(request["runs"]))
    yield report
