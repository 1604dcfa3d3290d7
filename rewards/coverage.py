"""A trusted program for the sandbox: which lines of a solution each of its tests executes.

It reads one JSON object on standard input and prints one, with an entry a test that was run: {"cases": [[lines], ...],
"raised": [line or null, ...], "ok": [bool or null, ...]}, lines counted from 1. What the solution prints goes nowhere.
The solution shares its process and could forge this; it moves its own reward from line to line, and no verdict comes
from here.
"""

from __future__ import annotations

import ast
import io
import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

NAME = "<graded>"  # not the name that the sandbox gives to this program
MOST_EVENTS, SECONDS = 100_000, 0.5
"""Lines followed in one test and its CPU time; a loop without end has shown its lines by then."""


class Enough(BaseException):
    """Ends a test that has shown its lines. No further test is run: the judge's own run ended there too."""


class Recorder:
    """Runs calls and notes the solution's lines that they execute."""

    def __init__(self) -> None:
        self.cases: list[list[int]] = []
        self.raised: list[int | None] = []
        self.ok: list[bool | None] = []
        self.over = False
        signal.signal(signal.SIGPROF, _enough)

    def run(self, call: Callable[[], Any], verdict: bool = False) -> None:
        if self.over:
            return
        lines: set[int] = set()
        left = MOST_EVENTS

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename != NAME:
                return None
            if event == "line":
                lines.add(frame.f_lineno)
                left -= 1
                if left < 0:
                    raise Enough
            return trace

        raised, failed = None, False
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        sys.settrace(trace)
        try:
            call()
        except BaseException as error:
            sys.settrace(None)
            failed, self.over = True, isinstance(error, Enough)
            raised = None if self.over else _innermost(error)
        finally:
            sys.settrace(None)
            signal.setitimer(signal.ITIMER_PROF, 0)
        self.cases.append(sorted(lines))
        self.raised.append(raised)
        self.ok.append(not failed if verdict else None)


def _missing(*args: Any, **kwargs: Any) -> None:
    raise NameError("the function asked for is not defined")


def _enough(*_: Any) -> None:
    raise Enough


def _innermost(error: BaseException) -> int | None:
    """The solution's last line in the traceback: where the error was raised, or the call that led there."""
    if isinstance(error, SyntaxError) and error.filename == NAME:
        return error.lineno
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == NAME:
            line = step.tb_lineno
        step = step.tb_next
    return line


def _checks(source: str) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """What a test source runs first and its tests one by one: the statements of `check`, or of the module."""
    module = ast.parse(source)
    for number, statement in enumerate(module.body):
        if isinstance(statement, ast.FunctionDef) and statement.name == "check":
            return module.body[:number], statement.body
    return [], module.body


def _compiled(statement: ast.stmt) -> Any:
    return compile(ast.Module([statement], []), "<test>", "exec")


def cover(row: dict[str, Any]) -> Recorder:
    """Run the tests of one row: `code`, `setup`, and `inputs` (stdin), `calls` (of `entry_point`) or `check_src`."""
    recorder = Recorder()
    scope: dict[str, Any] = {"__name__": "__main__" if "inputs" in row else "solution"}
    if "inputs" in row:
        for text in row["inputs"]:
            sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
            recorder.run(lambda: exec(compile(row["code"], NAME, "exec"), {"__name__": "__main__"}))
        return recorder
    exec(row["setup"] or "", scope)
    before = Recorder()
    before.run(lambda: exec(compile(row["code"], NAME, "exec"), scope))
    if before.raised[0] is not None:
        return before
    if "calls" in row:
        function = scope.get(row["entry_point"]) or _missing
        for text in row["calls"]:
            args, kwargs = eval(text, {"inf": float("inf"), "nan": float("nan")})  # the task's own data
            recorder.run(partial(function, *args, **kwargs))
        return recorder
    scope["candidate"] = scope.get(row["entry_point"])
    first, tests = _checks(row["check_src"])
    for statement in first:
        exec(_compiled(statement), scope)
    for statement in tests:
        recorder.run(partial(exec, _compiled(statement), scope), verdict=True)
    return recorder


if __name__ == "__main__":
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    found = cover(json.load(sys.stdin))
    print(json.dumps({name: getattr(found, name) for name in ("cases", "raised", "ok")}), file=answer, flush=True)
    os._exit(0)
