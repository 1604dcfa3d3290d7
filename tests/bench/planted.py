"""Correct programs with one fault each, at characters that are known: what tests/bench/faults.py measures on.

Faults are planted by syntax tree, one site of each kind a program, drawn from a seed. `start` and `end` are the planted
characters of the faulty code; for faults of syntax they are the first character after which no program is possible,
known from how the fault was made and not from a parser.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Assert, ast.Raise, ast.Pass, ast.Delete)
COMPOUND = (ast.For, ast.While, ast.If, ast.With, ast.FunctionDef, ast.ClassDef, ast.Try)
ELSEWHERE = ("annotation", "returns", "defaults", "kw_defaults")
"""What of a function is evaluated where it is defined."""
BLANK = " \t"
SWAPS = {
    "+": "-", "-": "+", "*": "+", "//": "*", "/": "*", "%": "*", "<": "<=", "<=": "<", ">": ">=", ">=": ">",
    "==": "!=", "!=": "==", "and": "or", "or": "and", "+=": "-=", "-=": "+=", "*=": "+=",
}  # fmt: skip
OPERATOR = re.compile(r"[-+*]=|//|[<>=!]=|\*\*|<<|>>|[-+*/%<>]|\b(?:and|or)\b")
IMPORTS = {
    "math": "import math",
    "os": "import os.path",
    "re": "import re as pattern",
    "itertools": "import itertools",
    "deque": "from collections import deque",
    "reduce": "from functools import reduce as fold",
    "Optional": "from typing import Optional",
}
"""By the name that a program must not have."""
CALLS = {
    "exec": ('exec("pass")', "exec"),
    "system": ("import os\nos.system(str(0))", "os.system"),
    "shell": ("import subprocess\nsubprocess.run(str(0), shell=True)", "subprocess.run"),
    "pickle": ('import pickle\npickle.loads(b"N.")', 'pickle.loads(b"N.")'),
    "mktemp": ("import tempfile\ntempfile.mktemp()", "tempfile.mktemp()"),
}
"""Statements, and the part of them that is unsafe: what is evaluated where that is the danger, else the function."""


@dataclass(frozen=True)
class Fault:
    """`code` is wrong at its characters `start` to `end` (end excluded)."""

    kind: str
    code: str
    start: int
    end: int


@dataclass(frozen=True)
class Edit:
    """Replace `old` characters from `at` by `new`; the fault is `start` to `end`, counted in the new text from `at`."""

    at: int
    old: int
    new: str
    start: int
    end: int


class Source:
    """A program, its tree, and where its nodes lie. Raises SyntaxError."""

    def __init__(self, code: str):
        self.code, self.tree = code, ast.parse(code)
        self.lines = [0, *(m.end() for m in re.finditer("\n", code))]
        self.nodes = list(self._nodes(self.tree))

    def _nodes(self, node: ast.AST) -> Iterator[ast.AST]:
        """All but f-strings, whose parts have no place of their own before Python 3.12, annotations and defaults."""
        yield node
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                skipped = name in ELSEWHERE or isinstance(child, ast.JoinedStr)
                if isinstance(child, ast.AST) and not skipped:
                    yield from self._nodes(child)

    def place(self, line: int, column: int) -> int:
        """A character, from a line (from 1) and a column in bytes."""
        start = self.lines[line - 1]
        return start + len(self.code[start:].encode()[:column].decode())

    def start(self, node: ast.AST) -> int:
        return self.place(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        return self.place(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        return self.code[self.start(node) : self.end(node)]

    def alone(self, node: ast.AST) -> bool:
        """Whether a statement has its lines for itself, behind an indentation of blanks."""
        line = self.lines[node.lineno - 1]  # type: ignore[attr-defined]
        rest = self.code[self.end(node) :].split("\n", 1)[0]
        return not self.code[line : self.start(node)].strip(" ") and not rest.strip(BLANK)

    def bodies(self) -> Iterator[list[ast.stmt]]:
        """Blocks; the tree has an `elif` as a block of its own, the text does not have it."""
        for node in self.nodes:
            for name in ("body", "orelse", "finalbody"):
                body = getattr(node, name, None)
                block = isinstance(body, list) and body and isinstance(body[0], ast.stmt)
                if block and not self.code.startswith("elif", self.start(body[0])):
                    yield body

    def functions(self) -> Iterator[ast.FunctionDef]:
        return (node for node in self.nodes if isinstance(node, ast.FunctionDef))

    def names(self) -> set[str]:
        return set(re.findall(r"\w+", self.code))


def operators(source: Source) -> Iterator[Edit]:
    """Another operator; `<` for `<=`, `+` for `-`."""
    for node in source.nodes:
        if isinstance(node, ast.BinOp):
            between = [(node.left, node.right)]
        elif isinstance(node, ast.Compare):
            between = list(zip([node.left, *node.comparators], node.comparators, strict=False))
        elif isinstance(node, ast.BoolOp):
            between = list(zip(node.values, node.values[1:], strict=False))
        elif isinstance(node, ast.AugAssign):
            between = [(node.target, node.value)]
        else:
            continue
        for left, right in between:
            start, gap = source.end(left), source.code[source.end(left) : source.start(right)]
            results = OPERATOR.search(gap)
            if results and "#" not in gap and (new := SWAPS.get(results.group())):
                yield Edit(start + results.start(), len(results.group()), new, 0, len(new))


def undefined_names(source: Source) -> Iterator[Edit]:
    """A misspelt name, of a parameter or of a built-in function, so that no definition becomes unused."""
    for function in source.functions():
        known = {a.arg for a in function.args.args} | {"len", "range", "sum", "max", "min", "sorted", "abs", "str"}
        stored = {n.id for n in source.nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        inside = {id(n) for n in source._nodes(function)}
        for node in source.nodes:
            if isinstance(node, ast.Name) and id(node) in inside and node.id in known - stored:
                wrong = node.id + node.id[-1]
                if wrong not in source.names() and not hasattr(builtins, wrong):
                    yield Edit(source.start(node), len(node.id), wrong, 0, len(wrong))


def swapped_arguments(source: Source) -> Iterator[Edit]:
    """The first two arguments of a call, or the two operands that a subtraction or division has."""
    for node in source.nodes:
        if isinstance(node, ast.Call) and len(node.args) > 1:
            first, second = node.args[:2]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Mod):
            first, second = node.left, node.right
        else:
            continue
        start, end = source.start(first), source.end(second)
        between = source.code[source.end(first) : source.start(second)]
        plain = not any(isinstance(n, ast.Starred) for n in (first, second)) and not set(between) & set("()#")
        if plain and source.text(first) != source.text(second):
            new = source.text(second) + between + source.text(first)
            yield Edit(start, end - start, new, 0, len(new))


def swapped_statements(source: Source) -> Iterator[Edit]:
    """Two statements of which the second reads what the first writes."""
    for body in source.bodies():
        for first, second in itertools.pairwise(body):
            if not all(isinstance(s, SIMPLE) and source.alone(s) for s in (first, second)):
                continue
            written = {n.id for n in ast.walk(first) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            read = {n.id for n in ast.walk(second) if isinstance(n, ast.Name)}
            start, end = source.start(first), source.end(second)
            between = source.code[source.end(first) : source.start(second)]
            if written & read and not between.strip():
                new = source.text(second) + between + source.text(first)
                yield Edit(start, end - start, new, 0, len(new))


def unused_imports(source: Source) -> Iterator[Edit]:
    """An import at the top or at a function's; wrong is the name that it binds."""
    if "__future__" in source.code:
        return
    for name, line in IMPORTS.items():
        bound = line.split()[-1]
        if not {name, bound} & source.names():
            for at, indent in [(0, ""), *_body_starts(source)]:
                yield Edit(at, 0, f"{line}\n{indent}", len(line) - len(bound), len(line))


def unsafe_calls(source: Source) -> Iterator[Edit]:
    """A number through `eval`, or a statement at the beginning of a function."""
    for node in source.nodes:
        if isinstance(node, ast.Constant) and type(node.value) is int and source.text(node).isdigit():
            text = source.text(node)
            yield Edit(source.start(node), len(text), f'eval("{text}")', 0, len(text) + 8)
    for statements, unsafe in CALLS.values():
        words = statements.split()
        if words[0] == "import" and words[1] in source.names():
            continue
        for at, indent in _body_starts(source):
            new = "".join(line + "\n" + indent for line in statements.split("\n"))
            yield Edit(at, 0, new, new.index(unsafe), new.index(unsafe) + len(unsafe))


def _body_starts(source: Source) -> Iterator[tuple[int, str]]:
    """Where a function's first statement after its docstring begins, and its indentation."""
    for function in source.functions():
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        if body and source.alone(body[0]) and not getattr(body[0], "decorator_list", []):
            start = source.start(body[0])
            yield start, source.code[source.code.rfind("\n", 0, start) + 1 : start]


def bad_indents(source: Source) -> Iterator[Edit]:
    """A blank too many before a statement that is not the first of its block, or a block that is not indented. Its
    first character is illegal, since until there a comment could follow."""
    columns = {statement.col_offset for body in source.bodies() for statement in body}
    for body in source.bodies():
        for before, statement in zip([None, *body], body, strict=False):
            if not source.alone(statement) or getattr(statement, "decorator_list", []) or not statement.col_offset:
                continue
            line = source.lines[statement.lineno - 1]
            if before is not None and statement.col_offset + 1 not in columns:
                yield Edit(line, 0, " ", statement.col_offset + 1, statement.col_offset + 2)
            elif before is None:
                yield Edit(line, statement.col_offset, "", 0, 1)


def missing_colons(source: Source) -> Iterator[Edit]:
    """A header without its colon, whose line must not end."""
    for node in source.nodes:
        if not isinstance(node, COMPOUND) or not isinstance(node.body[0], ast.stmt):
            continue
        first = node.body[0]
        header = source.code[: source.lines[first.lineno - 1]].rstrip()
        last, rest = header.rpartition("\n")[2], source.code[len(header) :]
        if last.endswith(":") and "#" not in last and source.alone(first):
            blanks = len(rest) - len(rest.lstrip(BLANK))
            yield Edit(len(header) - 1, 1, "", blanks, blanks + 1)


def stray_brackets(source: Source) -> Iterator[Edit]:
    """A closing bracket after a statement, where none is open."""
    for node in source.nodes:
        if isinstance(node, SIMPLE) and source.alone(node):
            for bracket in ")]}":
                yield Edit(source.end(node), 0, bracket, 0, 1)


def doubled_operators(source: Source) -> Iterator[Edit]:
    """A second operator after one, which no expression begins with."""
    for node in source.nodes:
        if not isinstance(node, ast.BinOp):
            continue
        if not source.code[source.end(node.left) : source.start(node.right)].strip(" (+*/%-"):
            for operator in ("/", "%", "@"):
                yield Edit(source.start(node.right), 0, f" {operator} ", 1, 2)


def open_strings(source: Source) -> Iterator[Edit]:
    """A string without its closing quote, with nothing after it that closes it: its line must not end."""
    for node in source.nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        text, end = source.text(node), source.end(node)
        rest = source.code[end:].split("\n", 1)[0]
        one = len(text) > 2 and text[0] in "'\"" and text[1] != text[0] and not set(text[1:-1]) & set("\"'\\\n")
        if one and not set(rest) & set("'\"\\") and end + len(rest) < len(source.code):
            yield Edit(end - 1, 1, "", len(rest), len(rest) + 1)


Sites = Callable[[Source], Iterator[Edit]]
SYNTAX: dict[str, Sites] = {
    "bad indent": bad_indents,
    "missing colon": missing_colons,
    "stray bracket": stray_brackets,
    "doubled operator": doubled_operators,
    "open string": open_strings,
}
LINT: dict[str, Sites] = {
    "undefined name": undefined_names,
    "unused import": unused_imports,
    "unsafe call": unsafe_calls,
}
MEANING: dict[str, Sites] = {
    "wrong operator": operators,
    "undefined name": undefined_names,
    "swapped arguments": swapped_arguments,
    "swapped statements": swapped_statements,
}


def plant(code: str, kinds: Mapping[str, Sites], seed: str) -> list[Fault]:
    """At most one fault of each kind; none of a kind that the program has no place for."""
    source, faults = Source(code), []
    for kind, sites in kinds.items():
        edits = list(sites(source))
        if not edits:
            continue
        edit = random.Random(f"{seed}:{kind}").choice(edits)
        faulty = code[: edit.at] + edit.new + code[edit.at + edit.old :]
        faults.append(Fault(kind, faulty, edit.at + edit.start, edit.at + edit.end))
    return faults
