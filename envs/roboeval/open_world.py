"""RoboSim's open world (Hu et al. 2025, arXiv 2405.20179): an unknown fact is decided when a program first asks for it.

This module runs in the sandbox and imports only the standard library.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
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
Reply = tuple[str, Any]
"""("ok", value) or ("error", text)."""


class OpenWorld:
    """The facts that are known so far. Names must be stripped and of checked types.

    Args:
        choose: returns a random number below its argument.
        calls: all calls are appended here, events as [kind, text, options], others as [name].
    """

    def __init__(self, choose: Callable[[int], int], calls: list[list[Any]]) -> None:
        self.choose, self.calls = choose, calls
        self.room, self.rooms = "start_loc", [*ROOMS]
        self.held: str | None = None
        self.kinds: dict[str, str] = {}
        self.known: dict[tuple[str, str], bool] = {}
        """Whether a thing is in a room, by room and name."""
        self.streak_room, self.streak = "", 0

    def fail(self, kind: str, why: str) -> Reply:
        return "error", f"Robot{kind}Error: {why}"

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
        self.calls.append(["Say", message, None])
        return "ok", None

    def go(self, name: str) -> Reply:
        self.room = name
        wrong = self.typed(name, LOCATION)
        if wrong is None:
            self.calls.append(["GoTo", name, None])
        return wrong or ("ok", None)

    def check(self, name: str) -> Reply:
        self.calls.append(["CheckEntity", name, None])
        wrong = self.typed(name, EITHER)
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
        self.calls.append(["Ask", question, options])
        return "ok", chosen

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
        self.calls.append(["Pick", name, None])
        return "ok", None

    def place(self, name: str) -> Reply:
        if self.held is None or self.held != name:
            return self.fail("Place", f"does not hold {name!r}")
        self.held = None
        wrong = self.typed(name, OBJECT)
        if wrong is not None:
            return wrong
        self.known[self.room, name] = True
        self.calls.append(["Place", name, None])
        return "ok", None


def open_world(choose: Callable[[int], int], calls: list[list[Any]]) -> Generator[Reply, tuple[Any, ...], None]:
    """An open world as a generator that answers calls (name of a method, arguments)."""
    world = OpenWorld(choose, calls)
    reply: Reply = ("ok", None)
    while True:
        name, *arguments = yield reply
        reply = getattr(world, name)(*arguments)
