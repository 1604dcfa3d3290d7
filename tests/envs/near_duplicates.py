"""Whether two problems ask for the same: by their words, by runs of words, and by the syntax tree of the reference."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from envs.basics.families.trees import shape

WORDS_SHARED, RUNS_SHARED = 0.8, 0.6
"""Jaccard indices of two texts' sets of words, and of their runs of five words, above which they are duplicates."""
RUN = 5
SHORT = 26
"""Trees of so few nodes are one expression with one or two operations."""


@dataclass(frozen=True)
class Asked:
    """What is compared of a problem. tree: empty if the reference defines no function."""

    id: str
    words: frozenset[str]
    runs: frozenset[tuple[str, ...]]
    tree: str


def asked(id: str, text: str, names: Iterable[str], solution: str) -> Asked:
    """A problem whose text has its names, numbers and quoted texts replaced by placeholders."""
    listed = words_of(text, names)
    runs = {tuple(listed[i : i + RUN]) for i in range(max(1, len(listed) - RUN + 1))}
    return Asked(id, frozenset(listed), frozenset(runs), tree_of(solution))


def words_of(text: str, names: Iterable[str]) -> list[str]:
    """The words and operators of a text in small letters."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"", " quoted ", text)
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(name)}\b", " name ", text)
    text = re.sub(r"-?\d+(\.\d+)?", " number ", text)
    return re.findall(r"[a-z]+|[-+*/%<>=]+", text.lower())


def tree_of(solution: str) -> str:
    """The shape of the function; a short one keeps its constants.

    Constants are otherwise left out, since problems of a family differ in them. For one expression such as `a * 60`
    that leaves nothing but the operation, and any two conversions of units would be the same problem; there the
    constant is what the problem asks for.
    """
    tree = ast.parse(solution)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if not functions:
        return ""
    made = shape(tree)
    if sum(1 for _ in ast.walk(ast.Module(functions[0].body, []))) > SHORT:
        return made
    constants = [repr(n.value) for n in ast.walk(functions[0]) if isinstance(n, ast.Constant)]
    return f"{made} with {', '.join(constants)}"


def near_duplicates(left: Iterable[Asked], right: Iterable[Asked]) -> Iterator[tuple[str, str, str]]:
    """(id, id, why) of each pair of one problem from each side that ask for the same."""
    others = list(right)
    trees: dict[str, str] = {}
    bits: dict[str, int] = {}
    of_size: dict[int, list[tuple[int, int]]] = defaultdict(list)  # number of words: (place in others, words as bits)
    having: dict[tuple[str, ...], list[int]] = defaultdict(list)  # run: places
    for place, other in enumerate(others):
        if other.tree:
            trees.setdefault(other.tree, other.id)
        of_size[len(other.words)].append((place, sum(bits.setdefault(w, 1 << len(bits)) for w in other.words)))
        for run in other.runs:
            having[run].append(place)
    for one in left:
        if one.tree in trees:
            yield one.id, trees[one.tree], "tree"
        words, count = sum(bits.get(word, 0) for word in one.words), len(one.words)
        alike = {
            place
            for size in of_size
            if min(size, count) > WORDS_SHARED * max(size, count)  # else not even all words of one would do
            for place, its in of_size[size]
            if jaccard((words & its).bit_count(), count, size) > WORDS_SHARED
        }
        yield from ((one.id, others[place].id, "words") for place in sorted(alike))
        for place, common in Counter(place for run in one.runs for place in having.get(run, ())).items():
            if place not in alike and jaccard(common, len(one.runs), len(others[place].runs)) > RUNS_SHARED:
                yield one.id, others[place].id, "runs"


def jaccard(common: int, size: int, other: int) -> float:
    """The Jaccard index of two sets of these sizes, not both empty."""
    return common / (size + other - common)
