"""A trusted program for the sandbox: what a program's author would see of its first failing test.

It reads {"code", "begun", "setup", "entry_point", "call": text of (args, kwargs) or null, "stdin": text or null} on
standard input and prints one JSON object with what it saw:

    {"syntax": message, "line": n, "source": line}       the code does not compile
    {"error": "Type: message", "lines": [[n, line], ...]}   it raised, in these lines of its own
    {"value": repr}                                      the call returned
    {"output": text}                                     the program ended

Lines count from 1 in the candidate's own code, `begun` excluded. The candidate shares this process and could forge what
is seen, which misleads itself alone: verdicts come from the sandbox, and texts are escaped by who reads them.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import tempfile
import threading
import types
from typing import Any

FILE_NAME = "<candidate>"
MOST = 4000
"""Characters of a value or an output that are passed on."""
MOST_LINES = 6


def shortened(text: str) -> str:
    return text if len(text) <= MOST else f"{text[: MOST // 2]} [...] {text[-MOST // 2 :]}"


def described(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:
        text = ""
    return shortened(f"{type(error).__name__}: {text}" if text else type(error).__name__)


class Candidate:
    """The code, and the lines that the prompt had begun."""

    def __init__(self, row: dict[str, Any]):
        self.row = row
        self.source = row["begun"] + row["code"]
        self.given = row["begun"].count("\n")
        self.lines = self.source.split("\n")

    def line(self, number: int | None) -> list[Any] | None:
        """[number within the candidate's own code, its text]; None for a line that is not its own."""
        if number is None or not self.given < number <= len(self.lines):
            return None
        return [number - self.given, self.lines[number - 1].strip()[:200]]

    def see(self) -> dict[str, Any]:
        try:
            program = compile(self.source, FILE_NAME, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
            place = self.line(getattr(error, "lineno", None))
            what = getattr(error, "msg", None) or described(error)
            return {"syntax": shortened(f"{type(error).__name__}: {what}"), "lines": [place] if place else []}
        try:
            return self.run(program)
        except BaseException as error:
            return {"error": described(error), "lines": self.raised(error)}

    def run(self, program: types.CodeType) -> dict[str, Any]:
        if self.row["stdin"] is not None:
            return self.as_script(program)
        if self.row["entry_point"] is None:
            return {}  # it reads an input that nobody shows
        module = types.ModuleType("solution")
        sys.modules["solution"] = module
        exec(compile(self.row["setup"] or "", "<setup>", "exec"), module.__dict__)
        module.__dict__.pop(self.row["entry_point"] or "", None)
        exec(program, module.__dict__)
        if self.row["call"] is None:
            return {}
        arguments, named = eval(self.row["call"], {"inf": float("inf"), "nan": float("nan")})  # of the question's text
        name = self.row["entry_point"]
        function = module.__dict__.get(name)
        if function is None and isinstance(module.__dict__.get("Solution"), type):
            function = getattr(module.__dict__["Solution"](), name, None)
        if function is None:
            return {"error": f"NameError: the function {name} is not defined", "lines": []}
        return {"value": shortened(repr(function(*arguments, **named)))}

    def as_script(self, program: types.CodeType) -> dict[str, Any]:
        """Standard input and output are files, since a program may use them by their numbers; what it leaves to
        threads and to the end of the process is waited for."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as written:
            given.write(self.row["stdin"].encode("utf-8", "replace"))
            given.seek(0)
            os.dup2(given.fileno(), 0)
            os.dup2(written.fileno(), 1)
            with open(0, closefd=False) as sys.stdin, open(1, "w", closefd=False) as sys.stdout:
                try:
                    exec(program, {"__name__": "__main__"})
                except SystemExit as error:
                    if error.code not in (None, 0):
                        raise
                for thread in threading.enumerate():
                    if thread is not threading.current_thread() and not thread.daemon:
                        thread.join()
                atexit._run_exitfuncs()
            written.seek(0)
            return {"output": shortened(written.read(MOST * 16).decode("utf-8", "replace"))}

    def raised(self, error: BaseException) -> list[list[Any]]:
        """The traceback cut to the candidate's own lines, the call first and the place of the error last."""
        places: list[list[Any]] = []
        step = error.__traceback__
        while step is not None and len(places) < 10_000:
            if step.tb_frame.f_code.co_filename == FILE_NAME and (place := self.line(step.tb_lineno)):
                places.append(place)
            step = step.tb_next
        return places if len(places) <= MOST_LINES else [*places[:2], *places[2 - MOST_LINES :]]


if __name__ == "__main__":
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    seen = Candidate(json.load(sys.stdin)).see()
    answer.write(json.dumps(seen) + "\n")
    answer.flush()
    os._exit(0)
