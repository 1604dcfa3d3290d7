"""A source of random numbers, words, names, tables and grids, from which families draw constants and inputs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")

WORDS = [
    "apple",
    "bridge",
    "candle",
    "desk",
    "echo",
    "forest",
    "garden",
    "harbor",
    "island",
    "jacket",
    "kettle",
    "lemon",
    "mirror",
    "needle",
    "ocean",
    "paper",
    "quilt",
    "river",
    "spoon",
    "table",
    "umbrella",
    "violin",
    "window",
    "yarn",
    "zebra",
    "cat",
    "sun",
    "map",
    "tea",
    "owl",
    "ink",
    "ice",
    "elm",
    "bus",
    "jar",
    "key",
    "level",
    "noon",
    "radar",
    "cheese",
    "balloon",
    "pepper",
    "coffee",
    "letter",
    "summer",
    "rabbit",
    "bottle",
    "hammer",
    "button",
    "kitten",
    "puzzle",
    "cotton",
    "saddle",
    "tunnel",
    "ant",
    "bee",
    "cup",
    "dog",
    "egg",
    "fig",
    "gum",
    "hat",
    "jam",
    "kit",
    "lip",
    "mud",
    "net",
    "oak",
    "pen",
    "rug",
    "sky",
    "toy",
    "van",
    "wax",
    "book",
    "door",
    "lamp",
    "moon",
    "road",
    "tree",
]
NAMES = [
    "Ann",
    "Ben",
    "Cora",
    "Dan",
    "Eva",
    "Finn",
    "Gina",
    "Hugo",
    "Iris",
    "Jon",
    "Kim",
    "Leo",
    "Mia",
    "Noah",
    "Olga",
    "Paul",
    "Rosa",
    "Sam",
    "Tina",
    "Uma",
    "Vera",
    "Will",
    "Zoe",
]
FRUITS = [
    "apple",
    "banana",
    "cherry",
    "date",
    "fig",
    "grape",
    "kiwi",
    "lemon",
    "mango",
    "orange",
    "peach",
    "pear",
    "plum",
]
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Source(random.Random):
    """random.Random with short methods for what problems are made of. Ranges include both ends."""

    def pick(self, *options: T) -> T:
        """One of the options."""
        return options[int(self.random() * len(options))]

    def number(self, low: int, high: int) -> int:
        """A whole number from low to high."""
        return low + int(self.random() * (high - low + 1))

    def flag(self) -> bool:
        """True or False."""
        return self.random() < 0.5

    def some(self, options: Sequence[T], least: int = 0, most: int = 6) -> list[T]:
        """A list of options that may repeat."""
        size, count = len(options), self.number(least, most)
        return [options[int(self.random() * size)] for _ in range(count)]

    def few(self, options: Sequence[T], least: int = 0, most: int = 5) -> list[T]:
        """A list of different options, in random order."""
        return self.sample(options, min(len(options), self.number(least, most)))

    def ints(self, low: int = -9, high: int = 20, least: int = 0, most: int = 7) -> list[int]:
        """A list of whole numbers."""
        span, count = high - low + 1, self.number(least, most)
        return [low + int(self.random() * span) for _ in range(count)]

    def close(self, least: int = 0, most: int = 8) -> list[int]:
        """A list of numbers from 0 to 4, so that many are equal."""
        return self.ints(0, 4, least, most)

    def halves(self, low: int = 0, high: int = 20) -> float:
        """A number with the fraction .0, .25, .5 or .75."""
        return low + int(self.random() * (high - low) * 4) / 4

    def word(self) -> str:
        """A common word in small letters."""
        return self.pick(*WORDS)

    def words(self, least: int = 0, most: int = 6) -> list[str]:
        """A list of words that may repeat."""
        return self.some(WORDS, least, most)

    def sentence(self, least: int = 1, most: int = 6) -> str:
        """Words separated by single spaces."""
        return " ".join(self.some(WORDS, least, most))

    def mixed(self, least: int = 1, most: int = 5) -> str:
        """Words separated by single spaces, some with capital letters."""
        return " ".join(self.pick(str.lower, str.title, str.upper)(word) for word in self.some(WORDS, least, most))

    def letters(self, alphabet: str = "abc", least: int = 0, most: int = 8) -> str:
        """A text made of the characters of an alphabet."""
        return "".join(self.some(alphabet, least, most))

    def name(self) -> str:
        """A first name."""
        return self.pick(*NAMES)

    def names(self, least: int = 0, most: int = 5) -> list[str]:
        """A list of different first names."""
        return self.few(NAMES, least, most)

    def table(self, low: int = 0, high: int = 20, least: int = 0, most: int = 5) -> dict[str, int]:
        """A dictionary of names and numbers."""
        return {name: self.number(low, high) for name in self.names(least, most)}

    def stock(self, low: int = 0, high: int = 12, least: int = 0, most: int = 5) -> dict[str, int]:
        """A dictionary of fruits and numbers."""
        return {name: self.number(low, high) for name in self.few(FRUITS, least, most)}

    def grid(self, low: int = 0, high: int = 9, least: int = 1, most: int = 4) -> list[list[int]]:
        """A list of rows of equal length, with at least one column."""
        width = self.number(1, most)
        return [self.ints(low, high, width, width) for _ in range(self.number(least, most))]

    def square(self, low: int = 0, high: int = 9, least: int = 1, most: int = 4) -> list[list[int]]:
        """A grid with as many rows as columns."""
        width = self.number(least, most)
        return [self.ints(low, high, width, width) for _ in range(width)]

    def pairs(self, low: int = 0, high: int = 9, least: int = 0, most: int = 5) -> list[tuple[int, int]]:
        """A list of pairs of numbers."""
        return [(self.number(low, high), self.number(low, high)) for _ in range(self.number(least, most))]

    def entries(self, low: int = 0, high: int = 20, least: int = 0, most: int = 5) -> list[tuple[str, int]]:
        """A list of pairs of a name and a number; names may repeat."""
        people = self.some(NAMES[:8], least, most)
        return [(name, self.number(low, high)) for name in people]

    def records(self, key: str, field: str, low: int, high: int, most: int = 5) -> list[dict[str, Any]]:
        """A list of dictionaries with a name and a number."""
        return [{key: name, field: self.number(low, high)} for name in self.names(0, most)]
