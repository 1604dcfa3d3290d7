"""Python Programming Puzzles (Schuster et al. 2021, arXiv 2106.05784, MIT licence): find what a function accepts.

A puzzle is a function `sat`; the answer is a function `sol` that takes the arguments of `sat` after the first and
returns a first argument for which `sat` returns True. The file puzzles/puzzles.json of
github.com/microsoft/PythonProgrammingPuzzles holds several instances of most puzzles, which differ in these arguments;
here they are one problem, which is solved if all its instances are. Puzzles that were made of HumanEval's problems are
left out, and those that their own solution does not solve here. As in the work, the answer must have exactly the type
that the puzzle names, at every depth.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.task import CodeBlockTask, Problem, TaskError

SOURCE = "https://github.com/microsoft/PythonProgrammingPuzzles, puzzles/puzzles.json"
FIELDS = ("name", "sat", "ans_type", "sol_header", "sol_docstring", "sol_bodies", "module")
LEFT_OUT = "human_eval.py"
"""The module of puzzles made of HumanEval's problems."""
UNSOLVED = frozenset(
    {
        *("BooleanPythagoreanTriples", "CollatzDelay", "DiscreteLog", "Factoring", "FivePowers", "FourSquares"),
        *("GraphIsomorphism", "LearnParityWithNoise", "NoRelativePrimes", "Oscillators", "SmallExponentBigSolution"),
        *("ThreeCubes", "Zarankiewicz"),
    }
)
"""Puzzles whose own solution does not solve all instances within the sandbox's limits."""
BEFORE = "from typing import *\n"
CHECK = """
def _is_of(value, kind):
    if kind.startswith("List["):
        return type(value) is list and all(_is_of(each, kind[5:-1]) for each in value)
    return type(value) is {"int": int, "str": str, "float": float, "bool": bool}[kind]


def _solves(answer, kind, arguments):
    return _is_of(answer, kind) and sat(answer, *arguments) is True


def check(candidate):
"""


class Puzzles(CodeBlockTask):
    """
    Args:
        path: puzzles.json.
        train_size, split_seed, system: see CodeBlockTask.
        longest: characters of the longest question; longer ones are left out.

    Raises:
        TaskError: no path is set, the file is missing or has other fields, or there are not more than
            `train_size` puzzles.
    """

    name = "puzzles"

    def __init__(
        self,
        path: str | None = None,
        train_size: int = 150,
        split_seed: int = 0,
        system: str = "",
        longest: int = 1200,
    ):
        problems = [problem for problem in _problems(_read(path)) if len(problem.question) <= longest]
        super().__init__(problems, train_size, split_seed, system)


def _read(path: str | None) -> list[dict[str, Any]]:
    if path is None:
        raise TaskError(f"task.env.path is not set: the puzzles are not part of this repository; download {SOURCE}")
    file = Path(path)
    if not file.is_file():
        raise TaskError(f"no such file: {file} (task.env.path); it is {SOURCE}")
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TaskError(f"{file}: not JSON: {error} (task.env.path)") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and set(FIELDS) <= set(row) for row in rows):
        raise TaskError(f"{file}: not a JSON list of objects with {', '.join(FIELDS)} (task.env.path)")
    return rows


def _problems(rows: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    """One problem for the instances of each puzzle that has a solution; their names are NAME:NUMBER."""
    puzzles: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["module"] != LEFT_OUT:
            puzzles.setdefault(row["name"].split(":")[0], []).append(row)
    for name, instances in puzzles.items():
        first = instances[0]
        given = [arguments for each in instances if (arguments := _arguments(each)) is not None]
        if first["sol_bodies"] and given and name not in UNSOLVED:
            kind = first["ans_type"]
            tests = [f"    assert _solves(candidate(*{each}), {kind!r}, {each})\n" for each in given]
            yield Problem(
                id=f"puzzles/{name}",
                question=_question(first, len(given) > 1),
                entry_point="sol",
                check_src=f"{BEFORE}{first['sat']}\n{CHECK}{''.join(tests)}",
                setup=BEFORE,
                reference=f"{first['sol_header']}\n{first['sol_bodies'][0]}\n",
                family=name,
            )


def _arguments(instance: Mapping[str, Any]) -> str | None:
    """The arguments of an instance behind the first, as a list's source; None for numbers that Python does not read."""
    try:
        function = ast.parse(instance["sat"]).body[-1]
    except SyntaxError:
        return None
    if not isinstance(function, ast.FunctionDef):
        raise TaskError(f"task.env.path: the puzzle {instance['name']} has no function")
    return f"[{', '.join(map(ast.unparse, function.args.defaults))}]"


def _question(instance: Mapping[str, Any], several: bool) -> str:
    told = " ".join(instance["sol_docstring"].strip().strip('"').split())
    takes = "takes the arguments of `sat` after the first and " if "()" not in instance["sol_header"] else ""
    others = " It is tested with other arguments as well." if several and takes else ""
    asked = f"Write the Python function `sol`, which {takes}returns a value of type {instance['ans_type']}"
    code = f"```python\n{instance['sat']}\n```\n\n```python\n{instance['sol_header']}\n```"
    return f"{told}\n\n{asked} for which `sat` returns True.{others}\n\n{code}"
