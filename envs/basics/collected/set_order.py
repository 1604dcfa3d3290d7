"""Whether a function's answer may depend on the order in which Python goes through a set.

That order differs between programs that are equally right, so such an answer is no test.
"""

from __future__ import annotations

import ast

MADE_BY = frozenset({"set", "frozenset"})
METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference"})
UNORDERED = frozenset({"sorted", "len", "sum", "min", "max", "any", "all", "set", "frozenset", "bool", "isinstance"})
"""Functions of a set that do not see its order."""


def depends(solution: str) -> bool:
    """Whether a set's elements are taken one by one, other than by a function that does not see their order."""
    tree = ast.parse(solution)
    sets: set[str] = set()
    while more := _bound(tree, sets) - sets:
        sets |= more
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        match node:
            case ast.For(iter=taken) if _is_set(taken, sets):
                return True
            case ast.ListComp() | ast.GeneratorExp() | ast.DictComp():
                if any(_is_set(each.iter, sets) for each in node.generators) and not _unordered(parents.get(node)):
                    return True
            case ast.Call() if not _unordered(node) and not _unordered(parents.get(node)):
                taken_by_method = isinstance(node.func, ast.Attribute) and node.func.attr != "join"
                if any(_is_set(each, sets) for each in node.args) and not taken_by_method:
                    return True
                if isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and _is_set(node.func.value, sets):
                    return True
            case ast.Starred(value=taken) if _is_set(taken, sets):
                return True
    return False


def _bound(tree: ast.Module, sets: set[str]) -> set[str]:
    """Names that are bound to a set somewhere."""
    return {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_set(node.value, sets)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _is_set(node: ast.expr, sets: set[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(name):
            return name in sets
        case ast.Call(ast.Name(name)):
            return name in MADE_BY
        case ast.Call(ast.Attribute(_, name)):
            return name in METHODS
        case ast.BinOp(left, ast.BitAnd() | ast.BitOr() | ast.Sub() | ast.BitXor(), right):
            return _is_set(left, sets) or _is_set(right, sets)
    return False


def _unordered(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in UNORDERED
