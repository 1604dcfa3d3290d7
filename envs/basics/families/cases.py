"""The tests of a problem: arguments that the family draws, the reference's answers, and inputs that expose mutants."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from envs.basics.families.draft import Draft
from envs.basics.families.mutants import defined, may_not_end, mutants, wrong

Case = tuple[tuple[Any, ...], Any]
POOL = 40
"""Different arguments that are drawn; a mutant that none of them exposes counts as equivalent."""
DRAWS = 120
SHOWN, HIDDEN, MUTANTS = 2, 6, 100
PLAIN = ("[]", "{}", "''", "0", "None", "False", "-1", "0.0", "()")
"""Answers that an example avoids, since they explain little."""


class UnsoundFamily(ValueError):
    """A family's reference or its inputs are wrong; the message says how."""


def cases(name: str, solution: str, drawn: Draft, turn: int) -> tuple[list[Case], list[Case]]:
    """(examples, hidden tests) of a problem. Raises UnsoundFamily."""
    tree = ast.parse(solution)
    pool = answered(defined(compile(tree, f"<{name}>", "exec"), name), inputs(drawn), name)
    edges = pool[: len(drawn.edges)]
    turns = in_turns(pool[len(edges) :] or pool)
    best = sorted(turns[: SHOWN * 4], key=lambda case: (dull(case), -len(repr(case[0]))))
    examples = [best[0], *sorted(best[1:], key=lambda case: case[1] == best[0][1])][:SHOWN]
    rest = [*edges, *(case for case in turns if case not in edges)]
    hidden = [case for case in rest if case not in examples][: max(HIDDEN, len(edges) + SHOWN)]
    bounded = may_not_end(tree, name)
    for mutant in mutants(tree, name, MUTANTS, turn):
        if not any(wrong(mutant, *case, bounded) for case in hidden):
            hidden += [case for case in pool if wrong(mutant, *case, bounded)][:1]
    return examples, hidden


def dull(case: Case) -> bool:
    """Whether a test would be a poor example: a trivial answer, long arguments or a number with many digits."""
    text = repr(case[1])
    if text in PLAIN or (case[1] == case[0][0] and not isinstance(case[1], bool)):
        return True
    return len(repr(case[0])) > 90 or (isinstance(case[1], float) and len(text) > 9)


def inputs(drawn: Draft) -> list[tuple[Any, ...]]:
    """The edges, then different arguments as the family draws them."""
    seen: dict[str, tuple[Any, ...]] = {repr(edge): edge for edge in drawn.edges}
    for _ in range(DRAWS):
        if len(seen) >= POOL:
            break
        args = drawn.arguments()
        seen.setdefault(repr(args), args)
    return list(seen.values())


def answered(reference: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], name: str) -> list[Case]:
    """Arguments with the reference's answers."""
    try:
        return [(args, reference(*args)) for args in arguments]
    except Exception as error:
        raise UnsoundFamily(f"the reference of {name} fails: {error!r}") from error


def in_turns(pool: Sequence[Case]) -> list[Case]:
    """Cases such that different answers take turns."""
    groups: dict[str, list[Case]] = {}
    for case in pool:
        groups.setdefault(repr(case[1]), []).append(case)
    most = max(map(len, groups.values()), default=0)
    return [group[place] for place in range(most) for group in groups.values() if place < len(group)]
