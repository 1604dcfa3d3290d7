"""Unit tests: the share of a problem's tests that the extracted code passes, run in the sandbox.

The score lies in [0, 1] and is spread over the code. With `locate`, the whole code gets 1, and the difference
score - 1 is put on the lines that failing tests execute and passing tests do not (spectrum-based fault localisation:
Wong et al. 2016, "A survey on software fault localization"); if failing tests raised an error on some of those lines,
on these alone. A completion without a block of code is not run and scores 0.

With `held_out`, that share of each problem's tests is never paid. Completions that pass all paid tests also run on the
held-out ones, and `passed` then means all tests: a policy that games the paid tests is rewarded but does not pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from envs.sandbox import FunctionCase, Job, Outcome, Sandbox, StdioCase
from envs.sandbox.protocol import Verdict
from envs.sandbox.worker.codec import parse
from envs.task import Problem
from rewards.analysis.definitions import definitions
from rewards.analysis.held_out_tests import divide, each
from rewards.channel import ChannelResult, Completion, Span, charged

COVERAGE = (Path(__file__).parent / "analysis" / "python_coverage.py").read_text(encoding="utf-8")
MAX_LINE = 1 << 24
"""Largest number of a line in a record of coverage."""
MAX_RECORD = 1 << 20
"""Characters of a record of coverage."""
MOST_CHECKS = 500
"""Checks whose asserts are kept apart in memory."""
DOES_NOT_PARSE = ("SyntaxError", "IndentationError", "TabError")
"""How the notes of outcomes begin whose code could not be loaded at all."""
LINE_END = re.compile(r"\r\n|\r|\n")
"""Python breaks lines of source here."""


class UnitTests:
    """
    A problem with parts has the mean of their scores, each on the definition of its own function (Span.part). Where the
    code does not parse, functions that do not parse by themselves are cut out of it, so that only their own rewards are
    lost; such an answer never passes.

    Args:
        sandbox: where the code runs.
        fractional: True pays the share of passed tests, where tests that the prompt shows pay nothing by themselves
            (paid_share). False pays 1 only if all pass; a script is then not run on further inputs after a wrong
            answer, unless `locate` needs all of them. The tests of a check are its asserts that call the entry point;
            if the check fails, they are run again one by one, and at least one counts as failed.
        locate: True puts the penalty of failing tests on the lines that they point at; each failing completion runs
            once more.
        held_out: share of a problem's tests that is never paid, for problems with at least two tests
            (analysis/held_out_tests.py).

    With `held_out`, `detail` has `watched`, whether a completion passes the paid tests of a problem with held-out ones,
    and for those `held_out_passed`. recipes/tools/diagnosis/hacking.py watches their means in metrics.jsonl.

    Raises:
        ValueError: `held_out` is below 0, or 1 or more.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        fractional: bool = True,
        locate: bool = False,
        held_out: float = 0.0,
    ):
        if not 0 <= held_out < 1:
            raise ValueError(f"held_out={held_out}: the share of unpaid tests must be at least 0 and below 1")
        self.sandbox, self.fractional, self.locate, self.held_out = sandbox, fractional, locate, held_out
        self._single: dict[tuple[str, str], list[Problem]] = {}

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        """One result for each completion; of a problem with parts it comes from the results of its parts."""
        each = await self._score_parts(problems, completions, range(len(problems)))
        broken = [i for i, p in enumerate(problems) if p.parts and all(map(_does_not_parse, each[i].values()))]
        mended, faulty = await self._without_broken_functions(problems, completions, broken)
        for i, results in (await self._score_parts(problems, mended, list(mended))).items():
            others = {part: result for part, result in results.items() if part not in faulty[i]}
            if not all(map(_does_not_parse, others.values())):
                each[i] |= others
        return [
            of_parts(problem.parts, completion, list(each[i].values()))
            if problem.parts
            else next(iter(each[i].values()))
            for i, (problem, completion) in enumerate(zip(problems, completions, strict=True))
        ]

    async def _score_parts(
        self,
        problems: Sequence[Problem],
        completions: Mapping[int, Completion] | Sequence[Completion],
        which: Iterable[int],
    ) -> dict[int, dict[str, ChannelResult | None]]:
        """Of the completions `which`, by index: the result of each part by its id, or of the whole problem."""
        alone = [(i, part) for i in which for part in problems[i].parts or (problems[i],)]
        scored = await self._score([part for _, part in alone], [completions[i] for i, _ in alone])
        found: dict[int, dict[str, ChannelResult | None]] = {}
        for (i, part), result in zip(alone, scored, strict=True):
            found.setdefault(i, {})[part.id] = result
        return found

    async def _without_broken_functions(
        self, problems: Sequence[Problem], completions: Sequence[Completion], which: Sequence[int]
    ) -> tuple[dict[int, Completion], dict[int, set[str]]]:
        """Of the completions `which`, whose code does not parse: those with functions that do not parse by themselves
        either, by index, with blanks in place of these; and the ids of these functions."""
        places = {i: definitions(completions[i].code or "", list(map(_name, problems[i].parts))) for i in which}
        alone = [(i, part, place) for i in which for part in problems[i].parts if (place := places[i].get(_name(part)))]
        scored = await self._score(
            [part for _, part, _ in alone], [_only(completions[i], place) for i, _, place in alone]
        )
        mended: dict[int, Completion] = {}
        faulty: dict[int, set[str]] = {}
        for (i, part, place), result in zip(alone, scored, strict=True):
            if _does_not_parse(result):
                mended[i] = _blanked(mended.get(i, completions[i]), place)
                faulty.setdefault(i, set()).add(part.id)
        return mended, faulty

    async def _score(
        self, problems: Sequence[Problem], completions: Sequence[Completion]
    ) -> list[ChannelResult | None]:
        results: list[ChannelResult | None] = [
            ChannelResult(0.0, passed=False, verdict="no code", note="no code block") for _ in completions
        ]
        with_code = [i for i, c in enumerate(completions) if c.code is not None]
        distinct = {id(problems[i]): problems[i] for i in with_code}
        divided = {key: divide(problem, self.held_out) for key, problem in distinct.items()}
        paid = [divided[id(problems[i])][0] for i in with_code]
        jobs = [problem.job(completions[i].code or "", str(i)) for i, problem in zip(with_code, paid, strict=True)]
        if not self.fractional and not self.locate:  # lines are located from all cases
            jobs = [replace(job, all_or_nothing=True) for job in jobs]
        outcomes = await self.sandbox.run(jobs)
        if self.fractional:
            outcomes = await self._count_asserts(paid, jobs, outcomes)
        suspect_lines = await self._locate(jobs, outcomes) if self.locate else [[]] * len(jobs)
        for i, outcome, lines in zip(with_code, outcomes, suspect_lines, strict=True):
            given = problems[i].head(completions[i].code or "").count("\n")  # lines that the prompt began with
            shown = problems[i].shown
            results[i] = self._result(completions[i], outcome, shown, [n - given for n in lines if n > given])
        if self.held_out:
            passing = [i for i, outcome in zip(with_code, outcomes, strict=True) if outcome.verdict == "pass"]
            held_out = {i: unpaid for i in passing if (unpaid := divided[id(problems[i])][1])}
            await self._run_held_out(held_out, completions, results)
        return results

    async def _count_asserts(
        self, problems: Sequence[Problem], jobs: Sequence[Job], outcomes: Sequence[Outcome]
    ) -> list[Outcome]:
        """The outcomes, with the passed asserts of failed checks counted; each runs alone, as a check ends at its first
        failure. A program that ran out of time or memory has none: it would do so again for each."""
        failed = [i for i, o in enumerate(outcomes) if jobs[i].kind == "check" and o.verdict == "fail"]
        single = [(i, problem) for i in failed for problem in self._each(problems[i])]
        ran = await self.sandbox.run([p.job(jobs[i].code, f"{jobs[i].id}/{n}") for n, (i, p) in enumerate(single)])
        counted = list(outcomes)
        for i in failed:
            cases = [o for (place, _), o in zip(single, ran, strict=True) if place == i]
            if len(cases) > 1:
                verdict: Verdict = "fail" if all(o.graded for o in cases) else "error"
                ok = tuple(o.verdict == "pass" for o in cases)
                if all(ok):  # right for each first call alone, and for no later one
                    ok = (*ok[:-1], False)
                counted[i] = replace(outcomes[i], verdict=verdict, passed=sum(ok), total=len(ok), cases=ok)
        return counted

    def _each(self, problem: Problem) -> list[Problem]:
        """`each`, made once for a problem; checks may be long."""
        key = (problem.id, problem.check_src or "")
        if key not in self._single:
            if len(self._single) >= MOST_CHECKS:
                self._single.clear()
            self._single[key] = each(problem)
        return self._single[key]

    async def _run_held_out(
        self, held_out: Mapping[int, Problem], completions: Sequence[Completion], results: list[ChannelResult | None]
    ) -> None:
        """Run completions, by index, on their held-out tests, and enter the outcome in `results`."""
        jobs = [p.job(completions[i].code or "", str(i)) for i, p in held_out.items()]
        outcomes = await self.sandbox.run([replace(job, all_or_nothing=not self.fractional) for job in jobs])
        for i, result in enumerate(results):
            if result is not None:
                results[i] = replace(result, detail={**result.detail, "watched": int(i in held_out)})
        for i, outcome in zip(held_out, outcomes, strict=True):
            result, passed = results[i], outcome.verdict == "pass"
            if result is None or not outcome.graded:  # whether the code is correct is unknown
                results[i] = None
                continue
            results[i] = replace(
                result,
                passed=passed,
                verdict="pass" if passed else "held-out",
                note=f"{result.note}, held out {outcome.passed} of {outcome.total}",
                detail={**result.detail, "held_out_passed": int(passed)},
            )

    def _result(
        self, completion: Completion, outcome: Outcome, shown: int, lines: Sequence[int]
    ) -> ChannelResult | None:
        if not outcome.graded:
            return None
        passed = outcome.verdict == "pass"
        score = paid_share(outcome, shown) if self.fractional else float(passed)
        note = outcome.note or f"{outcome.passed} of {outcome.total} tests"
        spans: tuple[Span, ...] = ()
        if places := line_spans(completion, lines):
            numbers = f"(line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))})"
            note = note if note.endswith(numbers) else f"{note} {numbers}"
            assert completion.code_span is not None
            spans = charged(completion.code_span, score, places)
        detail = {"seconds": round(outcome.seconds, 4)}
        return ChannelResult(score, spans, passed=passed, verdict=outcome.verdict, note=note, detail=detail)

    async def _locate(self, jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> list[list[int]]:
        """For each job the lines, from 1, that its failing tests point at."""
        failing = [i for i, outcome in enumerate(outcomes) if outcome.graded and outcome.verdict != "pass"]
        traced = [
            Job(jobs[i].id, "program", COVERAGE, stdin=json.dumps(_coverage_input(jobs[i])), limits=jobs[i].limits)
            for i in failing
        ]
        lines: list[list[int]] = [[] for _ in jobs]
        for i, outcome in zip(failing, await self.sandbox.run(traced), strict=True):
            lines[i] = suspects(outcome.stdout, outcomes[i].cases)
        return lines


def paid_share(outcome: Outcome, shown: int) -> float:
    """The share of passed tests, and no more than the share of those that the prompt does not show, if there are any.

    An answer with the examples shown hard-coded passes the first `shown` tests without any work.
    """
    share = outcome.passed / outcome.total
    unseen = outcome.total - shown
    if not shown or unseen < 1:
        return share
    return min(share, sum(outcome.cases[shown:]) / unseen)


def of_parts(
    parts: Sequence[Problem], completion: Completion, results: Sequence[ChannelResult | None]
) -> ChannelResult | None:
    """Joins the results of an answer's functions into one: the mean of their scores, each on its own definition.

    If the code has no top-level `def` for a function, its reward is put on the last token, where the answer ended
    without it. Where no function could be loaded, since the code does not parse, the fault costs all of them, no
    function is a part, and all tokens share the loss. None if a function could not be graded.
    """
    graded = [result for result in results if result is not None]
    if len(graded) < len(results):
        return None
    names = [_name(part) for part in parts]
    start = (completion.code_span or (0, 0))[0]
    broken = all(map(_does_not_parse, graded))
    found = definitions(completion.code or "", names, parses=not any(map(_does_not_parse, graded)))
    spans: list[Span] = []
    for name, result in zip(names, graded, strict=True):
        first, last = found.get(name, (len(completion.text) - start,) * 2)
        whole, *charged = result.spans or (Span(0, 0, result.score),)
        part = "" if broken else name
        spans.append(Span(start + first, start + last, whole.value / len(parts), part))
        spans += [replace(span, value=span.value / len(parts), part=part) for span in charged]
    right = sum(result.passed is True for result in graded)
    wrong = [(name, result) for name, result in zip(names, graded, strict=True) if not result.passed]
    return ChannelResult(
        sum(span.value for span in spans),
        tuple(spans) if completion.code is not None else (),
        passed=not wrong,
        verdict=min((result.verdict for _, result in wrong), key="held-out".__eq__, default="pass"),
        note="; ".join([f"{right} of {len(parts)} functions", *(f"{name}: {result.note}" for name, result in wrong)]),
        detail=_watched(graded) | {"seconds": round(sum(result.detail.get("seconds", 0.0) for result in graded), 4)},
    )


def _name(part: Problem) -> str:
    return part.entry_point or ""


def _does_not_parse(result: ChannelResult | None) -> bool:
    return result is not None and result.note.startswith(DOES_NOT_PARSE)


def _only(completion: Completion, place: tuple[int, int]) -> Completion:
    """The answer as if its code were the characters `place` of it alone."""
    assert completion.code_span is not None
    start = completion.code_span[0]
    return replace(completion, code_span=(start + place[0], start + place[1]))


def _blanked(completion: Completion, place: tuple[int, int]) -> Completion:
    """The answer with blanks for the characters `place` of its code; lines stay where they are."""
    assert completion.code_span is not None
    first, last = (completion.code_span[0] + edge for edge in place)
    text = completion.text
    return replace(completion, text=text[:first] + re.sub(r"[^\r\n]", " ", text[first:last]) + text[last:])


def _watched(results: Sequence[ChannelResult]) -> dict[str, int]:
    """As of one function: watched are answers that pass all paid tests and have held-out ones."""
    if not any("watched" in result.detail for result in results):
        return {}
    seen = [result for result in results if result.detail.get("watched")]
    if not seen or any(not result.passed for result in results if result not in seen):
        return {"watched": 0}
    return {"watched": 1, "held_out_passed": int(all(result.detail["held_out_passed"] for result in seen))}


def _coverage_input(job: Job) -> dict[str, Any]:
    """What analysis/python_coverage.py reads."""
    row: dict[str, Any] = {"code": job.code, "setup": job.setup, "entry_point": job.entry_point}
    if job.kind == "check":
        row["check_src"] = job.check_src
    elif job.kind == "function":
        row["calls"] = [repr((c.args, dict(c.kwargs))) for c in job.cases if isinstance(c, FunctionCase)]
    else:
        row["inputs"] = [c.stdin for c in job.cases if isinstance(c, StdioCase)]
    return row


def suspects(coverage: str, passed: Sequence[bool]) -> list[int]:
    """Lines, from 1, that only failing tests execute; of these, the lines where they raised an error, if there are any.

    If all tests raise at one line, every line before it is executed by failing tests alone too, so the line of the
    error says more. If no line is suspect otherwise, the lines of the errors are returned.

    Args:
        coverage: what analysis/python_coverage.py printed. It has its own verdicts for the tests of a check.
        passed: which cases passed.
    """
    record = _record(coverage)
    if record is None:
        return []  # the program was killed, or the code wrote to its output
    cases, raised, own = record
    given = [*passed, *[False] * len(cases)][: len(cases)]
    ok = [verdict if mine is None else mine for mine, verdict in zip(own, given, strict=True)]
    failing = [lines for lines, fine in zip(cases, ok, strict=True) if not fine]
    passing = [lines for lines, fine in zip(cases, ok, strict=True) if fine]
    lines = set().union(*failing) - set().union(*passing)
    error_lines = {line for line, fine in zip(raised, ok, strict=True) if line is not None and not fine}
    return sorted(lines & error_lines or lines or error_lines)


def _record(coverage: str) -> tuple[list[set[int]], list[int | None], list[bool | None]] | None:
    """What analysis/python_coverage.py printed, or None. The code that it measured may have written anything in its
    place, so that types, ranges and sizes are checked; JSON has 1e999 and Infinity too."""
    if len(coverage) > MAX_RECORD:
        return None
    try:
        report = parse(coverage.rstrip("\n").rpartition("\n")[2])
    except ValueError:
        return None
    if not isinstance(report, dict):
        return None
    cases, raised, own = (report.get(name) for name in ("cases", "raised", "ok"))
    if not (isinstance(cases, list) and isinstance(raised, list) and isinstance(own, list)):
        return None
    whole = all(isinstance(lines, list) and all(map(_is_line, lines)) for lines in cases)
    if not whole or not all(line is None or _is_line(line) for line in raised):
        return None
    if not len(cases) == len(raised) == len(own) or not {type(mine) for mine in own} <= {bool, type(None)}:
        return None
    return [set(lines) for lines in cases], raised, own


def _is_line(value: Any) -> bool:
    return type(value) is int and 0 < value <= MAX_LINE


def line_spans(completion: Completion, lines: Sequence[int]) -> list[tuple[int, int]]:
    """Characters (start, end) of the code's `lines` (from 1) in the completion's text, without surrounding blanks."""
    if completion.code is None or completion.code_span is None:
        return []
    start, source = completion.code_span[0], completion.code
    edges = [0, *(m.end() for m in LINE_END.finditer(source)), len(source)]
    places = []
    for line in lines:
        if 0 < line < len(edges):
            text = source[edges[line - 1] : edges[line]]
            first = edges[line - 1] + len(text) - len(text.lstrip())
            if last := len(text.strip()):
                places.append((start + first, start + first + last))
    return places
