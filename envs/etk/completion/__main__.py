"""`python -m envs.etk.completion score FILE` compares runs with reference runs; `check` measures the embedded cases.

For a user's own application, in this order:

    new FOLDER                          write FOLDER.toml, a description to complete by hand
    propose --application FILE -o CASES find cases: lines without which the results change, or the build fails
    show --application FILE [CASE ...]  print what a model is shown of the cases
    check --application FILE            say which cases are sound
    score --application FILE ROWS       build and run completions {id, case, completion}

Else FILE has one JSON object a line: id, run_dir, reference_dir, and optionally expect, format, field, norm, compare,
strict_finite, weights. Nothing is compiled here. A program that ran must have compiled, so `compile` counts as 1.0 in
the total unless the row has another value, and a run that wrote nothing has the total 0.25. `skill` and `baseline` are
null if the reference has no result of its initial state.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from envs.command_rows import Row, answer_each
from envs.etk.build.compare import ApplicationError, Metric, Reference
from envs.etk.build.outputs import Folder
from envs.etk.completion.cases import Case, case_row
from envs.etk.completion.check import faults, measure, with_expected
from envs.etk.completion.embedded import CASES, flow2d, flow2d_cases
from envs.etk.completion.own_application import check_application, propose_cases, score_rows, show_cases
from envs.etk.completion.scorer import CompletionScorer
from envs.etk.completion.skeleton import guessed, skeleton
from envs.sandbox import LocalSandbox

OPTIONAL = ("expect", "format", "field", "norm", "compare", "strict_finite", "weights")


def score_row(row: Row) -> Row:
    """The scores of one row. Raises KeyError, TypeError or ValueError (ApplicationError) for an invalid row."""
    for name in ("run_dir", "reference_dir"):
        if not isinstance(row[name], str):
            raise TypeError(f"{name} must be text")
    metric = Metric(**{name: row[name] for name in OPTIONAL if row.get(name) is not None})
    compiled = float(row.get("compile", 1.0))
    if compiled not in (0.0, 1.0):
        raise ApplicationError("compile: must be 0 or 1")
    reference = Reference(Folder(Path(row["reference_dir"])), metric)
    run = reference.score(Folder(Path(row["run_dir"]))) if compiled else reference.failed("it did not compile")
    stages = {"compile": compiled, "execution": run.execution, "header": run.header, "density": run.density}
    row = {**stages, "skill": run.skill, "total": metric.total(**stages), **dataclasses.asdict(run)}
    del row["picture"]
    return row


async def check(write: bool, workers: int) -> int:
    """Measure every variant of every embedded case, and return the number of faulty cases.

    `write` stores the measured scores as the expected ones, and removes the cases that are still faulty.
    """
    cases = flow2d_cases()
    sandbox = LocalSandbox(workers)
    try:
        with tempfile.TemporaryDirectory() as cache:
            measured = await measure(CompletionScorer(flow2d(), sandbox, Path(cache)), cases)
    finally:
        await sandbox.close()
    if write:
        cases = [with_expected(case, scores) for case, scores in zip(cases, measured, strict=True)]
    good = []
    for case, scores in zip(cases, measured, strict=True):
        case_faults = faults(case, scores)
        if not case_faults:
            good.append(case)
        totals = " ".join(f"{variant} {scores[variant]['total']:.3f}" for variant in scores)
        print("\n".join(case_faults) or f"{case.id}: {totals}")
    if write:
        temporary = CASES.with_suffix(".tmp")
        temporary.write_text("".join(f"{case_row(case)}\n" for case in good), encoding="utf-8")
        temporary.replace(CASES)
    faulty = len(cases) - len(good)
    print(f"{len(cases)} cases, {faulty} faulty{' and removed' if write and faulty else ''}", file=sys.stderr)
    return 0 if write else faulty


def new(folder: Path, target: Path) -> int:
    """Write the description of an application to `target`. Raises ApplicationError if it exists."""
    if target.exists():
        raise ApplicationError(f"{target} exists: name another file with --output, or remove it")
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.write_text(skeleton(folder, target), encoding="utf-8")
    temporary.replace(target)
    if warning := guessed(folder):
        print(f"envs.etk.completion: {warning}", file=sys.stderr)
    command = f"python -m envs.etk.completion propose --application {target} -o CASES"
    print(f"wrote {target}: check every line, then {command}")
    return 0


def propose(options: argparse.Namespace) -> int:
    """Print the cases as they are found, or write them to a file that replaces an older one at the end; what was found
    before an interruption stays in FILE.part. Returns 1 if there are none."""
    if options.output is None:
        work = propose_cases(
            options.application,
            options.workers,
            lambda case: print(case_row(case), flush=True),
            options.lines,
            options.most,
            options.compiling,
        )
        return int(not asyncio.run(work))
    part = options.output.with_name(f"{options.output.name}.part")
    with part.open("w", encoding="utf-8") as file:

        def keep(case: Case) -> None:
            file.write(f"{case_row(case)}\n")
            file.flush()
            print(f"{case.id}: kept", file=sys.stderr)

        try:
            asyncio.run(
                propose_cases(
                    options.application, options.workers, keep, options.lines, options.most, options.compiling
                )
            )
        finally:
            if not file.tell():
                part.unlink()
    if part.exists():
        part.replace(options.output)
        return 0
    return 1


def positive(text: str) -> int:
    """A whole number above 0. Raises ArgumentTypeError."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number above 0")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line. `score` ends with status 0 unless the file cannot be read, `check` with 1 if a case is faulty."""
    parser = argparse.ArgumentParser(
        prog="python -m envs.etk.completion",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    scores = verbs.add_parser("score", help="read a JSON-lines file and print one answer for each row")
    scores.add_argument("file")
    checker = verbs.add_parser("check", help="build and run the original, empty and broken variant of each case")
    checker.add_argument("--write", action="store_true", help="store the measured scores as the expected ones")
    proposer = verbs.add_parser("propose", help="find cases of a user's own application whose lines matter")
    proposer.add_argument("--lines", type=positive, default=2, help="most lines of a case")
    proposer.add_argument("--most", type=positive, default=100, help="places that are tried")
    proposer.add_argument(
        "--compiling", action="store_true", help="only lines without which the application still compiles"
    )
    proposer.add_argument(
        "-o", "--output", type=Path, help="the file of cases, written at the end; else they are printed"
    )
    shower = verbs.add_parser("show", help="print the prompts of cases of a user's own application")
    shower.add_argument("cases", nargs="*", metavar="CASE")
    shower.add_argument(
        "--chars", type=positive, default=3000, help="of the file around the gap (task.env.context_chars)"
    )
    shower.add_argument("--application", type=Path, required=True, help="a user's own application in TOML")
    maker = verbs.add_parser("new", help="describe a folder with a simulation in a TOML file")
    maker.add_argument("folder", type=Path)
    maker.add_argument("-o", "--output", type=Path, help="the TOML file; FOLDER.toml if not given")
    for verb in (scores, checker, proposer):
        required = verb is proposer
        verb.add_argument("--application", type=Path, required=required, help="a user's own application in TOML")
        verb.add_argument("--workers", type=positive, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    try:
        if options.verb == "new":
            folder = options.folder.resolve()
            beside = Path(os.path.relpath(folder.parent)) / f"{folder.name}.toml"
            return new(options.folder, options.output or beside)
        if options.verb == "propose":
            return propose(options)
        if options.verb == "show":
            show_cases(options.application, options.cases, options.chars)
        elif options.application and options.verb == "check":
            return int(asyncio.run(check_application(options.application, options.workers)) > 0)
        elif options.application:
            asyncio.run(score_rows(options.application, options.file, options.workers))
        elif options.verb == "check":
            return int(asyncio.run(check(options.write, options.workers)) > 0)
        else:
            answer_each(options.file, score_row)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        print(f"envs.etk.completion: {reason}", file=sys.stderr)
        return 1
    except (UnicodeDecodeError, ApplicationError, RuntimeError) as error:
        print(f"envs.etk.completion: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
