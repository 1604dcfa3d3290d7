"""Answers without work: each could be written without solving the problem, most of them without reading it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from envs.etk.completion.cases import MARK
from envs.sandbox import FunctionCase, StdioCase
from envs.task import Problem, Task, demonstration
from rewards.channel import Completion, as_completion

CONSTANTS = ("None", "0", "1", "True", "False", "''", "[]", "args[0]")
"""What the body of a function returns; the last is its first argument."""
LINES = ("0", "1", "-1", "YES", "NO")
"""What a program prints."""
COMMENT = {**dict.fromkeys(("python", "make", "ccl", "par"), "# the solution"), "fortran": "! the solution"}
STATEMENTS = {
    "c": {
        "a semicolon": ";",
        "a lone include": '#include "cctk.h"',
        "returns 0": "return 0;",
        "early exit": "_Exit(0);",
    },
    "fortran": {"returns at once": "      return", "early exit": "      stop"},
    "make": {"a lone include": "include ../make.defn"},
    "ccl": {"a lone access": "private:"},
    "par": {"a lone setting": "Cactus::cctk_itlast = 1"},
}
STATEMENTS["c++"] = STATEMENTS["c"] | {"returns a default value": "return {};", "early exit": "std::_Exit(0);"}
"""Answers to a task in another language than Python."""
MOST_VISIBLE = 4
"""Files of the prompt that are tried as an answer."""
EXITS = {"os._exit": "import os\nos._exit(0)\n", "SystemExit": "raise SystemExit(0)\n"}


def as_answer(task: Task, problem: Problem, code: str, length: Callable[[str], int] = len) -> Completion:
    """Code as a policy's answer to `problem`: in the form that the prompt asks for, or as it stands where the task does
    not find it there (moves; code that holds fences). length: see as_completion."""
    answer = as_completion(task, demonstration(task.messages(problem), code), length)
    return answer if (answer.code or "").strip() == code.strip() else as_completion(task, code, length)


def useless_answers(task: Task, problem: Problem, other: str) -> list[tuple[str, Completion]]:
    """Names and answers; a name may occur several times, and then the best of its answers counts.

    Args:
        other: the reference of another problem, empty if there is none.
    """
    results = [("nothing", as_completion(task, "")), ("copy of the prompt", as_completion(task, problem.question))]
    codes = list(_codes(problem, other))
    if places := len(problem.data.get("places", ())):  # and the same in each place
        codes += [(name, f"{MARK}\n".join([f"{code.rstrip()}\n"] * places)) for name, code in codes]
    return results + [(name, as_answer(task, problem, code)) for name, code in codes]


def _codes(problem: Problem, other: str) -> Iterator[tuple[str, str]]:
    yield "empty code", ""
    yield "a comment alone", COMMENT.get(problem.language, "// the solution") + "\n"
    yield "copy of the prompt as code", problem.question
    for text in problem.data.get("visible", ())[:MOST_VISIBLE]:
        yield "copy of a visible file", text
    if other:
        parts = problem.parts or (problem,)
        yield "another problem's reference", "\n\n".join(renamed(other, part.entry_point) for part in parts)
    yield from problem.data.get("useless", {}).items()
    if problem.language != "python":
        yield from STATEMENTS.get(problem.language, STATEMENTS["c"]).items()
    elif functions := _functions(problem):
        yield from _function_codes(problem, functions)
    else:
        yield from _program_codes(problem)


def _functions(problem: Problem) -> list[str]:
    """Names of the functions that an answer defines; empty for a program that reads standard input."""
    if problem.entry_point is not None:
        return [problem.entry_point]
    return [] if problem.cases else re.findall(r"^def (\w+)", problem.reference, re.MULTILINE)


def _function_codes(problem: Problem, functions: Sequence[str]) -> Iterator[tuple[str, str]]:
    def stubs(body: str) -> str:
        return "".join(f"def {name}(*args, **kwargs):\n    {body}\n" for name in functions)

    for value in CONSTANTS:
        yield f"returns {'its argument' if value == 'args[0]' else value}", stubs(f"return {value}")
    for name, code in EXITS.items():
        yield f"early exit, {name}", code
        yield f"early exit, {name}", stubs(code.strip().replace("\n", "; "))
    tables = [(part.entry_point, calls) for part in problem.parts or (problem,) if (calls := shown_calls(part))]
    if tables:
        yield "the examples shown, hard-coded", "".join(_looked_up(name, calls, functions) for name, calls in tables)


def _looked_up(name: str | None, calls: Sequence[tuple[str, str]], functions: Sequence[str]) -> str:
    """Functions, of this name if there is one, that know the results of these calls alone."""
    table = ", ".join(f"({arguments}, {result})" for arguments, result in calls)
    body = f"return next((result for known, result in [{table}] if repr(known) == repr(args)), None)"
    return "".join(f"def {each}(*args, **kwargs):\n    {body}\n" for each in ([name] if name else functions))


def _program_codes(problem: Problem) -> Iterator[tuple[str, str]]:
    for line in LINES:
        yield f"prints {line}", f"print({line!r})\n"
    yield "prints its input", "import sys\nprint(sys.stdin.read())\n"
    for name, code in EXITS.items():
        yield f"early exit, {name}", code
    shown = [case for case in problem.cases if isinstance(case, StdioCase) and case.stdout.strip() in problem.question]
    if shown:
        table = {case.stdin.strip(): case.stdout for case in shown if case.stdin.strip() in problem.question}
        code = f"import sys\nprint({table!r}.get(sys.stdin.read().strip(), ''), end='')\n"
        yield "the examples shown, hard-coded", code


def shown_calls(problem: Problem) -> list[tuple[str, str]]:
    """The calls of the function whose results the question shows: source of the arguments as a tuple, and of the
    result. They are read from asserts and `f(...) == ...`, from doctests, and from the tests that the question has.
    """
    name = problem.entry_point
    if name is None:
        return []
    lines = problem.question.replace("`", "\n").splitlines()
    results: dict[str, str] = {}
    for number, line in enumerate(lines):
        start = line.find(f"{name}(")
        following = lines[number + 1].strip() if number + 1 < len(lines) else ""
        candidates = [line[start:].rstrip(" ."), f"{line[start:].strip()} == {following}"] if start >= 0 else []
        for source in candidates:
            if call := _call_with_result(source):
                results.setdefault(*call)
    for case in problem.cases:
        if isinstance(case, FunctionCase) and not case.kwargs:
            texts = [*map(repr, case.args), repr(case.expected)]
            if all(text in problem.question for text in texts):
                results.setdefault(repr(tuple(case.args)), repr(case.expected))
    return list(results.items())


def _call_with_result(source: str) -> tuple[str, str] | None:
    """`f(1, 2) == 3` as ("(1, 2)", "3"); None for another text."""
    try:
        tree: Any = ast.parse(source.partition(", '")[0] if source.count(" == ") > 1 else source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not (isinstance(tree, ast.Compare) and isinstance(tree.left, ast.Call) and len(tree.comparators) == 1):
        return None
    values: list[ast.expr] = [*tree.left.args, tree.comparators[0]]
    if tree.left.keywords or not all(_is_literal(value) for value in values):
        return None
    arguments = ", ".join(ast.unparse(value) for value in tree.left.args)
    return f"({arguments},)", ast.unparse(tree.comparators[0])


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def renamed(code: str, entry_point: str | None) -> str:
    """Code whose last function of the top level has the name `entry_point`."""
    names = re.findall(r"^def (\w+)", code, re.MULTILINE)
    if entry_point is None or not names:
        return code
    return re.sub(rf"\b{re.escape(names[-1])}\b", entry_point, code)
