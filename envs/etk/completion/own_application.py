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
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from envs.command_rows import Row, answer, read_rows
from envs.etk.build.application import Application
from envs.etk.build.compare import STAGES, ApplicationError
from envs.etk.completion.cases import Case, Gap, read_cases
from envs.etk.completion.check import SUMMARY, changes_nothing, unsound
from envs.etk.completion.prompts import prompt
from envs.etk.completion.proposals import propose
from envs.etk.completion.scorer import CompletionScore, CompletionScorer, Request
from envs.local_models import cache_folder
from envs.sandbox import LocalSandbox


def read_application(path: Path, with_cases: bool = True) -> tuple[Application, list[Case]]:
    """The application and its cases, if they are wanted. Raises OSError, or ApplicationError for a file that cannot be
    used."""
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ApplicationError(f"{path}: not TOML: {error}") from None
    cases = config.pop("cases", None)
    if with_cases and not isinstance(cases, str):
        raise ApplicationError(f"{path}: cases: missing; set it to the file of the masked lines")
    for key in ("source_dir", "reference"):
        if isinstance(config.get(key), str) and config[key] != "generate":
            config[key] = str(path.parent / Path(config[key]).expanduser())
    application = Application.from_config(config)
    if not with_cases:
        return application, []
    file = path.parent / str(cases)
    if not file.is_file():
        raise ApplicationError(f"{path}: cases={cases}: no such file: write it with propose -o {file}, or by hand")
    return application, read_cases(file)


async def propose_cases(
    path: Path, workers: int, keep: Callable[[Case], None], longest: int, most: int, compiling: bool
) -> int:
    """Give `keep` cases of the application (see `propose`). Raises OSError, ApplicationError, RuntimeError."""
    application, _ = read_application(path, with_cases=False)
    sandbox = LocalSandbox(workers)
    try:
        return await propose(application, _scorer(application, sandbox), keep, longest, most, compiling)
    finally:
        await sandbox.close()


async def check_application(path: Path, workers: int) -> int:
    """Print one JSON object for each case: id, masked (the lines), empty and reference (totals), sound, and the reasons
    if it is not; `scores` has all scores of both. Returns the number of cases that are not sound.

    Raises OSError, ApplicationError or RuntimeError.
    """
    application, cases = read_application(path)
    sandbox, sound, compiled = LocalSandbox(workers), 0, 0
    try:
        scorer = _scorer(application, sandbox)
        await scorer.ready()
        for case in cases:
            row = await _checked(scorer, case)
            print(json.dumps({"id": case.id, **row}), flush=True)
            sound += bool(row.get("sound"))
            compiled += bool(row.get("sound") and row["scores"]["empty"]["compile"])
    finally:
        await sandbox.close()
    broken = f"; {sound - compiled} of these do not compile without their lines, which does not show that the results "
    broken = f"{broken}depend on them" if sound > compiled else ""
    print(f"{sound} of {len(cases)} cases are sound{broken}", file=sys.stderr)
    return len(cases) - sound


def show_cases(path: Path, names: Sequence[str], chars: int) -> None:
    """Print what a model is shown of the cases (of those that are named, if any are), and the lines that it does not
    see. Raises OSError, or ApplicationError, for an unknown case too."""
    application, cases = read_application(path)
    by_name = {case.id: case for case in cases}
    if unknown := [name for name in names if name not in by_name]:
        raise ApplicationError(f"no case {unknown[0]!r} in {path}; there are {', '.join(by_name) or 'none'}")
    for name in names or by_name:
        gap = Gap.of(by_name[name], application.source_dir)
        print(f"=== {name}\n{prompt(gap, chars).literal}=== masked\n{gap.original}")


async def _checked(scorer: CompletionScorer, case: Case) -> Row:
    try:
        gap = scorer.gap(case)
    except ApplicationError as error:
        return {"error": str(error)}
    places = [Request(place, "") for place in case.alone] if case.more else []
    measured = await scorer.score([Request(case, gap.original), Request(case, ""), *places])
    if None in measured:
        return {"error": "the sandbox failed"}
    reference, empty, *alone = cast(list[CompletionScore], measured)
    reasons = unsound(scorer.application, reference, empty)
    for number, place in enumerate(alone, 1):
        reasons += [f"place {number} by itself: {reason}" for reason in changes_nothing(place.left_out)]
    if scorer.application.run.printed_by(gap.original):
        reasons.append("it masks the line that prints run.success_regex")
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
    reasons = [*score.reasons, *messages]
    if score.verdict == "fields" and not reasons:
        parts = {"the header": 1 - score.header, "the field": 1 - score.density}
        reasons = [f"{part} differs from the reference's: {off:.2g} of 1" for part, off in parts.items() if off > 1e-6]
        reasons = reasons or [f"a cell of the field differs by {score.largest:.2g} of its largest value"]
    return {"verdict": score.verdict, **_scores(score), "reasons": reasons}


def _scorer(application: Application, sandbox: LocalSandbox) -> CompletionScorer:
    return CompletionScorer(application, sandbox, cache_folder("simulations"))
