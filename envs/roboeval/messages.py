"""How well what a program says fits what the reference says, over all worlds of a task.

What a message tells is what differs between worlds: numbers, names, options and whether there is a "no". Words that a
program says in every world tell nothing, so that reading out the instruction, or all rooms, is worth nothing. Where the
reference's message is always the same, the instruction's words in it are expected.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from envs.roboeval import reference_world

COMMON_WORDS = """
i me my you your he him his she her they them their we us our who whom whoever what which whose where when how why
am be been was were has have had do does did done will would shall should can could may might must let lets
if whether either or else otherwise so then than as but because until while after before again already still yet too
also just only for from with by into onto out up down off over about all each every any both some many much more
most other same such own very not yes go come back bring take get put tell say ask report name give look see find
check know want need make carry visit leave robot room place first last one once
"""
PUT_AWAY = re.compile(r"\b(put|take|took|taken|go|goes|clear|carry|throw)((?:\W+\w+){0,2}?\W+)away\b", re.IGNORECASE)
"""Here "away" does not say that something is missing."""


def words(text: str) -> tuple[str, ...]:
    """The words of a message or question, as in `reference_world.words`, but for any "a"; "put away" is no negation."""
    return tuple(word for word in reference_world.words(PUT_AWAY.sub(r"\1\2aside", text)) if word != "a")


COMMON = frozenset(words(COMMON_WORDS))
CONSTANT = 0.3
"""Share of a message's quality if the program says the same in every world, where the reference does not."""
DECIMAL = re.compile(r"\d+\.\d+")
PARROT = 0.8
"""A text that is as long as this share of the instruction, and has this share of its content words, repeats it."""
Bag = Counter[str]
NONE, ZERO = Counter({"not": 1}), Counter({"0": 1})
"""What a message tells that says "none", and one that says "0"."""
ANSWERS = frozenset({"yes", "not"})
EVERYTHING = frozenset(words("both all each every everything everybody everyone"))
"""Words that stand for all that the reference tells."""
CLAUSE = re.compile(r"[.;:!?\n]|\bbut\b|\bwhile\b|(?<=\bno),", re.IGNORECASE)
LEADING_NO = re.compile(r"^\W*no\b", re.IGNORECASE)


def content(text: str) -> frozenset[str]:
    """The words of a text that carry its content."""
    return frozenset(words(text)) - COMMON


def bag(text: str) -> Bag:
    """The words of a message with their numbers; decimal fractions are rounded to one digit."""
    return Counter(words(DECIMAL.sub(_rounded, text)))


def _rounded(number: re.Match[str]) -> str:
    text = number.group()[:18]
    return f"{float(text):.1f}".removesuffix(".0").replace(".", "point")


def repeats(text: str, instruction: str) -> bool:
    """Whether a text is mostly the instruction itself."""
    asked = content(instruction)
    return len(words(text)) >= PARROT * len(words(instruction)) > 0 and len(asked & content(text)) >= PARROT * len(
        asked
    )


def overlap(a: Bag, b: Bag) -> float:
    """2 |a & b| / (|a| + |b|); 1 if both are empty."""
    total = a.total() + b.total()
    return 2 * (a & b).total() / total if total else 1.0


@dataclass(frozen=True)
class Messages:
    """The reference's and a program's messages at one room, by world; a world without one is missing.

    values: words that may differ between worlds and then tell something: those of names and options.
    names: the names and options, as sets of these words.
    replies: what people were asked in each world and what they answered, as words.
    elsewhere: what the reference says in other rooms.
    """

    instruction: str
    values: frozenset[str]
    wanted: Mapping[int, str]
    given: Mapping[int, str]
    names: Sequence[frozenset[str]] = ()
    replies: Mapping[int, Sequence[tuple[frozenset[str], frozenset[str]]]] = field(default_factory=dict)
    elsewhere: Sequence[str] = ()

    @cached_property
    def told(self) -> dict[int, Bag]:
        """For each world the words of the reference's message that differ between worlds."""
        bags = {world: self._values(text) for world, text in self.wanted.items()}
        if not self.varies:
            return {world: _numbers(bag(text)) for world, text in self.wanted.items()}
        constant = _constant(list(bags.values()))
        return {world: each - constant for world, each in bags.items()}

    @cached_property
    def varies(self) -> bool:
        return len({frozenset(self._values(text).items()) for text in self.wanted.values()}) > 1

    @cached_property
    def heard(self) -> dict[int, Bag]:
        """The same of the program's messages, as far as the reference's differ."""
        bags = {world: self._claimed(world) for world in self.given}
        if not self.varies:
            return {world: _numbers(bag(text)) for world, text in self.given.items()}
        compared = {frozenset(self.told[world].items()) for world in bags if world in self.told}
        return {
            world: each - _constant(list(bags.values())) if len(compared) > 1 else each for world, each in bags.items()
        }

    def _values(self, text: str) -> Bag:
        """What may tell something: names and options, numbers if several occur, and one "not". A word that only one
        name has stands for the whole name."""
        results = Counter(
            {
                word: 1 if word == "not" else number
                for word, number in bag(text).items()
                if word in self.values or word == "not" or (word[0].isdigit() and len(self.numbers) > 1)
            }
        )
        for name in self.names:
            others = frozenset[str]().union(*(other for other in self.names if other != name))
            if (name - others) & set(results):
                results |= Counter(name)
        return results

    def _claimed(self, world: int) -> Bag:
        """What the program's message tells. A name beside a negation is no claim, unless the reference says it too:
        "the tray is there, but the cup is not". "Both" is all names, where none is said."""
        wanted = self._values(self.wanted.get(world, ""))
        claimed, denied = Bag(), Bag()
        for clause in CLAUSE.split(DECIMAL.sub(_rounded, self.given[world])):
            values = self._values(clause)
            if "not" in values:
                denied |= values
            else:
                claimed += values
        if claimed and "not" not in wanted:
            return claimed | (denied & wanted)
        told = frozenset[str]().union(*(self._values(text) for text in self.wanted.values())) & self.values
        if not denied and not claimed and EVERYTHING & {*words(self.given[world])}:
            claimed = Counter(told)
        if not wanted and frozenset(claimed) == told:
            return Bag()  # all of them, where the reference names none
        return claimed | (denied if wanted - NONE else denied & (wanted | NONE))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The numbers in the reference's messages."""
        return frozenset(word for text in self.wanted.values() for word in _numbers(bag(text)))

    def quality(self, world: int) -> float:
        """From 0 to 1: how well the program's message fits the reference's in this world, where both speak."""
        wanted, given = self.wanted[world], self.given[world]
        if repeats(given, self.instruction) and not repeats(wanted, self.instruction):
            return 0.0
        told, heard = self.told[world], self.heard[world]
        lists = any(set(each) - {"not"} for each in self.told.values())
        if heard == NONE and (told == ZERO or (not told and lists)):
            return 1.0  # "none", where the reference counts 0 or lists nothing
        fits = 1 - (1 - CONSTANT) * (1 - self._parted(world))
        if self.varies and not self._says_no_as_the_reference():
            told, heard = (Counter({w: n for w, n in each.items() if w != "not"}) for each in (told, heard))
        fits *= overlap(told, heard)
        if self.varies and set(told) - {"not"}:
            return fits
        if self._is_opposite(world) or self._is_of_another_room(world):
            fits *= CONSTANT
        return fits if self._is_meant(world) else fits * self._key_words(world)

    def _evidence(self, world: int) -> frozenset[str]:
        """The words that tell the reference's message of a world from those of others, or answers heard there."""
        wanted = self.wanted[world]
        heard = (answer for _, answer in self.replies.get(world, ()))
        return content(wanted) | (ANSWERS & {*words(wanted)}) | frozenset[str]().union(*heard)

    def _spoken(self, world: int) -> frozenset[str]:
        given = self.given[world]
        return content(given) - self.values | self._claimed(world).keys() | (ANSWERS & {*words(given)})

    def _elsewhere(self, world: int) -> list[int]:
        """Worlds in which both speak and the reference says something else."""
        wanted = self.wanted[world]
        here = content(wanted), ANSWERS & {*words(wanted)}
        others = [other for other in self.given if other in self.wanted]
        return [v for v in others if (content(self.wanted[v]), ANSWERS & {*words(self.wanted[v])}) != here]

    def _parted(self, world: int) -> float:
        """The share of the worlds in which the reference says something else where the program does too. Messages that
        are exchanged, so that each has more of the other's words than of its own, do not count."""
        others = self._elsewhere(world)
        return sum(self._tells_apart(world, other) for other in others) / len(others) if others else 1.0

    def _tells_apart(self, world: int, other: int) -> bool:
        if self.given[world].lower() == self.given[other].lower():
            return False
        a, b = self._evidence(world), self._evidence(other)
        here, there = self._spoken(world), self._spoken(other)
        return len(here & (a - b)) + len(there & (b - a)) >= len(here & (b - a)) + len(there & (a - b))

    def _says_no_as_the_reference(self) -> bool:
        """Whether negations are compared. They are not if the program has none; nor if it has others than the reference
        and yet tells all worlds apart, as in "The gardener says no."."""
        both = [world for world in self.given if world in self.told]
        if not any("not" in self.heard[world] for world in self.given):
            return False
        alike = all(("not" in self.told[world]) == ("not" in self.heard[world]) for world in both)
        return alike or any(self._parted(world) < 1 for world in both)

    def _is_opposite(self, world: int) -> bool:
        """Whether the message denies what somebody answered; or has a negation where neither the reference nor the
        instruction has one, nor an answer."""
        restated = self._restates(self.given[world], world)
        if restated is not None:
            return not restated and self._restates(self.wanted[world], world) is not False
        if self.varies or "not" in words(f"{self.wanted[world]} {self.instruction}"):
            return False
        refused = any("not" in answer for _, answer in self.replies.get(world, ()))
        return "not" in words(LEADING_NO.sub("", self.given[world]) if refused else self.given[world])

    def _is_of_another_room(self, world: int) -> bool:
        """Whether the message has more of the words that the reference says only in another room than of its own."""
        own, spoken = self._evidence(world), self._spoken(world)
        others = (content(text) | (ANSWERS & {*words(text)}) for text in self.elsewhere)
        return any(len(spoken & (other - own)) > len(spoken & (own - other)) for other in others)

    def _restates(self, text: str, world: int) -> bool | None:
        """Whether a text that has the words of a question alone, or only yes or no, agrees with the answer; None for
        other texts."""
        said, denies = {*words(text)} - {"yet"}, "not" in words(text)
        for question, answer in self.replies.get(world, ()):
            if said and said <= question | ANSWERS and ANSWERS & answer:
                return denies == ("not" in answer)
        return None

    def _is_meant(self, world: int) -> bool:
        """Whether a message in other words says what the reference's does: it tells what somebody answered; it has a
        word that the reference says in no other world; or a word of the instruction, and differs wherever the
        reference's does; or it answers yes or no ("Yes." for "Yes, there is a tray.")."""
        if self._restates(self.given[world], world):
            return True
        spoken, others = self._spoken(world), self._elsewhere(world)
        here = self._evidence(world)
        if others and all(spoken & (here - self._evidence(other)) for other in others):
            return True
        if others and self._parted(world) == 1 and spoken & {*words(self.instruction)}:
            return True
        wanted = self.wanted[world]
        elsewhere = frozenset[str]().union(*(content(self.wanted[other]) for other in others)) - content(wanted)
        answers = bool(ANSWERS & {*words(wanted)})
        if answers and ANSWERS & spoken and not elsewhere & spoken:
            return True
        own = content(self.instruction) - elsewhere
        return bool(own & spoken) and (answers or not content(wanted))

    def _key_words(self, world: int) -> float:
        """1 if the message has half of the words that the reference's has from the instruction, or half of all."""
        wanted, given = self.wanted[world], self.given[world]
        keys = content(wanted) & content(self.instruction) or content(wanted) or frozenset(words(wanted))
        keys -= self.values if self.varies else frozenset()
        share = len(keys & {*words(given)}) / len(keys) if keys else 1.0
        return min(1.0, 2 * max(share, overlap(bag(wanted), bag(given))))


def _numbers(message: Bag) -> Bag:
    return Counter({word: number for word, number in message.items() if word[0].isdigit()})


def _constant(bags: Sequence[Bag]) -> Bag:
    """The words that all messages have, as often as each has them."""
    if len(bags) < 2:
        return Counter()
    common = bags[0]
    for each in bags[1:]:
        common = common & each
    return common
