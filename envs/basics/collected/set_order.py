"""Whether a function's answer may depend on the order in which Python goes through a set.

That order differs between programs that are equally right, so such an answer is no test.
"""

from __future__ import annotations

import ast

MADE_BY = frozenset({"set", "frozenset"})
GIVE_SETS = frozenset({"union", "intersection", "difference", "symmetric_difference"})
METHODS = GIVE_SETS | {"add", "remove", "discard", "clear", "update", "issubset", "issuperset", "isdisjoint", "copy"}
UNORDERED = frozenset({"sorted", "len", "sum", "min", "max", "any", "all", "set", "frozenset", "bool", "isinstance"})
"""Functions of a set that do not see its order, without a `key`."""
OPERATORS = (ast.BitAnd, ast.BitOr, ast.Sub, ast.BitXor)


def depends(solution: str) -> bool:
    """Whether a set is used in any way that is not known to be the same for every order of its elements."""
    tree = ast.parse(solution)
    sets: set[str] = set()
    while more := _bound(tree, sets) - sets:
        sets |= more
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.expr) and _is_set(node, sets)]
    named = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in MADE_BY)
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    passed_on = any(name not in called for name in named)
    inner = any(isinstance(node, ast.FunctionDef) and parents[node] is not tree for node in ast.walk(tree))
    return passed_on or (inner and bool(found)) or any(not _harmless(node, parents) for node in found)


def _bound(tree: ast.Module, sets: set[str]) -> set[str]:
    """Names that are bound to a set somewhere."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets, value) if _is_set(value, sets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
                pairs = zip(targets, values, strict=False)
                names |= {t.id for t, value in pairs if isinstance(t, ast.Name) and _is_set(value, sets)}
            case ast.AnnAssign(ast.Name(name), _, value) if value is not None and _is_set(value, sets):
                names.add(name)
    return names


def _is_set(node: ast.expr, sets: set[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(name, ast.Load()):
            return name in sets
        case ast.Call(ast.Name(name)):
            return name in MADE_BY
        case ast.Call(ast.Attribute(of, name)):
            return name in GIVE_SETS or (name == "copy" and _is_set(of, sets))
        case ast.BinOp(left, operator, right) if isinstance(operator, OPERATORS):
            return any(_is_set(side, sets) or _is_view(side) for side in (left, right))
        case ast.IfExp(_, body, other):
            return _is_set(body, sets) or _is_set(other, sets)
    return False


def _is_view(node: ast.expr) -> bool:
    """Whether this is the keys or items of a dictionary, of which operators make sets."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "items")


def _harmless(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether the place of a set in the program does not see the order of its elements."""
    parent = parents[node]
    match parent:
        case ast.Compare() | ast.UnaryOp(ast.Not()) | ast.If() | ast.While() | ast.Return() | ast.Expr() | ast.IfExp():
            return True
        case ast.Assign(targets):
            return all(isinstance(target, ast.Name) for target in targets)
        case ast.AnnAssign():
            return isinstance(parent.target, ast.Name)
        case ast.Tuple():  # a, b = set(), set()
            above = parents[parent]
            return isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Tuple)
        case ast.BinOp(_, operator) | ast.AugAssign(_, operator):
            return isinstance(operator, OPERATORS)
        case ast.Attribute(attr=name):
            return name in METHODS
        case ast.comprehension():
            consumer = parents[parent]
            return isinstance(consumer, ast.SetComp) or _sees_no_order(parents[consumer])
        case ast.Call():
            return _sees_no_order(parent)
    return False


def _sees_no_order(node: ast.AST) -> bool:
    """Whether a call's result is the same for every order of a set that it is given."""
    if not isinstance(node, ast.Call) or node.keywords:
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in METHODS
    return isinstance(node.func, ast.Name) and node.func.id in UNORDERED
