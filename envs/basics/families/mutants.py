"""Small mutants of a reference: programs that are wrong in one place."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

STEPS = 3000
"""Lines and calls that a mutant with a loop may execute before it counts as wrong."""
COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mod,
    ast.Mod: ast.FloorDiv,
}
CALLS = {"max": "min", "min": "max", "any": "all", "all": "any", "sum": "len", "abs": "int"}


class TooLong(Exception):
    """A mutant does not end."""


def mutations(tree: ast.Module) -> Iterator[tuple[ast.AST, str, Any]]:
    """(node, field, new value) of every change that is tried."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            if type(node.value) is int:
                yield node, "value", node.value + 1
            elif isinstance(node.value, str) and node.value:
                yield node, "value", node.value + "x"
        elif isinstance(node, ast.Compare):
            yield node, "ops", [COMPARISONS[type(node.ops[0])](), *node.ops[1:]]
        elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
            yield node, "op", OPERATORS[type(node.op)]()
        elif isinstance(node, ast.BoolOp):
            yield node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And()
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            yield node.func, "id", CALLS[node.func.id]
        elif isinstance(node, ast.comprehension) and node.ifs:
            yield node, "ifs", []
        elif isinstance(node, ast.If | ast.IfExp):
            yield node, "test", ast.copy_location(ast.Constant(True), node)


def compiled(tree: ast.Module, name: str) -> Callable[..., Any]:
    """The function `name` of a program."""
    return defined(compile(tree, "<mutant>", "exec"), name)


def defined(code: CodeType, name: str) -> Callable[..., Any]:
    """The function `name` that compiled code defines."""
    space: dict[str, Any] = {}
    exec(code, space)
    return space[name]


def mutants(tree: ast.Module, name: str, most: int, first: int = 0) -> Iterator[Callable[..., Any]]:
    """At most `most` mutants, spread over the program. `first` shifts which of them."""
    changes = list(mutations(tree))
    count = min(most, len(changes))
    for number in range(count):
        node, field, changed = changes[(first + number * len(changes) // count) % len(changes)]
        kept = getattr(node, field)
        setattr(node, field, changed)
        try:
            yield compiled(tree, name)
        finally:
            setattr(node, field, kept)


def may_not_end(tree: ast.Module, name: str) -> bool:
    """Whether a program has a loop without a bound or calls itself."""
    return any(isinstance(n, ast.While) or (isinstance(n, ast.Name) and n.id == name) for n in ast.walk(tree))


def wrong(function: Callable[..., Any], args: tuple[Any, ...], expected: Any, bounded: bool) -> bool:
    """Whether a function raises, does not end or answers something else."""
    before = sys.gettrace()
    if bounded:
        sys.settrace(_limited())
    try:
        return bool(function(*args) != expected)
    except Exception:
        return True
    finally:
        if bounded:
            sys.settrace(before)


def _limited() -> Callable[[FrameType, str, Any], Any]:
    left = STEPS

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise TooLong
        return trace

    return trace
