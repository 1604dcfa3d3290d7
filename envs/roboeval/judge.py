"""Programs to verdicts: they run inside the sandbox, and traces are judged here, from data.

Modes. "compat" gives RoboEval's own verdict (Hu et al. 2024, arXiv 2311.11183), its text rewriting, live room list and
trace on standard output included, with counters in place of its clock. "hardened" is for rewards: the eight functions
are names, events have a channel of their own, sleeping is free, options count as texts, and nothing depends on time.

What a hardened program cannot do: print events, change those it caused, find the world or the conditions (the world
waits in a generator's frame, which an audit hook guards against gc, ctypes, tracing and frames; conditions never enter
the sandbox), or reach another program (those that could share no process, nor do their worlds). One that found
the reporting descriptor could write an answer of its own; it is replayed here in a fresh world, so it can claim no more
than what calls of the eight functions could have brought about. What is left: a program that defeats the guard in its
own process would learn that world's answers without asking for them.

RoboSim's open world (Hu et al. 2025, arXiv 2405.20179) is explored by `explore`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeGuard

from envs.roboeval.bundle import ask
from envs.roboeval.closed import NAMES, world_call
from envs.roboeval.extraction import extracted
from envs.roboeval.program import described
from envs.roboeval.trace import Checker, Condition, Event, compiled
from envs.roboeval.worlds import World
from envs.sandbox import Sandbox

Mode = Literal["compat", "hardened"]
Shaking = Literal["none", "tree", "text"]
Status = Literal["success", "error", "timeout"]
Verdict = Literal["Success", "CompletionError", "RobotExecutionError", "PythonError"]
CALLS = {kind: name for name, kind in NAMES.items()}
ROBOT_ERROR = re.compile(r"(Exception|TypeError): Robot(\w+Error:|\.\w+\(\))")
EXACT = Fraction(1, 10**6)
Progress = Callable[[int], None]
ALONE = {"alone": True}
LOST = {"lost": True}


@dataclass(frozen=True)
class Place:
    """A stretch of a program: lines from 1, columns and offsets in characters from 0, ends excluded."""

    line: int
    column: int
    end_line: int
    end_column: int
    start: int
    end: int


@dataclass(frozen=True)
class Request:
    """A program to be judged in worlds, each with the condition that its trace has to satisfy."""

    program: str
    worlds: Sequence[World]
    conditions: Sequence[Condition]
    mode: Mode = "hardened"


@dataclass(frozen=True)
class WorldResult:
    """What became of a program in one world.

    result: "sat", "unsat", "RobotExecutionError" or "PythonError" (a timeout where none is allowed is one).
    error: the last line that Python would have printed. span: the failing call or expression.
    """

    world: int
    status: Status
    result: str
    error: str
    span: Place | None
    trace: Sequence[Event]


@dataclass(frozen=True)
class Judgement:
    """A verdict: that of the first world with an error, else whether all traces satisfy their conditions.

    span: of the error that decided. extracted: false where there is no program at all, which counts as a PythonError.
    """

    verdict: Verdict
    worlds: Sequence[WorldResult]
    span: Place | None = None
    note: str = ""
    extracted: bool = True


async def judge(
    sandbox: Sandbox, requests: Sequence[Request], progress: Progress | None = None
) -> list[Judgement | None]:
    """Verdicts in the order of `requests`, None where the sandbox failed; equal programs run once.

    Raises:
        ValueError: a condition is not of the trace language, or there is not one for each world.
    """
    checkers: dict[int, Checker] = {}
    places: dict[Any, int] = {}
    asked: list[dict[str, Any]] = []
    keys = []
    for request in requests:
        if len(request.worlds) != len(request.conditions):
            raise ValueError(f"{len(request.worlds)} worlds and {len(request.conditions)} conditions")
        for condition in request.conditions:
            if id(condition) not in checkers:
                checkers[id(condition)] = compiled(json.dumps(condition))
        key = request.program, request.mode, tuple(map(id, request.worlds))
        keys.append(key)
        if key not in places:
            places[key] = len(asked)
            worlds = [world.data for world in request.worlds]
            asked.append({"program": request.program, "compat": request.mode == "compat", "worlds": worlds})
    answers = await _runs(sandbox, asked, progress)
    judged: list[Judgement | None] = []
    for request, key in zip(requests, keys, strict=True):
        runs = answers[places[key]]
        checks = [checkers[id(condition)] for condition in request.conditions]
        judged.append(None if runs is None else _judged(request, checks, runs))
    return judged


async def _runs(sandbox: Sandbox, asked: Sequence[dict[str, Any]], progress: Progress | None) -> list[list[Any] | None]:
    """For each program what happened in each of its worlds, unchecked; LOST where that ended its process."""
    found: list[list[Any] | None] = []
    again: list[tuple[int, dict[str, Any]]] = []
    for place, (request, answer) in enumerate(zip(asked, await ask(sandbox, "closed", asked, progress), strict=True)):
        if answer is None:
            found.append(None)
            continue
        runs = [part for part in answer.parts if part != ALONE][: len(request["worlds"])]
        found.append(runs if answer.whole else [*runs, LOST][: len(request["worlds"])])
        again += [(place, {**request, "worlds": [world]}) for world in request["worlds"][len(found[-1] or []) :]]
    alone = await ask(sandbox, "closed", [request for _, request in again], alone=True)
    for (place, _), answer in zip(again, alone, strict=True):
        runs_here = found[place]
        if answer is None:
            found[place] = None
        elif runs_here is not None:
            runs_here.append(answer.parts[0] if answer.parts else LOST)
    return found


def _is_list(value: Any, length: int) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and len(value) == length


def _judged(request: Request, checks: Sequence[Checker], runs: Sequence[Any]) -> Judgement:
    results = [_result(request, world, checks[world], run) for world, run in enumerate(runs)]
    there = extracted(request.program)
    for result in results:
        if result.result not in ("sat", "unsat"):
            verdict: Verdict = "RobotExecutionError" if result.result == "RobotExecutionError" else "PythonError"
            note = f"world {result.world}: {result.error or result.status}"
            return Judgement(verdict, results, result.span, note if there else "no program", there)
    unsatisfied = [str(result.world) for result in results if result.result == "unsat"]
    if unsatisfied:
        return Judgement("CompletionError", results, None, f"not as asked in world {', '.join(unsatisfied)}", there)
    return Judgement("Success", results, extracted=there)


def _result(request: Request, world: int, check: Checker, run: Any) -> WorldResult:
    """One world's result. What a run reports comes from beside a hostile program, and is not believed further than
    it could have happened."""
    status, error, place, trace = _report(run)
    span = None if place is None else Place(**described(request.program, place))
    here = request.worlds[world]
    compat = request.mode == "compat"
    if trace is None or not (compat or _possible(here, trace)):
        return WorldResult(world, "error", "PythonError", "what the program reports cannot have happened", span, ())
    events = tuple((kind, text, options) for kind, text, options in trace)
    if status == "error":
        robot = "Robot" in error if compat else ROBOT_ERROR.match(error) is not None
        return WorldResult(world, status, "RobotExecutionError" if robot else "PythonError", error, span, events)
    if status == "timeout" and not here.may_timeout:
        return WorldResult(world, status, "PythonError", "", span, events)
    try:
        result = "sat" if check(events) else "unsat"
    except TypeError as problem:
        return WorldResult(world, status, "PythonError", f"TypeError: {problem}", None, events)
    return WorldResult(world, status, result, "", None, events)


def _report(run: Any) -> tuple[Status, str, list[int] | None, list[Any] | None]:
    """Status, error, place and trace of a report; no trace where it is malformed. A process that was brought down has
    used up its time."""
    if run == LOST:
        return "timeout", "", None, []
    if not isinstance(run, dict) or run.get("status") not in ("success", "error", "timeout"):
        return "error", "", None, None
    error, place, trace = run.get("error"), run.get("place"), run.get("trace")
    if not (_is_list(place, 2) and all(type(offset) is int for offset in place)):
        place = None
    fine = isinstance(trace, list) and all(
        _is_list(event, 3) and isinstance(event[0], str) and isinstance(event[1], str) for event in trace
    )
    return run["status"], error[:500] if isinstance(error, str) else "", place, trace if fine else None


def _possible(world: World, trace: Sequence[Any]) -> bool:
    """Whether calls of the eight functions can bring about these events in a fresh world."""
    call = world_call(world.data, live=False)
    for kind, text, options in trace:
        if kind not in CALLS or (kind == "Ask") != isinstance(options, list):
            return False
        rest = []
        if kind == "Ask":
            if not all(isinstance(option, str) for option in options):
                return False
            rest = [options, str(options)]
        reply = call((CALLS[kind], text, *rest))
        if reply[0] == "late" or (reply[0] == "error" and kind in ("Pick", "Place")):
            return False
    return True


# --- the open world -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """One way in which runs fail: with what probability, and which call or expression it is."""

    outcome: str
    probability: str
    span: Place | None


@dataclass(frozen=True)
class Exploration:
    """All runs of a program in RoboSim's open world.

    outcomes: "ok", "timeout", "Robot...Error" or "Python:..." with its probability "p/q"; `unexplored` is the rest.
    least_calls, least_events: calls of the eight functions, and of those that act, check or speak, on the run with
    the fewest among those explored; 0 calls means that a reward for "ok" can be had for nothing.
    events: different (kind, text, options) that occurred, at most 400.
    passes: how many of `runs` random runs ended well.
    """

    outcomes: dict[str, str]
    unexplored: str
    paths: int
    failures: Sequence[Failure]
    least_calls: int
    least_events: int
    events: Sequence[Event]
    passes: int
    runs: int

    @property
    def exact(self) -> bool:
        """Whether next to nothing is unexplored."""
        return Fraction(self.unexplored) <= EXACT

    @property
    def reaches_call(self) -> bool:
        """Whether every explored run calls one of the eight functions."""
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
    """What RoboSim makes of programs, in order; None where the sandbox failed.

    Args:
        mode: "compat" rewrites the text as the original does; "hardened" does not, and compares names ignoring case.
        shaking: "tree", "none", or "text", the original's.
        paths: runs of an exploration.
        runs, seed: random runs, for the reward of the dense-rewards paper (5 of them, passes / runs).
    """
    found = await explorations(sandbox, programs, mode, [shaking], paths, runs, seed, progress)
    return [None if each is None else each[shaking] for each in found]


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
    """The same for several kinds of shaking; the random runs are of the last."""
    asked = [
        {
            "program": program,
            "compat": mode == "compat",
            "explore": list(shakings),
            "paths": paths,
            "sample": shakings[-1],
            "runs": runs,
            "seed": seed,
        }
        for program in programs
    ]
    answers = await ask(sandbox, "open", asked, progress)
    again = [place for place, answer in enumerate(answers) if answer is not None and ALONE in answer.parts]
    for place, answer in zip(again, await ask(sandbox, "open", [asked[i] for i in again], alone=True), strict=True):
        answers[place] = answer
    return [
        None if answer is None else {kind: _explored(program, answer.parts, kind, runs) for kind in shakings}
        for program, answer in zip(programs, answers, strict=True)
    ]


def _explored(program: str, parts: Sequence[dict[str, Any]], kind: str, runs: int) -> Exploration:
    """A report as an Exploration; a program that brought its process down has used up its time on every run."""
    try:
        answer = parts[0]
        found = answer[kind]
        failures = [
            Failure(str(name), str(Fraction(share)), None if place is None else Place(**described(program, place)))
            for name, place, share in found["failures"]
        ]
        outcomes = {str(name): _share(share) for name, share in found["outcomes"].items()}
        events = [(str(kind), str(text), options) for kind, text, options in found["events"]]
        least = int(found["least_calls"]), int(found["least_events"])
        passes, paths = int(answer["passes"]), int(found["paths"])
        return Exploration(outcomes, _share(found["unexplored"]), paths, failures, *least, events, passes, runs)
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError):
        failure = Failure("timeout", "1/1", None)
        return Exploration({"timeout": "1/1"}, "0/1", 0, [failure], 0, 0, [], 0, runs)


def _share(text: str) -> str:
    share = Fraction(text)
    return f"{share.numerator}/{share.denominator}"
