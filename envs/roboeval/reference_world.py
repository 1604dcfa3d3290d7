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
SMALL_WORDS = "a an the of to in at on is are it there here this that and or please"
DROPPED = frozenset(SMALL_WORDS.split())
NEGATIONS = """
no none neither nor nobody nothing nowhere never without cannot nope cant isnt dont doesnt didnt wont wasnt arent werent
couldnt hasnt havent
away absent gone
"""
NUMBERS = "zero one two three four five six seven eight nine ten"
SAME = {
    **dict.fromkeys(NEGATIONS.split(), "not"),
    **{name: str(number) for number, name in enumerate(NUMBERS.split())},
    **dict.fromkeys(("note", "notes"), "note"),  # its stem would be "not"
    "everything": "all",
}
ANY_PERSON = "person people somebody someone anybody anyone human"
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
    results: tuple[str, ...] = ()
    word = ""
    for letter in text.lower() + "\n":
        if letter.isalnum():
            word += letter
        elif word and letter not in "'\u2019":
            if word not in dropped or (word == "a" and letter != " "):  # no article: the letter of "locker A"
                results += (same[word] if word in same else stem(word),)
            word = ""
    return results


ANYBODY = frozenset(words(ANY_PERSON))
"""Words for a person of whom no name is known."""


def remembering(words: Any = words) -> Callable[[str], tuple[str, ...]]:
    """`words`, which splits each text only once."""
    known: dict[str, tuple[str, ...]] = {}

    def words_of(text: str) -> tuple[str, ...]:
        if text not in known:
            known[text] = words(text)
        return known[text]

    return words_of


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
    fits, results = 0, 0
    number = 0
    for option in options:
        level = likeness(option, answer)
        if level > fits:
            fits, results = level, number
        number += 1  # noqa: SIM113  enumerate may not be the builtin
    if fits:
        return results
    yes = answer[0] == "yes" if answer and answer[0] in ("yes", "not") else likeness(question, answer) > 1
    number = 0
    for option in options:
        if ("not" not in option) == yes:
            return number
        number += 1  # noqa: SIM113
    return 0


def find_person(
    name: str,
    here: Sequence[str],
    people: Mapping[str, Any],
    words: Any = words,
    best: Any = best,
    anybody: Any = ANYBODY,
    bag: Any = frozenset,
) -> str | None:
    """The person with this name among those who are here; a room's only person also answers to a name that nobody else
    in the world has."""
    asked = words(name)
    results = best(asked, here, words)
    if results is None and here and (not asked or anybody & bag(asked)):
        return here[0]
    if results is None and here and not here[1:]:
        known = best(asked, [each for names in people.values() for each in names], words)
        return here[0] if known is None or words(here[0])[:1] == ("person",) else None
    return results


def find_answer(
    entries: Sequence[list[Any]],
    question: str,
    options: Sequence[str],
    words: Any = words,
    option_for: Any = option_for,
    bag: Any = frozenset,
    size: Any = len,
) -> int:
    """The index of the option that a person chooses: the answer to the question that is most like this one, those not
    yet given first. entries: [question and options as a text, answer, whether it was given], which is updated."""
    asked = bag(words(question)) | bag([word for option in options for word in words(option)])
    chosen, most = None, -1
    for entry in entries:
        like = size(asked & bag(words(entry[0]))) * 2 + (not entry[2])
        if like > most:
            chosen, most = entry, like
    if chosen is None:
        return 0
    chosen[2] = True
    return option_for(words(chosen[1]), words(question), [words(option) for option in options])


def state_of(world: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """A world's rooms, the things of each room and its people, as copies; with each answer, whether it has been given.

    Args:
        world: {rooms, things: {room: {name: [number, checks before they come]}}, people: {room: {name: {"checks": n,
            "answers": [[question and options as a text, answer]]}}}}.
    """
    things = {place: {name: [*stock] for name, stock in names.items()} for place, names in world["things"].items()}
    people = {
        place: {
            name: [each["checks"], [[*answer, False] for answer in each["answers"]]] for name, each in names.items()
        }
        for place, names in world["people"].items()
    }
    return [*world["rooms"]], things, people


def reference_world(
    world: Mapping[str, Any],
    state_of: Any = state_of,
    remembering: Any = remembering,
    best: Any = best,
    find_person: Any = find_person,
    find_answer: Any = find_answer,
    anybody: Any = ANYBODY,
    bag: Any = frozenset,
) -> Generator[Reply, tuple[Any, ...], None]:
    """A world as a generator that answers calls; its data is in its own frame, which a program cannot access.

    Args:
        world: as `state_of` takes it.

    Calls: ("where",), ("rooms",), ("go", name), ("check", name), ("ask", question, options, options as text, person),
    whose reply is the index of an option, ("say", text), ("pick", name), ("place", name), and ("deed",) for what the
    last of these came to, as [room, name]: name is that of a thing or person of the world.
    """
    (rooms, things, people), room, held, words = state_of(world), "start_loc", None, remembering()
    looked: dict[str, int] = {}
    reply: Reply = ("ok", None)
    deed = ["", ""]
    while True:
        call, *arguments = yield reply
        if call == "deed":
            reply = ("ok", [*deed])
            continue
        name = arguments[0] if arguments else ""
        if call == "check":
            looked[room] = looked.get(room, 0) + 1
        stocks, times, results = things.get(room, {}), looked.get(room, 0), None
        here = [each for each, (checks, _) in people.get(room, {}).items() if checks <= times]
        if call in ("check", "pick"):
            results = best(words(name), [each for each, (n, at) in stocks.items() if n > 0 and at <= times], words)
        if call == "check" and results is None and words(name):
            results = best(words(name), here, words) or (here[0] if here and anybody & bag(words(name)) else None)
        reply = ("ok", room if call == "where" else [*rooms] if call == "rooms" else results is not None)
        if call == "go":
            results = best(words(name), rooms, words)
            room = room if results is None else results
            reply = ("ok", None) if results else ("error", "RobotGoToError: no such place")
        elif call == "ask":
            results = find_person(arguments[3], here, people, words)
            reply = ("error", "RobotAskError: nobody gave an answer")
            if results is not None and arguments[1]:
                reply = ("ok", find_answer(people[room][results][1], name, arguments[1], words))
        elif call == "pick":
            if held is not None or results is None:
                reply = ("error", "RobotPickError: holds something, or nothing like it is here")
            else:
                stocks[results][0] -= 1
                held = results
        elif call == "place":
            if held is None or best(words(name), [held], words) is None:
                reply = ("error", "RobotPlaceError: does not hold it")
            else:
                things.setdefault(room, {}).setdefault(held, [0, 0])[0] += 1
                results, held = held, None
        deed = [room, "" if results is None or call == "go" else results]


def keeping_calls(
    world: Mapping[str, Any],
    inner: Any = reference_world,
    size: Any = len,
    most: int = MOST_CALLS,
    text: int = MOST_TEXT,
) -> Generator[Reply, tuple[Any, ...], None]:
    """A reference world that records. Two more calls: ("calls",) for the calls so far, and ("deeds",) for what those
    that act, check or speak came to, as [kind, room, name, text, number of the call]. Beyond the limits on calls and
    their texts the reply is "late"."""
    inside = inner(world)
    inside.send(None)
    put, late, length = inside.send, False, 0
    calls: list[list[Any]] = []
    deeds: list[list[Any]] = []
    reply: Reply = ("ok", None)
    while True:
        call, *arguments = yield reply
        if call in ("calls", "deeds"):
            reply = ("late" if late else "ok", [[*each] for each in (calls if call == "calls" else deeds)])
            continue
        for argument in arguments:
            length += size("".join(argument))
        late = late or length > text or size(calls) >= most
        if late:
            reply = ("late", None)
            continue
        calls += [[call, *arguments]]
        reply = put((call, *arguments))
        if reply[0] == "ok" and arguments:
            room, name = put(("deed",))[1]
            deeds += [[call, room, name, arguments[0], size(calls) - 1]]


def reference_call(world: Mapping[str, Any]) -> Callable[[tuple[Any, ...]], Reply]:
    """A function that sends calls to a new world, which it records."""
    generator = keeping_calls(world)
    next(generator)
    return generator.send
