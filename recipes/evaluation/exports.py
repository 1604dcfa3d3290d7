"""Evaluations for other programs: a line in results.csv, and samples in EvalPlus's format."""

from __future__ import annotations

import csv
import fcntl
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from envs.task import Problem, Task
from recipes.evaluation.base_tests import with_base_tests
from recipes.records.jsonl import judged_problems

COLUMNS = ("run", "task", "split", "model", "adapter", "problems", "samples", "temperature")
MEASURED = ("pass@1", "low", "high", "mean_tokens", "reward", "seconds")


def append_results(file: Path, cfg: DictConfig, summaries: Iterable[dict[str, Any]]) -> None:
    """Append a line for each evaluation to `file`, whose first line names the columns; two if it has base tests.
    `problems` are those that pass@1 is of."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [*COLUMNS, *MEASURED], extrasaction="ignore")
    for summary in with_base_tests(summaries):
        passed = summary["pass@k"].get("1") or dict.fromkeys(("value", "low", "high"))
        run = {"run": Path(cfg.run.dir).name, "model": cfg.model.path, "adapter": cfg.adapter}
        measured = {"problems": judged_problems(summary), "pass@1": passed["value"]}
        writer.writerow(run | summary | measured | {name: passed[name] for name in ("low", "high")})
    with file.open("a", encoding="utf-8") as out:  # several runs on a task share it
        fcntl.flock(out, fcntl.LOCK_EX)
        if out.seek(0, io.SEEK_END) == 0:
            out.write(",".join([*COLUMNS, *MEASURED]) + "\r\n")
        out.write(text.getvalue())


def evalplus_samples(task: Task, problems: Sequence[Problem], rows: Iterable[dict[str, Any]]) -> list[dict[str, str]]:
    """{task_id, solution} of each answer, as evalplus.evaluate reads them; an answer without code is empty.

    problems: the evaluated problems. rows: an Evaluation's rows.
    """
    by_id = {problem.id: problem for problem in problems}
    samples = []
    for row in rows:
        answer, problem = row["completion"], by_id[row["task_id"]]
        results, setup = task.extract(answer), problem.setup or ""
        code = problem.job(answer[results.start : results.end]).code if results else ""
        solution = code if not code or code.startswith(setup) else f"{setup}\n{code}"
        samples.append({"task_id": row["task_id"].replace("mbppplus/", "Mbpp/"), "solution": solution})
    return samples
