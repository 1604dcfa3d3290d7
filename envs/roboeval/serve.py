"""The main program of a sandbox job: requests from standard input, answers as JSON lines. See bundle.py."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from envs.roboeval import closed_run, lazy_run
from envs.roboeval.program import TimeLimit

SOFT_S, HARD_S = 0.13, 0.16
"""Processor time of one run after which it is stopped (between two instructions), or killed with its process: for
what the counters do not see."""
LOOKERS = """
gc.get_objects gc.get_referrers gc.get_referents sys.settrace sys.setprofile sys._current_frames
sys._current_exceptions sys.addaudithook
"""
REFUSED = frozenset(LOOKERS.split())
INNER = frozenset({"gi_frame", "gi_code", "__code__"})
MODULES = ("_ctypes", "_testcapi", "_testinternalcapi", "_xxsubinterpreters")
WORLDS = ("<closed>", "<lazy>")


looking: list[Any] = []
"""Tracebacks whose frames the guard itself asks for."""


def guard(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook: refuses what leads into the frame of a generator, where a world is kept, or would put other code
    into it."""
    if event in REFUSED or event.startswith("ctypes.") or (event == "import" and arguments[0] in MODULES):
        raise RuntimeError(f"{event} is not allowed here")
    if (event == "object.__getattr__" and arguments[1] in INNER) or (
        event == "object.__setattr__" and arguments[1] == "__code__"
    ):
        raise RuntimeError(f"{arguments[1]} is not allowed here")
    if event == "object.__getattr__" and arguments[1] == "tb_frame" and not looking:
        looking.append(arguments[0])
        frame = arguments[0].tb_frame
        looking.clear()
        if frame.f_code.co_filename in WORLDS:
            raise RuntimeError("a world's frame is not to be had")


def stop(number: int, frame: Any) -> None:
    if frame is not None and frame.f_code.co_filename in WORLDS:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.001)  # a world that is interrupted has no trace any more
    else:
        raise TimeLimit


def limited(run: Callable[[], Any]) -> Any:
    """A run within its processor time."""
    signal.setitimer(signal.ITIMER_PROF, HARD_S)
    signal.setitimer(signal.ITIMER_VIRTUAL, SOFT_S)
    try:
        return run()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)


def serve(kind: str) -> None:
    """Answer all requests and leave."""
    asked = json.loads(os.pread(0, os.fstat(0).st_size, 0))  # no stream keeps a copy of it
    channel = os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    for place in range(3):
        os.dup2(null, place)
    signal.signal(signal.SIGVTALRM, stop)
    sys.addaudithook(guard)
    answer = closed_run.answer if kind == "closed" else lazy_run.answer
    write, dumps, leave, requests = os.write, json.dumps, os._exit, asked["requests"]
    gc.freeze()

    def say(part: dict[str, Any]) -> None:
        data = (dumps(part) + "\n").encode("ascii")
        while data:
            data = data[write(channel, data) :]

    while requests:
        for part in answer(requests.pop(0), asked["single"], limited):
            say(part)
        gc.collect()  # what one program leaves may not take memory from the next
        say({})
    leave(0)
