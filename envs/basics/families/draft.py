"""What a family is: a function that draws one problem, and the register of all such functions.

In texts, names and code, "$word" stands for the chosen name of a parameter (called by its first alternative), for a
value of the draft, or for the function's own name ("$f"); "$word!r" writes a value as Python does. In texts, "{a|b}"
is one of its alternatives.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from envs.basics.families.source import Source

PLACE = re.compile(r"\$(\w+)(!r)?")
CHOICE = re.compile(r"\{([^{}]*\|[^{}]*)\}")
PARAMETERS = re.compile(r",\s*(?=[\w|]+\s*:)")
TWICE = re.compile(r"\b([a-z]\w*) \1\b")
"""A name beside the same word, as in "the number number": another name is better, and else the word goes."""
FAMILIES: dict[str, Family] = {}


@dataclass(frozen=True)
class Draft:
    """One problem before its words are chosen.

    names: names of the function, separated by "|".
    signature: "first|a: int, second|b: list[int] -> bool"; the first names go together, and the second names.
    texts: descriptions, each complete.
    body: the reference's body.
    arguments: draws the arguments of one test.
    edges: arguments that are always tested.
    values: what placeholders stand for.
    """

    names: str
    signature: str
    texts: Sequence[str]
    body: str
    arguments: Callable[[], tuple[Any, ...]]
    edges: Sequence[tuple[Any, ...]]
    values: dict[str, Any]


@dataclass(frozen=True)
class Family:
    """A kind of problem: `make` draws constants from a source and returns a draft."""

    name: str
    level: int
    make: Callable[[Source], Draft]


@dataclass(frozen=True)
class Worded:
    """A draft whose words are chosen."""

    name: str
    signature: str
    description: str
    solution: str


def draft(
    names: str,
    signature: str,
    texts: str | Sequence[str],
    body: str,
    arguments: Callable[[], tuple[Any, ...]],
    edges: Sequence[tuple[Any, ...]] = (),
    **values: Any,
) -> Draft:
    """A draft; the values of placeholders are keyword arguments."""
    given = [texts] if isinstance(texts, str) else texts
    return Draft(names, signature, given, textwrap.dedent(body).strip("\n"), arguments, edges, values)


def family(level: int) -> Callable[[Callable[[Source], Draft]], Callable[[Source], Draft]]:
    """Register a function as a family of this level; its name is the family's name."""

    def register(make: Callable[[Source], Draft]) -> Callable[[Source], Draft]:
        add(make.__name__, level, make)
        return make

    return register


def add(name: str, level: int, make: Callable[[Source], Draft]) -> None:
    """Register a family. Raises ValueError if the name is taken."""
    if name in FAMILIES:
        raise ValueError(f"two families are called {name}")
    FAMILIES[name] = Family(name, level, make)


def choose_words(source: Source, drawn: Draft, turn: int) -> Worded:
    """Choose names, types and wording. `turn` counts a family's problems, so that they take turns with wordings."""
    names = drawn.names.split("|")
    name = names[turn % len(names)]
    text = drawn.texts[(turn + turn // len(names)) % len(drawn.texts)]
    text = CHOICE.sub(lambda match: source.pick(*match[1].split("|")), text)
    style, place = source.random(), source.number(0, 11)
    for alternative in range(place, place + 3):
        values = {**drawn.values, "f": name, **_parameters(drawn, alternative)}
        description = _filled(text, values, repr)
        if not TWICE.search(description):
            break
    parameters = []
    for option, kind in _declared(drawn):
        chosen = values[option.split("|")[0]]
        parameters.append(chosen if style > 0.9 else f"{chosen}: {_type(kind, style)}")
    returned = "" if style > 0.9 else f" -> {_type(drawn.signature.rsplit('->', 1)[1], style)}"
    signature = f"def {name}({', '.join(parameters)}){returned}:"
    body = _filled(drawn.body, values, _code)
    imported = "import math\n\n\n" if "math." in body else ""
    solution = f"{imported}{signature}\n{textwrap.indent(body, '    ')}\n"
    return Worded(name, signature, TWICE.sub(r"\1", description), solution)


def _declared(drawn: Draft) -> list[tuple[str, str]]:
    """(alternative names, type) of each parameter."""
    left = drawn.signature.rsplit("->", 1)[0].strip()
    pairs = [given.split(":", 1) for given in PARAMETERS.split(left)]
    return [(names.strip(), kind) for names, kind in pairs]


def _parameters(drawn: Draft, place: int) -> dict[str, str]:
    """The name of each parameter, by its first alternative."""
    chosen = {}
    for names, _ in _declared(drawn):
        options = names.split("|")
        if options[0] in drawn.values:
            raise ValueError(f"{drawn.names}: both a parameter and a value are called {options[0]}")
        chosen[options[0]] = options[place % len(options)]
    return chosen


def _type(kind: str, style: float) -> str:
    """The annotation in full or, more often, without what stands in brackets."""
    return kind.strip() if style > 0.65 else re.sub(r"\[.*\]", "", kind).strip()


def _filled(text: str, values: dict[str, Any], written: Callable[[Any], str]) -> str:
    return PLACE.sub(lambda match: (written if match[2] else str)(values[match[1]]), text)


def _code(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)
