"""The tests that a problem's prompt itself shows: the only ones whose values an environment may speak of.

They are read from the question's text, never from the graded tests: examples of a docstring, `f(1) == 2`,
`f(1) -> 2`, asserts. Of a program that reads standard input, a graded case counts as shown where the question holds its
input and its output.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from envs.sandbox import FunctionCase, StdioCase
from envs.task import Problem

ARROW = re.compile(r"\s*(?:==|-+>|=+>|[\u279e\u2192\u27f6\u21d2])\s*")
PROMPTED = re.compile(r"^\s*>>>\s*(?P<call>.*)\n(?P<value>\s*[^\s>].*)$", re.MULTILINE)
OPERATORS = tuple("+-*/%&|^<>=@")
UNREADABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)
"""What reading a literal may raise."""
MOST_BETWEEN = 6
"""Lines between a sample's input and its output: headings and blank ones."""
MOST = 8
"""Shown tests of a problem that are run."""


def shown_problem(problem: Problem) -> Problem | None:
    """The problem with its shown tests alone; None where the prompt shows none that can be read."""
    if problem.entry_point is None:
        question = _lines(problem.question)
        cases = [c for c in problem.cases if isinstance(c, StdioCase) and _shows(question, c)]
        return replace(problem, cases=tuple(cases[:MOST]), check_src=None) if cases else None
    results: dict[str, FunctionCase] = {}
    for case in _calls(problem.question, problem.entry_point):
        results.setdefault(repr((case.args, sorted(case.kwargs.items()))), case)
    # asserts, which graded ones are like, are exact; an example of a docstring may be rounded
    tol = 0.0 if problem.check_src is not None and _has_asserts(problem.question) else problem.tol
    return replace(problem, cases=tuple(results.values())[:MOST], check_src=None, tol=tol) if results else None


def _has_asserts(question: str) -> bool:
    return any(line.lstrip().startswith("assert ") for line in question.split("\n"))


def _lines(text: str) -> str:
    return "\n" + "\n".join(line.strip() for line in text.split("\n")) + "\n"


def _shows(question: str, case: StdioCase) -> bool:
    """Whether the question holds the case's input and, a few lines behind it, its output, as whole lines."""
    given, expected = (_lines(each).strip() for each in (case.stdin, case.stdout))
    if not given or not expected:
        return False
    between = rf"(?:[^\n]*\n){{0,{MOST_BETWEEN}}}"
    return re.search(f"\n{re.escape(given)}\n{between}{re.escape(expected)}\n", question) is not None


def _calls(question: str, name: str) -> Iterator[FunctionCase]:
    for match in PROMPTED.finditer(question):
        if (case := _case(match["call"], match["value"], name)) is not None:
            yield case
    for line in question.split("\n"):
        if line.lstrip().startswith("assert "):
            if (case := _asserted(line.strip(), name)) is not None:
                yield case
        elif ">>>" not in line and f"{name}(" in line:
            yield from _in_line(line[line.index(f"{name}(") :], name)


def _asserted(line: str, name: str) -> FunctionCase | None:
    """The case of `assert name(...) == value`, with or without a message."""
    try:
        [statement] = ast.parse(line).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    test = statement.test if isinstance(statement, ast.Assert) else None
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq) or len(test.ops) > 1:
        return None
    call, value = (ast.get_source_segment(line, side) or "" for side in (test.left, *test.comparators))
    return _case(call, value, name)


def _in_line(text: str, name: str) -> Iterator[FunctionCase]:
    """The first `name(...) == value` of a line that begins with the call."""
    for arrow in ARROW.finditer(text):
        if (asked := _arguments(text[: arrow.start()], name)) is None:
            continue
        value = text[arrow.end() :]
        for end in (value.rstrip().removesuffix("."), *_shorter(value)):
            try:
                expected = ast.literal_eval(end.strip())
            except UNREADABLE:
                continue
            if value[len(end) :].lstrip()[:1] in OPERATORS:
                return  # `3 / 4` is not 3
            # `2, 3` may be a pair, or a value and the rest of a sentence
            if not isinstance(expected, tuple) or end.strip().startswith("("):
                yield replace(asked, expected=expected)
            return


def _shorter(value: str) -> Iterator[str]:
    """Beginnings of what stands behind an arrow, the longest first: a sentence may go on behind the value."""
    for end in range(len(value) - 1, 0, -1):
        if value[end] in " .,;)" or value[end - 1] in "])}'\"":
            yield value[:end].rstrip(" ,;")


def _case(call: str, value: str, name: str) -> FunctionCase | None:
    """The case of a call and a value that are both literals; None for anything else."""
    try:
        asked = _arguments(call, name)
        return asked and replace(asked, expected=ast.literal_eval(value.strip()))
    except UNREADABLE:
        return None


def _arguments(call: str, name: str) -> FunctionCase | None:
    """A call of `name` whose arguments are literals, without the value that is expected; None for anything else."""
    try:
        tree = ast.parse(call.strip(), mode="eval").body
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.func.id != name:
            return None
        arguments = tuple(ast.literal_eval(argument) for argument in tree.args)
        named = {k.arg: ast.literal_eval(k.value) for k in tree.keywords if k.arg is not None}
        return FunctionCase(arguments, None, named) if len(named) == len(tree.keywords) else None
    except UNREADABLE:
        return None
