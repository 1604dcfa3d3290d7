"""A function that a collection offers, cut out of its file."""

from __future__ import annotations

import ast
import builtins
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Arguments = tuple[Any, ...]
LIBRARIES = frozenset(
    {
        *("bisect", "calendar", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools"),
        *("heapq", "itertools", "json", "math", "operator", "re", "statistics", "string", "typing", "unicodedata"),
    }
)
"""Modules that a solution may import: those without effects on anything else."""
REFUSED = frozenset(
    {
        *("print", "input", "open", "exec", "eval", "compile", "globals", "locals", "vars", "breakpoint", "exit"),
        *("quit", "help", "getattr", "setattr", "delattr", "hash", "id", "super"),
        *("now", "today", "utcnow", "fromtimestamp", "timestamp", "astimezone"),
    }
)
"""Names and attributes that a solution may not have: with effects, or with other results on another day or machine."""

SCOPES = (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.ClassDef, ast.AsyncFunctionDef, ast.Yield)
"""What a solution may not have inside: names of other places, or what is no plain call."""


@dataclass(frozen=True)
class Found:
    """A function with what it is for.

    id: unique in its collection. name, signature: of the function; the signature is a line `def ...:`. parameters:
        their names. description: one paragraph. solution: its source without the docstring, behind the imports that it
        needs. calls: arguments that its collection shows, positional.
    """

    id: str
    name: str
    signature: str
    parameters: tuple[str, ...]
    description: str
    solution: str
    calls: tuple[Arguments, ...]


class Unusable(ValueError):
    """A function that makes no problem; the message is a reason that many share."""


def read(file: Path) -> str:
    """A file's text with "\\n" at the ends of its lines. Raises OSError."""
    return file.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def parsed(source: str) -> ast.Module | None:
    """The tree of a program; None for what Python cannot read, or not within its depth."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def cut_out(id: str, tree: ast.Module, source: str, node: ast.FunctionDef, asked: str, calls: list[Arguments]) -> Found:
    """A function of a file with its source, without docstring, behind the imports that it needs. Annotations stay where
    they name built-in types alone: an answer that copies the signature has no imports.

    Raises Unusable where it needs other names of the file, has decorators, or takes other than positional arguments.
    """
    given = node.args
    if node.decorator_list or given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs or given.defaults:
        raise Unusable("it is decorated, or takes other than plain arguments")
    if not given.args:
        raise Unusable("it takes no arguments")
    if not any(isinstance(each, ast.Return) and each.value is not None for each in ast.walk(node)):
        raise Unusable("it returns nothing")
    for argument in given.args:
        argument.annotation = _builtin(argument.annotation)
    node.returns = _builtin(node.returns)
    imports = [_import(tree, name) for name in sorted(_outside(tree, node))]
    try:
        head = f"def {node.name}({ast.unparse(given)}){f' -> {ast.unparse(node.returns)}' if node.returns else ''}:"
    except RecursionError:
        raise Unusable("its source cannot be cut out") from None
    before = [*dict.fromkeys(imports), ""] if imports else []
    solution = "\n".join([*before, head, _body(source, node)]).rstrip() + "\n"
    if parsed(solution) is None:
        raise Unusable("its source cannot be cut out")
    names = tuple(each.arg for each in given.args)
    return Found(id, node.name, head, names, asked, solution, tuple(call for call in calls if len(call) == len(names)))


def _builtin(annotation: ast.expr | None) -> ast.expr | None:
    """The annotation, None where it has a name that is not built in."""
    names = [each.id for each in ast.walk(annotation) if isinstance(each, ast.Name)] if annotation else []
    return annotation if all(hasattr(builtins, name) for name in names) else None


def _body(source: str, node: ast.FunctionDef) -> str:
    """A function's lines without its docstring, with four spaces a level. Raises Unusable."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if not body or body[0].lineno == node.lineno:
        raise Unusable("its source cannot be cut out")
    if getattr(body[0], "decorator_list", None):
        raise Unusable("it begins with a decorated function")
    strings = (
        each for statement in body for each in ast.walk(statement) if isinstance(each, ast.JoinedStr | ast.Constant)
    )
    if any(each.lineno != each.end_lineno for each in strings):
        raise Unusable("it has a string of several lines")
    lines = source.split("\n")
    first = body[0].lineno - 1
    while first > node.lineno and lines[first - 1].strip().startswith("#"):
        first -= 1
    indent = len(_leading(lines[body[0].lineno - 1])) or 4
    return "\n".join(_reindented(line, indent) for line in lines[first : node.end_lineno])


def _leading(line: str) -> str:
    return line[: len(line) - len(line.lstrip())].expandtabs(4)


def _reindented(line: str, indent: int) -> str:
    """A line with four spaces a level, where its file has `indent`."""
    whole, rest = divmod(len(_leading(line)), indent)
    return (" " * (4 * whole + rest) + line.strip()) if line.strip() else ""


def _outside(tree: ast.Module, node: ast.FunctionDef) -> set[str]:
    """Names that a function takes from outside itself, builtins apart that the file leaves as they are.

    Raises Unusable for names of REFUSED.
    """
    bound, used = {node.name}, set()
    for each in ast.walk(node):
        match each:
            case ast.Name(name, ast.Load()):
                used.add(name)
            case ast.Name(name, _) | ast.arg(name) | ast.ExceptHandler(name=str(name)) | ast.FunctionDef(name=name):
                bound.add(name)
            case ast.Attribute(_, name) if name in REFUSED or name.startswith("__"):
                raise Unusable("it uses what has effects, or other results another time")
            case _ if isinstance(each, SCOPES):
                raise Unusable("it imports, yields, or defines more than functions")
    outside = used - bound
    if any(name in REFUSED or name.startswith("__") for name in outside):
        raise Unusable("it uses what has effects, or other results another time")
    return {name for name in outside if not hasattr(builtins, name) or name in _of_file(tree)}


def _of_file(tree: ast.Module) -> set[str]:
    """Names that the top level of a file binds."""
    names = set()
    for node in tree.body:
        match node:
            case ast.Import(aliases) | ast.ImportFrom(names=aliases):
                names |= {alias.asname or alias.name for alias in aliases}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case _:
                names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names


def _import(tree: ast.Module, name: str) -> str:
    """The line that imports a name. Raises Unusable where no line of the file imports it from LIBRARIES."""
    for node in tree.body:
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level):
            for alias in node.names:
                if (alias.asname or alias.name) != name:
                    continue
                module = (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
                if module.split(".")[0] not in LIBRARIES:
                    raise Unusable("it needs more than itself and the standard library")
                start = f"from {module} import" if isinstance(node, ast.ImportFrom) else "import"
                return f"{start} {alias.name}{f' as {alias.asname}' if alias.asname else ''}"
    raise Unusable("it needs more than itself and the standard library")


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
    """Arguments of the calls of a function at the top level of a program, where all are literals, or names that it
    binds to literals."""
    tree = parsed(text)
    known: dict[str, Any] = {}
    found: dict[str, Arguments] = {}
    for statement in tree.body if tree else ():
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
    r"^(args|arguments|parameters|params|returns?|raises|(usage )?examples?|usage|input|output|source)\s*:"
    r"|https?://|wikipedia",
    re.I,
)
