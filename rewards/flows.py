"""Data flow of a Python text: which value each variable comes from, after CodeBLEU (Ren et al. 2020, arXiv
2009.10297, section 3.4) and PPOCoder (Shojaee et al. 2023, arXiv 2301.13816).

An item says that the variable at one leaf of the syntax tree comes from, or is computed from, those at others. Names do
not matter: they are numbered in order of appearance. CodeBLEU 0.7.0 unites parents through a set of strings, whose
order, and so its score, changes from run to run; here it is the order of first appearance.

Parses untrusted text: call it in a process that may die (rewards/dataflow.py does).
"""

from __future__ import annotations

import functools
import io
import tokenize
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import tree_sitter
import tree_sitter_python

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_python.language()))
States = dict[str, list[int]]


class Item(NamedTuple):
    """The variable `name` at leaf `place` has its value from `parents` at leaves `places`."""

    name: str
    place: int
    relation: str
    parents: list[str]
    places: list[int]


Flow = tuple[str, str, tuple[str, ...]]
"""An item without names or places: variable, relation, parents, as var_0, var_1, ..."""


class Match(NamedTuple):
    """How a candidate's flows compare with a reference's. `unmatched`: characters (start, end) of the candidate's
    variables whose flow the reference has not."""

    f1: float
    recall: float
    candidate_flows: int
    reference_flows: int
    unmatched: list[tuple[int, int]]


def match(candidate: str, reference: str) -> Match | None:
    """None where the reference has no data flow, which says nothing of the candidate."""
    wanted = [flow for flow, _ in flows(reference)]
    if not wanted:
        return None
    have = flows(candidate)
    left, unmatched = Counter(wanted), []
    for flow, span in have:
        if left[flow]:
            left[flow] -= 1
        else:
            unmatched.append(span)
    both = len(have) - len(unmatched)
    return Match(2 * both / (len(have) + len(wanted)), both / len(wanted), len(have), len(wanted), unmatched)


@functools.lru_cache(maxsize=512)
def flows(text: str) -> list[tuple[Flow, tuple[int, int]]]:
    """Normalised flows of a text in order of place, each with the characters of its variable."""
    source = Source.of(text)
    items = _united(_connected(_walk(source, source.root, {})[0]))
    numbers: dict[str, str] = {}

    def number(name: str) -> str:
        return numbers.setdefault(name, f"var_{len(numbers)}")

    found = []
    for item in items:
        parents = tuple(number(parent) for parent in item.parents)
        found.append(((number(item.name), item.relation, parents), source.span(item.place)))
    return found


@dataclass
class Source:
    """A parsed text without comments and docstrings, and the way back to its characters."""

    data: bytes
    root: Any
    starts: list[tuple[int, int]]
    """(character of the stripped text, character of the text) where stretches that were kept begin."""
    leaves: list[tuple[int, int]] = field(default_factory=list)
    """Bytes of each leaf."""
    numbers: dict[tuple[int, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Source:
        stripped, starts = strip(text)
        data = stripped.encode("utf-8", "replace")
        source = cls(data, PARSER.parse(data).root_node, starts)
        source._number(source.root)
        return source

    def _number(self, root: Any) -> None:
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if is_leaf(node):
                self.numbers[node.start_byte, node.end_byte] = len(self.leaves)
                self.leaves.append((node.start_byte, node.end_byte))
            else:
                waiting.extend(reversed(node.children))

    def leaf(self, node: Any) -> tuple[str, int]:
        return self.data[node.start_byte : node.end_byte].decode(), self.numbers[node.start_byte, node.end_byte]

    def variables(self, node: Any) -> list[tuple[str, int]]:
        """Name and place of each variable at or below a node."""
        found, waiting = [], [node]
        while waiting:
            here = waiting.pop()
            if not is_leaf(here):
                waiting.extend(reversed(here.children))
            elif (leaf := self.leaf(here))[0] != here.type:
                found.append(leaf)
        return found

    def span(self, place: int) -> tuple[int, int]:
        """Characters of a leaf in the text as it was given."""
        first, last = (len(self.data[:byte].decode()) for byte in self.leaves[place])
        kept, original = max(s for s in self.starts if s[0] <= first)
        return original + first - kept, original + last - kept


def is_leaf(node: Any) -> bool:
    """Strings count as a whole; comments are none, but have no children either."""
    return (not node.children or node.type == "string") and node.type != "comment"


def strip(text: str) -> tuple[str, list[tuple[int, int]]]:
    """A text without comments, docstrings and blank lines, and where the stretches kept began; the text itself where
    it cannot be tokenized."""
    lines = [0]
    for line in io.StringIO(text):
        lines.append(lines[-1] + len(line))
    kept: list[tuple[str, int]] = []
    before, row, column = tokenize.INDENT, 0, 0
    try:
        for kind, string, (start_row, start_column), (end_row, end_column), _ in tokenize.generate_tokens(
            io.StringIO(text).readline
        ):
            column = 0 if start_row > row else column
            docstring = kind == tokenize.STRING and (before in (tokenize.INDENT, tokenize.NEWLINE) or not start_column)
            here = lines[min(start_row - 1, len(lines) - 1)]
            if start_column > column:
                kept.append((" " * (start_column - column), here + column))
            if kind != tokenize.COMMENT and not docstring:
                kept.append((string, here + start_column))
            before, row, column = kind, end_row, end_column
    except (tokenize.TokenError, SyntaxError):
        return text, [(0, 0)]
    return _without_blank_lines(kept)


def _without_blank_lines(kept: Sequence[tuple[str, int]]) -> tuple[str, list[tuple[int, int]]]:
    joined = "".join(string for string, _ in kept)
    original = [begin + i for string, begin in kept for i in range(len(string))]
    out, starts, place, length = [], [(0, 0)], 0, 0
    for line in joined.split("\n"):
        if line.strip():
            for i in range(len(line)):
                if not i or original[place + i] != original[place + i - 1] + 1:
                    starts.append((length + i, original[place + i]))
            out.append(line)
            length += len(line) + 1
        place += len(line) + 1
    return "\n".join(out), starts


def _walk(source: Source, node: Any, states: States) -> tuple[list[Item], States]:
    """Items at and below a node, and which leaves each name has its value from afterwards."""
    states = dict(states)
    if is_leaf(node):
        name, place = source.leaf(node)
        if node.type == name:
            return [], states
        if name in states:
            return [Item(name, place, "comesFrom", [name], list(states[name]))], states
        if node.type == "identifier":
            states[name] = [place]
        return [Item(name, place, "comesFrom", [], [])], states
    special = SPECIAL.get(node.type)
    items, states = special(source, node, states) if special else _children(source, node, states)
    return sorted(items, key=lambda item: item.place), states


def _children(source: Source, node: Any, states: States) -> tuple[list[Item], States]:
    """One after another; the clauses of a comprehension come first."""
    items: list[Item] = []
    for child in sorted(node.children, key=lambda child: child.type != "for_in_clause"):
        found, states = _walk(source, child, states)
        items += found
    return items, states


def _default_parameter(source: Source, node: Any, states: States) -> tuple[list[Item], States]:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    items, states = _walk(source, value, states)
    for variable, place in source.variables(name):
        items += [Item(variable, place, "comesFrom", [v], [p]) for v, p in source.variables(value)]
        states[variable] = [place]
    return items, states


def _assignment(source: Source, node: Any, states: States) -> tuple[list[Item], States]:
    right = node.child_by_field_name("right")
    if right is None:
        return [], states
    return _assign(source, *_parts(node.child_by_field_name("left"), right), states)


def _for_in_clause(source: Source, node: Any, states: States) -> tuple[list[Item], States]:
    return _assign(source, [node.child_by_field_name("left")], [node.children[-1]], states)


def _parts(left: Any, right: Any) -> tuple[list[Any], list[Any]]:
    """Both sides taken apart where they pair up, as in a, b = b, a."""
    lefts, rights = ([part for part in side.children if part.type != ","] for side in (left, right))
    return (lefts, rights) if lefts and len(lefts) == len(rights) else ([left], [right])


def _assign(source: Source, lefts: list[Any], rights: list[Any], states: States) -> tuple[list[Item], States]:
    items: list[Item] = []
    for part in rights:
        found, states = _walk(source, part, states)
        items += found
    for target, value in zip(lefts, rights, strict=True):
        parents = source.variables(value)
        names, places = [name for name, _ in parents], [place for _, place in parents]
        for name, place in source.variables(target):
            items.append(Item(name, place, "computedFrom", list(names), list(places)))
            states[name] = [place]
    return items, states


def _if_statement(source: Source, node: Any, states: States) -> tuple[list[Item], States]:
    items: list[Item] = []
    current, after = dict(states), []
    for child in node.children:
        if child.type in ("elif_clause", "else_clause"):
            found, ended = _walk(source, child, states)
            after.append(ended)
        else:
            found, current = _walk(source, child, current)
        items += found
    after.append(current)
    if not any("else" in child.type for child in node.children):
        after.append(states)
    names = dict.fromkeys(name for ended in after for name in ended)
    return items, {name: sorted({p for ended in after for p in ended.get(name, [])}) for name in names}


def _for_statement(source: Source, node: Any, states: States) -> tuple[list[Item], States]:
    items: list[Item] = []
    lefts, rights = _parts(node.child_by_field_name("left"), node.child_by_field_name("right"))
    for _ in range(2):  # what the first pass leaves, the second finds
        found, states = _assign(source, lefts, rights, states)
        items += found
        if node.children[-1].type == "block":
            found, states = _walk(source, node.children[-1], states)
            items += found
    return _merged(items), states


def _while_statement(source: Source, node: Any, states: States) -> tuple[list[Item], States]:
    items: list[Item] = []
    for _ in range(2):
        for child in node.children:
            found, states = _walk(source, child, states)
            items += found
    return _merged(items), states


SPECIAL = {
    "default_parameter": _default_parameter,
    "assignment": _assignment,
    "augmented_assignment": _assignment,
    "for_in_clause": _for_in_clause,
    "if_statement": _if_statement,
    "for_statement": _for_statement,
    "while_statement": _while_statement,
}


def _merged(items: Sequence[Item]) -> list[Item]:
    """The passes over a loop's body as one."""
    found: dict[tuple[str, int, str], Item] = {}
    for item in items:
        found[item[:3]] = _unite(found[item[:3]], item, True) if item[:3] in found else item
    return list(found.values())


def _unite(first: Item, second: Item, in_order: bool) -> Item:
    parents = list(dict.fromkeys([*first.parents, *second.parents]))
    places = list(dict.fromkeys([*first.places, *second.places]))
    return first._replace(parents=parents, places=sorted(places) if in_order else places)


def _connected(items: Sequence[Item]) -> list[Item]:
    """Those with an edge at one of their ends."""
    ends = {place for item in items if item.places for place in (item.place, *item.places)}
    return [item for item in items if item.place in ends]


def _united(items: Sequence[Item]) -> list[Item]:
    """One item a place."""
    found: dict[int, Item] = {}
    for item in items:
        found[item.place] = _unite(found[item.place], item, False) if item.place in found else item
    return list(found.values())
