"""Honest wrong answers: a reference in which one operator or one constant is another one."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator

KINDS = ("operator", "constant")
OTHER = {
    "==": "!=", "!=": "==", "<=": ">", ">=": "<", "<": ">", ">": "<", "+": "-", "-": "+", "*": "+", "/": "*", "//": "*",
    "%": "*", "**": "*", "and": "or", "or": "and", "+=": "-=", "-=": "+=", "*=": "+=", "&&": "||", "||": "&&",
    "<<": ">>", ">>": "<<", "in": "not in",
}  # fmt: skip
"""What stands in place of an operator."""
OPERATOR = re.compile(
    r"(?<![\w\"'#<(/])(?:==|!=|<=|>=|\+=|-=|\*=|&&|\|\||<<|>>|//|\*\*|[-+*/%<>])(?![/*\"'>])|\b(?:and|or)\b"
)
NUMBER = re.compile(r"(?<![\w.\"'])\d+(?:\.\d*)?(?:[eE][-+]?\d+)?(?![\w.\"'])")
COMMENT = re.compile(
    r"/\*.*?\*/|//[^\n]*|^[ \t]*#[^\n]*|^[cC!*](?=\s)[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL | re.MULTILINE
)
"""What a text-level change leaves alone: comments, preprocessor lines and strings."""


def damaged(code: str, kind: str, count: int, seed: str) -> list[str]:
    """At most `count` different texts, each with one change of `kind` (one of KINDS); seeded, may be empty."""
    changes = sorted(set(_python(code, kind) or _text(code, kind)))
    random.Random(seed).shuffle(changes)
    return [code[:start] + new + code[end:] for start, end, new in changes[:count]]


def _python(code: str, kind: str) -> list[tuple[int, int, str]]:
    """Changes (start, end, new text) of a Python program; empty if it is none."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    starts = [0]
    for line in code.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    data = code.encode()

    def place(line: int, column: int) -> int:
        return len(data[: starts[line - 1] + column].decode())

    results: list[tuple[int, int, str]] = []
    documentation = _documentation(tree)
    for node in ast.walk(tree):
        if kind == "constant" and isinstance(node, ast.Constant) and id(node) not in documentation:
            start, end = place(node.lineno, node.col_offset), place(node.end_lineno or 0, node.end_col_offset or 0)
            results += [(start, end, repr(value)) for value in _other_constants(node.value)]
        elif kind == "operator":
            for left, right in _sides(node):
                start = place(left.end_lineno or 0, left.end_col_offset or 0)
                end = place(right.lineno, right.col_offset)
                for match in re.finditer(r"[-+*/%<>=!&|^@]+|\b(?:and|or|in)\b", code[start:end]):
                    if match[0] in OTHER:
                        results.append((start + match.start(), start + match.end(), OTHER[match[0]]))
                        break
    return [change for change in results if _parses(code, change)]


def _parses(code: str, change: tuple[int, int, str]) -> bool:
    start, end, new = change
    try:
        ast.parse(code[:start] + new + code[end:])
    except (SyntaxError, ValueError):
        return False
    return True


def _documentation(tree: ast.AST) -> set[int]:
    """Strings that are statements."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def _sides(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Pairs of expressions with an operator between them."""
    if isinstance(node, ast.BinOp):
        yield node.left, node.right
    elif isinstance(node, ast.Compare):
        yield from zip([node.left, *node.comparators], node.comparators, strict=False)
    elif isinstance(node, ast.BoolOp):
        yield from zip(node.values, node.values[1:], strict=False)
    elif isinstance(node, ast.AugAssign):
        yield node.target, node.value


def _other_constants(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value * 2 + 3]
    if isinstance(value, str) and value:
        return [value[:-1], value + "x"]
    return []


def _text(code: str, kind: str) -> list[tuple[int, int, str]]:
    """Changes of a text in any language, outside its comments and strings."""
    hidden = [match.span() for match in COMMENT.finditer(code)]
    results = []
    for match in (OPERATOR if kind == "operator" else NUMBER).finditer(code):
        if not any(start <= match.start() < end for start, end in hidden):
            results.append((*match.span(), OTHER[match[0]] if kind == "operator" else _other_number(match[0])))
    return results


def _other_number(text: str) -> str:
    return str(int(text) + 1) if text.isdigit() else f"{float(text) * 1.5 + 0.25:g}"
