"""A trusted program for the sandbox: which lines of a solution each of its tests executes.

It reads one JSON object on standard input and prints one, with an entry for each test that was run: {"cases":
[[lines], ...], "raised": [line or null, ...], "ok": [bool or null, ...]}, lines counted from 1. The solution's own
output is discarded. The solution shares this process and could forge the result. That only moves its own reward from
line to line, because no verdict is taken from here.
"""

from __future__ import annotations

import ast
import fileinput
import io
import json
import os
import signal
import sys
import tempfile
import types
from collections.abc import Callable
from functools import partial
from typing import Any

FILE_NAME = "<graded>"  # differs from the name that the sandbox gives to this program
MAX_LINE_EVENTS, MAX_CPU_S = 100_000, 0.5
"""Limits of one test; an endless loop has executed all its lines by then."""


class LimitReached(BaseException):
    """Ends a test at its limit. No further test is run, because the graded run also ended there."""


class Recorder:
    """Runs calls and records which lines of the solution they execute."""

    def __init__(self) -> None:
        self.cases: list[list[int]] = []
        self.raised: list[int | None] = []
        self.ok: list[bool | None] = []
        self.stopped = False
        signal.signal(signal.SIGPROF, _limit_reached)

    def run(self, call: Callable[[], Any], verdict: bool = False, script: bool = False) -> None:
        """verdict: whether the call tells by an error that its test fails. script: `sys.exit` is no error of it."""
        if self.stopped:
            return
        lines: set[int] = set()
        events_left = MAX_LINE_EVENTS

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal events_left
            if frame.f_code.co_filename != FILE_NAME:
                return None
            if event == "line":
                lines.add(frame.f_lineno)
                events_left -= 1
                if events_left < 0:
                    raise LimitReached
            return trace

        raised, failed = None, False
        signal.setitimer(signal.ITIMER_PROF, MAX_CPU_S)
        sys.settrace(trace)
        try:
            call()
        except BaseException as error:
            sys.settrace(None)
            failed, self.stopped = True, isinstance(error, LimitReached)
            ended = self.stopped or (script and isinstance(error, SystemExit))
            raised = None if ended else _innermost_line(error)
        finally:
            sys.settrace(None)
            signal.setitimer(signal.ITIMER_PROF, 0)
        self.cases.append(sorted(lines))
        self.raised.append(raised)
        self.ok.append(not failed if verdict else None)


def _give_input(text: str) -> None:
    """Make `text` the standard input, for programs that read the descriptor too."""
    unused = os.open(os.devnull, os.O_RDONLY)  # has the number 0 if the program has closed it
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        os.dup2(file.fileno(), 0)
    if unused:
        os.close(unused)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    fileinput.close()  # or a second program could not begin to read


def _missing(*args: Any, **kwargs: Any) -> None:
    raise NameError("the requested function is not defined")


def _limit_reached(*_: Any) -> None:
    raise LimitReached


def _innermost_line(error: BaseException) -> int | None:
    """The solution's last line in the traceback: where the error was raised, or the call that led to it."""
    if isinstance(error, SyntaxError) and error.filename == FILE_NAME:
        return error.lineno
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == FILE_NAME:
            line = step.tb_lineno
        step = step.tb_next
    return line


def _checks(source: str) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The set-up statements of a test source, and its tests: the statements of `check`, or else of the module."""
    module = ast.parse(source)
    for number, statement in enumerate(module.body):
        if isinstance(statement, ast.FunctionDef) and statement.name == "check":
            return module.body[:number], statement.body
    return [], module.body


def _compiled(statement: ast.stmt) -> Any:
    return compile(ast.Module([statement], []), "<test>", "exec", dont_inherit=True)


def _program(code: str) -> Any:
    # without the mark that a file may begin with, and not with the future imports of this file
    return compile(code.removeprefix("\ufeff"), FILE_NAME, "exec", dont_inherit=True)


def _entry(scope: dict[str, Any], name: str) -> Any:
    """The tested function: a global, or else the method of a class Solution, an object for each call as the sandbox
    makes it; None if there is neither."""
    owner = scope.get("Solution")
    if name not in scope and isinstance(owner, type) and hasattr(owner, name):
        return lambda *args, **kwargs: getattr(owner(), name)(*args, **kwargs)
    return scope.get(name)


def cover(row: dict[str, Any]) -> Recorder:
    """Run the tests of a row: `code`, `setup`, and `inputs` (stdin), `calls` (of `entry_point`) or `check_src`."""
    recorder = Recorder()
    if "inputs" in row:
        for text in row["inputs"]:
            _give_input(text)
            recorder.run(lambda: exec(_program(row["code"]), {"__name__": "__main__"}), script=True)
        return recorder
    sys.modules["solution"] = module = types.ModuleType("solution")  # where dataclasses look for their annotations
    scope = vars(module)
    exec(row["setup"] or "", scope)
    scope.pop(row["entry_point"], None)
    loading = Recorder()
    loading.run(lambda: exec(_program(row["code"]), scope))
    if loading.raised[0] is not None:
        return loading
    if "calls" in row:
        function = _entry(scope, row["entry_point"]) or _missing
        for text in row["calls"]:
            args, kwargs = eval(text, {"inf": float("inf"), "nan": float("nan")})  # trusted: the task's own data
            recorder.run(partial(function, *args, **kwargs))
        return recorder
    scope["candidate"] = _entry(scope, row["entry_point"])
    first, tests = _checks(row["check_src"])
    for statement in first:
        exec(_compiled(statement), scope)
    for statement in tests:
        recorder.run(partial(exec, _compiled(statement), scope), verdict=True)
    return recorder


if __name__ == "__main__":
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    recorded = cover(json.load(sys.stdin))
    print(json.dumps({name: getattr(recorded, name) for name in ("cases", "raised", "ok")}), file=answer, flush=True)
    os._exit(0)
