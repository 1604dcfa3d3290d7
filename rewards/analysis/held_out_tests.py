"""Divides a problem's tests into paid tests and held-out tests, which code that solves the problem passes too."""

from __future__ import annotations

import ast
import hashlib
from dataclasses import replace

from envs.task import Problem, TaskError

CALL_NOTHING = ("callable", "isinstance", "hasattr", "getattr", "type", "id", "str", "repr", "len")
"""Functions that do not call what they are given."""


def divide(problem: Problem, share: float, seed: int = 0) -> tuple[Problem, Problem | None]:
    """The problem with its paid tests, and with its held-out tests; the latter None for a `share` of 0, and where no
    test can be held out.

    Tests that the prompt shows are never held out, and one test that it does not show stays paid: answers with the
    shown examples hard-coded would earn everything else. `share` of all tests (rounded, at least one, as far as there
    are so many) is held out, in the order of a hash of seed, problem and index, so that every process and every restart
    holds out the same tests. The tests of a check are the asserts on the entry point that are statements at its top
    level or in `check`; all other statements, such as loops, stay on both sides.
    """
    if not share:
        return problem, None
    count = len(problem.cases) if problem.check_src is None else len(_asserts(problem, _tree(problem)))
    unpaid = min(max(1, round(share * count)), count - problem.shown - 1)
    if unpaid < 1:
        return problem, None
    ranked = sorted(
        range(max(1, problem.shown), count), key=lambda n: hashlib.sha256(f"{seed}:{problem.id}:{n}".encode()).digest()
    )
    held_out = set(ranked[:unpaid])
    return _only(problem, set(range(count)) - held_out), _only(problem, held_out)


def each(problem: Problem) -> list[Problem]:
    """A check's asserts on the entry point, each as a problem of its own, with all other statements of the check."""
    return [_only(problem, {n}) for n in range(len(_asserts(problem, _tree(problem))))]


def _only(problem: Problem, kept: set[int]) -> Problem:
    """The problem with the tests of indices `kept`."""
    if problem.check_src is None:
        return replace(problem, cases=tuple(case for n, case in enumerate(problem.cases) if n in kept))
    tree = _tree(problem)
    dropped = {id(node) for n, node in enumerate(_asserts(problem, tree)) if n not in kept}
    for body in _bodies(tree):
        body[:] = [node for node in body if id(node) not in dropped]
    return replace(problem, check_src=ast.unparse(tree))


def _tree(problem: Problem) -> ast.Module:
    """The check's syntax tree. Raises TaskError where it does not parse."""
    try:
        return ast.parse(problem.check_src or "")
    except SyntaxError as error:
        raise TaskError(f"{problem.id}: its check does not parse ({error.msg}, line {error.lineno}); mend it") from None


def _asserts(problem: Problem, tree: ast.Module) -> list[ast.stmt]:
    names = {"candidate", problem.entry_point}
    asserts = (node for body in _bodies(tree) for node in body if isinstance(node, ast.Assert))
    return [node for node in asserts if any(_calls(part, names) for part in ast.walk(node))]


def _calls(node: ast.AST, names: set[str | None]) -> bool:
    """Whether a node calls one of the names, or hands it to a function that may call it, as `map(f, items)` does."""
    if not isinstance(node, ast.Call) or (isinstance(node.func, ast.Name) and node.func.id in CALL_NOTHING):
        return False
    used = [node.func, *node.args, *(keyword.value for keyword in node.keywords)]
    return any(isinstance(part, ast.Name) and part.id in names for part in used)


def _bodies(tree: ast.Module) -> list[list[ast.stmt]]:
    """The statements at the top level, and those of `check`."""
    checks = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    return [tree.body, *(node.body for node in checks)]
