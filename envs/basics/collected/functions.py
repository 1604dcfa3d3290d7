"""A function that a collection offers, cut out of its file."""

from __future__ import annotations

import ast
import builtins
import re
from dataclasses import dataclass
from typing import Any

Arguments = tuple[Any, ...]
LIBRARIES = frozenset(
    {
        *("bisect", "calendar", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools"),
        *("heapq", "itertools", "json", "math", "operator", "re", "statistics", "string", "typing", "unicodedata"),
    }
)
"""Modules that a solution may import: those without effects on anything else."""
EFFECTS = frozenset(
    {
        *("print", "input", "open", "exec", "eval", "compile", "globals", "locals", "vars", "breakpoint", "exit"),
        "quit",
    }
)
"""Builtins that a solution may not name."""


@dataclass(frozen=True)
class Found:
    """A function with what it is for.

    id: unique among all collections. name, signature: of the function; the signature is a line `def ...:`.
    description: one paragraph. solution: its source without the docstring, behind the imports that it needs.
    calls: arguments that its collection shows, positional.
    """

    id: str
    name: str
    signature: str
    description: str
    solution: str
    calls: tuple[Arguments, ...]


class Unusable(ValueError):
    """A function that makes no problem; the message says why."""


def cut_out(tree: ast.Module, source: str, node: ast.FunctionDef) -> tuple[str, str]:
    """(signature, solution) of a function of a file: its source without docstring, behind the imports it needs.

    Raises Unusable where it needs other names of the file, has decorators, or takes other than positional arguments.
    """
    given = node.args
    if node.decorator_list or given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs or given.defaults:
        raise Unusable("decorated, or with other than plain arguments")
    if not given.args:
        raise Unusable("no arguments")
    if not any(isinstance(each, ast.Return) and each.value is not None for each in ast.walk(node)):
        raise Unusable("returns nothing")
    imports = [_import(tree, name) for name in sorted(_free(node))]
    lines = source.splitlines()
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if not body:
        raise Unusable("no body")
    head = f"def {node.name}({ast.unparse(given)}){f' -> {ast.unparse(node.returns)}' if node.returns else ''}:"
    first = body[0].lineno - 1
    if first < node.lineno:  # the body stands on the line of the signature
        raise Unusable("in one line")
    while first > node.lineno and lines[first - 1].strip().startswith("#"):
        first -= 1
    indent = len(lines[body[0].lineno - 1]) - len(lines[body[0].lineno - 1].lstrip())
    text = "\n".join(_reindented(line, indent) for line in lines[first : node.end_lineno])
    before = [*dict.fromkeys(imports), ""] if imports else []
    solution = "\n".join([*before, head, text]).rstrip() + "\n"
    try:
        ast.parse(solution)
    except SyntaxError as error:
        raise Unusable(f"cannot be cut out: {error}") from None
    return head, solution


def _reindented(line: str, indent: int) -> str:
    """A line of a body with four spaces a level, where the file uses `indent`."""
    stripped = line.expandtabs(indent or 4).rstrip()
    depth = len(stripped) - len(stripped.lstrip())
    whole, rest = divmod(depth, indent or 4)
    return " " * (4 * whole + rest) + stripped.lstrip() if stripped else ""


def _free(node: ast.FunctionDef) -> set[str]:
    """Names that a function takes from outside itself, builtins apart. Raises Unusable for names with effects."""
    bound = {node.name}
    read = set()
    for each in ast.walk(node):
        match each:
            case ast.Name(name, ast.Load()):
                read.add(name)
            case ast.Name(name, _) | ast.arg(name) | ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.FunctionDef(name=name):
                bound.add(name)
            case ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal() | ast.ClassDef():
                raise Unusable("imports, or names of other scopes, inside")
    if used := (read - bound) & EFFECTS:
        raise Unusable(f"calls {', '.join(sorted(used))}")
    return {name for name in read - bound if not hasattr(builtins, name)}


def _import(tree: ast.Module, name: str) -> str:
    """The line that imports a name. Raises Unusable where no line of the file imports it from LIBRARIES."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) != name:
                    continue
                module = node.module if isinstance(node, ast.ImportFrom) else alias.name
                if (module or "").split(".")[0] not in LIBRARIES:
                    raise Unusable(f"imports {module}")
                renamed = f" as {alias.asname}" if alias.asname else ""
                start = f"from {module} import" if isinstance(node, ast.ImportFrom) else "import"
                return f"{start} {alias.name}{renamed}"
    raise Unusable(f"needs {name}")


def plain(value: Any) -> bool:
    """Whether JSON gives the value back as it is."""
    if isinstance(value, list):
        return all(map(plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and plain(each) for key, each in value.items())
    if isinstance(value, float):
        return value == value and abs(value) != float("inf")
    return value is None or isinstance(value, bool | int | str)


def literal_calls(text: str, name: str) -> list[Arguments]:
    """Arguments of the calls of a function in a program, where all are literals, or names that the program binds to
    literals."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    known: dict[str, Any] = {}
    found: dict[str, Arguments] = {}
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            value = _literal(statement.value, known)
            if value is not None:
                known[statement.targets[0].id] = value
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                values = [_literal(each, known) for each in node.args]
                if values and not node.keywords and all(value is not None and plain(value) for value in values):
                    found.setdefault(repr(values), tuple(values))
    return list(found.values())


def _literal(node: ast.expr, known: dict[str, Any]) -> Any:
    """The value of a literal or of a known name; None for anything else."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def paragraph(text: str) -> str:
    """The first paragraph of a description in one line, without what follows on arguments, types and links."""
    kept: list[str] = []
    for line in text.strip().splitlines():
        line = line.strip().removeprefix("| ")
        if not line or line.startswith((":", "@", ">>>", "-", "*", "==")) or _NO_SENTENCE.search(line):
            if kept:
                break
            continue
        kept.append(line)
    return re.sub(r"\s+", " ", " ".join(kept)).strip()


_NO_SENTENCE = re.compile(
    r"^(args|arguments|parameters|params|returns?|raises|examples?|input|output|source)\s*:|https?://|wikipedia", re.I
)
