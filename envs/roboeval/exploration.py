"""Explorations of RoboSim's open world (Hu et al. 2025, arXiv 2405.20179).

Programs run inside the sandbox, which reports the calls of each run. A report comes from the process of a hostile
program, so this module takes nothing from it but texts and small numbers of a checked form: it replays the calls in an
open world of its own, run after run in the same order, and computes choices, probabilities and events itself. A program
that writes a report of its own can therefore claim only calls that a program could make, over all runs that they lead
to. A report that no program can cause counts as a timeout.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

from envs.roboeval.bundle import Answer, ask
from envs.roboeval.open_world import MOST_CALLS, MOST_OPTIONS, MOST_TEXT, OpenWorld
from envs.roboeval.open_world_paths import LEFT, SHAKING, THIRDS, Choices, paths
from envs.roboeval.open_world_run import ALL_CALLS
from envs.roboeval.program import SHAKE, SHAKEN, described
from envs.roboeval.trace import Event
from envs.roboeval.verdicts import ALONE, Mode, Place, Progress
from envs.sandbox import Sandbox

Shaking = Literal["none", "tree", "text"]
SHAKINGS: tuple[Shaking, ...] = get_args(Shaking)
EXACT = Fraction(1, 10**6)
OUTCOME = re.compile(r"ok|timeout|Robot\w{1,40}Error|Python:\w{1,80}")
FORMS: Mapping[str, tuple[type, ...]] = {
    "where": (),
    "all_rooms": (),
    "go": (str,),
    "check": (str,),
    "ask": (str, str, list),
    "say": (str,),
    "pick": (str,),
    "place": (str,),
    SHAKEN: (),
    SHAKE: (),
}
"""Methods of OpenWorld with the types of their arguments, and the choices of shaking."""
TEXTS = 400
"""Number of different events of an exploration that are kept."""
Call = tuple[str, tuple[Any, ...], Any]
"""A call of the robot: method of OpenWorld, arguments, and its value; None if it failed."""


class ImpossibleReport(ValueError):
    """No program can cause what is reported."""


@dataclass(frozen=True)
class Failure:
    """A failure of runs: its probability, and the failing call or expression."""

    outcome: str
    probability: str
    span: Place | None


@dataclass(frozen=True)
class Run:
    """One run: its probability, outcome, the place of its error in the program, the robot's calls, those that acted,
    checked or spoke as events, and the number of calls that were carried out."""

    probability: Fraction
    outcome: str
    place: tuple[int, int] | None
    calls: Sequence[Call]
    events: Sequence[Event]
    carried_out: int


@dataclass(frozen=True)
class Exploration:
    """All runs of a program in RoboSim's open world.

    outcomes: "ok", "timeout", "Robot...Error" or "Python:..." with its probability "p/q"; `unexplored` is the rest.
    complete: False if the program used up its turns, or its report broke off, before the limit on runs was reached.
    least_calls, least_events: the smallest number, over explored runs, of calls of the eight functions, and of calls
        that act, check or speak; with 0 calls a program gets the reward for "ok" without doing anything.
    events: different (kind, text, options) that occurred, at most 400.
    passes: number of the `runs` random runs that ended well.
    """

    outcomes: dict[str, str]
    unexplored: str
    complete: bool
    paths: int
    failures: Sequence[Failure]
    least_calls: int
    least_events: int
    events: Sequence[Event]
    passes: int
    runs: int

    @property
    def exact(self) -> bool:
        """Whether the unexplored probability is negligible."""
        return Fraction(self.unexplored) <= EXACT

    @property
    def reaches_call(self) -> bool:
        """Whether every explored run calls at least one of the eight functions."""
        return self.least_calls > 0


async def explore(
    sandbox: Sandbox,
    programs: Sequence[str],
    *,
    mode: Mode = "hardened",
    shaking: Shaking = "tree",
    paths: int = 500,
    runs: int = 5,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Exploration | None]:
    """Explorations of programs in RoboSim, in order; None if the sandbox failed.

    Args:
        mode: "compat" rewrites the text as the original does; "hardened" does not, and compares names ignoring case.
        shaking: "tree", "none", or "text" as in the original.
        paths: largest number of runs of an exploration.
        runs, seed: number and seed of random runs, for the reward of the dense-rewards paper (5 runs, passes / runs).
    """
    explored = await explorations(sandbox, programs, mode, [shaking], paths, runs, seed, progress)
    return [None if each is None else each[shaking] for each in explored]


async def explorations(
    sandbox: Sandbox,
    programs: Sequence[str],
    mode: Mode,
    shakings: Sequence[Shaking],
    paths: int,
    runs: int,
    seed: int,
    progress: Progress | None = None,
) -> list[dict[Shaking, Exploration] | None]:
    """Like `explore`, for several kinds of shaking; random runs use the last kind."""
    requests = [
        {
            "program": program,
            "compat": mode == "compat",
            "explore": list(shakings),
            "paths": paths,
            "sample": shakings[-1],
            "runs": runs,
            "seed": seed,
            "rooms": None,
        }
        for program in programs
    ]
    answers = await _answers(sandbox, requests, progress)
    return [
        None if answer is None else _explorations(request, shakings, answer)
        for request, answer in zip(requests, answers, strict=True)
    ]


async def known_runs(
    sandbox: Sandbox, programs: Sequence[tuple[str, Sequence[str]]], most: int
) -> list[list[Run] | None]:
    """The most probable runs of programs, each with the rooms that `get_all_rooms` returns; None if the sandbox failed,
    and no runs if the program ended its process."""
    requests = [
        {
            "program": program,
            "compat": False,
            "explore": ["none"],
            "paths": most,
            "sample": "none",
            "runs": 0,
            "seed": 0,
            "rooms": list(rooms),
        }
        for program, rooms in programs
    ]
    results: list[list[Run] | None] = []
    for request, answer in zip(requests, await _answers(sandbox, requests, None), strict=True):
        try:
            results.append(None if answer is None else list(_replayed(answer.parts[0]["none"], request)))
        except (ImpossibleReport, IndexError, KeyError, TypeError):
            results.append([])
    return results


async def _answers(
    sandbox: Sandbox, requests: Sequence[dict[str, Any]], progress: Progress | None
) -> list[Answer | None]:
    answers = await ask(sandbox, "open", requests, progress)
    again = [index for index, answer in enumerate(answers) if answer is not None and ALONE in answer.parts]
    alone = await ask(sandbox, "open", [requests[index] for index in again], alone=True)
    for index, answer in zip(again, alone, strict=True):
        answers[index] = answer
    return answers


def _explorations(
    request: Mapping[str, Any], shakings: Sequence[Shaking], answer: Answer
) -> dict[Shaking, Exploration]:
    """A report as explorations; if the program ended its process, every run counts as a timeout."""
    try:
        report = answer.parts[0]
        passes = _passes(report["sampled"], request)
        return {kind: _exploration(list(_replayed(report[kind], request)), request, passes) for kind in shakings}
    except (ImpossibleReport, IndexError, KeyError, TypeError):
        failure = Failure("timeout", "1/1", None)
        lost = Exploration({"timeout": "1/1"}, "0/1", True, 0, [failure], 0, 0, [], 0, request["runs"])
        return dict.fromkeys(shakings, lost)


def _exploration(runs: Sequence[Run], request: Mapping[str, Any], passes: int) -> Exploration:
    outcomes: dict[str, Fraction] = {}
    failures: dict[tuple[str, tuple[int, int] | None], Fraction] = {}
    events: dict[str, Event] = {}
    left = Fraction(1)
    for run in runs:
        left -= run.probability
        outcomes[run.outcome] = outcomes.get(run.outcome, Fraction(0)) + run.probability
        if run.outcome != "ok":
            key = run.outcome, run.place
            failures[key] = failures.get(key, Fraction(0)) + run.probability
        for event in run.events if len(events) < TEXTS else ():
            events.setdefault(repr(event), event)
    named = [
        Failure(name, str(share), None if place is None else Place(**described(request["program"], [*place])))
        for (name, place), share in failures.items()
    ]
    return Exploration(
        outcomes={name: _share(share) for name, share in sorted(outcomes.items())},
        unexplored=_share(left),
        complete=left <= LEFT or len(runs) >= request["paths"],
        paths=len(runs),
        failures=named,
        least_calls=min((run.carried_out for run in runs), default=0),
        least_events=min((len(run.events) for run in runs), default=0),
        events=list(events.values())[:TEXTS],
        passes=passes,
        runs=request["runs"],
    )


def _share(share: Fraction) -> str:
    return f"{share.numerator}/{share.denominator}"


def _replayed(reports: Any, request: Mapping[str, Any]) -> Iterator[Run]:
    """The reported runs, replayed in the order in which the most probable come first.

    Raises:
        ImpossibleReport: a run is malformed, or there are too many calls.
    """
    waiting = _reports(reports, request["paths"])
    rooms = request["rooms"]
    for probability, run in paths(lambda choices: _run(waiting.pop(), choices, rooms), len(waiting), lambda: True):
        outcome, place, calls, done = run
        events = [(each[0], each[1], each[2]) for each in done if len(each) == 3]
        yield Run(probability, outcome, place, calls, events, len(done))


def _passes(reports: Any, request: Mapping[str, Any]) -> int:
    """How many random runs ended well. Raises ImpossibleReport."""
    waiting, chance = _reports(reports, request["runs"]), random.Random(request["seed"])
    if len(waiting) != request["runs"]:
        raise ImpossibleReport("runs are missing")
    return sum(_run(waiting.pop(), Choices((), chance), None)[0] == "ok" for _ in range(request["runs"]))


def _reports(reports: Any, most: int) -> list[Any]:
    """The reports of runs, the first one last. Raises ImpossibleReport."""
    if not isinstance(reports, list) or len(reports) > most:
        raise ImpossibleReport("not a list of runs")
    calls = 0
    for report in reports:
        if not isinstance(report, list) or len(report) != 3 or not isinstance(report[2], list):
            raise ImpossibleReport("not a run")
        calls += len(report[2])
    if calls > ALL_CALLS + MOST_CALLS:
        raise ImpossibleReport("too many calls")
    return reports[::-1]


def _run(
    report: Sequence[Any], choices: Choices, rooms: Sequence[str] | None
) -> tuple[str, tuple[int, int] | None, list[Call], list[Any]]:
    """Outcome, place and calls of a run, and the calls that were carried out, as OpenWorld lists them. Raises
    ImpossibleReport."""
    outcome, place, record = report
    if not isinstance(outcome, str) or not OUTCOME.fullmatch(outcome):
        outcome = "Python:Error"
    done: list[Any] = []
    world, calls, size = OpenWorld(choices.uniform, done, rooms), [], 0
    for entry in record:
        name, arguments = _call(entry)
        if name in (SHAKEN, SHAKE):
            choices.among(SHAKING if name == SHAKEN else THIRDS)
            continue
        size += sum(len("".join(argument)) for argument in arguments)
        if size > MOST_TEXT:
            raise ImpossibleReport("too much text")
        kind, value = getattr(world, name)(*arguments)
        calls.append((name, arguments, value if kind == "ok" else None))
    return outcome, place_of(place), calls, done


def _call(entry: Any) -> tuple[str, tuple[Any, ...]]:
    """Name and arguments of a call. Raises ImpossibleReport."""
    if not isinstance(entry, list) or not entry or not isinstance(entry[0], str) or entry[0] not in FORMS:
        raise ImpossibleReport("not a call")
    name, *arguments = entry
    if tuple(map(type, arguments)) != FORMS[name]:
        raise ImpossibleReport("arguments of another type")
    options = arguments[2] if name == "ask" else [""]
    if not 0 < len(options) <= MOST_OPTIONS or not all(isinstance(option, str) for option in options):
        raise ImpossibleReport("not a list of options")
    return name, tuple(arguments)


def place_of(place: Any) -> tuple[int, int] | None:
    """A reported place [start, end] in characters; None if it is malformed."""
    if isinstance(place, list) and len(place) == 2 and all(type(offset) is int for offset in place):
        return place[0], place[1]
    return None
