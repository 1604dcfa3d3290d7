"""A share of each problem's tests that is never paid for: what answers that earn their reward honestly pass too."""

from __future__ import annotations

import ast
import hashlib
from dataclasses import replace

from envs.task import Problem


def divide(problem: Problem, share: float, seed: int = 0) -> tuple[Problem, Problem | None]:
    """The problem with the tests that pay, and with those held out; None where there is one test or `share` is 0.

    The first test, which prompts show, always pays. Of the others `share` of all (rounded, one at least) is held out,
    in the order of a hash of seed, problem and place, so that every process and every restart holds out the same. The
    tests of a check are the asserts on the entry point that stand by themselves, at its top level or in `check`; what
    else it holds (loops, say) stays on both sides.
    """
    count = len(problem.cases) if problem.check_src is None else len(_asserts(problem, ast.parse(problem.check_src)))
    if not share or count < 2:
        return problem, None
    ranked = sorted(range(1, count), key=lambda n: hashlib.sha256(f"{seed}:{problem.id}:{n}".encode()).digest())
    held = set(ranked[: max(1, round(share * count))])
    return _only(problem, set(range(count)) - held), _only(problem, held)


def each(problem: Problem) -> list[Problem]:
    """A check's asserts on the entry point, each as a problem of its own; what else the check holds stands in all."""
    assert problem.check_src is not None
    return [_only(problem, {n}) for n in range(len(_asserts(problem, ast.parse(problem.check_src))))]


def _only(problem: Problem, places: set[int]) -> Problem:
    """The problem with some of its tests."""
    if problem.check_src is None:
        return replace(problem, cases=tuple(case for n, case in enumerate(problem.cases) if n in places))
    tree = ast.parse(problem.check_src)
    dropped = {id(node) for n, node in enumerate(_asserts(problem, tree)) if n not in places}
    for body in _bodies(tree):
        body[:] = [node for node in body if id(node) not in dropped]
    return replace(problem, check_src=ast.unparse(tree))


def _asserts(problem: Problem, tree: ast.Module) -> list[ast.stmt]:
    names = {"candidate", problem.entry_point}
    return [
        node
        for body in _bodies(tree)
        for node in body
        if isinstance(node, ast.Assert)
        and any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node))
    ]


def _bodies(tree: ast.Module) -> list[list[ast.stmt]]:
    """The top level, and the body of `check`."""
    checks = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    return [tree.body, *(node.body for node in checks)]
