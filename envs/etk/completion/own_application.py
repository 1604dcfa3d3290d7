"""A user's application from a TOML file: are its cases sound, and what do completions of them score?

The file has the keys of task.env.application (conf/task/etk_completion_amrex.yaml), and `cases`, a file of JSON lines
{id, file, start, end}. Its paths are relative to the folder that it lies in:

    name = "app"
    source_dir = "app"
    cases = "cases.jsonl"
    field = "density"
    [build]
    command = "make"
    artifact = "app.ex"
    [run]
    command = ["./app.ex", "inputs"]
    inputs = ["inputs"]
    expect = ["plt00001"]
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from envs.command_rows import Row, answer, read_rows
from envs.etk.build.application import Application
from envs.etk.build.compare import STAGES, ApplicationError
from envs.etk.completion.cases import Case, read_cases
from envs.etk.completion.check import SUMMARY, unsound
from envs.etk.completion.proposals import propose
from envs.etk.completion.scorer import CompletionScore, CompletionScorer, Request
from envs.local_models import cache_dir
from envs.sandbox import LocalSandbox


def read_application(path: Path, with_cases: bool = True) -> tuple[Application, list[Case]]:
    """The application and its cases, if they are wanted. Raises OSError, or ApplicationError for a file that cannot be
    used."""
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ApplicationError(f"{path}: not TOML: {error}") from None
    cases = config.pop("cases", None)
    if not isinstance(cases, str):
        raise ApplicationError(f"{path}: cases: missing; set it to the file of the masked lines")
    for key in ("source_dir", "reference"):
        if isinstance(config.get(key), str) and config[key] != "generate":
            config[key] = str(path.parent / Path(config[key]).expanduser())
    return Application.from_config(config), read_cases(path.parent / cases) if with_cases else []


async def propose_cases(path: Path, workers: int, longest: int, most: int) -> int:
    """Print cases of the application (see `propose`); their number. Raises OSError, ApplicationError, RuntimeError."""
    application, _ = read_application(path, with_cases=False)
    sandbox = LocalSandbox(workers)
    try:
        return await propose(application, _scorer(application, sandbox), longest, most)
    finally:
        await sandbox.close()


async def check_application(path: Path, workers: int) -> None:
    """Print one JSON object for each case: id, masked (the lines), empty and reference (totals), sound, and the reasons
    if it is not; `scores` has all scores of both. Raises OSError, ApplicationError or RuntimeError."""
    application, cases = read_application(path)
    sandbox = LocalSandbox(workers)
    try:
        scorer = _scorer(application, sandbox)
        await scorer.ready()
        for case in cases:
            print(json.dumps({"id": case.id, **await _checked(scorer, case)}), flush=True)
    finally:
        await sandbox.close()


async def _checked(scorer: CompletionScorer, case: Case) -> Row:
    try:
        gap = scorer.gap(case)
    except ApplicationError as error:
        return {"error": str(error)}
    reference, empty = await scorer.score([Request(case, gap.original), Request(case, "")])
    if reference is None or empty is None:
        return {"error": "the sandbox failed"}
    reasons = unsound(reference, empty)
    return {
        "masked": gap.original,
        "empty": empty.total,
        "reference": reference.total,
        "sound": not reasons,
        "reasons": reasons,
        "scores": {"empty": _scores(empty), "reference": _scores(reference)},
    }


def _scores(score: CompletionScore) -> dict[str, float]:
    return {name: getattr(score, name) for name in (*STAGES, *SUMMARY)}


async def score_rows(path: Path, rows_path: str, workers: int) -> None:
    """Print one JSON object for each row {id, case, completion}: id, verdict, total, skill, reasons, and the scores of
    the stages. Raises OSError, ApplicationError or RuntimeError."""
    application, cases = read_application(path)
    case_by_id = {case.id: case for case in cases}
    rows = read_rows(rows_path, "case", "completion")
    for number, row in enumerate(rows):
        if "error" not in row and row["case"] not in case_by_id:
            rows[number] = {"id": row.get("id"), "error": f"no case {row['case']!r} in {path.name}"}
    sandbox = LocalSandbox(workers)
    try:
        scorer = _scorer(application, sandbox)
        valid = [Request(case_by_id[row["case"]], row["completion"]) for row in rows if "error" not in row]
        scores = await scorer.score(valid)
    finally:
        await sandbox.close()
    answer(rows, [{"error": "the sandbox failed"} if score is None else _row(score) for score in scores])


def _row(score: CompletionScore) -> Row:
    messages = [message.text for message in score.messages if message.severity == "error"]
    return {"verdict": score.verdict, **_scores(score), "reasons": [*score.reasons, *messages]}


def _scorer(application: Application, sandbox: LocalSandbox) -> CompletionScorer:
    cache = cache_dir() / "simulations"
    cache.mkdir(parents=True, exist_ok=True)
    return CompletionScorer(application, sandbox, cache)
