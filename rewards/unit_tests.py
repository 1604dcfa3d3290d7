"""Unit tests: the share of a problem's tests that the extracted code passes, run in the sandbox.

Range 0 to 1. Spread over the code; with `locate`, the code is paid 1 and what is missing to 1 is taken from the lines
that failing tests execute and passing ones do not (spectrum-based fault localisation: Wong et al. 2016, "A survey on
software fault localization"); from those of them where failing tests raised, if any did. No code, no run: score 0.

With `held_out`, that share of each problem's tests never pays. Answers that pass all the others are run on it: `passed`
then means all tests, so a policy that games those that pay scores and does not pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from envs.sandbox import FunctionCase, Job, Outcome, Sandbox, StdioCase
from envs.sandbox.protocol import Verdict
from envs.task import Problem
from rewards.channel import ChannelResult, Completion, Span
from rewards.held_out import divide, each

COVERAGE = Path(__file__).with_name("coverage.py").read_text()
LINES = re.compile(r"\r\n|\r|\n")
"""Where Python breaks lines of source."""


class UnitTests:
    """
    Args:
        sandbox: where the code runs.
        fractional: True pays the share of tests passed, False only full marks. The tests of a check are its asserts on
            the entry point; those of one that fails are run again, one by one.
        locate: True puts what failing tests cost on the lines they point at; each failing completion is run again.
        held_out: share of a problem's tests, of two at least, that is never paid for (see rewards/held_out.py).
        held_out_seed: which of them.

    Details with `held_out`: `watched`, whether an answer passes what pays and there are tests held out; of those,
    `held_out_passed`. Their means are in metrics.jsonl, where recipes/support/diseases_hacking.py watches them.

    Raises:
        ValueError: `held_out` is not at least 0 and below 1.
    """

    judges_form = False

    def __init__(
        self,
        sandbox: Sandbox,
        fractional: bool = True,
        locate: bool = False,
        held_out: float = 0.0,
        held_out_seed: int = 0,
    ):
        if not 0 <= held_out < 1:
            raise ValueError(f"held_out={held_out}: the share of tests that are not paid for is at least 0 and below 1")
        self.sandbox, self.fractional, self.locate = sandbox, fractional, locate
        self.held_out, self.held_out_seed = held_out, held_out_seed

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        results: list[ChannelResult | None] = [
            ChannelResult(0.0, passed=False, verdict="no code", note="no code block") for _ in completions
        ]
        run = [i for i, c in enumerate(completions) if c.code is not None]
        asked = {problems[i].id: problems[i] for i in run}
        sides = {name: divide(problem, self.held_out, self.held_out_seed) for name, problem in asked.items()}
        jobs = [sides[problems[i].id][0].job(completions[i].code or "", str(i)) for i in run]
        outcomes = await self.sandbox.run(jobs)
        if self.fractional:
            outcomes = await self._by_assert([sides[problems[i].id][0] for i in run], jobs, outcomes)
        blamed = await self._blame(jobs, outcomes) if self.locate else [[]] * len(jobs)
        for i, outcome, lines in zip(run, outcomes, blamed, strict=True):
            results[i] = self._result(completions[i], outcome, lines)
        if self.held_out:
            passing = [i for i, outcome in zip(run, outcomes, strict=True) if outcome.verdict == "pass"]
            await self._watch({i: held for i in passing if (held := sides[problems[i].id][1])}, completions, results)
        return results

    async def _by_assert(
        self, problems: Sequence[Problem], jobs: Sequence[Job], outcomes: Sequence[Outcome]
    ) -> list[Outcome]:
        """The outcomes with the asserts of failed checks counted, each run by itself: a check ends at its first."""
        failed = [i for i, o in enumerate(outcomes) if jobs[i].kind == "check" and o.verdict == "fail"]
        alone = [(i, problem) for i in failed for problem in each(problems[i])]
        ran = await self.sandbox.run([p.job(jobs[i].code, f"{jobs[i].id}/{n}") for n, (i, p) in enumerate(alone)])
        counted = list(outcomes)
        for i in failed:
            cases = [o for (place, _), o in zip(alone, ran, strict=True) if place == i]
            if len(cases) > 1:
                verdict: Verdict = "fail" if all(o.graded for o in cases) else "error"
                passed = sum(o.verdict == "pass" for o in cases)
                counted[i] = replace(outcomes[i], verdict=verdict, passed=passed, total=len(cases))
        return counted

    async def _watch(
        self, held: Mapping[int, Problem], completions: Sequence[Completion], results: list[ChannelResult | None]
    ) -> None:
        """Run answers that pass what pays on the tests held out, and enter in `results` what comes of it."""
        outcomes = await self.sandbox.run([p.job(completions[i].code or "", str(i)) for i, p in held.items()])
        for i, result in enumerate(results):
            if result is not None:
                results[i] = replace(result, detail={**result.detail, "watched": int(i in held)})
        for i, outcome in zip(held, outcomes, strict=True):
            result, passed = results[i], outcome.verdict == "pass"
            if result is None or not outcome.graded:  # whether it is right cannot be said
                results[i] = None
                continue
            results[i] = replace(
                result,
                passed=passed,
                verdict="pass" if passed else "held-out",
                note=f"{result.note}, held out {outcome.passed} of {outcome.total}",
                detail={**result.detail, "held_out_passed": int(passed)},
            )

    def _result(self, completion: Completion, outcome: Outcome, lines: Sequence[int]) -> ChannelResult | None:
        if not outcome.graded:
            return None
        passed = outcome.verdict == "pass"
        score = outcome.passed / outcome.total if self.fractional else float(passed)
        note = outcome.note or f"{outcome.passed} of {outcome.total} tests"
        spans: tuple[Span, ...] = ()
        if places := line_spans(completion, lines):
            where = f"(line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))})"
            note = note if note.endswith(where) else f"{note} {where}"
            assert completion.code_span is not None
            spans = (Span(*completion.code_span, 1.0), *(Span(*p, (score - 1) / len(places)) for p in places))
        detail = {"seconds": round(outcome.seconds, 4)}
        return ChannelResult(score, spans, passed=passed, verdict=outcome.verdict, note=note, detail=detail)

    async def _blame(self, jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> list[list[int]]:
        failing = [i for i, outcome in enumerate(outcomes) if outcome.graded and outcome.verdict != "pass"]
        watched = [
            Job(jobs[i].id, "program", COVERAGE, stdin=json.dumps(_row(jobs[i])), limits=jobs[i].limits)
            for i in failing
        ]
        blamed: list[list[int]] = [[] for _ in jobs]
        for i, seen in zip(failing, await self.sandbox.run(watched), strict=True):
            blamed[i] = suspects(seen.stdout, outcomes[i].cases)
        return blamed


def _row(job: Job) -> dict[str, Any]:
    row: dict[str, Any] = {"code": job.code, "setup": job.setup, "entry_point": job.entry_point}
    if job.kind == "check":
        row["check_src"] = job.check_src
    elif job.kind == "function":
        row["calls"] = [repr((c.args, dict(c.kwargs))) for c in job.cases if isinstance(c, FunctionCase)]
    else:
        row["inputs"] = [c.stdin for c in job.cases if isinstance(c, StdioCase)]
    return row


def suspects(coverage: str, passed: Sequence[bool]) -> list[int]:
    """Lines (from 1) to blame, from what rewards/coverage.py printed and which cases passed; empty: no line stands out.

    Where all tests raise at one line, all that they executed before it stands out too: the line itself says more.
    Tests that have no verdict in `passed` (those of a check) bring their own.
    """
    try:
        seen = json.loads(coverage.splitlines()[-1])
        cases = [{int(line) for line in lines} for lines in seen["cases"]]
        raised = [None if line is None else int(line) for line in seen["raised"]]
        ok = [bool(p) if own is None else bool(own) for own, p in zip(seen["ok"], _padded(passed, cases), strict=True)]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return []  # killed on the way, or the program wrote there
    failing = [lines for lines, fine in zip(cases, ok, strict=True) if not fine]
    passing = [lines for lines, fine in zip(cases, ok, strict=True) if fine]
    lines = set().union(*failing) - set().union(*passing)
    ends = {line for line, fine in zip(raised, ok, strict=True) if line is not None and not fine}
    return sorted(lines & ends or lines or ends)


def _padded(passed: Sequence[bool], cases: Sequence[Any]) -> list[bool]:
    return [*passed, *[False] * len(cases)][: len(cases)]


def line_spans(completion: Completion, lines: Sequence[int]) -> list[tuple[int, int]]:
    """The characters of the code's `lines` (from 1) in the completion's text, without the blanks around them."""
    if completion.code is None or completion.code_span is None:
        return []
    start, source = completion.code_span[0], completion.code
    edges = [0, *(m.end() for m in LINES.finditer(source)), len(source)]
    places = []
    for line in lines:
        if 0 < line < len(edges):
            text = source[edges[line - 1] : edges[line]]
            first = edges[line - 1] + len(text) - len(text.lstrip())
            if last := len(text.strip()):
                places.append((start + first, start + first + last))
    return places
