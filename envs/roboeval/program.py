"""Prepares a program to run, with counters in its syntax tree instead of a clock, and locates its errors.

This module runs in the sandbox and imports only the standard library.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import re
import types
from collections.abc import Callable, Mapping
from typing import Any

from envs.roboeval.rewriting import Text, line_starts, position, rewritten

FILE = "<task program>"
TICK, SHAKEN, SHAKE = "__tick__", "__shaken__", "__shake__"
SAFE_NAMES = """
abs all any bool callable chr dict divmod enumerate filter float format frozenset hash int isinstance iter len list map
max min next object ord pow print range repr reversed round set slice sorted str sum tuple zip input exit quit True
False None NotImplemented Ellipsis property staticmethod classmethod __build_class__ __import__ __name__ __debug__
"""
SAFE_BUILTINS = frozenset(SAFE_NAMES.split()) | {
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
}
SAFE = {name: value for name, value in vars(builtins).items() if name in SAFE_BUILTINS}
"""Builtins that give no access to other programs, modules or frames."""
SAFE_MODULES = ("time", "math", "random", "re", "string")
PLAIN_NAMES = """
mod stmt expr expr_context boolop operator unaryop cmpop comprehension ExceptHandler arguments arg keyword alias
"""
PLAIN_NODES = tuple(getattr(ast, name) for name in PLAIN_NAMES.split())
ODD_NODES = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await, ast.With, ast.Match, ast.ImportFrom)
FOLLOWS = re.compile(r"\{[^{}:!]*[.\[]")
INNER = ("_", "format_map", "gi_", "cr_", "ag_", "tb_", "f_", "co_", "func_")
"""Prefixes of attributes that give access to frames, code and globals."""
OWN_METHODS = frozenset({"__init__", "__str__", "__repr__"})


class TimeLimit(BaseException):
    """The program has used up its turns. `except Exception` of the program does not catch it."""


class Source:
    """A program's text as it is compiled.

    Args:
        program: the original text.
        compat: True rewrites it as RoboEval does, with a statement before it and a call after it; False leaves it
            unchanged.
        text: use this text instead of the rewritten program.
    """

    def __init__(self, program: str, compat: bool, text: Text | None = None) -> None:
        self.program = program
        self.compat = compat
        self.text = text or (rewritten(program) if compat else Text(program))

    @property
    def code(self) -> str:
        return f"pass\n{self.text.text}\n\ntask_program(robot)\n" if self.compat else self.text.text

    def span(self, rows: tuple[int, int], columns: tuple[int, int], in_bytes: bool = True) -> list[int] | None:
        """[start, end] in the program for rows and columns of `code`; None if they lie outside the program."""
        text, span = self.text.text, []
        starts = line_starts(text)
        for row, column in zip(rows, columns, strict=True):
            row -= int(self.compat)
            if not 1 <= row <= len(starts):
                return None
            start = starts[row - 1]
            if in_bytes:
                column = len(text[start:].encode("utf-8", "surrogatepass")[:column].decode("utf-8", "replace"))
            span.append(min(start + column, len(text)))
        return [self.text.original(span[0]), self.text.original(max(span), end=True)]


class Prepared:
    """A compiled program; `plain` is whether it may share a process.

    Args:
        shake: True lets __shake__ decide tests of literals in names (RoboSim).

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError, OverflowError: the program does not compile.
    """

    def __init__(self, source: Source, shake: bool = False) -> None:
        self.source = source
        tree = ast.parse(source.code, FILE)
        if not source.compat:
            call = ast.Expr(ast.Call(ast.Name("task_program", ast.Load()), [], []))
            own = ast.dump(call)  # a program that calls itself at its end runs once, as without this line
            tree.body = [*(node for node in tree.body if ast.dump(node) != own), ast.fix_missing_locations(call)]
        self.plain = is_plain(tree)
        self.tests = shake_tests(tree) if shake else 0
        insert_ticks(tree)
        self.code = compile(tree, FILE, "exec", dont_inherit=True)


def is_plain(tree: ast.AST) -> bool:
    """Whether a program can access only its own objects and the robot's functions, so that several can share a process.

    It must not import modules other than SAFE_MODULES (of which it gets copies), use attributes that give access to
    frames or classes, builtins outside SAFE_BUILTINS, or formats with attributes.
    """
    imports = stores = False
    for node in ast.walk(tree):
        if not isinstance(node, PLAIN_NODES) or isinstance(node, ODD_NODES):
            return False
        if isinstance(node, ast.Name):
            if not _plain_name(node.id):
                return False
        elif isinstance(node, ast.Attribute):
            stores |= not isinstance(node.ctx, ast.Load)
            if node.attr.startswith(INNER) or (node.attr == "format" and not _plain_format(node.value)):
                return False
        elif isinstance(node, ast.Import):
            imports = True
            if any(name.name not in SAFE_MODULES for name in node.names):
                return False
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and (
            node.name.startswith("__") and node.name not in OWN_METHODS
        ):
            return False
    return not (imports and stores)  # the functions in a module's copy are those of the module


def _plain_name(name: str) -> bool:
    if name in SAFE_BUILTINS:
        return True
    return not (hasattr(builtins, name) or name == "sys" or name.startswith("__"))


def _plain_format(value: ast.AST) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str) and not FOLLOWS.search(value.value)


def _tick(place: ast.AST, last: ast.AST | None = None) -> ast.Call:
    """A call of the counter, whose errors are located at `place`."""
    node = ast.Call(ast.Name(TICK, ast.Load()), [], [])
    for part in (node, node.func):
        ast.copy_location(part, last or place)
    return node


def insert_ticks(tree: ast.AST) -> None:
    """Insert counters of loop iterations, including comprehensions, and of function entries."""
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.While):
            node.body.insert(0, _statement(_tick(node.test)))
        elif isinstance(node, ast.For | ast.AsyncFor):
            node.body.insert(0, _statement(_tick(node.iter)))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            after_docstring = int(ast.get_docstring(node, clean=False) is not None)
            place = node.body[min(after_docstring, len(node.body) - 1)]
            node.body.insert(after_docstring, _statement(_tick(place)))
        elif isinstance(node, ast.Lambda):
            node.body = ast.copy_location(ast.BoolOp(ast.And(), [_tick(node.body), node.body]), node.body)
        elif isinstance(node, ast.comprehension):
            node.ifs.insert(0, _tick(node.iter))


def _statement(call: ast.Call) -> ast.Expr:
    return ast.copy_location(ast.Expr(call), call)


def shake_tests(tree: ast.AST) -> int:
    """Let __shaken__(i) decide whether the i-th test `"literal" in name` is replaced, and __shake__(i) by what.

    The name may have a method call, `name.lower()`. Returns the number of tests.
    """
    number = 0
    for parent in list(ast.walk(tree)):
        for field, value in ast.iter_fields(parent):
            items = value if isinstance(value, list) else [value]
            for place, node in enumerate(items):
                if not _is_test(node):
                    continue
                calls = [ast.Call(ast.Name(name, ast.Load()), [ast.Constant(number)], []) for name in (SHAKEN, SHAKE)]
                choice = ast.fix_missing_locations(ast.copy_location(ast.IfExp(calls[0], calls[1], node), node))
                number += 1
                if isinstance(value, list):
                    value[place] = choice
                else:
                    setattr(parent, field, choice)
    return number


def _is_test(node: Any) -> bool:
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.In | ast.NotIn):
        return False
    right = node.comparators[0]
    if not isinstance(node.left, ast.Constant) or not isinstance(node.left.value, str):
        return False
    if isinstance(right, ast.Call) and not right.args and not right.keywords:
        if isinstance(right.func, ast.Name):
            return right.func.id in ("get_all_rooms", "get_current_location")
        right = right.func.value if isinstance(right.func, ast.Attribute) else right
    return isinstance(right, ast.Name)


# --- running ------------------------------------------------------------------------------------------------------


def counter(most: int) -> tuple[Callable[[], bool], Callable[[], int]]:
    """A function that returns True and raises TimeLimit after `most` calls, and a function that returns the number of
    calls."""
    left = most

    def tick() -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise TimeLimit
        return True

    return tick, lambda: most - left


def namespace(plain: bool, name: str, modules: Mapping[str, Any]) -> dict[str, Any]:
    """The globals of one run. A plain program gets its own builtins and modules."""
    space: dict[str, Any] = {"__name__": name}
    if not plain:
        return {**space, "__builtins__": builtins}
    own = dict(SAFE)

    def leave(code: object = None) -> None:
        raise SystemExit(code)

    def load(name: str, *_: Any) -> types.ModuleType:
        if name not in SAFE_MODULES:
            raise ImportError(f"No module named {name!r}")
        if name not in loaded:
            loaded[name] = own_module(name)
        return loaded[name]

    loaded: dict[str, Any] = dict(modules)
    own.update(exit=leave, quit=leave, __import__=load)
    return {**space, "__builtins__": own}


def own_module(name: str) -> types.ModuleType:
    """A new module with the public names of a module, except its classes; random numbers come from a seed of its
    own."""
    module, original = types.ModuleType(name), __import__(name)
    source = original.Random(0) if name == "random" else original
    for key in getattr(original, "__all__", None) or dir(original):
        value = getattr(source, key, None)
        if value is not None and not key.startswith("_") and not isinstance(value, type):
            setattr(module, key, value)
    return module


# --- places -------------------------------------------------------------------------------------------------------


def place_of(source: Source, error: BaseException) -> list[int] | None:
    """[start, end] in characters of the program: the innermost expression that was being evaluated, or the part that
    does not parse; None if the error has no location in the program."""
    if isinstance(error, SyntaxError) and error.filename == FILE and error.lineno:
        return _of_syntax_error(source, error)
    traces, innermost = [], None
    trace = error.__traceback__
    while trace is not None:
        traces.append(trace)
        trace = trace.tb_next
    while traces and innermost is None:
        last = traces.pop()
        with contextlib.suppress(RuntimeError):  # the frame of a world is guarded
            innermost = last if last.tb_frame.f_code.co_filename == FILE else None
    if innermost is None:
        return None
    line, end_line, column, end_column = list(innermost.tb_frame.f_code.co_positions())[innermost.tb_lasti // 2]
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return source.span((line, end_line), (column, end_column))


def _of_syntax_error(source: Source, error: SyntaxError) -> list[int] | None:
    row, column = error.lineno or 0, max(error.offset or 1, 1) - 1
    end_row, end_column = error.end_lineno or row, max(error.end_offset or 0, 1) - 1
    if (end_row, end_column) <= (row, column):
        end_row, end_column = row, column + 1
    span = source.span((row, end_row), (column, end_column), in_bytes=False)
    return span or source.span((row, row), (column, column + 1), in_bytes=False)


def described(program: str, span: list[int]) -> dict[str, int]:
    """A span of a program as lines from 1, columns in characters from 0, and character offsets."""
    starts = line_starts(program)
    start, end = (min(max(offset, 0), len(program)) for offset in span)
    (line, column), (end_line, end_column) = position(starts, start), position(starts, max(start, end))
    return {
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "start": start,
        "end": max(start, end),
    }
