"""Runs programs in closed worlds, inside the sandbox, and reports traces as data.

In compat mode the program's text is rewritten, and events are lines on its standard output, which is parsed as in the
original. In hardened mode the eight functions are names, events stay in the world's generator, and the program's output
is discarded.
"""

from __future__ import annotations

import ast
import contextlib
import io
import math
import random
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from envs.roboeval.closed_world import DELIMITER, KEPT, OUTPUT, event_text, world_call
from envs.roboeval.program import FILE, TICK, Prepared, Source, TimeLimit, counter, namespace, place_of
from envs.roboeval.reference_world import reference_call

TURNS = 200_000
"""Limit on loop iterations and function entries of one run."""
VIRTUAL_S = 0.85
"""Seconds of virtual time after which a run in compat mode is stopped."""
GLANCE_S = 1e-5
"""Virtual time that reading the clock takes, so that a loop that waits for a point in time ends."""
Function = Callable[..., Any]
Limited = Callable[[Function], Any]
"""Calls a function with a limit of processor time."""


class Output(io.BytesIO):
    """Standard output of a compat run; stops the run beyond OUTPUT bytes."""

    def write(self, data: Any) -> int:
        written = super().write(data)
        if self.tell() > OUTPUT:
            raise TimeLimit
        return written


class Sink(io.TextIOBase):
    """Standard output of a hardened run; discards everything."""

    def write(self, text: str) -> int:
        return len(text)

    def writable(self) -> bool:
        return True


def caller(call: Callable[[tuple[Any, ...]], Any]) -> Function:
    """A function that sends calls to a world, returns its values and raises its errors."""

    def put(*request: Any) -> Any:
        kind, value = call(request)
        if kind == "ok":
            return value
        if kind == "late":
            raise TimeLimit
        if kind == "encode":
            value.encode("utf-8")  # raises what printing it would raise
        raise (TypeError if value.startswith("TypeError: ") else Exception)(value)

    return put


def robot_functions(put: Function, emit: Callable[..., None] | None) -> dict[str, Function]:
    """The eight functions of a world. `emit` prints events (compat); without it the world records them itself."""

    def text_of(value: Any, name: str, parameter: str) -> str:
        if not isinstance(value, str):
            raise TypeError(f"Robot{name}Error: {parameter} must be a string")
        return str.__str__(value)

    def act(request: str, kind: str, text: str, first: bool) -> Any:
        if emit and first:
            emit(kind, text)
        value = put(request, text)
        if emit and not first:
            emit(kind, text)
        return value

    def get_current_location():
        return put("where")

    def get_all_rooms():
        return put("rooms")

    def is_in_room(entity):
        return act("check", "CheckEntity", text_of(entity, "CheckEntity", "entity"), True)

    def go_to(location):
        act("go", "GoTo", text_of(location, "GoTo", "location"), True)

    def ask(person, question, options):
        person = text_of(person, "Ask", "person")
        question = text_of(question, "Ask", "question")
        if type(options) is not list:
            raise TypeError("RobotAskError: options must be a list")
        offered, shown = list(options), str(options)
        if emit:
            emit("Ask", question, shown)
        return offered[put("ask", question, [str.__str__(str(option)) for option in offered], shown, person)]

    def say(message):
        text = text_of(message, "Say", "message")
        if emit:
            emit("Say", text)
        else:
            put("say", text)

    def pick(obj):
        act("pick", "Pick", text_of(obj, "Pick", "obj"), False)

    def place(obj):
        act("place", "Place", text_of(obj, "Place", "obj"), False)

    functions = (get_current_location, get_all_rooms, is_in_room, go_to, ask, say, pick, place)
    for function in functions:
        function.__qualname__ = f"Robot.{function.__name__}"  # part of Python's messages about wrong arguments
    return {function.__name__: function for function in functions}


def virtual_time(most: float = math.inf) -> tuple[types.ModuleType, Callable[[], float]]:
    """A module `time` whose clock advances with sleep and with each reading, and a function that returns its time.
    Beyond `most` seconds it raises TimeLimit."""
    module, now = types.ModuleType("time"), 0.0

    def spend(seconds: float) -> None:
        nonlocal now
        now += seconds
        if now > most:
            raise TimeLimit

    def sleep(seconds):
        if not isinstance(seconds, int | float):
            raise TypeError(f"{type(seconds).__name__!r} object cannot be interpreted as an integer")
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        spend(seconds)

    def clock(start: float) -> Function:
        def read() -> float:
            spend(GLANCE_S)
            return start + now

        return read

    def clock_ns(start: float) -> Function:
        read = clock(start)
        return lambda: int(read() * 1e9)

    for name, start in (("time", 1.7e9), ("monotonic", 100.0), ("perf_counter", 100.0), ("process_time", 0.0)):
        setattr(module, name, clock(start))
        setattr(module, f"{name}_ns", clock_ns(start))
    for name in ("asctime", "ctime", "gmtime", "localtime", "mktime", "strftime", "strptime", "timezone", "tzname"):
        setattr(module, name, getattr(time, name))
    module.sleep = sleep  # type: ignore[attr-defined]
    return module, lambda: now


def run_world(prepared: Prepared, world: Mapping[str, Any], limited: Limited) -> dict[str, Any]:
    """One run: {status, error, place, trace}; status is success, error or timeout, place is [start, end] or None."""
    compat = prepared.source.compat
    output = Output()
    stdout: Any = io.TextIOWrapper(output, "utf-8", write_through=True, newline="\n") if compat else Sink()
    stderr = io.StringIO()
    known = "things" in world
    call = reference_call(world) if known else world_call(world, live=compat)
    del world  # a program that gets hold of this frame must not get the world

    def emit(kind: str, text: str, options: str = "None") -> None:
        print(event_text(kind, text, options))

    places: list[Any] = []
    functions = robot_functions(located(caller(call), places) if known else caller(call), emit if compat else None)
    most = VIRTUAL_S if compat else math.inf
    clock, now = virtual_time(most)
    space = namespace(prepared.plain, "__main__" if compat else "program", {"time": clock})
    tick, turns = counter(TURNS)
    space.update({"time": clock, TICK: tick})
    if not prepared.plain:
        random.seed(0)
        vars(time).update({key: value for key, value in vars(clock).items() if not key.startswith("__")})
        space["time"] = time
    if compat:
        robot = type("Robot", (), {})()
        vars(robot).update(functions)
        space["robot"] = robot
        if not prepared.plain:
            space["sys"] = sys
    else:
        space.update(functions)
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), stdout, stderr
    status, error, place = execute(prepared, space, stderr, limited)
    if turns() > TURNS or output.tell() > OUTPUT or now() > most:
        status = "timeout"  # even if the program caught the exception
    sys.stdin = sys.stdout = sys.stderr = None
    if compat:
        trace = read_back(output.getvalue(), status == "timeout")
    else:
        trace = []
        with contextlib.suppress(StopIteration):  # the program ended the generator by too deep recursion
            kind, trace = call(("calls" if known else "trace",))
            status = "timeout" if kind == "late" else status
        trace = kept(trace) if status == "timeout" and not known else trace
    report = {"status": status, "error": error, "place": place, "trace": trace}
    return {**report, "places": spans_of(prepared.source, places)} if known else report


def located(put: Function, places: list[Any]) -> Function:
    """`put`, with the code and the instruction of the program that calls it appended to `places`."""

    def put_here(*request: Any) -> Any:
        frame = sys._getframe(1)
        while frame.f_code.co_filename != FILE and frame.f_back is not None:
            frame = frame.f_back
        places.append((frame.f_code, frame.f_lasti))
        return put(*request)

    return put_here


def spans_of(source: Source, places: list[Any]) -> list[list[int] | None]:
    """[start, end] in characters of the program for each place, None where it has none."""
    known: dict[Any, list[int] | None] = {}
    for place in places:
        if place not in known:
            code, instruction = place
            line, end_line, column, end_column = list(code.co_positions())[instruction // 2]
            whole = line is not None and end_line is not None and column is not None and end_column is not None
            known[place] = source.span((line, end_line), (column, end_column)) if whole else None
    return [known[place] for place in places]


def execute(
    prepared: Prepared, space: dict[str, Any], stderr: io.StringIO, limited: Limited
) -> tuple[str, str, list[int] | None]:
    """Status, last line of standard error and place of a run."""
    status, error, place = "success", "", None
    try:
        limited(lambda: exec(prepared.code, space))
    except TimeLimit as caught:
        status, place = "timeout", place_of(prepared.source, caught)
    except SystemExit as caught:
        code = caught.code
        if code is not None and not (isinstance(code, int) and code & 0xFF == 0):
            status, place = "error", place_of(prepared.source, caught)
            error = "" if isinstance(code, int) else str(code)
            error = last_line(stderr.getvalue() + error)
    except BaseException as caught:
        status, place = "error", place_of(prepared.source, caught)
        error = last_line(error_text(caught))
    return status, error, place


def error_text(error: BaseException) -> str:
    """The end of Python's report of an error. It may call the program's own code."""
    try:
        return "".join(traceback.format_exception_only(error))
    except BaseException:
        return type(error).__name__


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def read_back(printed: bytes, stopped: bool) -> list[list[Any]]:
    """The trace that RoboEval reads from standard output; it ends at the first line that is not an event."""
    text = printed.decode("utf-8", "replace")
    if stopped:
        text = printed[:KEPT].decode("utf-8", "ignore")
        text = text[: text.rfind("\n") + 1]
    trace: list[list[Any]] = []
    for line in text.strip().splitlines():
        fields = line.split(DELIMITER.strip())
        if len(fields) != 3:
            break
        try:
            options = ast.literal_eval(fields[2].strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            break
        trace.append([fields[0].strip(), fields[1].strip(), plain_data(options)])
    return trace


def plain_data(options: Any) -> Any:
    """Options as JSON. Conditions apply to texts only, so any other value that is not a number becomes null."""
    if isinstance(options, list | tuple | dict | set):
        return [each if isinstance(each, str | int) else None for each in options]
    return options if isinstance(options, str | int) else None


def kept(trace: list[list[Any]]) -> list[list[Any]]:
    """The part of a stopped run's trace that is judged."""
    length, part = 0, []
    for kind, text, options in trace:
        length += len(event_text(kind, text, str(options)).encode("utf-8", "replace")) + 1
        if length > KEPT:
            break
        part.append([kind, text, options])
    return part


def answer(request: dict[str, Any], single: bool, limited: Limited) -> Iterator[dict[str, Any]]:
    """Runs of a program in worlds, one after another, or {"alone": true} if it must not share this process.

    Args:
        request: {program, compat, worlds}.
        single: whether the process has no other program.
    """
    source = Source(request["program"], request["compat"])
    worlds = request.pop("worlds")
    try:
        prepared = Prepared(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        place = place_of(source, error)
        run = {"status": "error", "error": last_line(error_text(error)), "place": place, "trace": []}
        yield from [run] * len(worlds)
        return
    if not prepared.plain and (not single or len(worlds) > 1):
        yield {"alone": True}
        return
    while worlds:
        yield run_world(prepared, worlds.pop(0), limited)
