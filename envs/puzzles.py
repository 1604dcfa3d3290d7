"""Python Programming Puzzles (Schuster et al. 2021, arXiv 2106.05784, MIT licence): find what a function accepts.

A puzzle is a function `sat`; the answer is a function `sol` that takes the arguments of `sat` after the first and
returns a first argument for which `sat` returns True. The file puzzles/puzzles.json of
github.com/microsoft/PythonProgrammingPuzzles holds several instances of most puzzles, which differ in these arguments;
here they are one problem, which is solved if all its instances are that Python can read. As published, the answer
must have exactly the type that the puzzle names, at every depth. Puzzles that were made of HumanEval's problems are
left out, those of LEFT_OUT, and those that run the answer as code.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.task import CodeBlockTask, Problem, TaskError

SOURCE = "https://github.com/microsoft/PythonProgrammingPuzzles, puzzles/puzzles.json"
TEXTS = ("name", "sat", "ans_type", "sol_header", "sol_docstring", "module")
TYPES = ("bool", "float", "int", "str")
HUMANEVAL_MODULE = "human_eval.py"
LEFT_OUT = frozenset(
    {
        # sat returns True for any number
        *("BirthdayParadoxMonteCarlo",),
        # their own solution does not solve all instances
        *("FivePowers", "SmallExponentBigSolution", "ThreeCubes"),
        # or takes more processor time than the sandbox allows, 10 s for all instances on an EPYC core
        *("BooleanPythagoreanTriples", "CollatzDelay", "DiscreteLog", "Factoring", "FourSquares", "GraphIsomorphism"),
        *("LearnParityWithNoise", "NoRelativePrimes", "Oscillators", "Zarankiewicz"),
    }
)
"""Puzzles that would be graded wrong."""
RUNS_TEXT = re.compile(r"\b(eval|exec|compile)\b")
CHECKED_TEXT = ("CardGame24", "Easy63", "Harder63")
"""A `sat` that runs its answer as code would do so in the process that checks it: left out, but for these, which allow
digits and operators alone."""
RELATED = (
    ("BirthdayParadox", "BirthdayParadoxMonteCarlo"),
    ("CombinationLock", "CombinationLockObfuscated"),
    ("IntNeg", "IntSum", "IntSub", "IntSub2"),
    ("ListAt", "ListNegAt", "StrAt", "StrNegAt"),
    ("ListIndex", "ListIndex2", "StrIndex", "StrIndex2"),
    ("ShortIntegerPath", "Study_20"),
    ("Sssuubbstriiingg", "Sstriiinggssuubb"),
    ("Tutorial1", "Tutorial2"),
)
"""Puzzles that differ in little; each group lies on one side of the split."""
TYPING = "from typing import *\n"
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
        TaskError: no path is set, the file is missing or has other rows or no usable puzzle, no question is as short
            as `longest`, or there are not more than `train_size` puzzles.
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
        problems = list(_problems(_read(path)))
        if not problems:
            raise TaskError(f"task.env.path={path}: it has no puzzle that can be used; it should be {SOURCE}")
        short = [problem for problem in problems if len(problem.question) <= longest]
        if len(short) <= train_size:
            raise TaskError(
                f"task.env.longest={longest} leaves {len(short)} of {len(problems)} puzzles, and "
                f"task.env.train_size={train_size} must be less: raise the first or lower the second"
            )
        super().__init__(short, train_size, split_seed, system)


def _read(path: str | None) -> list[dict[str, Any]]:
    if path is None:
        raise TaskError(f"task.env.path is not set: the puzzles are not part of this repository; download {SOURCE}")
    file = Path(path)
    if not file.is_file():
        missing = "a folder: name the file puzzles.json in it" if file.is_dir() else f"missing: download {SOURCE}"
        raise TaskError(f"task.env.path={file} is {missing}")
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TaskError(f"task.env.path={file}: not JSON: {error}") from None
    if not isinstance(rows, list):
        raise TaskError(f"task.env.path={file}: not a JSON list; it should be {SOURCE}")
    for number, row in enumerate(rows):
        if wrong := _wrong(row):
            raise TaskError(f"task.env.path={file}: puzzle {number}: {wrong}; it should be {SOURCE}")
    return rows


def _wrong(row: object) -> str:
    """What keeps a row from being a puzzle; empty if nothing does."""
    if not isinstance(row, dict) or not all(isinstance(row.get(field), str) for field in TEXTS):
        return f"not an object with the texts {', '.join(TEXTS)}"
    bodies = row.get("sol_bodies")
    if not isinstance(bodies, list) or not all(isinstance(body, str) for body in bodies):
        return "sol_bodies is not a list of texts"
    answer_type = row["ans_type"]
    while answer_type.startswith("List["):
        answer_type = answer_type[5:].removesuffix("]")
    return "" if answer_type in TYPES else f"ans_type {row['ans_type']} is none of {', '.join(TYPES)} or lists of them"


def _problems(rows: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    """One problem for the instances of each puzzle that has a solution; their names are NAME:NUMBER."""
    families = {name: group[0] for group in RELATED for name in group}
    puzzles: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        name = row["name"].split(":")[0]
        runs_text = RUNS_TEXT.search(row["sat"]) and name not in CHECKED_TEXT
        if row["module"] != HUMANEVAL_MODULE and name not in LEFT_OUT and not runs_text:
            puzzles.setdefault(name, []).append(row)
    for name, instances in puzzles.items():
        first, answer_type = instances[0], instances[0]["ans_type"]
        given = [arguments for each in instances if (arguments := _arguments(each)) is not None]
        if first["sol_bodies"] and given:
            tests = [f"    assert _solves(candidate(*{each}), {answer_type!r}, {each})\n" for each in given]
            yield Problem(
                id=f"puzzles/{name}",
                question=_question(first, given),
                entry_point="sol",
                check_src=f"{TYPING}{first['sat']}\n{CHECK}{''.join(tests)}",
                setup=TYPING,
                reference=f"{first['sol_header']}\n{first['sol_bodies'][0]}\n",
                family=families.get(name, name),
            )


def _arguments(instance: Mapping[str, Any]) -> str | None:
    """The arguments of an instance behind the first, as a list's source; None for numbers with too many digits.

    Raises TaskError for a puzzle that is no function.
    """
    try:
        body = ast.parse(instance["sat"]).body
    except SyntaxError as error:
        if "limit" in str(error):  # of digits, sys.get_int_max_str_digits()
            return None
        body = []
    if not body or not isinstance(body[-1], ast.FunctionDef):
        raise TaskError(f"task.env.path: sat of the puzzle {instance['name']} is no function; it should be {SOURCE}")
    return f"[{', '.join(map(ast.unparse, body[-1].args.defaults))}]"


def _question(instance: Mapping[str, Any], given: Sequence[str]) -> str:
    text = " ".join(_docstring(instance["sol_docstring"]).split())
    arguments = "takes the arguments of `sat` after the first and " if given[0] != "[]" else ""
    tested = " It is tested with other arguments as well." if arguments and len(given) > 1 else ""
    asked = f"Write the Python function `sol`, which {arguments}returns a value of type {instance['ans_type']}"
    code = f"```python\n{instance['sat']}\n```\n\n```python\n{instance['sol_header']}\n```"
    return f"{text}\n\n{asked} for which `sat` returns True.{tested}\n\n{code}"


def _docstring(source: str) -> str:
    """The text of a docstring's source; the source itself where it is none."""
    try:
        text = ast.literal_eval(source.strip())
    except (ValueError, SyntaxError):
        return source
    return text if isinstance(text, str) else source
