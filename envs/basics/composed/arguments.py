"""Arguments for the tests of a composed problem: such that its conditions hold for some of them and not for others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from envs.basics.composed.phrase import Constant, Parameter, Phrase
from envs.basics.families.source import NAMES, WORDS, Source

DRAWS = 55
OF_OTHERS = ("text", "number")
"""Kinds of parameters whose values may be taken from those of others, so that they are drawn last."""
SOUGHT = ("c", "divider", "sign")
"""Constants that a text may have or not."""
MIRRORED = ["level", "noon", "radar", "abba", "a", "bob", "stats"]


@dataclass(frozen=True)
class Wanted:
    """What a problem asks of its arguments. texts: what they contain. numbers: what they lie near. lowest: the lowest
    number. cased: whether words in lists have capital letters."""

    texts: Sequence[str]
    numbers: Sequence[int]
    lowest: int
    cased: bool


def arguments(source: Source, known: Sequence[Parameter], parts: Sequence[Phrase]) -> Iterator[tuple[Any, ...]]:
    """DRAWS lists of arguments, some of them equal. known: the parameters, in order. parts: the problem."""
    phrases = [phrase for part in parts for phrase in part.walk()]
    slots = [slot for phrase in phrases for slot in phrase.slots.items()]
    constants = [(name, part.value) for name, part in slots if isinstance(part, Constant)]
    marks = {mark for phrase in phrases for mark in phrase.marks}
    signed = "signed" in marks and not any(phrase.entry.get("given") for phrase in phrases)
    wanted = Wanted(
        texts=[value for name, value in constants if name in SOUGHT],
        numbers=[value for _, value in constants if isinstance(value, int) and value >= 0],
        lowest=-9 if signed else 0,
        cased="cased" in marks,
    )
    for _ in range(DRAWS):
        drawn: dict[Parameter, Any] = {}
        for parameter in sorted(known, key=lambda each: each.kind in OF_OTHERS):
            drawn[parameter] = _value(source, parameter, drawn, wanted)
        if "unequal" in marks:
            drawn = {parameter: _unequal(value) for parameter, value in drawn.items()}
        if "paired" in marks:
            shortest = min((len(value) for value in drawn.values() if isinstance(value, list)), default=0)
            drawn = {p: value[:shortest] if isinstance(value, list) else value for p, value in drawn.items()}
        yield tuple(drawn[parameter] for parameter in known)


def _unequal(value: Any) -> Any:
    """A list without words of one length or with one last letter, and without equal numbers; the same of a dictionary's
    values."""
    if isinstance(value, dict):
        return {key: number for number, key in {number: key for key, number in value.items()}.items()}
    if isinstance(value, list) and value and isinstance(value[0], str):
        by_length = {len(word): word for word in value if word}
        return list({word[-1]: word for word in by_length.values()}.values())
    return list(dict.fromkeys(value)) if isinstance(value, list) else value


def _value(source: Source, parameter: Parameter, others: dict[Parameter, Any], wanted: Wanted) -> Any:
    before = [value for other, value in others.items() if other.kind == parameter.kind]
    if parameter.kind == "text":
        return _text(source, list(others.values()), wanted.texts)
    if parameter.kind == "words":
        words = [_word(source, wanted) for _ in range(source.number(1, 6))]
        return words + source.few(before[0], 0, 3) if before else words
    if parameter.kind == "numbers":
        made = [_number(source, wanted) for _ in range(source.number(1, 7))]
        if before:
            made += source.few(before[0], 0, 3)
        return sorted(made) if source.random() < 0.15 else made
    if parameter.kind == "table":
        keys = source.few(NAMES if source.flag() else WORDS, 1, 4)
        if before:
            keys = [*keys[:2], *source.few(list(before[0]), 0, 2)]
        return {key: _number(source, wanted) for key in dict.fromkeys(keys)}
    return _near(source, list(others.values()), wanted)


def _word(source: Source, wanted: Wanted) -> str:
    word = source.pick(*WORDS) if source.random() < 0.8 else source.pick(*(NAMES if wanted.cased else MIRRORED))
    if wanted.texts and source.random() < 0.35:
        given = source.pick(*wanted.texts)
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


def _number(source: Source, wanted: Wanted) -> int:
    if wanted.numbers and source.random() < 0.3:
        return max(wanted.lowest, source.pick(*wanted.numbers) + source.pick(-1, 0, 0, 1))
    return source.number(wanted.lowest, 9 if source.flag() else 30)


def _near(source: Source, others: Sequence[Any], wanted: Wanted) -> int:
    """A number, often one that another argument makes a limit."""
    members = [each for other in others if isinstance(other, list) for each in other if isinstance(each, int)]
    members += [value for other in others if isinstance(other, dict) for value in other.values()]
    members += [other for other in others if isinstance(other, int)]
    if members and source.random() < 0.4:
        return max(wanted.lowest, source.pick(*members) + source.pick(-1, 0, 0, 1))
    sizes = [len(other) for other in others if isinstance(other, str)]
    if sizes and source.random() < 0.5:
        return max(0, source.pick(*sizes) + source.pick(-1, 0, 1))
    return _number(source, wanted)
