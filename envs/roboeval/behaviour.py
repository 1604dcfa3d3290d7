"""What a program did in the worlds of a reference, compared with what the reference did.

The marks of a world are shares: of what was asked, said, picked and put down, at the right place (`DEEDS`), and of the
rooms visited and the things looked for (`LOOKING`). A program that acts as the reference does has full marks, in
whatever way it looked around. A run that ends with an error keeps part of its marks (`BROKEN`). A program that goes
everywhere, looks for everything or tries every name knows no task: `aim` and `Shares.tries` measure that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.roboeval.messages import Messages, content, repeats
from envs.roboeval.reference_world import ANYBODY, START, best, words
from envs.roboeval.references import Deed, Reference, WorldRun

DEEDS, LOOKING = 0.88, 0.12
BROKEN = 0.6
DISORDER = 0.5
"""Share of a world's marks that is lost if everything is done in the wrong order."""
OTHER_NAMES = 2
"""Names that are not the task's and that a program may look for, such as "person"."""
Span = tuple[int, int]


@dataclass(frozen=True)
class Act:
    """What counts in a run: an ask, pick or place; the messages of one stay in a room; a wait; or a visit.

    stay: number of the stay in which it happens. options: those of an ask, in one text.
    """

    kind: str
    room: str
    name: str
    text: str
    stay: int
    spans: tuple[Span, ...]
    options: str = ""


@dataclass(frozen=True)
class Shares:
    """Of one world: what was looked for (`looking`), done in the wrong order (`disorder`), and `aim`. tries: how many
    names the program went to, picked or placed in vain although the task does not have them."""

    looked: float
    disorder: float
    aim: float
    tries: int


@dataclass(frozen=True)
class Met:
    """An act of the reference that the program did: its name, the calls that did it, its part of the world's marks."""

    name: str
    spans: tuple[Span, ...]
    share: float


@dataclass(frozen=True)
class Marks:
    """Marks of one world, from 0 to 1, and the places that cost them: each with its share of the loss. met: the acts
    that earned the marks, or most of them; the rest is for looking around."""

    share: float
    places: Sequence[tuple[Span, float]]
    note: str
    met: Sequence[Met] = ()


def marks(reference: Reference, runs: Sequence[WorldRun]) -> list[Marks]:
    """The marks of a program's runs in the worlds of a reference."""
    wanted = [list(acts(run.deeds)) for run in reference.runs]
    rooms = {deed.room for run in reference.runs for deed in run.deeds} | {START}
    visited = [frozenset(act.room for act in each if act.kind == "visit") - {START} for each in wanted]
    given = [list(acts(run.deeds, goals)) for run, goals in zip(runs, visited, strict=True)]
    messages = _messages(reference, wanted, given)
    names = _names(reference)
    known = list({deed.name or deed.text for run in reference.runs for deed in run.deeds if deed.kind != "say"})
    results: dict[int, Marks] = {}
    for world in sorted(range(len(runs)), key=lambda world: not wanted[world]):  # worlds with nothing to do last
        run = runs[world]
        matches = matched(reference, wanted[world], given[world], messages, world)
        looked = looking(reference.runs[world].deeds, run.deeds, names)
        acted = [marks.share for marks in results.values()]
        if looked and not wanted[world] and any(wanted) and min(acted) > 1 - 1e-9:
            looked = 1.0  # it did all that there was to do elsewhere, so it has seen enough here, in whatever order
        wrong_order = disorder(reference, world, wanted[world], matches, given[world])
        tries = len({text for text in run.failed if best(words(text), known) is None})
        shares = Shares(looked, wrong_order, aim(run.deeds, rooms, known), tries)
        stays = "stay there" in reference.instruction
        results[world] = _marks(wanted[world], given[world], matches, shares, run, stays)
    return [results[world] for world in range(len(runs))]


def aim(deeds: Sequence[Deed], rooms: set[str], known: Sequence[str]) -> float:
    """The share of the rooms visited and of the names looked for that belong to the task; some other names are free."""
    visited = {deed.room for deed in deeds}
    looked = {deed.name or deed.text for deed in deeds if deed.kind == "check"}
    ours = {name for name in looked if best(words(name), known) is not None}
    others = max(0, len(looked - ours) - OTHER_NAMES)
    share = len(visited & rooms) / len(visited) if visited else 1.0
    return share * (1 + len(ours)) / (1 + len(ours) + others)


def _marks(
    wanted: Sequence[Act],
    given: Sequence[Act],
    matches: Mapping[int, tuple[int, float]],
    shares: Shares,
    run: WorldRun,
    stays: bool,
) -> Marks:
    """stays: whether the instruction asks the robot to stay where it goes last, so that a way back is a fault."""
    met = {number for number, _ in matches.values()}
    free = ("visit", "") if stays and wanted and wanted[-1].kind == "visit" else ("visit", START)
    unmet = [act for number, act in enumerate(given) if number not in met and (act.kind, act.room) != free]
    kept = shares.aim * (1.0 if run.status == "success" else BROKEN)
    an_act = 0.0
    if wanted:
        acted = len(met) + len(unmet) + shares.tries
        an_act = 2 * (1 - DISORDER * shares.disorder) / (len(wanted) + acted)
        done = an_act * sum(quality for _, quality in matches.values())
        an_act *= kept if done > 1 - 1e-9 else kept * DEEDS
        share = 1.0 if done > 1 - 1e-9 else DEEDS * done + LOOKING * shares.looked
    else:
        share = LOOKING * shares.looked if unmet or shares.tries else shares.looked
    share *= kept
    earned = [
        Met(_named(wanted, number), given[other].spans, an_act * quality)
        for number, (other, quality) in matches.items()
    ]
    if run.status != "success":
        places = [(run.span, 1.0)] if run.span is not None else []
        return Marks(share, places, run.error or run.status, earned)
    wrong = [(act, 1.0) for act in unmet]
    wrong += [(given[number], 1 - quality) for number, quality in matches.values() if quality < 1]
    missing = len(wanted) - len(matches)
    weight = sum(loss for _, loss in wrong) + missing
    spans = [(span, loss / weight / len(act.spans)) for act, loss in wrong for span in act.spans if weight]
    return Marks(share, spans, _note(wanted, matches, wrong), earned)


def _named(wanted: Sequence[Act], number: int) -> str:
    """A name of an act of the reference that does not depend on the world: what it is, where, and which one of
    several."""
    act = wanted[number]
    earlier = sum((a.kind, a.room, a.name) == (act.kind, act.room, act.name) for a in wanted[:number])
    return " ".join(filter(None, (act.kind, act.name, "in", act.room, str(earlier + 1) if earlier else "")))


def _note(wanted: Sequence[Act], matches: Mapping[int, Any], wrong: Sequence[tuple[Act, float]]) -> str:
    missing = [act for number, act in enumerate(wanted) if number not in matches]
    parts = [f"missing: {act.kind} {act.name or act.room}" for act in missing[:1]]
    parts += [f"not asked: {act.kind} {act.text[:40] or act.room}" for act, _ in wrong[:1]]
    return ", ".join(parts)


# --- acts ---------------------------------------------------------------------------------------------------------


def acts(deeds: Sequence[Deed], goals: frozenset[str] = frozenset()) -> Iterator[Act]:
    """The acts of a run. goals: rooms where a visit counts even if more is done there. A wait is a second look for a
    thing that was not there."""
    for number, (room, stay) in enumerate(_stays(deeds)):
        spans = tuple(deed.span for deed in stay if deed.span is not None)
        message = [deed for deed in stay if deed.kind == "say"]
        missed: set[str] = set()
        for deed in stay:
            own = () if deed.span is None else (deed.span,)
            if deed.kind == "check" and not deed.name:
                missed.add(deed.text)
            elif deed.kind == "check" and deed.text in missed:
                yield Act("wait", room, deed.name, "", number, own)
                missed.clear()
            if deed.kind in ("ask", "pick", "place"):
                yield Act(deed.kind, room, deed.name, deed.text, number, own, deed.options)
            elif message and deed is message[0]:
                spoken = tuple(dict.fromkeys(each.span for each in message if each.span is not None))
                yield Act("say", room, "", "\n".join(each.text for each in message), number, spoken)
        if number and (room in goals or all(deed.kind == "go" for deed in stay)):
            yield Act("visit", room, "", "", number, spans[:1])


def _stays(deeds: Sequence[Deed]) -> list[tuple[str, list[Deed]]]:
    """The stays of a run, the first one where it starts, with the deeds in each; the go that begins it is one."""
    stays: list[tuple[str, list[Deed]]] = [(START, [])]
    for deed in deeds:
        if deed.room != stays[-1][0]:
            stays.append((deed.room, []))
        stays[-1][1].append(deed)
    return stays


def matched(
    reference: Reference, wanted: Sequence[Act], given: Sequence[Act], messages: Mapping[str, Messages], world: int
) -> dict[int, tuple[int, float]]:
    """For acts of the reference the number of the program's act that does the same, and how well, from 0 to 1.

    What the reference does on its return must not be done before leaving.
    """
    free, results = set(range(len(given))), {}
    for number, act in enumerate(wanted):
        fits = [
            (_likeness(reference, act, given[other], messages, world), -other)
            for other in free
            if (given[other].stay or not act.stay)
            and (given[other].kind, given[other].room, given[other].name) == (act.kind, act.room, act.name)
        ]
        quality, other = max(fits, default=(0.0, 0))
        if quality > 0:
            results[number] = (-other, quality)
            free.discard(-other)
    return results


def _likeness(reference: Reference, wanted: Act, given: Act, messages: Mapping[str, Messages], world: int) -> float:
    if wanted.kind == "say":
        return messages[wanted.room].quality(world)
    if wanted.kind == "ask":
        if repeats(given.text, reference.instruction):
            return 0.0
        known = content(wanted.text) | content(reference.instruction)
        asked = content(given.text) | content(given.options)
        return float(not content(wanted.text) or bool(asked & known))
    return 1.0


def disorder(
    reference: Reference,
    world: int,
    wanted: Sequence[Act],
    matches: Mapping[int, tuple[int, float]],
    given: Sequence[Act],
) -> float:
    """The share of pairs of acts that the program did in the wrong order.

    Only the order of what happens in different stays counts. Without `ordered`, what the instruction's words put in
    order does (`in_order`), and a report that ends the reference's run must come after all else: a last stay in
    which it does nothing but speak.
    """
    stays = _stays(reference.runs[world].deeds)
    last = len(stays) - 1 if all(deed.kind in ("go", "say") for deed in stays[-1][1]) else None
    right = wrong = 0
    for first, (a, _) in matches.items():
        for second, (b, _) in matches.items():
            early, late = wanted[first], wanted[second]
            if early.stay >= late.stay:
                continue
            closing = late.kind == "say" and late.stay == last and early.kind != "visit"
            report = closing and (early.kind != "say" or late.room == START)
            if reference.ordered or report or (early.room, late.room) in reference.in_order:
                wrong += given[a].stay > given[b].stay
                right += given[a].stay <= given[b].stay
    return wrong / (right + wrong) if wrong else 0.0


def _messages(
    reference: Reference, wanted: Sequence[Sequence[Act]], given: Sequence[Sequence[Act]]
) -> dict[str, Messages]:
    """Messages by room; of several stays in one world all messages together."""

    def by_room(worlds: Sequence[Sequence[Act]]) -> dict[str, dict[int, str]]:
        results: dict[str, dict[int, str]] = {}
        for world, done in enumerate(worlds):
            for act in done:
                if act.kind == "say":
                    texts = results.setdefault(act.room, {})
                    texts[world] = f"{texts[world]}\n{act.text}" if world in texts else act.text
        return results

    spoken, values = by_room(given), value_words(reference)
    rooms = {deed.room for run in reference.runs for deed in run.deeds if deed.room != START}
    things = {deed.text for run in reference.runs for deed in run.deeds if deed.kind in ("check", "pick")}
    names = {values & {*words(name)} for name in rooms | things} - {frozenset()}
    asked = {world: replies(reference, world) for world in range(len(reference.runs))}
    expected = by_room(wanted)
    results = {}
    for room, texts in expected.items():
        others = [text for other, said in expected.items() if other != room for text in dict.fromkeys(said.values())]
        said = spoken.get(room, {})
        results[room] = Messages(reference.instruction, values, texts, said, sorted(names, key=sorted), asked, others)
    return results


def replies(reference: Reference, world: int) -> list[tuple[frozenset[str], frozenset[str]]]:
    """What the reference asked in a world, with the options, and the answers; as words."""
    people, results = reference.worlds[world]["people"], []
    for deed in reference.runs[world].deeds:
        for question, answer in people.get(deed.room, {}).get(deed.name, {"answers": ()})["answers"]:
            if deed.kind == "ask" and question.startswith(deed.text):
                results.append((frozenset(words(question)), frozenset(words(answer))))
    return results


def value_words(reference: Reference) -> frozenset[str]:
    """Words that tell one room, thing, person or option from the others."""
    deeds = [deed for run in reference.runs for deed in run.deeds]
    asked = [
        answer
        for world in reference.worlds
        for people in world["people"].values()
        for p in people.values()
        for answer in p["answers"]
    ]
    groups: list[set[str]] = [
        {deed.room for deed in deeds if deed.room != START},
        {deed.text for deed in deeds if deed.kind in ("check", "pick")},
        {deed.name for deed in deeds if deed.kind == "ask"},
    ]
    options: dict[str, set[str]] = {}
    for question, answer in asked:
        options.setdefault(question, set()).add(answer)
    results: set[str] = set()
    for names in [*groups, *options.values()]:
        sets = [frozenset(words(name)) for name in names]
        if len(sets) > 1:
            results |= frozenset.union(*sets) - frozenset.intersection(*sets)
    said = {word for deed in deeds if deed.kind == "say" for word in words(deed.text)}
    texts = {deed.text for deed in deeds if deed.kind == "say"}
    named = [frozenset(words(room)) for room in groups[0] if any(room in text for text in texts)]
    shared = frozenset.intersection(*named) if len(named) > 1 else frozenset[str]()
    return frozenset((results - {"not", "yes"}) & said) - shared


# --- looking around -----------------------------------------------------------------------------------------------


def _names(reference: Reference) -> list[str]:
    return list(dict.fromkeys(d.name or d.text for run in reference.runs for d in run.deeds if d.kind == "check"))


def looking(wanted: Sequence[Deed], given: Sequence[Deed], names: Sequence[str]) -> float:
    """2 |a & b| / (|a| + |b|) of the rooms visited and of what was looked for in them; 0 if nothing was."""
    a, b = ({*_looked(deeds, names)} for deeds in (wanted, given))
    return 2 * len(a & b) / (len(a) + len(b)) if a else 0.0


def _looked(deeds: Sequence[Deed], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for deed in deeds:
        if deed.kind == "go" and deed.room != START:
            yield deed.room, ""
        elif deed.kind == "check":
            asked = words(deed.text)
            yield deed.room, "anybody" if ANYBODY & {*asked} else best(asked, names) or deed.text
