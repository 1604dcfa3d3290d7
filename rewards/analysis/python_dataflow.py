"""Data flow of Python code: where the value of each variable comes from, after CodeBLEU (Ren et al. 2020, arXiv
2009.10297, section 3.4) and PPOCoder (Shojaee et al. 2023, arXiv 2301.13816).

An item states that the variable at one leaf of the syntax tree comes from, or is computed from, variables at other
leaves. Names do not matter: they are numbered in order of appearance. CodeBLEU 0.7.0 unites parents in a set of
strings, whose order, and therefore the score, changes from run to run; here it is the order of first appearance.

Loops are walked twice, so a loop in a loop doubles the work; it is bounded (MAX_STEPS), and a program that needs more
is not similar to anything.

This module parses untrusted text: call it in a process that may crash, as rewards/dataflow.py does.
"""

from __future__ import annotations

import functools
import io
import re
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
MAX_STEPS = 30_000
"""Nodes that are walked, with what is copied and merged on the way, for one program: a fifth of a second. A solution of
40 lines takes about 1,000."""
COPIED_AT_ONCE = 16
"""Entries of states that are copied in the time of one node."""
ITEMS_AT_ONCE = 4
"""Items that are sorted in that time."""
MAX_CHARS = 50_000
"""Longer programs are too large: 1,000 lines are half of this."""


class TooLargeError(Exception):
    """A program whose flows take more than MAX_STEPS, or that is nested too deeply."""


class Steps:
    """Counts the work for one program."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, steps: int) -> None:
        """Raises TooLargeError beyond MAX_STEPS."""
        self.count += steps
        if self.count > MAX_STEPS:
            raise TooLargeError


STEPS = Steps()


class Item(NamedTuple):
    """The variable `name` at leaf `place` has its value from the variables `parents` at leaves `places`."""

    name: str
    place: int
    relation: str
    parents: list[str]
    places: list[int]


Flow = tuple[str, str, tuple[str, ...]]
"""An item without names or places: variable, relation and parents, as var_0, var_1, ..."""


class Match(NamedTuple):
    """The flows of a candidate compared with those of a reference.

    unmatched: characters (start, end) of the candidate's variables whose flow the reference does not have.
    """

    f1: float
    recall: float
    candidate_flows: int
    reference_flows: int
    unmatched: list[tuple[int, int]]


def match(candidate: str, reference: str) -> Match | None:
    """Compare two programs; None if the reference has no data flow, so that nothing can be compared. A candidate that
    is too large (TooLargeError) is not similar."""
    try:
        reference_flows = [flow for flow, _ in flows(reference)]
    except TooLargeError:
        return None
    if not reference_flows:
        return None
    try:
        candidate_flows = flows(candidate)
    except TooLargeError:
        return Match(0.0, 0.0, 0, len(reference_flows), [])
    remaining, unmatched = Counter(reference_flows), []
    for flow, span in candidate_flows:
        if remaining[flow]:
            remaining[flow] -= 1
        else:
            unmatched.append(span)
    candidates, references = len(candidate_flows), len(reference_flows)
    matched = candidates - len(unmatched)
    return Match(2 * matched / (candidates + references), matched / references, candidates, references, unmatched)


@functools.lru_cache(maxsize=512)
def flows(text: str) -> list[tuple[Flow, tuple[int, int]]]:
    """Normalised flows of a program in order of place, each with the characters (start, end) of its variable.

    Raises TooLargeError.
    """
    STEPS.count = 0
    if len(text) > MAX_CHARS:
        raise TooLargeError
    try:
        source = Source.of(text)
        items = _united(_connected(_walk(source.root, {})[0]))
    except RecursionError:
        raise TooLargeError from None
    numbers: dict[str, str] = {}

    def number(name: str) -> str:
        return numbers.setdefault(name, f"var_{len(numbers)}")

    numbered = []
    for item in items:
        parents = tuple([number(parent) for parent in item.parents])
        numbered.append(((number(item.name), item.relation, parents), source.span(item.place)))
    return numbered


class Node:
    """A node of the syntax tree.

    children: in the order of the text. walked: in the order in which they are walked. fields: those that FIELDS lists,
    by name. name, place: text and number of a leaf; the place of other nodes is -1.
    """

    __slots__ = ("children", "fields", "kind", "name", "place", "variables", "walked")

    def __init__(self, kind: str):
        self.kind, self.name, self.place = kind, "", -1
        self.children = self.walked = NO_CHILDREN
        self.fields = NO_FIELDS
        self.variables: list[Node] | None = None

    def below(self) -> list[Node]:
        """The variables at this node or below it."""
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


LONE_RETURN = re.compile(r"\r(?!\n)")
"""A line end of Python's that neither tokenize nor tree-sitter takes for one."""


@dataclass
class Source:
    """A parsed program without comments and docstrings, with a mapping back to the characters of the original text."""

    data: bytes
    root: Node
    leaves: list[tuple[int, int]]
    """Bytes (start, end) of each leaf."""
    starts: list[tuple[int, int]]
    """(character of the stripped text, character of the original text) where each kept stretch begins."""

    @classmethod
    def of(cls, text: str) -> Source:
        stripped, starts = strip(LONE_RETURN.sub("\n", text))
        data = stripped.encode("utf-8", "replace")
        return cls(data, *_tree(data), starts)

    def span(self, place: int) -> tuple[int, int]:
        """Characters (start, end) of a leaf in the original text."""
        first, last = self.leaves[place]
        if not self.data.isascii():
            first, last = len(self.data[:first].decode()), len(self.data[:last].decode())
        kept, original = self.starts[bisect_right(self.starts, first, key=lambda start: start[0]) - 1]
        return original + first - kept, original + last - kept


def _tree(data: bytes) -> tuple[Node, list[tuple[int, int]]]:
    """The root, and the bytes (start, end) of each leaf. A string is one leaf, and a comment is not a leaf."""
    parsed = PARSER.parse(data).root_node
    root = Node(parsed.type)
    waiting, leaves, places = [(parsed, root)], [], {}
    spans: list[tuple[int, int]] = []
    while waiting:
        parsed, node = waiting.pop()
        children = [] if node.kind == "string" else parsed.children
        if not children and node.kind != "comment":
            span = parsed.start_byte, parsed.end_byte
            node.name = data[span[0] : span[1]].decode()
            places[span] = len(spans)
            spans.append(span)
            leaves.append(node)
            continue
        kinds = [child.type for child in children]
        node.children = node.walked = list(map(Node, kinds))
        if "for_in_clause" in kinds:
            node.walked = sorted(node.children, key=lambda child: child.kind != "for_in_clause")
        if names := FIELDS.get(node.kind):
            node_by_id = {child.id: own for child, own in zip(children, node.children, strict=True)}
            fields = ((name, parsed.child_by_field_name(name)) for name in names)
            node.fields = {name: node_by_id[field.id] for name, field in fields if field is not None}
        waiting.extend(zip(reversed(children), reversed(node.children), strict=True))
    for leaf, span in zip(leaves, spans, strict=True):
        leaf.place = places[span]  # several empty leaves at one byte share the last number
    return root, spans


def strip(text: str) -> tuple[str, list[tuple[int, int]]]:
    """A text without comments, docstrings and blank lines, and where its kept stretches begin (see Source.starts); the
    unchanged text if it cannot be tokenized."""
    lines = [0]
    for line in io.StringIO(text):
        lines.append(lines[-1] + len(line))
    kept: list[tuple[str, int]] = []  # text and its first character
    previous, row, column = tokenize.INDENT, 0, 0
    try:
        for kind, string, (start_row, start_column), (end_row, end_column), _ in tokenize.generate_tokens(
            io.StringIO(text).readline
        ):
            column = 0 if start_row > row else column
            docstring = kind == tokenize.STRING and (
                previous in (tokenize.INDENT, tokenize.NEWLINE) or not start_column
            )
            line_start = lines[min(start_row - 1, len(lines) - 1)]
            if start_column > column:
                kept.append((" " * (start_column - column), line_start + column))
            if kind != tokenize.COMMENT and not docstring:
                kept.append((string, line_start + start_column))
            previous, row, column = kind, end_row, end_column
    except (tokenize.TokenError, SyntaxError):
        return text, [(0, 0)]
    return _without_blank_lines(kept)


def _without_blank_lines(kept: Sequence[tuple[str, int]]) -> tuple[str, list[tuple[int, int]]]:
    edges: list[tuple[int, int]] = []  # where each stretch begins, in the joined text and in the original text
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
    """Items at and below a node, in order of place, and for each name the leaves of its value after the node."""
    STEPS.add(1)
    if node.place >= 0:
        name, place = node.name, node.place
        if node.kind == name:
            return [], states
        if name in states:
            return [Item(name, place, "comesFrom", [name], list(states[name]))], states
        if node.kind == "identifier":
            STEPS.add(len(states) // COPIED_AT_ONCE)
            states = {**states, name: [place]}
        return [Item(name, place, "comesFrom", [], [])], states
    special = SPECIAL.get(node.kind)
    if special is None:
        return _children(node, states)
    items, states = special(node, states)
    STEPS.add(len(items) // ITEMS_AT_ONCE)
    return sorted(items, key=_place), states


def _place(item: Item) -> int:
    return item.place


def _children(node: Node, states: States) -> tuple[list[Item], States]:
    """Walk the children in order; the clauses of a comprehension come first."""
    items: list[Item] = []
    for child in node.walked:
        child_items, states = _walk(child, states)
        items += child_items
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
    """The parts of both sides if they pair up, as in a, b = b, a; else each side as one part."""
    lefts, rights = ([part for part in side.children if part.kind != ","] for side in (left, right))
    return (lefts, rights) if lefts and len(lefts) == len(rights) else ([left], [right])


def _assign(lefts: list[Node], rights: list[Node], states: States) -> tuple[list[Item], States]:
    items: list[Item] = []
    for part in rights:
        part_items, states = _walk(part, states)
        items += part_items
    STEPS.add(len(states) // COPIED_AT_ONCE)
    states = dict(states)
    for target, value in zip(lefts, rights, strict=True):
        parents = value.below()
        names, places = [parent.name for parent in parents], [parent.place for parent in parents]
        for variable in target.below():
            STEPS.add(1 + len(names) // COPIED_AT_ONCE)
            items.append(Item(variable.name, variable.place, "computedFrom", names, places))
            states[variable.name] = [variable.place]
    return items, states


def _if_statement(node: Node, states: States) -> tuple[list[Item], States]:
    items: list[Item] = []
    current, after = states, []
    for child in node.children:
        if child.kind in ("elif_clause", "else_clause"):
            child_items, branch_states = _walk(child, states)
            after.append(branch_states)
        else:
            child_items, current = _walk(child, current)
        items += child_items
    after.append(current)
    if not any("else" in child.kind for child in node.children):
        after.append(states)
    STEPS.add(sum(map(len, after)))
    names = dict.fromkeys(name for branch in after for name in branch)
    return items, {name: sorted({place for branch in after for place in branch.get(name, [])}) for name in names}


def _for_statement(node: Node, states: States) -> tuple[list[Item], States]:
    items: list[Item] = []
    lefts, rights = _parts(node.fields["left"], node.fields["right"])
    for _ in range(2):  # the second pass sees the states that the first one leaves
        target_items, states = _assign(lefts, rights, states)
        items += target_items
        if node.children[-1].kind == "block":
            body_items, states = _walk(node.children[-1], states)
            items += body_items
    return _merged(items), states


def _while_statement(node: Node, states: States) -> tuple[list[Item], States]:
    items: list[Item] = []
    for _ in range(2):
        for child in node.children:
            child_items, states = _walk(child, states)
            items += child_items
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
    """Items of several passes over a loop's body, those of the same variable, place and relation united."""
    STEPS.add(len(items))
    merged: dict[tuple[str, int, str], Item] = {}
    for item in items:
        merged[item[:3]] = _unite(merged[item[:3]], item, True) if item[:3] in merged else item
    return list(merged.values())


def _unite(first: Item, second: Item, in_order: bool) -> Item:
    parents = list(dict.fromkeys([*first.parents, *second.parents]))
    places = list(dict.fromkeys([*first.places, *second.places]))
    return first._replace(parents=parents, places=sorted(places) if in_order else places)


def _connected(items: Sequence[Item]) -> list[Item]:
    """Items that have parents or are the parent of another item."""
    ends = {place for item in items if item.places for place in (item.place, *item.places)}
    return [item for item in items if item.place in ends]


def _united(items: Sequence[Item]) -> list[Item]:
    """One item for each place."""
    united: dict[int, Item] = {}
    for item in items:
        united[item.place] = _unite(united[item.place], item, False) if item.place in united else item
    return list(united.values())
