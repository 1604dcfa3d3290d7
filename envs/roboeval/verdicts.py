"""Verdicts on robot programs: programs run inside the sandbox, and their traces are judged here, from data.

Mode "compat" gives RoboEval's own verdict (Hu et al. 2024, arXiv 2311.11183), including its text rewriting, its live
list of rooms and the trace on standard output, but with counters instead of a clock. Mode "hardened" is for rewards:
the eight functions are names, events have a channel of their own, sleeping takes no time, options count as texts, and
no verdict depends on time.

A hardened program cannot print events, change events that it caused, access the world or the conditions, or access
another program. The world is in a generator's frame, which an audit hook guards against gc, ctypes, tracing and frames;
conditions never enter the sandbox; programs that could access others share neither a process nor a world. A program
that finds the descriptor of the report could write an answer of its own. The answer is replayed here in a new world, so
it can only contain events that calls of the eight functions can cause. One weakness remains: a program that defeats the
guard in its own process can read that world's answers without asking for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard, get_args

from envs.roboeval.bundle import ask
from envs.roboeval.closed_world import NAMES, OUTPUT, world_call
from envs.roboeval.extraction import extracted
from envs.roboeval.program import described
from envs.roboeval.trace import Checker, Condition, Event, compiled
from envs.roboeval.worlds import World
from envs.sandbox import Sandbox

Mode = Literal["compat", "hardened"]
MODES: tuple[Mode, ...] = get_args(Mode)
Status = Literal["success", "error", "timeout"]
Verdict = Literal["Success", "CompletionError", "RobotExecutionError", "PythonError"]
CALLS = {kind: name for name, kind in NAMES.items()}
ROBOT_ERROR = re.compile(r"(Exception|TypeError): Robot(\w+Error:|\.\w+\(\))")
Progress = Callable[[int], None]
ALONE = {"alone": True}
LOST = {"lost": True}


@dataclass(frozen=True)
class Place:
    """A span of a program: lines from 1, columns and offsets in characters from 0, ends excluded."""

    line: int
    column: int
    end_line: int
    end_column: int
    start: int
    end: int


@dataclass(frozen=True)
class Request:
    """A program to judge in worlds, with the condition on its trace in each world."""

    program: str
    worlds: Sequence[World]
    conditions: Sequence[Condition]
    mode: Mode = "hardened"


@dataclass(frozen=True)
class WorldResult:
    """The result of a program in one world.

    result: "sat", "unsat", "RobotExecutionError" or "PythonError" (also for a timeout that the world does not allow).
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
    """A verdict: that of the first world with an error, otherwise whether all traces satisfy their conditions.

    span: location of the decisive error. extracted: False if there is no program, which counts as a PythonError.
    """

    verdict: Verdict
    worlds: Sequence[WorldResult]
    span: Place | None = None
    note: str = ""
    extracted: bool = True


async def judge(
    sandbox: Sandbox, requests: Sequence[Request], progress: Progress | None = None
) -> list[Judgement | None]:
    """Verdicts in the order of `requests`; None if the sandbox failed. Equal programs run once.

    Raises:
        ValueError: a condition is not part of the trace language, or their number differs from that of the worlds.
    """
    checkers: dict[int, Checker] = {}
    index_by_key: dict[Any, int] = {}
    runs_requested: list[dict[str, Any]] = []
    keys = []
    for request in requests:
        if len(request.worlds) != len(request.conditions):
            raise ValueError(f"{len(request.worlds)} worlds and {len(request.conditions)} conditions")
        for condition in request.conditions:
            if id(condition) not in checkers:
                checkers[id(condition)] = compiled(json.dumps(condition))
        key = request.program, request.mode, tuple(map(id, request.worlds))
        keys.append(key)
        if key not in index_by_key:
            index_by_key[key] = len(runs_requested)
            worlds = [world.data for world in request.worlds]
            runs_requested.append({"program": request.program, "compat": request.mode == "compat", "worlds": worlds})
    all_runs = await closed_reports(sandbox, runs_requested, progress)
    judgements: list[Judgement | None] = []
    for request, key in zip(requests, keys, strict=True):
        runs = all_runs[index_by_key[key]]
        checks = [checkers[id(condition)] for condition in request.conditions]
        judgements.append(None if runs is None else _judgement(request, checks, runs))
    return judgements


async def closed_reports(
    sandbox: Sandbox, requests: Sequence[dict[str, Any]], progress: Progress | None
) -> list[list[Any] | None]:
    """For each program the unchecked report of each of its worlds; LOST if the run ended its process."""
    reports: list[list[Any] | None] = []
    again: list[tuple[int, dict[str, Any]]] = []
    answers = await ask(sandbox, "closed", requests, progress)
    for index, (request, answer) in enumerate(zip(requests, answers, strict=True)):
        if answer is None:
            reports.append(None)
            continue
        runs = [part for part in answer.parts if part != ALONE][: len(request["worlds"])]
        reports.append(runs if answer.whole else [*runs, LOST][: len(request["worlds"])])
        again += [(index, {**request, "worlds": [world]}) for world in request["worlds"][len(reports[-1] or []) :]]
    alone = await ask(sandbox, "closed", [request for _, request in again], alone=True)
    for (index, _), answer in zip(again, alone, strict=True):
        own_reports = reports[index]
        if answer is None:
            reports[index] = None
        elif own_reports is not None:
            own_reports.append(answer.parts[0] if answer.parts else LOST)
    return reports


def _is_list(value: Any, length: int) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and len(value) == length


def _judgement(request: Request, checks: Sequence[Checker], runs: Sequence[Any]) -> Judgement:
    results = [_result(request, world, checks[world], run) for world, run in enumerate(runs)]
    has_program = extracted(request.program)
    for result in results:
        if result.result not in ("sat", "unsat"):
            verdict: Verdict = "RobotExecutionError" if result.result == "RobotExecutionError" else "PythonError"
            note = f"world {result.world}: {result.error or result.status}"
            return Judgement(verdict, results, result.span, note if has_program else "no program", has_program)
    unsatisfied = [str(result.world) for result in results if result.result == "unsat"]
    if unsatisfied:
        return Judgement(
            "CompletionError", results, None, f"not as asked in world {', '.join(unsatisfied)}", has_program
        )
    return Judgement("Success", results, extracted=has_program)


def _result(request: Request, world: int, check: Checker, run: Any) -> WorldResult:
    """The result in one world. A report comes from the process of a hostile program, so its trace is accepted only if
    it is possible."""
    status, error, place, trace = _report(run)
    span = None if place is None else Place(**described(request.program, place))
    own_world = request.worlds[world]
    compat = request.mode == "compat"
    if trace is None or not (compat or _possible(own_world, trace)):
        return WorldResult(world, "error", "PythonError", "what the program reports cannot have happened", span, ())
    events = tuple((kind, text, options) for kind, text, options in trace)
    if status == "error":
        robot = "Robot" in error if compat else ROBOT_ERROR.match(error) is not None
        return WorldResult(world, status, "RobotExecutionError" if robot else "PythonError", error, span, events)
    if status == "timeout" and not own_world.may_timeout:
        return WorldResult(world, status, "PythonError", "", span, events)
    try:
        result = "sat" if check(events) else "unsat"
    except TypeError as problem:
        return WorldResult(world, status, "PythonError", f"TypeError: {problem}", None, events)
    return WorldResult(world, status, result, "", None, events)


def _report(run: Any) -> tuple[Status, str, list[int] | None, list[Any] | None]:
    """Status, error, place and trace of a report; the trace is None if it is malformed. A process that was ended counts
    as a timeout."""
    if run == LOST:
        return "timeout", "", None, []
    if not isinstance(run, dict) or run.get("status") not in ("success", "error", "timeout"):
        return "error", "", None, None
    error, place, trace = run.get("error"), run.get("place"), run.get("trace")
    if not (_is_list(place, 2) and all(type(offset) is int for offset in place)):
        place = None
    if not isinstance(trace, list) or not all(
        _is_list(event, 3) and isinstance(event[0], str) and isinstance(event[1], str) for event in trace
    ):
        trace = None
    if trace is not None and sum(map(_length, trace)) > OUTPUT:
        trace = None  # a run that prints more is stopped, and only the beginning of its trace is kept
    return run["status"], error[:500] if isinstance(error, str) else "", place, trace


def _length(event: Sequence[Any]) -> int:
    """Characters of an event, at most: options that are no texts count one each."""
    options = event[2] if isinstance(event[2], list) else [event[2]]
    return len(event[1]) + sum(len(option) if isinstance(option, str) else 1 for option in options)


def _possible(world: World, trace: Sequence[Any]) -> bool:
    """Whether calls of the eight functions can cause these events in a new world."""
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
