"""Worlds in which a reference program shows what its instruction asks for.

The reference runs in an open world (`exploration.known_runs`). Each of its runs tells a world: what it found is there,
what it did not find or never looked for is not, and people give the answers that it received. Programs are run in the
same worlds, next to the reference, and `behaviour.py` compares what they did.
"""

from __future__ import annotations

import ast
import hashlib
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from envs.roboeval.exploration import Run, known_runs, place_of
from envs.roboeval.order import Pairs, orders_everything, stated_pairs
from envs.roboeval.reference_world import ANYBODY, MOST_CALLS, START, reference_call, words
from envs.roboeval.spare_rooms import spare_rooms
from envs.roboeval.verdicts import LOST, closed_reports
from envs.sandbox import Sandbox

MOST_WORLDS = 8
MOST_RUNS = 96
"""Runs of a reference that are explored to find its worlds."""
LISTED_SPARE, MOST_SPARE = 3, 8
"""Numbers of spare rooms (spare_rooms.py) in what a reference explores, and in each world."""
TRADES = """
visitor guest driver operator intruder photographer customer patient nurse doctor student teacher employee worker
manager clerk child kid parent tourist passenger porter guard
"""
PEOPLE = frozenset(words(TRADES))
FORMS: Mapping[str, tuple[type, ...]] = {
    "where": (),
    "rooms": (),
    "go": (str,),
    "check": (str,),
    "ask": (str, list, str, str),
    "say": (str,),
    "pick": (str,),
    "place": (str,),
}


@dataclass(frozen=True)
class Deed:
    """What a call came to: kind is go, check, ask, say, pick or place; name is a thing's or person's in the world;
    span is [start, end] of the call in the program; options are those of an ask, in one text."""

    kind: str
    room: str
    name: str
    text: str
    span: tuple[int, int] | None = None
    options: str = ""


@dataclass(frozen=True)
class WorldRun:
    """A program's run in one world. status: "success", "error" or "timeout"; span: of the error, in characters;
    failed: the texts of calls that went, picked or placed in vain, without one that ended the run."""

    status: str
    error: str
    span: tuple[int, int] | None
    deeds: Sequence[Deed]
    failed: Sequence[str] = ()


@dataclass(frozen=True)
class Task:
    """An instruction with its reference program. ordered: whether the instruction gives an order; None: as its words
    say."""

    instruction: str
    program: str
    ordered: bool | None = None


@dataclass(frozen=True)
class Reference:
    """Worlds of a task, as data for `reference_world`, and what the reference did in each.

    ordered: whether the order of all that is done counts; in_order: pairs of rooms whose order counts.
    """

    instruction: str
    ordered: bool
    in_order: Pairs
    worlds: Sequence[Mapping[str, Any]]
    runs: Sequence[WorldRun]


class Inconsistent(ValueError):
    """No fixed world gives these answers."""


async def references(sandbox: Sandbox, tasks: Sequence[Task]) -> list[Reference | None]:
    """The worlds of each task; None if the sandbox failed. There are no worlds if the reference never ends well."""
    explored = await known_runs(sandbox, [(task.program, listed_rooms(task)) for task in tasks], MOST_RUNS)
    made = [[] if runs is None else worlds_of(task, runs) for task, runs in zip(tasks, explored, strict=True)]
    programs = [(task.program, worlds) for task, worlds in zip(tasks, made, strict=True)]
    results: list[Reference | None] = []
    for task, worlds, known, runs in zip(tasks, made, explored, await run_in(sandbox, programs), strict=True):
        if known is None or runs is None:
            results.append(None)
            continue
        well = [(world, run) for world, run in zip(worlds, runs, strict=True) if run.status == "success"]
        rooms = {deed.room for _, run in well for deed in run.deeds} if task.ordered is None else set()
        order = is_ordered(task), stated_pairs(task.instruction, rooms)
        results.append(Reference(task.instruction, *order, [world for world, _ in well], [run for _, run in well]))
    return results


def is_ordered(task: Task) -> bool:
    return task.ordered if task.ordered is not None else orders_everything(task.instruction)


# --- running ------------------------------------------------------------------------------------------------------


async def run_in(
    sandbox: Sandbox, programs: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]
) -> list[list[WorldRun] | None]:
    """The runs of each program in its worlds; None if the sandbox failed."""
    requests = [{"program": program, "compat": False, "worlds": list(worlds)} for program, worlds in programs]
    with_worlds = [index for index, request in enumerate(requests) if request["worlds"]]
    reports = await closed_reports(sandbox, [requests[index] for index in with_worlds], None)
    results: list[list[WorldRun] | None] = [[] for _ in programs]
    for index, report in zip(with_worlds, reports, strict=True):
        _, worlds = programs[index]
        results[index] = None if report is None else [world_run(*pair) for pair in zip(worlds, report, strict=True)]
    return results


def world_run(world: Mapping[str, Any], report: Any) -> WorldRun:
    """A report as a run. It comes from the process of a hostile program, so only its calls are used: they are replayed
    here in a new world. A report that no program can cause has no deeds."""
    if report == LOST:
        return WorldRun("timeout", "", None, ())
    if not isinstance(report, dict) or report.get("status") not in ("success", "error", "timeout"):
        return WorldRun("error", "", None, ())
    calls, error, places = report.get("trace"), report.get("error"), report.get("places")
    if not isinstance(calls, list) or len(calls) > MOST_CALLS or not all(map(_is_call, calls)):
        return WorldRun("error", "", None, ())
    send, failed = reference_call(world), []
    for number, call in enumerate(calls, 1):
        reply = send(tuple(call))[0]
        if reply == "late":
            return WorldRun("error", "", None, ())
        if reply == "error" and call[0] != "ask" and (number < len(calls) or report["status"] == "success"):
            failed.append(call[1])
    spans = [place_of(place) for place in places[: len(calls)]] if isinstance(places, list) else []
    spans += [None] * (len(calls) - len(spans))
    deeds = [
        Deed(kind, room, name, text, spans[number], " ".join(calls[number][2]) if kind == "ask" else "")
        for kind, room, name, text, number in send(("deeds",))[1]
    ]
    error = error[:500] if isinstance(error, str) else ""
    return WorldRun(report["status"], error, place_of(report.get("place")), deeds, failed)


def _is_call(call: Any) -> bool:
    if not isinstance(call, list) or not call or not isinstance(call[0], str) or call[0] not in FORMS:
        return False
    name, *arguments = call
    if tuple(map(type, arguments)) != FORMS[name]:
        return False
    return name != "ask" or all(isinstance(option, str) for option in arguments[1])


# --- worlds -------------------------------------------------------------------------------------------------------


def listed_rooms(task: Task) -> list[str]:
    """Rooms for `get_all_rooms`: three for each word that the program compares names with, and spare ones."""
    try:
        tree = ast.parse(task.program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [START]
    results: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            texts = [node.left]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("startswith", "endswith"):
            texts = node.args[:1]
        else:
            continue
        for text in texts:
            if isinstance(text, ast.Constant) and isinstance(text.value, str) and words(text.value):
                results.update(dict.fromkeys(f"{text.value} {number}" for number in _numbers(task)))
    return [START, *list(results)[:9], *spare_rooms(text_of(task), LISTED_SPARE)]


def _numbers(task: Task) -> list[int]:
    """Three numbers of rooms of a kind, which a program can only know from `get_all_rooms`."""
    return sorted(random.Random(task.program).sample(range(1, 10), 3))


def text_of(task: Task) -> str:
    return f"{task.program}\n{task.instruction}"


@dataclass
class Stock:
    """How many things of a name a room had at first, from what a run found there."""

    least: int = 0
    most: int | None = None
    moved: int = 0
    misses: int = 0
    comes: int = 0

    def seen(self) -> None:
        if self.most is not None and 1 - self.moved > self.most:
            if self.moved or self.most or self.comes:
                raise Inconsistent
            self.comes, self.most = self.misses + 1, None  # it came while the robot waited
        self.least = max(self.least, 1 - self.moved)

    def missed(self) -> None:
        if self.least > -self.moved or self.comes:
            raise Inconsistent
        self.most = min(-self.moved, -self.moved if self.most is None else self.most)
        self.misses += 1

    def picked(self) -> None:
        self.seen()
        self.moved -= 1


@dataclass
class Facts:
    """What a run found: stocks and answers [question, answer] by room and name."""

    stocks: dict[tuple[str, str], Stock] = field(default_factory=dict)
    answers: dict[tuple[str, str], list[list[str]]] = field(default_factory=dict)
    visited: dict[str, None] = field(default_factory=dict)
    signature: tuple[Any, ...] = ()

    @property
    def found(self) -> frozenset[tuple[str, str]]:
        """Where what was looked for is there."""
        return frozenset(place for place, stock in self.stocks.items() if stock.least > 0)


def facts_of(run: Run) -> Facts:
    """Raises Inconsistent."""
    facts, room, deeds = Facts(), START, []
    for name, arguments, value in run.calls:
        if name == "go":
            room = arguments[0]
            facts.visited[room] = None
        if name in ("check", "pick", "place"):
            stock = facts.stocks.setdefault((room, arguments[0]), Stock())
        if name == "check":
            (stock.seen if value else stock.missed)()
        elif name == "pick":
            stock.picked()
        elif name == "place":
            stock.moved += 1
        elif name == "ask" and value is not None:
            person, question, options = arguments
            message = f"{question} {' '.join(options)}"
            facts.answers.setdefault((room, person), []).append([message, options[value]])
        if name in ("ask", "say", "pick", "place"):
            deeds.append((name, room, *map(str, arguments), str(value) if name == "ask" else ""))
    facts.signature = tuple(deeds)
    return facts


def worlds_of(task: Task, runs: Iterable[Run]) -> list[dict[str, Any]]:
    """At most MOST_WORLDS worlds of a reference's runs, in which it does as many different things as possible."""
    results: list[Facts] = []
    for run in runs:
        if run.outcome == "ok":
            try:
                results.append(facts_of(run))
            except Inconsistent:
                continue
    people = people_of(task, results)
    listed = listed_rooms(task)
    visited = {room for facts in results for room in facts.visited}
    others: dict[str, str] = {}  # the robot takes "locker A" for "locker a"
    for room in [*sorted(visited), *spare_rooms(text_of(task), MOST_SPARE)]:
        others.setdefault(room.lower(), room)
    for room in listed:  # these stay in the order in which the reference saw them
        others.pop(room.lower(), None)
    seed = int.from_bytes(hashlib.sha256(task.program.encode("utf-8", "replace")).digest()[:8], "big")
    chance, made = random.Random(seed), []
    chosen = most_different(results)
    if not is_ordered(task):
        chosen += [more for more in (with_unseen(facts, results, people) for facts in chosen) if more is not None]
    for facts in chosen[:MOST_WORLDS]:
        order = [*listed]
        for room in sorted(others.values()):
            order.insert(chance.randint(0, len(order)), room)
        made.append(world_of(facts, people, order, always_asked(results)))
    if is_ordered(task):
        made += [world for world in (filled(world, made) for world in made[: MOST_WORLDS // 2]) if world not in made]
    return made[:MOST_WORLDS]


def most_different(results: Sequence[Facts]) -> list[Facts]:
    """At most MOST_WORLDS of them: one of the longest, then each time the one that differs most from those before: in
    what was done, then in what was found, so that the last rooms of a round differ as much as the first."""
    waiting = list(results)
    chosen: list[Facts] = []
    distances = {id(facts): (len(facts.signature) + 1, len(facts.found)) for facts in results}
    while waiting and len(chosen) < MOST_WORLDS:
        facts = max(waiting, key=lambda each: distances[id(each)])
        waiting.remove(facts)
        chosen.append(facts)
        for each in waiting:
            far = len({*each.signature} ^ {*facts.signature}), len(each.found ^ facts.found)
            distances[id(each)] = min(distances[id(each)], far) if chosen[1:] else far
    return chosen


def with_unseen(facts: Facts, results: Sequence[Facts], people: frozenset[str]) -> Facts | None:
    """The same run where the things that other runs found are there too, if this one did not look for them: so that
    a program cannot know from them alone what the reference knew without them. None if there are none, or if a program
    that looks around in another order could rightly do something else."""
    unseen = {
        place: Stock(least=stock.least)
        for each in results
        for place, stock in each.stocks.items()
        if stock.least > 0 and place not in facts.stocks and place[1] not in people
    }
    there = facts.found | unseen.keys()
    alike = all(each.signature == facts.signature for each in results if each.found <= there)
    return replace(facts, stocks={**facts.stocks, **unseen}) if unseen and alike else None


def people_of(task: Task, results: Sequence[Facts]) -> frozenset[str]:
    """Names of people: who is asked, has a name or a trade, and is never picked."""
    names = {name for facts in results for _, name in facts.stocks}
    picked = {name for facts in results for (_, name), stock in facts.stocks.items() if stock.moved}
    asked = {name for facts in results for _, name in facts.answers}
    capitals = {word.lower() for word in re.findall(r"(?<=[\w,] )[A-Z][a-z]+", task.instruction)}
    given = {
        name for name in names - picked if not name or {*name.split()} & capitals or {*words(name)} & (ANYBODY | PEOPLE)
    }
    return frozenset(given | asked)


def always_asked(results: Sequence[Facts]) -> dict[tuple[str, str], list[list[str]]]:
    """People whom the reference asks without having looked for them, with the answers of the first run: they are there
    in every world."""
    asked: dict[tuple[str, str], list[list[str]]] = {}
    for facts in results:
        looked = {room for (room, _), stock in facts.stocks.items() if stock.least or stock.misses}
        for (room, name), answers in facts.answers.items():
            if (room, name) not in facts.stocks and not (room in looked and {*words(name)} <= ANYBODY):
                asked.setdefault((room, name), answers)
    return asked


def world_of(
    facts: Facts, names: frozenset[str], rooms: Sequence[str], always: Mapping[tuple[str, str], list[list[str]]]
) -> dict[str, Any]:
    """A world as data for `reference_world`."""
    things: dict[str, dict[str, list[int]]] = {}
    people: dict[str, dict[str, dict[str, Any]]] = {}
    for (room, name), stock in facts.stocks.items():
        if stock.least > 0 and name in names:
            people.setdefault(room, {})[name] = {"checks": stock.comes, "answers": []}
        elif stock.least > 0:
            things.setdefault(room, {})[name] = [stock.least, stock.comes]
    for (room, name), answers in {**always, **facts.answers}.items():
        here = people.setdefault(room, {})
        if name not in here:
            same = [each for each in here if {*words(each)} <= ANYBODY or {*words(name)} <= ANYBODY]
            known = here.pop(same[0]) if same else {"checks": 0, "answers": []}
            name = same[0] if same and {*words(name)} <= ANYBODY else name or "person"
            here[name] = known
        here[name]["answers"] += [list(each) for each in answers]
    return {"rooms": list(rooms), "things": things, "people": people}


def filled(world: Mapping[str, Any], worlds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A world with everything that is in any of the worlds, so that the order in which a program looks matters."""
    things: dict[str, dict[str, list[int]]] = {}
    people: dict[str, dict[str, Any]] = {}
    for each in [*worlds, world]:
        for room, names in each["things"].items():
            things.setdefault(room, {}).update(names)
        for room, names in each["people"].items():
            people.setdefault(room, {}).update(names)
    return {"rooms": list(world["rooms"]), "things": things, "people": people}
