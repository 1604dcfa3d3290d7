"""Whether two problems ask for the same: by their words, by runs of words, and by the syntax tree of the reference."""

from __future__ import annotations

import ast
import re
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
    for other in others:
        if other.tree:
            trees.setdefault(other.tree, other.id)
    for one in left:
        if one.tree in trees:
            yield one.id, trees[one.tree], "tree"
        for other in others:
            if shared(one.words, other.words) > WORDS_SHARED:
                yield one.id, other.id, "words"
            elif shared(one.runs, other.runs) > RUNS_SHARED:
                yield one.id, other.id, "runs"


def shared(a: frozenset[object], b: frozenset[object]) -> float:
    """The Jaccard index of two sets; 0 without a computation if their sizes exclude a large one."""
    if 2 * min(len(a), len(b)) < max(len(a), len(b)):
        return 0.0
    common = len(a & b)
    return common / (len(a) + len(b) - common)
