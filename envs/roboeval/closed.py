"""RoboEval's closed world: fixed rooms, objects and people (Hu et al. 2024, arXiv 2311.11183).

Runs in the sandbox and, for the replay of a trace, in the trusted process: the standard library only.

World-side text (rooms, labels, answers) is a regular expression that is searched in the program's text, ignoring case.
Everybody answers to every name, so in a room with a person `is_in_room` is true of anything.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from typing import Any

OUTPUT = 67 << 10
"""Bytes of event text beyond which a run is stopped: RoboEval drains its pipe so slowly that more never ends."""
KEPT = 8192
"""Bytes of event text that are judged after a run was stopped."""
DELIMITER = " /$@!/ "
NAMES = {"go": "GoTo", "check": "CheckEntity", "ask": "Ask", "say": "Say", "pick": "Pick", "place": "Place"}
Reply = tuple[str, Any]
"""("ok", value), ("error", text) or ("late", None)."""


def event_text(kind: str, text: str, options: str = "None") -> str:
    """RoboEval's line for an event."""
    return f"{kind}{DELIMITER}{text}{DELIMITER}{options}"


# What follows hands nothing of a world to a builtin that a program could have replaced.


def _found(patterns: Sequence[str], text: str, known: dict[str, Any], compiled: Any = re.compile) -> int | None:
    """The number of the first pattern that matches. Raises re.error, TypeError (a live list may hold anything)."""
    number = 0
    for pattern in patterns:
        if pattern not in known:
            known[pattern] = compiled(pattern, re.IGNORECASE)
        if known[pattern].search(text) is not None:
            return number
        number += 1  # noqa: SIM113  enumerate may not be the builtin
    return None


def _answer(queues: Sequence[list[str]], question: str, options: Sequence[str], known: dict[str, Any]) -> int | None:
    """The number of the option that somebody in the room picks; each takes the next answer, the last one stays. Where
    no option matches the answer it is a yes or a no, whether it matches the question."""
    for queue in queues if options else ():
        if not queue:
            return None
        answer = known[queue.pop(0) if queue[1:] else queue[0]]
        for wanted in (answer, known["yes"] if answer.search(question) else known["no"]):
            number = 0
            for option in options:
                if wanted.search(option):
                    return number
                number += 1  # noqa: SIM113
    return None


def closed_world(
    world: Mapping[str, Any], live: bool, found: Any = _found, answer: Any = _answer
) -> Generator[Reply, tuple[Any, ...], None]:
    """A world as a generator that answers calls: all it knows is in its own frame, out of a program's reach.

    Args:
        world: {rooms, robot_start, objects: {room: [label]}, people: {room: [[answer]]}}.
        live: as in the original: the list of rooms is handed out itself, not a copy, what is put down becomes a
            regular expression, and events are left to the caller. Else they are kept here.
        found, answer: bound here, so that nobody can put others in their place.

    Calls: ("where",), ("rooms",), ("go", text), ("check", text), ("ask", question, options as text, their repr),
    whose answer is the number of an option, ("say", text), ("pick", text), ("place", text), ("trace",), whose
    answer is the events so far.
    """
    rooms, room, held = list(world["rooms"]), world["robot_start"], None
    objects = {name: list(labels) for name, labels in world["objects"].items()}
    people = {name: [list(answers) for answers in queues] for name, queues in world["people"].items()}
    lists = [["yes", "no"], rooms, *objects.values(), *(queue for queues in people.values() for queue in queues)]
    known = {text: re.compile(text, re.IGNORECASE) for texts in lists for text in texts}
    events: list[list[Any]] = []
    length, escape, line, names = 0, re.escape, event_text, dict(NAMES)
    reply: Reply = ("ok", None)
    while True:
        call, text, *rest = (*(yield reply), None)
        event: list[Any] | None = [names.get(call), text, None]
        reply = ("ok", None)
        if call in ("where", "rooms", "trace"):
            answers = {"where": room, "rooms": rooms if live else [*rooms], "trace": [[*each] for each in events]}
            reply = ("ok", answers[call])
            continue
        try:
            place = None
            if call in ("go", "check", "pick"):
                place = found(rooms if call == "go" else objects.get(room, ()), text, known)
            if call == "go":
                room = room if place is None else rooms[place]
                reply = ("error", "RobotGoToError: no such place") if place is None else reply
            elif call == "check":
                reply = ("ok", place is not None or people.get(room, []) != [])
            elif call == "ask":
                event = [names[call], text, rest[0]]
                chosen = answer(people.get(room, ()), text, rest[0], known)
                reply = ("error", "RobotAskError: nobody gave an answer") if chosen is None else ("ok", chosen)
            elif call == "pick" and (held is not None or place is None):
                reply, event = ("error", "RobotPickError: holds something, or nothing like it is here"), None
            elif call == "pick":
                objects[room].pop(place or 0)
                held = text
            elif call == "place":
                fits, held = held is not None and held == text, None if held == text else held
                if fits and room in rooms:
                    objects.setdefault(room, []).append(text if live else escape(text))
                else:
                    reply, event = ("error", "RobotPlaceError: does not hold it, or the room is gone"), None
        except re.error:
            reply = ("error", f"Robot{names[call]}Error: a name here is no regular expression")
        except TypeError as error:
            reply = ("error", f"TypeError: {error}")
        if event is None or live:
            continue
        length += (
            len(line(names[call], text or "", rest[1] if call == "ask" else "None").encode("utf-8", "replace")) + 1
        )
        if length > OUTPUT:
            reply = ("late", None)
        else:
            events.append(event)


def world_call(world: Mapping[str, Any], live: bool) -> Any:
    """The function that puts a call to a fresh world."""
    generator = closed_world(world, live)
    next(generator)
    return generator.send
