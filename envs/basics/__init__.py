"""basics: 266 small Python problems written for this collection, for a first run on small machines.

Each line of problems/*.jsonl is a problem: name, topic, level (1 easy to 3 medium), family (shared by near-duplicates),
signature, description, solution, examples (the prompt shows the first) and hidden tests (never shown). All tests are
graded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envs.json_lines import json_lines
from envs.sandbox import FunctionCase
from envs.task import CodeBlockTask, Problem, TaskError

PROBLEMS = Path(__file__).parent / "problems"
FIELDS = {"name", "family", "signature", "description", "solution", "examples", "hidden"}


class Basics(CodeBlockTask):
    """
    Args:
        train_size, split_seed, system: see CodeBlockTask.
        path: a file or a folder of .jsonl files with the same fields; None for the task's own problems.

    Raises:
        TaskError: the path does not exist, a row is invalid or has no tests, or there are no rows.
    """

    name = "basics"

    def __init__(self, train_size: int = 200, split_seed: int = 0, system: str = "", path: str | None = None):
        rows = _read(Path(path) if path else PROBLEMS)
        super().__init__([_problem(row) for row in rows], train_size, split_seed, system)


def _read(path: Path) -> list[dict[str, Any]]:
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not path.exists():
        raise TaskError(f"no such file or folder: {path} (task.env.path)")
    rows = []
    for file in files:
        for number, row in json_lines(file):
            if isinstance(row, Exception):
                raise TaskError(f"{file}:{number}: not JSON: {row}")
            if missing := FIELDS - set(row):
                raise TaskError(f"{file}:{number}: missing {', '.join(sorted(missing))}")
            rows.append(row)
    return rows


def _problem(row: dict[str, Any]) -> Problem:
    tests = [*row["examples"], *row["hidden"]]
    example = ""
    if row["examples"]:
        shown = row["examples"][0]
        arguments = ", ".join(map(repr, shown["args"]))
        example = f" For example, {row['name']}({arguments}) == {shown['expected']!r}."
    return Problem(
        id=f"basics/{row['name']}",
        question=f"{row['description']}{example}\n\nWrite the Python function:\n\n```python\n{row['signature']}\n```",
        entry_point=row["name"],
        cases=tuple(FunctionCase(tuple(t["args"]), t["expected"]) for t in tests),
        reference=row["solution"],
        family=row["family"],
    )
