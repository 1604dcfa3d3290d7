"""RoboSim's open world (Hu et al. 2025, arXiv 2405.20179): an unknown fact is decided when a program first asks for it.

This module runs in the sandbox and imports only the standard library.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

ROOMS = ("loc_a", "loc_b", "loc_c", "start_loc")
"""Names that stand for the existing rooms; a program may go to any other too."""
PATIENCE = 15
"""Number of checks in a row in one room after which a fact is decided anew, so that waiting ends."""
OBJECT, PERSON, LOCATION, EITHER = "object", "person", "location", "object or person"
FITS = {
    OBJECT: (OBJECT, EITHER),
    PERSON: (PERSON, LOCATION, EITHER),  # people are often named after their place
    LOCATION: (PERSON, LOCATION),
    EITHER: (EITHER,),
}
MOST_CALLS, MOST_TEXT = 50_000, 1 << 20
"""Calls of one run, and characters in their texts, beyond which it is stopped."""
MOST_OPTIONS = 1000
Reply = tuple[str, Any]
"""("ok", value), ("error", text), ("encode", text) for a text that cannot be printed, or ("late", None)."""


class OpenWorld:
    """The facts that are known so far. Names must be stripped and of checked types.

    Args:
        choose: returns a random number below its argument.
        calls: all calls are appended here, events as [kind, text, options], others as [name].
        rooms: what `get_all_rooms` returns.
    """

    def __init__(
        self, choose: Callable[[int], int], calls: list[list[Any]], rooms: Sequence[str] | None = None
    ) -> None:
        self.choose, self.calls = choose, calls
        self.room, self.rooms = "start_loc", [*(rooms or ROOMS)]
        self.held: str | None = None
        self.kinds: dict[str, str] = {}
        self.known: dict[tuple[str, str], bool] = {}
        """Whether a thing is in a room, by room and name."""
        self.streak_room, self.streak = "", 0

    def fail(self, kind: str, why: str) -> Reply:
        return "error", f"Robot{kind}Error: {why}"

    def event(self, kind: str, text: str, options: list[str] | None = None) -> Reply | None:
        """Record an event. The original prints it, which fails for text without an encoding: then the reply says so."""
        if not printable(text):
            return "encode", text
        self.calls.append([kind, text, options])
        return None

    def typed(self, name: str, kind: str) -> Reply | None:
        """Record that a name is used as a thing of this kind; returns an error if its known kind is different."""
        if self.kinds.get(name, EITHER) == EITHER:
            self.kinds[name] = kind
        if kind in FITS[self.kinds[name]]:
            return None
        return self.fail("Type", f"{name!r} is used as {kind} and as {self.kinds[name]}")

    def where(self) -> Reply:
        self.calls.append(["get_current_location"])
        return "ok", self.room

    def all_rooms(self) -> Reply:
        self.calls.append(["get_all_rooms"])
        return "ok", self.rooms

    def say(self, message: str) -> Reply:
        return self.event("Say", message) or ("ok", None)

    def go(self, name: str) -> Reply:
        self.room = name
        return self.typed(name, LOCATION) or self.event("GoTo", name) or ("ok", None)

    def check(self, name: str) -> Reply:
        wrong = self.event("CheckEntity", name) or self.typed(name, EITHER)
        if wrong is not None:
            return wrong
        self.streak = self.streak + 1 if self.room == self.streak_room else 1
        self.streak_room = self.room
        place = self.room, name
        if place not in self.known:
            self.known[place] = self.choose(2) == 0
            return "ok", self.known[place]
        return "ok", self.known.pop(place) if self.streak >= PATIENCE else self.known[place]

    def ask(self, person: str, question: str, options: list[str]) -> Reply:
        wrong = self.typed(person, PERSON)
        if wrong is not None:
            return wrong
        if not self.known.setdefault((self.room, person), True):
            return self.fail("Ask", f"{person!r} is not here")
        chosen = self.choose(len(options))
        return self.event("Ask", question, options) or ("ok", chosen)

    def pick(self, name: str) -> Reply:
        if self.held is not None:
            return self.fail("Pick", f"already holds {self.held!r}")
        self.held = name
        wrong = self.typed(name, OBJECT)
        if wrong is not None:
            return wrong
        if not self.known.get((self.room, name), True):
            return self.fail("Pick", f"{name!r} is not here")
        self.known.pop((self.room, name), None)  # there may be another such object
        return self.event("Pick", name) or ("ok", None)

    def place(self, name: str) -> Reply:
        if self.held is None or self.held != name:
            return self.fail("Place", f"does not hold {name!r}")
        self.held = None
        wrong = self.typed(name, OBJECT)
        if wrong is not None:
            return wrong
        self.known[self.room, name] = True
        return self.event("Place", name) or ("ok", None)


def printable(text: str) -> bool:
    """Whether UTF-8 can write a text: it has no lone surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def open_world(
    choose: Callable[[int], int], record: list[list[Any]], rooms: Sequence[str] | None = None
) -> Generator[Reply, tuple[Any, ...], None]:
    """An open world as a generator that answers calls (name of a method, arguments), and appends them to `record`."""
    world, size = OpenWorld(choose, [], rooms), 0
    reply: Reply = ("ok", None)
    while True:
        name, *arguments = yield reply
        size += sum(len("".join(argument)) for argument in arguments)
        if len(record) >= MOST_CALLS or size > MOST_TEXT:
            reply = ("late", None)
        elif name == "ask" and len(arguments[2]) > MOST_OPTIONS:
            reply = ("error", "RobotAskError: too many options")
        else:
            record.append([name, *arguments])
            reply = getattr(world, name)(*arguments)
