"""The main program of a sandbox job: it reads requests from standard input and writes JSON lines; see bundle.py."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from envs.roboeval.program import TimeLimit

SOFT_S, HARD_S = 0.4, 0.44
"""Processor time after which a run is stopped (between two instructions), or killed with its process. They limit what
the counters do not see. On a server's core all allowed calls take up to 0.08 s, all allowed turns 0.02 s."""
LOOKERS = """
gc.get_objects gc.get_referrers gc.get_referents sys.settrace sys.setprofile sys._current_frames
sys._current_exceptions sys.addaudithook
"""
REFUSED = frozenset(LOOKERS.split())
INNER = frozenset({"gi_frame", "gi_code", "cr_frame", "ag_frame", "__code__"})
MODULES = ("ctypes", "_ctypes", "_signal", "_testcapi", "_testinternalcapi", "_xxsubinterpreters")
WORLDS = ("<closed_world>", "<reference_world>", "<open_world>")


def make_guard() -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that refuses access to the frame of a generator, which holds a world, and changes of its code.

    Only the interpreter has a reference to the hook, so that no program can change it.
    """
    looking, refused, inner, modules, worlds = False, REFUSED, INNER, MODULES, WORLDS

    def guard(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal looking
        if event in refused or event.startswith("ctypes.") or (event == "import" and arguments[0] in modules):
            raise RuntimeError(f"{event} is not allowed here")
        if event == "sys._getframe":
            refuse_worlds(arguments[0])
        elif event == "object.__setattr__" and arguments[1] == "__code__":
            raise RuntimeError("__code__ is not allowed here")
        elif event == "object.__getattr__" and arguments[1] in inner:
            raise RuntimeError(f"{arguments[1]} is not allowed here")
        elif event == "object.__getattr__" and arguments[1] == "tb_frame" and not looking:
            looking = True
            frame = arguments[0].tb_frame
            looking = False
            refuse_worlds(frame)

    def refuse_worlds(frame: Any) -> None:
        """Raise RuntimeError for the frame of a world, or one that was called from it (by the garbage collector,
        say)."""
        while frame is not None:
            if frame.f_code.co_filename in worlds:
                raise RuntimeError("a world's frame is not accessible")
            frame = frame.f_back

    return guard


def no_handler(*_: object) -> None:
    raise RuntimeError("signal handlers are not allowed here: they are shown any frame")


def close_doors() -> None:
    """Disable signal handlers and ctypes, and install the guard, for the rest of this process."""
    import _signal

    for name in ("ctypes", "_ctypes"):
        sys.modules.pop(name, None)  # so that a program must import them again, which the guard refuses
    signal.signal = _signal.signal = no_handler  # type: ignore[assignment]
    sys.addaudithook(make_guard())


def stop(number: int, frame: Any) -> None:
    if frame is not None and frame.f_code.co_filename in WORLDS:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.001)  # an interrupted world would lose its trace
    else:
        raise TimeLimit


def limited(run: Callable[[], Any]) -> Any:
    """Run with a limit of processor time."""
    signal.setitimer(signal.ITIMER_PROF, HARD_S)
    signal.setitimer(signal.ITIMER_VIRTUAL, SOFT_S)
    try:
        return run()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)


def serve(answer: Callable[..., Iterator[dict[str, Any]]]) -> None:
    """Answer all requests and exit. answer: of closed_world_run.py or open_world_run.py."""
    asked = json.loads(os.pread(0, os.fstat(0).st_size, 0))  # read without a stream, which would keep a copy
    channel = os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    for place in range(3):
        os.dup2(null, place)
    signal.signal(signal.SIGVTALRM, stop)
    close_doors()
    write, dumps, leave, requests = os.write, json.dumps, os._exit, asked["requests"]
    gc.freeze()

    def say(part: dict[str, Any]) -> None:
        data = (dumps(part) + "\n").encode("ascii")
        while data:
            data = data[write(channel, data) :]

    while requests:
        for part in answer(requests.pop(0), asked["single"], limited):
            say(part)
        gc.collect()  # garbage of one program must not take memory from the next
        say({})
    leave(0)
