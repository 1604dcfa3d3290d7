"""Judges robot programs of JSON-lines files; prints one JSON object for each row.

python -m envs.roboeval judge FILE --benchmark DIR [--mode compat]    id, task, program -> id, verdict, worlds, ...
python -m envs.roboeval check FILE --benchmark DIR                    id, task, world, trace -> id, sat
python -m envs.roboeval extract FILE [--rule seed_paper]              id, raw -> id, program, extracted
python -m envs.roboeval robosim FILE                                  id, program -> id, plain, perturbed, exact, ...
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from tqdm import tqdm

from envs.command_rows import Row, answer, read_rows
from envs.roboeval.checks import conditions
from envs.roboeval.exploration import Exploration, explorations
from envs.roboeval.extraction import EXTRACTIONS, extracted
from envs.roboeval.trace import satisfied
from envs.roboeval.verdicts import Judgement, Request, judge
from envs.roboeval.worlds import Benchmark
from envs.sandbox import LocalSandbox
from envs.task import TaskError

FAILED = {"error": "the sandbox failed"}


def valid(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if "error" not in row]


def refuse_unknown_tasks(rows: Sequence[Row], benchmark: Benchmark) -> None:
    """Turn rows of unknown tasks into errors."""
    for row in valid(rows):
        if row["task"] not in benchmark.worlds:
            refuse(row, f"RoboEval has no task {row['task']!r}")


def refuse(row: Row, reason: str) -> None:
    identity = row.get("id")
    row.clear()
    row.update(id=identity, error=reason)


def towards(bar: Any) -> Callable[[int], None]:
    """A function that moves a progress bar to a number."""

    def move(done: int) -> None:
        bar.update(done - bar.n)

    return move


async def judge_rows(options: argparse.Namespace) -> None:
    benchmark = Benchmark(options.benchmark)
    rows = read_rows(options.file, "task", "program")
    refuse_unknown_tasks(rows, benchmark)
    requests = [
        Request(row["program"], benchmark.worlds[row["task"]], conditions(row["task"]), options.mode)
        for row in valid(rows)
    ]
    sandbox = LocalSandbox(options.workers)
    try:
        with tqdm(total=len(requests), unit="program", disable=not sys.stderr.isatty()) as bar:
            judgements = await judge(sandbox, requests, towards(bar))
    finally:
        await sandbox.close()
    answer(rows, [FAILED if each is None else public_judgement(each, options.traces) for each in judgements])


def public_judgement(judgement: Judgement, traces: bool) -> dict[str, Any]:
    worlds = []
    for result in judgement.worlds:
        row = asdict(result)
        row["error_span"] = row.pop("span")
        worlds.append(row if traces else {name: row[name] for name in row if name != "trace"})
    span = None if judgement.span is None else asdict(judgement.span)
    return {
        "verdict": judgement.verdict,
        "extracted": judgement.extracted,
        "worlds": worlds,
        "error_span": span,
        "note": judgement.note,
    }


async def check_rows(options: argparse.Namespace) -> None:
    benchmark = Benchmark(options.benchmark)
    rows = read_rows(options.file, "task")
    refuse_unknown_tasks(rows, benchmark)
    answers: list[Row] = []
    for row in tqdm(valid(rows), unit="trace", disable=not sys.stderr.isatty()):
        try:
            number, trace = row["world"], row["trace"]
            if type(number) is not int or not 0 <= number < len(benchmark.worlds[row["task"]]):
                raise ValueError(f"{row['task']} has no world {number}")
            events = [(str(kind), str(text), offered) for kind, text, offered in trace]
        except (KeyError, TypeError, ValueError) as error:
            refuse(row, f"{type(error).__name__}: {error}")
            continue
        try:
            answers.append({"sat": satisfied(conditions(row["task"])[number], events)})
        except TypeError as error:  # RoboEval counts this as an error of the program
            answers.append({"sat": False, "checker_error": f"TypeError: {error}"})
    answer(rows, answers)


async def extract_rows(options: argparse.Namespace) -> None:
    rows = read_rows(options.file, "raw")
    programs = [
        EXTRACTIONS[options.rule](row["raw"])
        for row in tqdm(valid(rows), unit="answer", disable=not sys.stderr.isatty())
    ]
    answer(rows, [{"program": program, "extracted": extracted(program)} for program in programs])


async def robosim_rows(options: argparse.Namespace) -> None:
    rows = read_rows(options.file, "program")
    programs = [row["program"] for row in valid(rows)]
    sandbox = LocalSandbox(options.workers)
    try:
        with tqdm(total=len(programs), unit="program", disable=not sys.stderr.isatty()) as bar:
            explored = await explorations(
                sandbox,
                programs,
                "compat",
                ["none", "text"],
                options.paths,
                options.runs,
                options.seed,
                towards(bar),
            )
    finally:
        await sandbox.close()
    answer(rows, [FAILED if each is None else public_exploration(each["none"], each["text"]) for each in explored])


def public_exploration(plain: Exploration, perturbed: Exploration) -> dict[str, Any]:
    return {
        "plain": plain.outcomes,
        "perturbed": perturbed.outcomes,
        "exact": plain.exact,
        "perturbed_exact": perturbed.exact,
        "unexplored": plain.unexplored,
        "perturbed_unexplored": perturbed.unexplored,
        "paths": plain.paths,
        "failures": [asdict(failure) for failure in plain.failures],
        "least_calls": plain.least_calls,
        "passes": perturbed.passes,
        "runs": perturbed.runs,
    }


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m envs.roboeval", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    judging = commands.add_parser("judge", help="programs to verdicts")
    checking = commands.add_parser("check", help="traces to yes or no")
    extracting = commands.add_parser("extract", help="answers to programs")
    exploring = commands.add_parser("robosim", help="programs to exact probabilities of outcomes, rewritten as RoboSim")
    for command in (judging, checking, extracting, exploring):
        command.add_argument("file", help="JSON lines")
    for command in (judging, checking):
        command.add_argument(
            "--benchmark", required=True, metavar="DIR", help="RoboEval's folder, as published or as JSON"
        )
    for command in (judging, exploring):
        command.add_argument("--workers", type=int, default=2, help="number of programs that run at the same time")
    judging.add_argument("--mode", choices=["compat", "hardened"], default="hardened")
    judging.add_argument("--traces", action="store_true", help="also print the trace of each world")
    extracting.add_argument("--rule", choices=list(EXTRACTIONS), default="robo_instruct")
    exploring.add_argument("--paths", type=int, default=2000, help="largest number of runs of an exploration")
    exploring.add_argument("--runs", type=int, default=5, help="number of random runs with shaking")
    exploring.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


COMMANDS = {"judge": judge_rows, "check": check_rows, "extract": extract_rows, "robosim": robosim_rows}


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; the exit status is 0 unless a file or the benchmark cannot be read, or no tier of confinement
    holds."""
    options = parsed(arguments)
    try:
        asyncio.run(COMMANDS[options.command](options))
    except (OSError, UnicodeDecodeError, RuntimeError, TaskError) as error:
        print(f"envs.roboeval: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
