"""Arguments to try a function on: variations of those that its collection shows, or values that fit the names of its
parameters."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

from envs.basics.collected.functions import Arguments, Found

MOST = 24
"""Different arguments for a function."""
WORDS = (
    *("apple", "tree", "river", "stone", "bird", "light", "seven", "moon", "garden", "Cloud", "level", "noon", "a"),
    *("banana", "kayak", "sun"),
)

Draw = Callable[[random.Random], Any]


def candidates(function: Found) -> list[Arguments]:
    """The shown arguments first, then others, at most MOST; the same in every run. Empty where nothing fits."""
    source = random.Random(function.id)
    seen = {repr(call): call for call in function.calls[:MOST]}
    shown, draws = list(seen.values()), _guesses(function)
    drawn = shown or [tuple(draw(source) for draw in draws) for _ in range(4) if draws]
    seen.update((repr(call), call) for call in drawn)
    for _ in range(8 * MOST):
        if len(seen) >= MOST or not drawn:
            break
        call = tuple(varied(value, source) for value in source.choice(drawn))
        seen.setdefault(repr(call), call)
    return list(seen.values())


def varied(value: Any, source: random.Random) -> Any:
    """A value of the same type and of a similar size; now and then the same, or an empty one."""
    if source.random() < 0.15:
        return value
    match value:
        case bool():
            return source.random() < 0.5
        case int():
            span = max(3, abs(value))
            return max(value - span, min(0, value)) + source.randrange(2 * span + 1)
        case float():
            return round(value + source.uniform(-1.0, 1.0) * max(1.0, abs(value)), 1)
        case str():
            return _text(value, source)
        case list():
            return _items(value, source)
        case dict():
            keys = [key for key in value if source.random() < 0.8]
            return {key: varied(value[key], source) for key in keys}
    return value


def _text(text: str, source: random.Random) -> str:
    if " " in text:
        words = text.split(" ")
        source.shuffle(words)
        return " ".join(words[: source.randint(1, len(words))])
    if text.isalpha() and len(text) > 1:
        return source.choice((text[::-1], text[1:], text + text[0], source.choice(WORDS), text.swapcase(), ""))
    letters = list(text)
    source.shuffle(letters)
    return "".join(letters[: source.randint(0, len(letters))])


def _items(items: list[Any], source: random.Random) -> list[Any]:
    if items and all(isinstance(item, list) for item in items):  # a grid stays one
        return [[varied(each, source) for each in item] for item in items]
    count = source.choice((0, 1, len(items), len(items) + 1, max(1, len(items) - 1)))
    made = [varied(source.choice(items), source) if items else 0 for _ in range(count)]
    if made and source.random() < 0.3:
        made.append(source.choice(made))
    return made


def _number(source: random.Random) -> int:
    return source.choice((0, 1, 2, 3, 5, 7, 10, 12, 24, 100, source.randint(1, 50)))


def _word(source: random.Random) -> str:
    return source.choice(WORDS)


def _sentence(source: random.Random) -> str:
    return " ".join(source.sample(WORDS, source.randint(1, 4)))


def _numbers(source: random.Random) -> list[int]:
    return [source.randint(-9, 20) for _ in range(source.randint(1, 6))]


def _words(source: random.Random) -> list[str]:
    return source.sample(WORDS, source.randint(1, 5))


def _grid(source: random.Random) -> list[list[int]]:
    side = source.randint(2, 3)
    return [[source.randint(0, 9) for _ in range(side)] for _ in range(side)]


def _table(source: random.Random) -> dict[str, int]:
    return {word: source.randint(0, 9) for word in _words(source)}


BY_NAME: tuple[tuple[str, Draw], ...] = (
    (r"matri|grid", _grid),
    (r"words|strings|strs|names|string_list|str_list", _words),
    (r"dict|d\b", _table),
    (r"l\b|lst|list|nums|numbers|arr|items|values|elements|integers|data", _numbers),
    (r"sentence|text|phrase|paragraph|message", _sentence),
    (r"s\b|str|string|word|char|name|letter", _word),
    (
        r"n\b|num|x\b|y\b|a\b|b\b|c\b|k\b|m\b|number|limit|year|target|base|exp|length|width|height|radius|size|age",
        _number,
    ),
)
"""Parameters whose name begins like this usually take such values."""


def _guesses(function: Found) -> list[Draw]:
    """For each parameter a way to draw it that its name suggests; empty if one has none."""
    lower = [name.lower() for name in function.parameters]
    draws = [next((draw for pattern, draw in BY_NAME if re.match(pattern, name)), None) for name in lower]
    return [draw for draw in draws if draw] if all(draws) else []
