"""The shape of a program: its syntax tree without the names and constants that problems of a family vary."""

from __future__ import annotations

import ast
import builtins


def shape(tree: ast.Module, name: str | None = None) -> str:
    """The tree of the function `name` as text, of the first one where there is none of that name;
    the whole tree where there is no function.

    Names that are not builtins are numbered in the order in which they appear, constants become their types, and
    annotations, docstrings and the function's name are left out. Names of methods and operators stay.
    """
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if not functions:
        return ast.dump(tree)
    function = next((node for node in functions if node.name == name), functions[0])
    numbers: dict[str, str] = {function.name: "f"}
    parts = [str(len(function.args.args))]
    for argument in function.args.args:
        numbers.setdefault(argument.arg, f"v{len(numbers)}")
    body = function.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    for statement in body:
        _write(statement, numbers, parts)
    return " ".join(parts)


def _write(node: object, numbers: dict[str, str], parts: list[str]) -> None:
    if isinstance(node, list):
        parts.append("[")
        for item in node:
            _write(item, numbers, parts)
        parts.append("]")
    elif isinstance(node, ast.Name):
        known = hasattr(builtins, node.id) and node.id not in numbers
        parts.append(node.id if known else numbers.setdefault(node.id, f"v{len(numbers)}"))
    elif isinstance(node, ast.Constant):
        plain = node.value is None or isinstance(node.value, bool)
        parts.append(str(node.value) if plain else type(node.value).__name__)
    elif isinstance(node, ast.AST):
        parts.append(f"({type(node).__name__}")
        for field, value in ast.iter_fields(node):
            if field not in ("ctx", "kind", "type_comment"):
                _write(value, numbers, parts)
        parts.append(")")
    else:
        parts.append("-" if node is None else str(node))
