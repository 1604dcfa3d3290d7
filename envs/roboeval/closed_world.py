"""RoboEval's closed world: fixed rooms, objects and people (Hu et al. 2024, arXiv 2311.11183).

This module runs in the sandbox and, to replay a trace, in the trusted process; it imports only the standard library.

Texts of a world (rooms, labels, answers) are regular expressions that are searched in the program's text, ignoring
case. A person answers to any name, so in a room with a person `is_in_room` is true for any text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

OUTPUT = 67 << 10
"""Bytes of event text beyond which a run is stopped: RoboEval reads its pipe so slowly that a longer run never ends."""
KEPT = 8192
"""Bytes of event text that are judged if a run was stopped."""
DELIMITER = " /$@!/ "
NAMES = {"go": "GoTo", "check": "CheckEntity", "ask": "Ask", "say": "Say", "pick": "Pick", "place": "Place"}
Reply = tuple[str, Any]
"""("ok", value), ("error", text) or ("late", None)."""
Search = Callable[[str], Any]


def event_text(kind: str, text: str, options: str = "None") -> str:
    """RoboEval's line for an event."""
    return f"{kind}{DELIMITER}{text}{DELIMITER}{options}"


# The functions below pass no data of a world to a builtin that a program could have replaced.


def searcher(pattern: str, compiled: Any = re.compile) -> Search:
    """A function that searches a text for a pattern, ignoring case. Compiling is slow, so plain words are searched as
    text. Raises re.error."""
    words = pattern.replace(" ", "").replace("'", "").replace("_", "")
    if not (words.isascii() and words.isalnum()):
        return compiled(pattern, re.IGNORECASE).search
    low = pattern.lower()

    def search(text: str) -> Any:
        return low in text.lower() if text.isascii() else compiled(pattern, re.IGNORECASE).search(text)

    return search


def _found(patterns: Sequence[str], text: str, known: dict[str, Search], made: Any = searcher) -> int | None:
    """The index of the first matching pattern. Raises re.error, or TypeError (a live list may hold any object)."""
    number = 0
    for pattern in patterns:
        if pattern not in known:
            known[pattern] = made(pattern)
        if known[pattern](text):
            return number
        number += 1  # noqa: SIM113  enumerate may not be the builtin
    return None


def _answer(queues: Sequence[list[str]], question: str, options: Sequence[str], known: dict[str, Search]) -> int | None:
    """The index of the option that a person in the room chooses. Each person uses the next answer, and keeps the last
    one.

    If no option matches the answer, the reply is yes or no, depending on whether the answer matches the question.
    """
    for queue in queues if options else ():
        if not queue:
            return None
        answer = known[queue.pop(0) if queue[1:] else queue[0]]
        for wanted in (answer, known["yes"] if answer(question) else known["no"]):
            number = 0
            for option in options:
                if wanted(option):
                    return number
                number += 1  # noqa: SIM113
    return None


def closed_world(
    world: Mapping[str, Any], live: bool, results: Any = _found, answer: Any = _answer, made: Any = searcher
) -> Generator[Reply, tuple[Any, ...], None]:
    """A world as a generator that answers calls: its data is in its own frame, which a program cannot access.

    Args:
        world: {rooms, robot_start, objects: {room: [label]}, people: {room: [[answer]]}}.
        live: True as in the original: a program gets the list of rooms itself, not a copy, and an object that is put
            down becomes a regular expression.
        found, answer, made: functions that are bound here, so that a program cannot replace them.

    Calls: ("where",), ("rooms",), ("go", text), ("check", text), ("ask", question, options as text), whose reply is the
    index of an option, ("pick", text), ("place", text).
    """
    rooms, room, held, escape = list(world["rooms"]), world["robot_start"], None, re.escape
    objects = {name: list(labels) for name, labels in world["objects"].items()}
    people = {name: [list(answers) for answers in queues] for name, queues in world["people"].items()}
    lists = [["yes", "no"], rooms, *objects.values(), *(queue for queues in people.values() for queue in queues)]
    known = {text: made(text) for texts in lists for text in texts}
    reply: Reply = ("ok", None)
    while True:
        call, text, *rest = (*(yield reply), None)
        place: Any = None
        reply = ("ok", None)
        try:
            if call in ("go", "check", "pick"):
                place = results(rooms if call == "go" else objects.get(room, ()), text, known)
            if call == "where":
                reply = ("ok", room)
            elif call == "rooms":
                reply = ("ok", rooms if live else [*rooms])
            elif call == "go" and place is None:
                reply = ("error", "RobotGoToError: no such place")
            elif call == "go":
                room = rooms[place]
            elif call == "check":
                reply = ("ok", place is not None or people.get(room, []) != [])
            elif call == "ask":
                chosen = answer(people.get(room, ()), text, rest[0], known)
                reply = ("error", "RobotAskError: nobody gave an answer") if chosen is None else ("ok", chosen)
            elif call == "pick" and (held is not None or place is None):
                reply = ("error", "RobotPickError: holds something, or nothing like it is here")
            elif call == "pick":
                objects[room].pop(place)
                held = text
            elif held is None or held != text:
                reply = ("error", "RobotPlaceError: does not hold it")
            elif call == "place":
                held = None
                if room in rooms:
                    objects.setdefault(room, []).append(text if live else escape(text))
                else:
                    reply = ("error", "RobotPlaceError: the room is gone")
        except re.error:
            reply = ("error", f"Robot{NAMES[call]}Error: a name here is no regular expression")
        except TypeError as error:
            reply = ("error", f"TypeError: {error}")


def keeping_events(world: Mapping[str, Any], inner: Any = closed_world) -> Generator[Reply, tuple[Any, ...], None]:
    """A closed world that is not live, with two more calls: ("say", text), and ("trace",) for the events so far.

    Beyond OUTPUT bytes of event text the reply is "late". A question has the repr of its options as a third argument.
    """
    inside = inner(world, False)
    next(inside)
    events: list[list[Any]] = []
    put, line, names, length = inside.send, event_text, {**NAMES}, 0
    reply: Reply = ("ok", None)
    while True:
        call, *arguments = yield reply
        if call == "trace":
            reply = ("late" if length > OUTPUT else "ok", [[*event] for event in events])
            continue
        reply = ("ok", None) if call == "say" else put((call, *arguments[:2]))
        if call not in names or (reply[0] == "error" and call in ("pick", "place")):
            continue
        options = arguments[1:] or [None, "None"]
        length += len(line(names[call], arguments[0], options[1]).encode("utf-8", "replace")) + 1
        if length > OUTPUT:
            reply = ("late", None)
        else:
            events.append([names[call], arguments[0], options[0]])


def world_call(world: Mapping[str, Any], live: bool) -> Callable[[tuple[Any, ...]], Reply]:
    """A function that sends calls to a new world: a live one, or one that records events."""
    generator = closed_world(world, True) if live else keeping_events(world)
    next(generator)
    return generator.send
