"""Arguments for the tests of a composed problem: such that its conditions hold for some of them and not for others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from envs.basics.composed.phrase import Constant, Parameter, Phrase
from envs.basics.families.source import NAMES, WORDS, Source

DRAWS = 55
SIGNED = {"absolute", "negative", "is_negative", "is_positive", "positive", "size_without_sign", "distance", "negated"}
"""Phrases whose problems have negative numbers; in others a number is never negative."""
SOUGHT = ("c", "divider")
"""Constants that a text may have or not."""
CASED = {"upper", "lower", "capitalized", "swapped_case", "only_capitals", "all_upper", "all_lower", "all_capitalized"}
CASED |= {"capitals", "upper_case", "lower_case", "same_ignoring_case", "capital"}
"""Phrases whose problems have words with a capital letter in lists."""
MIRRORED = ["level", "noon", "radar", "abba", "a", "bob", "stats"]


def arguments(source: Source, known: Sequence[Parameter], parts: Sequence[Phrase]) -> Iterator[tuple[Any, ...]]:
    """DRAWS lists of arguments, some of them equal. known: the parameters, in order. parts: the problem."""
    phrases = [phrase for part in parts for phrase in part.walk()]
    slots = [(phrase.key, *slot) for phrase in phrases for slot in phrase.slots.items()]
    constants = {(key, name): part.value for key, name, part in slots if isinstance(part, Constant)}
    texts = [value for (key, name), value in constants.items() if name in SOUGHT or key == "stripped"]
    numbers = [value for value in constants.values() if isinstance(value, int) and value >= 0]
    cased = any(phrase.key in CASED for phrase in phrases)
    lowest = -9 if any(phrase.key in SIGNED for phrase in phrases) else 0
    for _ in range(DRAWS):
        drawn: dict[Parameter, Any] = {}
        for parameter in sorted(
            known, key=lambda each: each.kind in ("text", "number")
        ):  # these may be taken from others
            drawn[parameter] = _value(source, parameter, drawn, texts, numbers, lowest, cased)
        yield tuple(drawn[parameter] for parameter in known)


def _value(
    source: Source,
    parameter: Parameter,
    others: dict[Parameter, Any],
    texts: Sequence[str],
    numbers: Sequence[int],
    lowest: int,
    cased: bool,
) -> Any:
    before = [value for other, value in others.items() if other.kind == parameter.kind]
    if parameter.kind == "text":
        return _text(source, list(others.values()), texts)
    if parameter.kind == "words":
        words = [_word(source, texts, cased) for _ in range(source.number(1, 6))]
        return words + source.few(before[0], 0, 3) if before else words
    if parameter.kind == "numbers":
        made = [_number(source, numbers, lowest) for _ in range(source.number(1, 7))]
        if before:
            made += source.few(before[0], 0, 3)
        return sorted(made) if source.random() < 0.15 else made
    if parameter.kind == "table":
        keys = source.few(NAMES if source.flag() else WORDS, 1, 4)
        if before:
            keys = [*keys[:2], *source.few(list(before[0]), 0, 2)]
        return {key: _number(source, numbers, lowest) for key in dict.fromkeys(keys)}
    return _near(source, list(others.values()), numbers, lowest)


def _word(source: Source, texts: Sequence[str], cased: bool) -> str:
    word = source.pick(*WORDS) if source.random() < 0.8 else source.pick(*(NAMES if cased else MIRRORED))
    if texts and source.random() < 0.35:
        given = source.pick(*texts)
        word = source.pick(given + word, word + given, word[:2] + given + word[2:], given + word + given)
    return word


def _text(source: Source, others: Sequence[Any], texts: Sequence[str]) -> str:
    members = [each for other in others if isinstance(other, list | dict) for each in other if isinstance(each, str)]
    members += [other[: source.number(1, 4)] for other in others if isinstance(other, str)]
    members += [other for other in others if isinstance(other, str)]
    if members and source.random() < 0.45:
        return source.pick(*members)
    text = source.pick(
        source.sentence(1, 3),
        source.mixed(1, 3),
        source.word(),
        f"{source.word()} {source.number(1, 99)}",
        source.pick(*MIRRORED, *NAMES),
        source.pick(str.upper, str.lower)(source.word()),
    )
    for given in texts:
        if source.random() < 0.5:
            place = source.number(0, len(text))
            text = source.pick(
                given + text, text + given, text[:place] + given + text[place:], text.replace(" ", given)
            )
    return text


def _number(source: Source, numbers: Sequence[int], lowest: int) -> int:
    if numbers and source.random() < 0.3:
        return max(lowest, source.pick(*numbers) + source.pick(-1, 0, 0, 1))
    return source.number(lowest, 9) if source.flag() else source.number(lowest, 30)


def _near(source: Source, others: Sequence[Any], numbers: Sequence[int], lowest: int) -> int:
    """A number, often one that another argument makes a limit."""
    members = [each for other in others if isinstance(other, list) for each in other if isinstance(each, int)]
    members += [value for other in others if isinstance(other, dict) for value in other.values()]
    members += [other for other in others if isinstance(other, int)]
    if members and source.random() < 0.4:
        return max(lowest, source.pick(*members) + source.pick(-1, 0, 0, 1))
    sizes = [len(other) for other in others if isinstance(other, str)]
    if sizes and source.random() < 0.5:
        return max(0, source.pick(*sizes) + source.pick(-1, 0, 1))
    return _number(source, numbers, lowest)
