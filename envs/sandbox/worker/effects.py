"""What a call of the program changes in the arguments that a test has passed, and when the test sees it."""

import collections
import dis
import functools
import types
from collections.abc import Callable
from opcode import opmap
from typing import Any

CACHE, POP_TOP = opmap.get("CACHE", -1), opmap["POP_TOP"]
READS = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF")
READS_ATTRIBUTE = ("LOAD_METHOD", "LOAD_ATTR")


def is_discarded(frame: types.FrameType, called: object, attribute: str | None = None) -> bool:
    """Whether a frame calls `called` and does not use the result, as in a statement `f(x)` or `solution.f(x)`.

    Only then does the test see how the call has changed its arguments. In `assert f(x) == g(x)` the program could
    otherwise choose what the test expects; in `out.extend(map(f, xs))` another function uses the result.

    attribute: the name under which the test has read `called` from an object, if it has.
    """
    code, place = frame.f_code.co_code, frame.f_lasti + 2
    while code[place] == CACHE:
        place += 2
    if code[place] != POP_TOP:
        return False
    kind, name = _callee(frame.f_code, frame.f_lasti)
    if kind == "attribute":
        return name == attribute
    return kind == "name" and frame.f_locals.get(name, frame.f_globals.get(name)) is called


@functools.lru_cache(maxsize=1024)
def _callee(code: types.CodeType, place: int) -> tuple[str, str]:
    """What the call at `place` calls: ("name", that name), ("attribute", its name) of the object before the last dot,
    or ("", "") for anything else. It is what begins where the call's source begins and goes furthest."""
    instructions = [each for each in dis.get_instructions(code) if getattr(each, "positions", None)]
    call = next((each for each in instructions if each.offset == place), None)
    if call is None:
        return "", ""
    begun = [
        each
        for each in instructions
        if each.offset < place and _start(each) == _start(call) and _end(each) < _end(call)
    ]
    callee = max(begun, key=lambda each: (_end(each), each.offset), default=None)
    if callee is None or callee.opname not in (*READS, *READS_ATTRIBUTE):
        return "", ""
    attribute = callee.opname in READS_ATTRIBUTE
    if attribute and sum(each.opname in READS_ATTRIBUTE and each.argval == callee.argval for each in begun) > 1:
        return "", ""
    return "attribute" if attribute else "name", str(callee.argval)


def _start(instruction: Any) -> tuple[int, int]:
    return instruction.positions.lineno or 0, instruction.positions.col_offset or 0


def _end(instruction: Any) -> tuple[int, int]:
    return instruction.positions.end_lineno or 0, instruction.positions.end_col_offset or 0


def change_all(old: Any, new: Any, kept: Callable[[object], bool]) -> None:
    """Change the items of a sequence in place. Raises ValueError for what is not one of the same length.

    kept: whether a value is a stand-in for something of the program, which stays as it is.
    """
    if type(new) not in (list, tuple) or len(new) != len(old):
        raise ValueError("not the arguments of a call")
    for left, right in zip(old, new, strict=True):
        change(left, right, kept)


def change(old: Any, new: Any, kept: Callable[[object], bool]) -> Any:
    """Give a list, dictionary, set, deque, bytearray or array of the test the content that it has after a call, in
    place, and return it; `new` if it is of another type."""
    if kept(old):
        return old
    if isinstance(old, list) and type(new) is list:
        old[:] = [*(change(left, right, kept) for left, right in zip(old, new, strict=False)), *new[len(old) :]]
    elif isinstance(old, dict) and isinstance(new, dict):
        changed = {key: change(old[key], value, kept) if key in old else value for key, value in new.items()}
        old.clear()
        old.update(changed)
    elif isinstance(old, set) and type(new) is set:
        old.clear()
        old.update(new)
    elif isinstance(old, collections.deque) and type(new) is collections.deque:
        old.clear()
        old.extend(new)
    elif isinstance(old, bytearray) and type(new) is bytearray:
        old[:] = new
    elif isinstance(old, tuple) and isinstance(new, tuple):
        change_all(old, new, kept)
    elif type(old).__name__ == "ndarray" and getattr(new, "shape", None) == old.shape:
        old[...] = new
    else:
        return new
    return old
