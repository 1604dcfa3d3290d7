"""Programs that are right or wrong by construction, for a problem's own tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from envs.task import Problem

PERTURB = """

def _perturbed(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, (list, tuple)):
        return [*value, value[0] if value else 0]
    return 0 if value is None else None
"""
WRAPPED = {
    "perturbed": "_perturbed(_right(*args))",
    "in a list": "[_right(*args)]",
    "as text": "str(_right(*args)) + ''",
    "nothing": "None",
}


def function_mutants(problem: Problem) -> Iterator[tuple[str, str]]:
    """(kind, code) of functions that call the reference and answer something else."""
    for kind, result in WRAPPED.items():
        if problem.entry_point and "class Solution" in problem.reference:
            wrapper = (
                f"_right = Solution().{problem.entry_point}\n"
                f"class Solution:\n    def {problem.entry_point}(self, *args): return {result}\n"
            )
        else:
            wrapper = f"_right = {problem.entry_point}\ndef {problem.entry_point}(*args): return {result}\n"
        if kind != "as text" or not all(isinstance(case.expected, str) for case in problem.cases):  # type: ignore[union-attr]
            yield kind, problem.reference + PERTURB + wrapper


def altered(code: str, most: int = 3) -> Iterator[str]:
    """The code with one comparison turned round or one constant changed, at up to `most` places."""
    places = [
        node
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Compare) or (isinstance(node, ast.Constant) and type(node.value) is int)
    ]
    for number in range(0, len(places), max(1, len(places) // most)):
        tree = ast.parse(code)
        nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Compare) or _integer(n)]
        node = nodes[number]
        if isinstance(node, ast.Compare):
            turned = {ast.Lt: ast.GtE, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.GtE: ast.Lt, ast.Eq: ast.NotEq}
            node.ops[0] = turned.get(type(node.ops[0]), ast.Eq)()
        elif isinstance(node, ast.Constant):
            node.value += 1
        yield ast.unparse(tree)


def _integer(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def table_program(problem: Problem) -> str:
    """A program that knows the answers: right on the problem's own tests."""
    known = {case.stdin: case.stdout for case in problem.cases}  # type: ignore[union-attr]
    return f"import sys\nanswer = {known!r}[sys.stdin.read()]\n"


PROGRAMS = {
    "nothing": "pass",
    "first line": "print(answer.strip().split('\\n')[0]); print('and more')",
    "one line more": "print(answer); print('x')",
    "last line left out": "print('\\n'.join(answer.strip().split('\\n')[:-1]))",
    "last token changed": "print(answer.strip() + '7')",
    "right, then fails": "print(answer); sys.exit(1)",
    "right, then crashes": "print(answer, flush=True); 1 / 0",
    "exits first": "import os; os._exit(0)",
}
SAME = {
    "plain": "print(answer)",
    "no newline": "sys.stdout.write(answer.strip())",
    "blanks": "print('\\r\\n'.join(line + ' \\t' for line in answer.strip().split('\\n')) + '\\n\\n')",
    "exit": "sys.stdout.buffer.write(answer.encode()); sys.stdout.flush(); import os; os._exit(0)",
}


def program_mutants(problem: Problem) -> Iterator[tuple[str, str]]:
    """(kind, code) of programs that know the answer and print something else."""
    for kind, end in PROGRAMS.items():
        yield kind, table_program(problem) + end
