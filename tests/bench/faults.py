"""Do the channels charge the characters that are wrong? One fault planted in each of many correct programs.

    python tests/bench/faults.py [--programs 60] [--seed 0]

Programs: the references of basics, and of HumanEval where its package is there, that pass their tests and in which no
channel finds anything. Faults, at known characters: tests/bench/planted.py. Each channel is measured on those that it
is for; the tests on those that fail them.

Charged are the characters of a channel's spans of negative value, or the whole code where it has none and pays less
than for the correct program. With C the characters charged and F those planted: precision |C & F| / |C|, recall
|C & F| / |F|, IoU |C & F| / |C | F|, each 0 where C is empty, averaged over faults. `exact`: C = F. `seen`: C is not
empty. `lines`: IoU of the lines on which C and F lie; a test can tell no more apart. For faults of syntax F is the
first illegal character; an unsafe call is the call where what it evaluates is the danger (eval, pickle.loads, mktemp),
else the function called.

Against three others: `end`, all on the end of the answer (the code's last character stands for it); `uniform`, on the
whole code; `line`, on the text of the line that the error message names, where it first occurs in the code (RLTF, Liu
et al. 2023, arXiv 2307.04349), the whole code where a failure names none. The message is Ruff's for lint, elsewhere
that of the failing run. The table is on standard error; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from envs.basics import Basics
from envs.humaneval import HumanEval
from envs.sandbox import Limits, LocalSandbox, Outcome, Sandbox
from envs.task import Problem, TaskError
from rewards.channel import ChannelResult, Completion, RewardChannel
from rewards.dataflow import PACKAGES, Dataflow
from rewards.lint import Lint
from rewards.syntax import Syntax
from rewards.unit_tests import UnitTests
from tests.bench import planted
from tests.bench.planted import Fault, Sites

OPENING, CLOSING = "```python\n", "\n```"
KINDS: dict[str, dict[str, Sites]] = {
    "syntax": planted.SYNTAX,
    "lint": planted.LINT,
    "dataflow": planted.MEANING,
    "unit_tests": planted.MEANING,
}
FULL = {"syntax": 0.0, "lint": 0.0, "dataflow": 1.0, "unit_tests": 1.0}
"""What a correct program is paid."""
POINTERS = ("channel", "end", "uniform", "line")
MEASURES = ("precision", "recall", "iou", "lines", "exact", "seen")
LIMITS = Limits(cpu_s=1.0, wall_s=2.0)


@dataclass(frozen=True)
class Case:
    """A fault in the reference of a problem."""

    problem: Problem
    fault: Fault

    @property
    def truth(self) -> frozenset[int]:
        return frozenset(range(self.fault.start, self.fault.end))


def channels(sandbox: Sandbox) -> dict[str, RewardChannel]:
    """As a task configures them; every rule that lint selects counts."""
    return {
        "syntax": Syntax(sandbox),
        "lint": Lint(dict.fromkeys("EWFBS", 1.0)),
        "dataflow": Dataflow(sandbox),
        "unit_tests": UnitTests(sandbox, locate=True),
    }


def references() -> list[Problem]:
    """Those of basics, and of HumanEval where its data is there."""
    results = Basics().problems("train") + Basics().problems("test")
    try:
        results += HumanEval().problems("train") + HumanEval().problems("test")
    except TaskError as error:
        print(f"without HumanEval: {error}", file=sys.stderr)
    return results


def answer(code: str) -> Completion:
    """The code as a whole answer, one token a character."""
    text = OPENING + code + CLOSING
    span = (len(OPENING), len(OPENING) + len(code))
    return Completion(text, range(len(text)), [(i, i + 1) for i in range(len(text))], span, closed=True)


async def score(channel: RewardChannel, problems: Sequence[Problem], codes: Iterable[str]) -> list[ChannelResult]:
    """Raises RuntimeError where the sandbox failed."""
    results = [result for result in await channel.score(problems, [answer(code) for code in codes]) if result]
    if len(results) < len(problems):
        raise RuntimeError("the sandbox failed")
    return results


async def correct(judges: dict[str, RewardChannel], problems: Sequence[Problem]) -> list[Problem]:
    """The problems whose references every channel pays in full."""
    kept = [True] * len(problems)
    for name, channel in judges.items():
        for i, result in enumerate(await score(channel, problems, [p.reference for p in problems])):
            # a reference without data flow is paid nothing by that channel
            kept[i] &= abs(result.score - FULL[name]) < 1e-9 or (name == "dataflow" and result.score == 0)
    return [problem for problem, good in zip(problems, kept, strict=True) if good]


def charged(result: ChannelResult, code: str, full: float) -> frozenset[int]:
    """Characters of the code that a channel charges."""
    if result.score > full - 1e-9:
        return frozenset()
    taken = [range(span.start, span.end) for span in result.spans if span.value < 0]
    everywhere = range(len(OPENING), len(OPENING) + len(code))
    return frozenset(i - len(OPENING) for span in taken or [everywhere] for i in span)


def compare(code: str, charged: frozenset[int], truth: frozenset[int]) -> dict[str, float]:
    """MEASURES of the characters charged."""
    both = len(charged & truth)
    lines, wanted = ({code.count("\n", 0, i) for i in places} for places in (charged, truth))
    return {
        "precision": both / len(charged) if charged else 0.0,
        "recall": both / len(truth),
        "iou": both / len(charged | truth),
        "lines": len(lines & wanted) / len(lines | wanted),
        "exact": float(charged == truth),
        "seen": float(bool(charged)),
    }


def first_occurrence(code: str, line: int | None) -> frozenset[int]:
    """The characters that a search for the text of a line finds; all of them where no line is named."""
    lines = code.split("\n")
    text = lines[line - 1].strip() if line is not None and line <= len(lines) else ""
    start = code.find(text) if text else 0
    return frozenset(range(start, start + (len(text) or len(code))))


def line_of(outcome: Outcome) -> int | None:
    """The line that the message of a failing run names."""
    results = re.search(r"\(line (\d+)\)", outcome.note)
    return int(results.group(1)) if results else None


async def lines_named(name: str, judge: RewardChannel, cases: Sequence[Case], runs: Sequence[Outcome]) -> list:
    if not isinstance(judge, Lint):
        return [line_of(run) for run in runs]
    results = await judge.linter.findings([case.fault.code for case in cases])
    first = [findings[0].start if findings else None for findings in results]
    return [None if at is None else c.fault.code.count("\n", 0, at) + 1 for c, at in zip(cases, first, strict=True)]


async def measure(name: str, judges: dict[str, RewardChannel], cases: Sequence[Case], sandbox: Sandbox) -> list[dict]:
    """For each case the measures of each of POINTERS, under its kind; fewer for `unit_tests`: those that fail them."""
    jobs = [case.problem.job(case.fault.code) for case in cases]
    runs = [] if name == "lint" else await sandbox.run(jobs)
    if name == "unit_tests":
        failing = [i for i, run in enumerate(runs) if run.verdict != "pass"]
        cases, runs = [cases[i] for i in failing], [runs[i] for i in failing]
    results = await score(judges[name], [case.problem for case in cases], [case.fault.code for case in cases])
    rows = []
    lines = await lines_named(name, judges[name], cases, runs)
    for case, result, line in zip(cases, results, lines, strict=True):
        size = len(case.fault.code)
        sets = {
            "channel": charged(result, case.fault.code, FULL[name]),
            "end": frozenset([size - 1]),
            "uniform": frozenset(range(size)),
            "line": first_occurrence(case.fault.code, line),
        }
        rows.append({"case": case, **{p: compare(case.fault.code, matches, case.truth) for p, matches in sets.items()}})
    return rows


def summary(rows: Sequence[dict]) -> dict:
    mean = {p: {m: round(statistics.fmean(row[p][m] for row in rows), 4) for m in MEASURES} for p in POINTERS}
    return {"faults": len(rows), **mean}


def cases_of(name: str, problems: Sequence[Problem], seed: int) -> list[Case]:
    """One fault of each of the channel's kinds in each program that has a place for it."""
    kinds = KINDS[name]
    return [Case(p, fault) for p in problems for fault in planted.plant(p.reference, kinds, f"{seed}:{p.id}")]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, help="a sample of that many, not all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=0, help="faults that syntax or lint does not hit exactly, at most")
    args = parser.parse_args()
    sandbox = LocalSandbox(2, LIMITS, packages=PACKAGES)
    judges = channels(sandbox)
    problems = references()
    if args.programs:
        problems = random.Random(args.seed).sample(problems, args.programs)
    good = await correct(judges, problems)
    print(f"{len(good)} of {len(problems)} references are correct to every channel", file=sys.stderr)
    print(
        f"{'':32}{'faults':>6}  seen exact  " + "".join(f"{p + ' P, R, IoU, lines':>29}" for p in POINTERS),
        file=sys.stderr,
    )
    table: dict[str, dict] = {}
    for name in KINDS:
        rows = await measure(name, judges, cases_of(name, good, args.seed), sandbox)
        table[name] = {"all": summary(rows)}
        for kind in KINDS[name]:
            if own := [row for row in rows if row["case"].fault.kind == kind]:
                table[name][kind] = summary(own)
        for kind, results in table[name].items():
            print(printed(f"{name}, {kind}", results), file=sys.stderr)
        missed = [row["case"] for row in rows if not row["channel"]["exact"] and name in ("syntax", "lint")]
        for case in missed[: args.show]:
            print(f"{case.problem.id} {case.fault}", file=sys.stderr)
    await sandbox.close()
    print(json.dumps({"programs": len(good), "seed": args.seed, "channels": table}))


def printed(title: str, results: dict) -> str:
    cells = "".join(
        f"{'{precision:.2f} {recall:.2f} {iou:.2f} {lines:.2f}'.format(**results[p]):>29}" for p in POINTERS
    )
    return (
        f"{title:32}{results['faults']:6}  {results['channel']['seen']:.2f}  {results['channel']['exact']:.2f} {cells}"
    )


if __name__ == "__main__":
    asyncio.run(main())
