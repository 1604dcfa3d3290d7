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
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
    items = _united(_connected(_walk(source.root, {})[0]))
    numbers: dict[str, str] = {}

    def number(name: str) -> str:
        return numbers.setdefault(name, f"var_{len(numbers)}")

    found = []
    for item in items:
        parents = tuple([number(parent) for parent in item.parents])
        found.append(((number(item.name), item.relation, parents), source.span(item.place)))
    return found


class Node:
    """A node of the syntax tree: its children, in the order in which they are walked too, and by name those that FIELDS
    has; a leaf's text and place."""

    __slots__ = ("children", "fields", "kind", "name", "place", "variables", "walked")

    def __init__(self, kind: str):
        self.kind, self.name, self.place = kind, "", -1
        self.children = self.walked = NO_CHILDREN
        self.fields = NO_FIELDS
        self.variables: list[Node] | None = None

    def below(self) -> list[Node]:
        """The variables at or below."""
        if self.variables is None:
            if self.place >= 0:
                self.variables = [self] if self.name != self.kind else []
            else:
                self.variables = [variable for child in self.children for variable in child.below()]
        return self.variables


NO_CHILDREN: list[Node] = []
NO_FIELDS: dict[str, Node] = {}
FIELDS = {
    "default_parameter": ("name", "value"),
    "assignment": ("left", "right"),
    "augmented_assignment": ("left", "right"),
    "for_in_clause": ("left",),
    "for_statement": ("left", "right"),
}


@dataclass
class Source:
    """A parsed text without comments and docstrings, and the way back to its characters."""

    data: bytes
    root: Node
    leaves: list[tuple[int, int]]
    """Bytes of each leaf."""
    starts: list[tuple[int, int]]
    """(character of the stripped text, character of the text) where stretches that were kept begin."""

    @classmethod
    def of(cls, text: str) -> Source:
        stripped, starts = strip(text)
        data = stripped.encode("utf-8", "replace")
        return cls(data, *_tree(data), starts)

    def span(self, place: int) -> tuple[int, int]:
        """Characters of a leaf in the text as it was given."""
        first, last = self.leaves[place]
        if not self.data.isascii():
            first, last = len(self.data[:first].decode()), len(self.data[:last].decode())
        kept, original = self.starts[bisect_right(self.starts, first, key=lambda start: start[0]) - 1]
        return original + first - kept, original + last - kept


def _tree(data: bytes) -> tuple[Node, list[tuple[int, int]]]:
    """Root and leaves. Strings count as a whole; comments are no leaves, but have no children either."""
    there = PARSER.parse(data).root_node
    root = Node(there.type)
    waiting, leaves, places = [(there, root)], [], {}
    found: list[tuple[int, int]] = []
    while waiting:
        there, here = waiting.pop()
        children = [] if here.kind == "string" else there.children
        if not children and here.kind != "comment":
            span = there.start_byte, there.end_byte
            here.name = data[span[0] : span[1]].decode()
            places[span] = len(found)
            found.append(span)
            leaves.append(here)
            continue
        kinds = [child.type for child in children]
        here.children = here.walked = list(map(Node, kinds))
        if "for_in_clause" in kinds:
            here.walked = sorted(here.children, key=lambda child: child.kind != "for_in_clause")
        if names := FIELDS.get(here.kind):
            own = {child.id: node for child, node in zip(children, here.children, strict=True)}
            fields = ((name, there.child_by_field_name(name)) for name in names)
            here.fields = {name: own[field.id] for name, field in fields if field is not None}
        waiting.extend(zip(reversed(children), reversed(here.children), strict=True))
    for leaf, span in zip(leaves, found, strict=True):
        leaf.place = places[span]  # of empty leaves in one place, the last
    return root, found


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
    edges: list[tuple[int, int]] = []  # where stretches of the text begin in the joined one, and in the text
    pieces, position, expected = [], 0, -1
    for string, begin in kept:
        if string:
            if begin != expected:
                edges.append((position, begin))
            pieces.append(string)
            position, expected = position + len(string), begin + len(string)
    out, starts, place, length, edge = [], [(0, 0)], 0, 0, 0
    for line in "".join(pieces).split("\n"):
        if line.strip():
            while edge + 1 < len(edges) and edges[edge + 1][0] <= place:
                edge += 1
            starts.append((length, edges[edge][1] + place - edges[edge][0]))
            while edge + 1 < len(edges) and edges[edge + 1][0] < place + len(line):
                edge += 1
                starts.append((length + edges[edge][0] - place, edges[edge][1]))
            out.append(line)
            length += len(line) + 1
        place += len(line) + 1
    return "\n".join(out), starts


def _walk(node: Node, states: States) -> tuple[list[Item], States]:
    """Items at and below a node in order of place, and which leaves each name has its value from afterwards."""
    if node.place >= 0:
        name, place = node.name, node.place
        if node.kind == name:
            return [], states
        if name in states:
            return [Item(name, place, "comesFrom", [name], list(states[name]))], states
        if node.kind == "identifier":
            states = {**states, name: [place]}
        return [Item(name, place, "comesFrom", [], [])], states
    special = SPECIAL.get(node.kind)
    if special is None:
        return _children(node, states)
    items, states = special(node, states)
    return sorted(items, key=_place), states


def _place(item: Item) -> int:
    return item.place


def _children(node: Node, states: States) -> tuple[list[Item], States]:
    """One after another; the clauses of a comprehension come first."""
    items: list[Item] = []
    for child in node.walked:
        found, states = _walk(child, states)
        items += found
    return items if node.walked is node.children else sorted(items, key=_place), states


def _default_parameter(node: Node, states: States) -> tuple[list[Item], States]:
    name, value = node.fields["name"], node.fields["value"]
    items, states = _walk(value, states)
    states = dict(states)
    for variable in name.below():
        items += [Item(variable.name, variable.place, "comesFrom", [v.name], [v.place]) for v in value.below()]
        states[variable.name] = [variable.place]
    return items, states


def _assignment(node: Node, states: States) -> tuple[list[Item], States]:
    right = node.fields.get("right")
    if right is None:
        return [], states
    return _assign(*_parts(node.fields["left"], right), states)


def _for_in_clause(node: Node, states: States) -> tuple[list[Item], States]:
    return _assign([node.fields["left"]], [node.children[-1]], states)


def _parts(left: Node, right: Node) -> tuple[list[Node], list[Node]]:
    """Both sides taken apart where they pair up, as in a, b = b, a."""
    lefts, rights = ([part for part in side.children if part.kind != ","] for side in (left, right))
    return (lefts, rights) if lefts and len(lefts) == len(rights) else ([left], [right])


def _assign(lefts: list[Node], rights: list[Node], states: States) -> tuple[list[Item], States]:
    items: list[Item] = []
    for part in rights:
        found, states = _walk(part, states)
        items += found
    states = dict(states)
    for target, value in zip(lefts, rights, strict=True):
        parents = value.below()
        names, places = [parent.name for parent in parents], [parent.place for parent in parents]
        for variable in target.below():
            items.append(Item(variable.name, variable.place, "computedFrom", names, places))
            states[variable.name] = [variable.place]
    return items, states


def _if_statement(node: Node, states: States) -> tuple[list[Item], States]:
    items: list[Item] = []
    current, after = states, []
    for child in node.children:
        if child.kind in ("elif_clause", "else_clause"):
            found, ended = _walk(child, states)
            after.append(ended)
        else:
            found, current = _walk(child, current)
        items += found
    after.append(current)
    if not any("else" in child.kind for child in node.children):
        after.append(states)
    names = dict.fromkeys(name for ended in after for name in ended)
    return items, {name: sorted({p for ended in after for p in ended.get(name, [])}) for name in names}


def _for_statement(node: Node, states: States) -> tuple[list[Item], States]:
    items: list[Item] = []
    lefts, rights = _parts(node.fields["left"], node.fields["right"])
    for _ in range(2):  # what the first pass leaves, the second finds
        found, states = _assign(lefts, rights, states)
        items += found
        if node.children[-1].kind == "block":
            found, states = _walk(node.children[-1], states)
            items += found
    return _merged(items), states


def _while_statement(node: Node, states: States) -> tuple[list[Item], States]:
    items: list[Item] = []
    for _ in range(2):
        for child in node.children:
            found, states = _walk(child, states)
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
