"""How well what a program says fits what the reference says, over all worlds of a task.

What a message tells is what differs between worlds: numbers, names, options and whether there is a "no". Words that a
program says in every world tell nothing, so that reading out the instruction, or all rooms, is worth nothing. Where the
reference's message is always the same, the instruction's words in it are expected.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from envs.roboeval.reference_world import words

COMMON_WORDS = """
i me my you your he him his she her they them their we us our who whom whoever what which whose where when how why
am be been was were has have had do does did done will would shall should can could may might must let lets
if whether either or else otherwise so then than as but because until while after before again already still too
also just only for from with by into onto out up down off over about all each every any both some many much more
most other same such own very not yes go come back bring take get put tell say ask report name give look see find
check know want need make carry visit leave robot room place first last one once
"""
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

    values: words that may differ between worlds and then tell something: names and options.
    """

    instruction: str
    values: frozenset[str]
    wanted: Mapping[int, str]
    given: Mapping[int, str]

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
        bags = {world: self._values(text) for world, text in self.given.items()}
        if not self.varies:
            return {world: _numbers(bag(text)) for world, text in self.given.items()}
        compared = {frozenset(self.told[world].items()) for world in bags if world in self.told}
        return {
            world: each - _constant(list(bags.values())) if len(compared) > 1 else each for world, each in bags.items()
        }

    def _values(self, text: str) -> Bag:
        """What may tell something: names and options, numbers if several occur, and one "not"."""
        return Counter(
            {
                word: 1 if word == "not" else number
                for word, number in bag(text).items()
                if word in self.values or word == "not" or (word[0].isdigit() and len(self.numbers) > 1)
            }
        )

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The numbers in the reference's messages."""
        return frozenset(word for text in self.wanted.values() for word in _numbers(bag(text)))

    def _others(self, world: int) -> frozenset[str]:
        """Words of the reference's messages in other worlds that its message in this one does not have."""
        others = [content(text) for text in self.wanted.values() if text != self.wanted[world]]
        return frozenset[str]().union(*others) - content(self.wanted[world])

    def quality(self, world: int) -> float:
        """From 0 to 1: how well the program's message fits the reference's in this world, where both speak."""
        wanted, given = self.wanted[world], self.given[world]
        if repeats(given, self.instruction) and not repeats(wanted, self.instruction):
            return 0.0
        told, heard = self.told[world], self.heard[world]
        lists = any(set(each) - {"not"} for each in self.told.values())
        if heard == NONE and (told == ZERO or (not told and lists)):
            return 1.0  # "none", where the reference counts 0 or lists nothing
        factor = 1.0
        if self.varies and not any("not" in each for each in self.heard.values()):
            # the program says yes and no in its own words: then its messages must differ where these do
            others = [other for other in self.given if other in self.told and self.told[other] != told]
            same = [other for other in others if bag(self.given[other]) == bag(given)]
            factor = 1 - (1 - CONSTANT) * len(same) / len(others) if others else 1.0
            told = Counter({word: number for word, number in told.items() if word != "not"})
        fits = factor * overlap(told, heard)
        if self.varies and set(told) - {"not"}:
            return fits
        if not self.varies and "not" in words(given) and "not" not in words(f"{wanted} {self.instruction}"):
            fits *= CONSTANT  # the opposite
        if self._in_other_words(world):
            return fits
        keys = content(wanted) & content(self.instruction) or content(wanted) or frozenset(words(wanted))
        keys -= self.values if self.varies else frozenset()
        return fits * (min(1.0, 2 * len(keys & {*words(given)}) / len(keys)) if keys else 1.0)

    def _in_other_words(self, world: int) -> bool:
        """Whether the message answers yes or no as the reference does without using its words: "Yes." for "Yes, there
        is a tray.", or a sentence with words of the instruction."""
        wanted, others = self.wanted[world], self._others(world)
        answers, spoken = bool(ANSWERS & {*words(wanted)}), content(self.given[world])
        if answers and ANSWERS & {*words(self.given[world])} and not others & spoken:
            return True
        own = content(self.instruction) - others
        return bool(own & spoken) and (answers or not content(wanted))


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
