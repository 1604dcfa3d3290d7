"""A phrase with its expression, drawn from phrases.yaml: "the length of the reverse of text", `len(text[::-1])`."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from envs.basics.families.source import Source

SLOT = re.compile(r"\{(\w+)\}")
VALUES = ("text", "words", "numbers", "number", "table")
"""Kinds of phrases that a parameter may stand for."""
TESTS = ("wordtest", "numbertest")
KINDS = (*VALUES, "flag", *TESTS)
MOST_PARAMETERS = 3
REUSED, LITERAL = 0.3, 0.3
"""How often a parameter stands for two things, and a constant for a number."""


class NoSuchPhrase(Exception):
    """What was drawn does not go together; draw again."""


@dataclass(frozen=True)
class Parameter:
    """kind: one of VALUES. place: 0 for the first parameter of its kind. Where "$" stands before this name,
    envs.basics.families.draft puts another."""

    kind: str
    place: int

    @property
    def name(self) -> str:
        return f"{self.kind}{self.place or ''}"


@dataclass(frozen=True)
class Constant:
    value: Any
    said: str


@dataclass(frozen=True, eq=False)
class Phrase:
    """key, entry: of phrases.yaml. slots: what stands at each name of the entry."""

    kind: str
    key: str
    entry: Mapping[str, Any]
    slots: Mapping[str, Part]

    @property
    def marks(self) -> Sequence[str]:
        """What phrases.yaml says of its arguments, and of what it does not go together with."""
        marks: list[str] = self.entry.get("marks", [])
        return marks

    @property
    def inner(self) -> list[Phrase]:
        """The phrases that stand directly in this one; a condition on words or numbers is none."""
        return [part for part in self.slots.values() if isinstance(part, Phrase) and part.kind not in TESTS]

    def walk(self) -> Iterator[Phrase]:
        """This phrase and all in it, from the outside."""
        yield self
        for part in self.slots.values():
            if isinstance(part, Phrase):
                yield from part.walk()

    def parts(self, kind: str) -> list[Parameter | Phrase]:
        """The parts of a kind that are inside this one."""
        parts = [part for phrase in self.walk() for part in phrase.slots.values()]
        return [part for part in parts if not isinstance(part, Constant) and part.kind == kind]


Part = Parameter | Constant | Phrase


@functools.cache
def entries() -> dict[str, dict[str, Any]]:
    """phrases.yaml: entries by kind, and the constants."""
    loaded: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("phrases.yaml").read_bytes())
    return loaded


def kind_of(slot: str) -> str | None:
    """The kind of phrase that a name in braces stands for; None for a constant."""
    kind = slot.rstrip("0123456789")
    return kind if kind in KINDS else None


@functools.cache
def slots_of(kind: str, key: str) -> tuple[str, ...]:
    """The names in braces of an entry."""
    entry = entries()[kind][key]
    texts = [text for form in ("said", "leaf", "do") for text in entry.get(form, [])]
    return tuple(dict.fromkeys(name for text in texts for name in SLOT.findall(text)))


def drawn(source: Source, kind: str, size: int, known: list[Parameter], inside: bool = False) -> Phrase:
    """A phrase of `size` entries, conditions on words and numbers not counted. `known`: parameters so far; new ones are
    added. inside: whether it stands in another, where it may not be a fraction. Raises NoSuchPhrase."""
    key = source.pick(*entries()[kind])
    entry, names = entries()[kind][key], slots_of(kind, key)
    if inside and " / " in entry["code"]:
        raise NoSuchPhrase
    values = [name for name in names if kind_of(name) in (*VALUES, "flag")]
    flags = [name for name in values if kind_of(name) == "flag"]
    left = size - 1 - len(flags)
    if left < 0:
        raise NoSuchPhrase
    sizes = {name: int(name in flags) for name in values}
    grow = [name for name in values if kind_of(name) != "number" or not entry.get("given")]
    if left and not grow:
        raise NoSuchPhrase
    for _ in range(left):
        sizes[source.pick(*grow)] += 1
    slots: dict[str, Part] = {}
    for name in names:
        inner = kind_of(name)
        if inner is None:
            slots[name] = _constant(source, name)
        elif inner in TESTS:
            slots[name] = drawn(source, inner, 1, known, True)
        elif sizes[name]:
            slots[name] = drawn(source, inner, sizes[name], known, True)
        else:
            slots[name] = _leaf(source, inner, known, slots)
    constants = [part.said for part in slots.values() if isinstance(part, Constant)]
    if len(set(constants)) < len(constants):
        raise NoSuchPhrase
    if kind not in TESTS and all(isinstance(part, Constant) for part in slots.values()):
        raise NoSuchPhrase
    return Phrase(kind, key, entry, slots)


def _constant(source: Source, name: str) -> Constant:
    options = entries()["constants"][name]
    chosen = source.pick(*options)
    if isinstance(options, dict):
        return Constant(options[chosen], chosen)
    return Constant(chosen, repr(chosen))


def _leaf(source: Source, kind: str, known: list[Parameter], beside: Mapping[str, Part]) -> Parameter | Constant:
    """A parameter, or a constant in place of a number; never one that stands beside it."""
    own = [each for each in known if each.kind == kind and each not in beside.values()]
    full = len(known) >= MOST_PARAMETERS
    if kind == "number" and known and source.random() < LITERAL:
        return _constant(source, "n")
    if own and (full or source.random() < REUSED):
        return source.pick(*own)
    if full:
        raise NoSuchPhrase
    made = Parameter(kind, sum(each.kind == kind for each in known))
    known.append(made)
    return made


def repeats(phrase: Phrase) -> list[Part]:
    """What stands more than once in the expression of a phrase, parameters and constants apart."""
    twice = _twice(phrase.entry["code"])
    return [part for name, part in phrase.slots.items() if isinstance(part, Phrase) and name in twice]


@functools.cache
def _twice(code: str) -> set[str]:
    """The names that an expression has more than once."""
    names = [node.id for node in ast.walk(ast.parse(code, mode="eval")) if isinstance(node, ast.Name)]
    return {name for name in names if names.count(name) > 1}


def said(part: Part, source: Source, pronouns: Mapping[Phrase, str], inside: bool = False) -> str:
    """A part in words. pronouns: what is said in place of phrases that are told before. inside: whether it stands in
    another phrase. Raises NoSuchPhrase.

    What follows a phrase in its wording may be read as a part of the phrase before it: "a list of n and values, each
    increased by 7". So a phrase stands in another at the end only, and ends itself with what it is about, not with
    something else that is said of it ("numbers, with every number above 4 replaced by 4").
    """
    if isinstance(part, Parameter):
        return f"${part.name}"
    if isinstance(part, Constant):
        return part.said
    if part in pronouns:
        return pronouns[part]
    untold = [name for name, each in part.slots.items() if each in part.inner and each not in pronouns]
    within = [name for name in untold if kind_of(name) != "flag"]
    if len(untold) > 1 or any(phrase not in pronouns for phrase in repeats(part)):
        raise NoSuchPhrase
    forms = [*part.entry.get("said", []), *(part.entry.get("leaf", []) if not within else [])]
    if inside:
        forms = [form for form in forms if form.endswith("}") and not SLOT.match(form)]
    if within and part.kind != "flag":
        forms = [form for form in forms if form.endswith(f"{{{within[0]}}}")]
    if not forms or (inside and untold):
        raise NoSuchPhrase
    return filled(source.pick(*forms), part, source, pronouns)


def filled(form: str, phrase: Phrase, source: Source, pronouns: Mapping[Phrase, str]) -> str:
    """A wording with the parts of the phrase in it."""

    def put(match: re.Match[str]) -> str:
        part = phrase.slots[match[1]]
        return said(part, source, pronouns, inside=part in phrase.inner)

    return SLOT.sub(put, form)


def expression(part: Part, instead: Mapping[Phrase, Part | str]) -> ast.expr:
    """A part as Python. instead: what stands for a phrase, another part or the variable that holds its value."""
    if isinstance(part, Parameter):
        return ast.Name(part.name)
    if isinstance(part, Constant):
        return ast.parse(repr(part.value), mode="eval").body
    if part in instead:
        other = instead[part]
        return ast.Name(other) if isinstance(other, str) else expression(other, instead)
    parts = {name: expression(each, instead) for name, each in part.slots.items()}
    return _Put(parts).visit(ast.parse(part.entry["code"], mode="eval").body)


class _Put(ast.NodeTransformer):
    """Puts expressions in place of names; into an f-string constants go as text."""

    def __init__(self, parts: Mapping[str, ast.expr]):
        self.parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.parts.get(node.id, node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        value = self.visit(node.value)
        if isinstance(value, ast.Constant):
            return ast.Constant(str(value.value))
        return ast.FormattedValue(value, node.conversion, node.format_spec)
