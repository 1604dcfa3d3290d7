"""RoboSim's open world (Hu et al. 2025, arXiv 2405.20179): whatever is not known is decided when first asked about.

Runs in the sandbox: the standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

ROOMS = ("loc_a", "loc_b", "loc_c", "start_loc")
"""Stand-ins for the rooms that there are; a program may go anywhere."""
PATIENCE = 15
"""Checks in a row in one room after which what is known there is forgotten again, so that waiting ends."""
OBJECT, PERSON, LOCATION, EITHER = "object", "person", "location", "object or person"
FITS = {
    OBJECT: (OBJECT, EITHER),
    PERSON: (PERSON, LOCATION, EITHER),  # people are often named by their place
    LOCATION: (PERSON, LOCATION),
    EITHER: (EITHER,),
}
Reply = tuple[str, Any]
"""("ok", value) or ("error", text)."""


def _typed(types: dict[str, str], name: str, kind: str) -> str | None:
    """Note that a name is used as a thing of that kind; what is wrong, if it is known to be another."""
    if types.get(name, EITHER) == EITHER:
        types[name] = kind
    if kind in FITS[types[name]]:
        return None
    return f"RobotTypeError: {name!r} is used as {kind} and as {types[name]}"


def open_world(choose: Callable[[int], int], calls: list[Any]) -> Generator[Reply, tuple[Any, ...], None]:
    """A world as a generator that answers calls, with names already stripped and types checked.

    Args:
        choose: a number below the one given, at random.
        calls: what was called, in order, is put here; events as [kind, text, options], others as [name].
    """
    room, held, types = "start_loc", None, {}
    rooms = [*ROOMS]
    present: dict[str, set[str]] = {}
    absent: dict[str, set[str]] = {}
    streak_room, streak = "", 0
    reply: Reply = ("ok", None)
    while True:
        call, name, *rest = (*(yield reply), None)
        here, missing = present.setdefault(room, set()), absent.setdefault(room, set())
        error, value, event = None, None, None
        if call in ("where", "rooms"):
            value, event = (room, ["get_current_location"]) if call == "where" else (rooms, ["get_all_rooms"])
        elif call == "go":
            room, event = name, ["GoTo", name, None]
            error = _typed(types, name, LOCATION)
        elif call == "say":
            event = ["Say", name, None]
        elif call == "check":
            event = ["CheckEntity", name, None]
            error = _typed(types, name, EITHER)
            if error is None:
                streak, streak_room = (streak + 1 if room == streak_room else 1), room
                value = name in here
                if value or name in missing:
                    if streak >= PATIENCE:
                        here.discard(name)
                        missing.discard(name)
                else:
                    value = choose(2) == 0
                    (here if value else missing).add(name)
        elif call == "ask":
            question, options = rest[:2]
            error = _typed(types, name, PERSON)
            if error is None and name in missing:
                error = f"RobotAskError: {name!r} is not here"
            if error is None:
                here.add(name)
                value, event = choose(len(options)), ["Ask", question, options]
        elif call == "pick":
            error = "RobotPickError: already holds something" if held is not None else None
            if error is None:
                held, error = name, _typed(types, name, OBJECT)
            if error is None and name in missing:
                error = f"RobotPickError: {name!r} is not here"
            if error is None:
                here.discard(name)
                event = ["Pick", name, None]
        elif call == "place":
            error = "RobotPlaceError: does not hold it" if held is None or held != name else None
            if error is None:
                held, error = None, _typed(types, name, OBJECT)
            if error is None:
                here.add(name)
                missing.discard(name)
                event = ["Place", name, None]
        if event is not None and (error is None or call == "check"):
            calls.append(event)
        reply = ("ok", value) if error is None else ("error", error)
