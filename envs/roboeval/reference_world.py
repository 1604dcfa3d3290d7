"""A world made from what a reference program asked of an open one: its rooms, things, people and their answers.

Names are compared by their words, so that "the garden shed" is "garden shed" and "kit" is "first aid kit" where no
other thing has that word. Here a person answers to its own name, unlike in RoboEval's closed worlds.

This module runs in the sandbox and, to replay calls, in the trusted process; it imports only the standard library. Its
functions call methods only, and names that are bound before a program runs, so that a program cannot learn a world by
replacing builtins.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

START = "start_loc"
MOST_CALLS, MOST_TEXT = 2000, 1 << 16
"""Calls of a run, and characters in their texts, beyond which it is stopped."""
DROPPED = frozenset("a an the of to in at on is are it there here this that and or please".split())
SAME = {
    **dict.fromkeys("no none neither nor nobody nothing nowhere never without cannot nope cant".split(), "not"),
    **dict.fromkeys("isnt dont doesnt didnt wont wasnt arent werent couldnt hasnt havent".split(), "not"),
    **{name: str(number) for number, name in enumerate("zero one two three four five six seven eight nine ten".split())},
}
ANYBODY = frozenset("person people somebody someone anybody anyone human".split())
Reply = tuple[str, Any]
"""("ok", value), ("error", text) or ("late", None)."""


def stem(word: str) -> str:
    """A word without the endings of plurals and verbs, so that "classes" is "class" and "working" is "work"."""
    if word.endswith("ies") and word[4:]:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss") and word[3:]:
        word = word[:-1]
    for ending, length in (("ing", 3), ("ed", 2)):
        if word.endswith(ending) and word[length + 3 :]:
            word = word[:-length]
    if word.endswith("e") and word[3:]:
        word = word[:-1]
    return word


def words(
    text: str, stem: Callable[[str], str] = stem, dropped: Any = DROPPED, same: Mapping[str, str] = SAME
) -> tuple[str, ...]:
    """The words of a text in order: lower case, without endings and articles; numbers as digits; any negation is
    "not"."""
    found: tuple[str, ...] = ()
    word = ""
    for letter in text.lower() + " ":
        if letter.isalnum():
            word += letter
        elif word and letter not in "'\u2019":
            if word not in dropped:
                found += (same[word] if word in same else stem(word),)
            word = ""
    return found


def likeness(asked: Sequence[str], known: Sequence[str], bag: Any = frozenset) -> int:
    """How well the words of a program's name fit a known name: 3 the same, 2 more words, 1 fewer words, 0 not."""
    a, b = bag(asked), bag(known)
    if a == b:
        return 3
    if not a or not b:
        return 0
    return 2 if b <= a else 1 if a <= b else 0


def best(
    asked: Sequence[str], known: Sequence[str], words: Any = words, likeness: Any = likeness, size: Any = len
) -> str | None:
    """The known name that fits best; None if none does, or if several fit fewer words equally."""
    name, rank, several = None, (0, 0), False
    for each in known:
        level = likeness(asked, words(each))
        new = level, size(words(each)) if level == 2 else 0
        if level and new >= rank:
            several = new == rank
            name, rank = each, new
    return None if several and rank[0] == 1 else name


def option_for(
    answer: Sequence[str], question: Sequence[str], options: Sequence[Sequence[str]], likeness: Any = likeness
) -> int:
    """The index of the option that says the answer; options and texts as words.

    If no option says it, the reply is yes or no: that of the answer, or whether the question names the answer.
    """
    fits, found = 0, 0
    number = 0
    for option in options:
        level = likeness(option, answer)
        if level > fits:
            fits, found = level, number
        number += 1  # noqa: SIM113  enumerate may not be the builtin
    if fits:
        return found
    yes = answer[0] == "yes" if answer and answer[0] in ("yes", "not") else likeness(question, answer) > 1
    number = 0
    for option in options:
        if ("not" not in option) == yes:
            return number
        number += 1  # noqa: SIM113
    return 0


def reference_world(
    world: Mapping[str, Any],
    words: Any = words,
    best: Any = best,
    option_for: Any = option_for,
    likeness: Any = likeness,
    anybody: Any = ANYBODY,
    bag: Any = frozenset,
    size: Any = len,
) -> Generator[Reply, tuple[Any, ...], None]:
    """A world as a generator that answers calls; its data is in its own frame, which a program cannot access.

    Args:
        world: {rooms, things: {room: {name: [number, checks before they come]}}, people: {room: {name: {"checks": n,
            "answers": [[question and options as a text, answer]]}}}}.

    Calls: ("where",), ("rooms",), ("go", name), ("check", name), ("ask", question, options, options as text, person),
    whose reply is the index of an option, ("say", text), ("pick", name), ("place", name), and two more: ("calls",) for
    the calls so far, and ("deeds",) for what they came to, as [kind, room, name, text, number of the call]: kind
    is go, check, ask, say, pick or place; name is that of a thing or person of the world.
    """
    rooms, room, held = [*world["rooms"]], "start_loc", None
    things = {place: {name: [*stock] for name, stock in names.items()} for place, names in world["things"].items()}
    people = {
        place: {name: [person["checks"], [[*each, False] for each in person["answers"]]] for name, person in names.items()}
        for place, names in world["people"].items()
    }
    calls: list[list[Any]] = []
    deeds: list[list[Any]] = []
    looked: dict[str, int] = {}
    length, late = 0, False

    def person_of(name: str) -> str | None:
        """The person in the room with this name; a room's only person also answers to a name that nobody else has."""
        here = [each for each, (checks, _) in people.get(room, {}).items() if checks <= looked.get(room, 0)]
        asked = words(name)
        found = best(asked, here)
        if found is None and here and (not asked or anybody & bag(asked)):
            found = here[0]
        if found is None and here and not here[1:]:
            elsewhere = [each for names in people.values() for each in names]
            found = here[0] if best(asked, elsewhere) is None or words(here[0])[:1] in (("person",), ()) else None
        return found

    def thing_of(name: str) -> str | None:
        stocks = things.get(room, {})
        return best(
            words(name), [each for each, (number, checks) in stocks.items() if number > 0 and checks <= looked.get(room, 0)]
        )

    def answer_of(person: str, question: str, options: list[str]) -> int:
        """The index of the option; the answer whose question is most like this one is given, each once."""
        nonlocal deeds
        asked = bag(words(question)) | bag(word for option in options for word in words(option))
        chosen, most = None, -1
        for entry in people[room][person][1]:
            like = size(asked & bag(words(entry[0]))) * 2 + (not entry[2])
            if like > most:
                chosen, most = entry, like
        deeds += [["ask", room, person, question, size(calls) - 1]]
        if chosen is None:
            return 0
        chosen[2] = True
        return option_for(words(chosen[1]), words(question), [words(option) for option in options])

    reply: Reply = ("ok", None)
    while True:
        call, *arguments = yield reply
        reply = ("ok", None)
        if call == "calls":
            reply = ("late" if late else "ok", [[*each] for each in calls])
            continue
        if call == "deeds":
            reply = ("ok", [[*each] for each in deeds])
            continue
        for argument in arguments:
            length += size("".join(argument))
        if length > 65536 or calls[2000:]:
            reply, late = ("late", None), True
            continue
        calls += [[call, *arguments]]
        name = arguments[0] if arguments else ""
        if call == "where":
            reply = ("ok", room)
        elif call == "rooms":
            reply = ("ok", [*rooms])
        elif call == "go":
            place = best(words(name), rooms)
            if place is None:
                reply = ("error", "RobotGoToError: no such place")
            else:
                room = place
                deeds += [["go", room, "", name, size(calls) - 1]]
        elif call == "check":
            looked[room] = looked.get(room, 0) + 1
            seen = thing_of(name)
            if seen is None and words(name):
                here = [each for each, (checks, _) in people.get(room, {}).items() if checks <= looked[room]]
                seen = best(words(name), here) or (here[0] if here and anybody & bag(words(name)) else None)
            deeds += [["check", room, seen or "", name, size(calls) - 1]]
            reply = ("ok", seen is not None)
        elif call == "say":
            deeds += [["say", room, "", name, size(calls) - 1]]
        elif call == "ask":
            person = person_of(arguments[3])
            if person is None or not arguments[1]:
                reply = ("error", "RobotAskError: nobody gave an answer")
            else:
                reply = ("ok", answer_of(person, name, arguments[1]))
        elif call == "pick":
            found = thing_of(name)
            if held is not None or found is None:
                reply = ("error", "RobotPickError: holds something, or nothing like it is here")
            else:
                things[room][found][0] -= 1
                held = found
                deeds += [["pick", room, found, name, size(calls) - 1]]
        elif held is None or best(words(name), [held]) is None:
            reply = ("error", "RobotPlaceError: does not hold it")
        else:
            things.setdefault(room, {}).setdefault(held, [0, 0])[0] += 1
            deeds += [["place", room, held, name, size(calls) - 1]]
            held = None


def reference_call(world: Mapping[str, Any]) -> Callable[[tuple[Any, ...]], Reply]:
    """A function that sends calls to a new world."""
    generator = reference_world(world)
    next(generator)
    return generator.send
