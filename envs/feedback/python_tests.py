"""Python code: the first test of the prompt that fails, where it raised, a syntax error, a time-out, Ruff's word."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from envs.feedback.observation import Observation
from envs.feedback.plain_text import cut, quoted
from envs.feedback.shown_tests import shown_problem
from envs.indentation import without_indent
from envs.sandbox import FunctionCase, Job, Outcome, Sandbox, StdioCase
from envs.task import Problem

EXPLAIN = (Path(__file__).parent / "explain.py").read_text(encoding="utf-8")
SHOWN = 240
"""Characters of a value, an input or an output that a reply shows."""
MOST_FINDINGS = 3
BREAKS = ("E9", "F63", "F7", "F82")
"""Ruff's rules that find errors, such as an undefined name; the others find taste."""


STOPPED = re.compile(r"limit|signal|killed|time")
"""In the sandbox's note of a program that was stopped."""


class Finds(Protocol):
    """A linter: findings of each text, None for one that crashes it (rewards/lint.py has Ruff's)."""

    async def findings(self, texts: Sequence[str]) -> list[Any]: ...


class PythonTests:
    """
    Args:
        sandbox: where programs run.
        linter: adds what it finds to what fails; where the prompt shows no test, its findings are all there is beside
            loading the code. None: no such word.

    A program is fine where it passes all tests that the prompt shows, or, of a prompt that shows none, where it loads
    (one that reads standard input: compiles) and the linter finds no error.
    """

    def __init__(self, sandbox: Sandbox, linter: Finds | None = None):
        self.sandbox, self.linter = sandbox, linter
        self._shown: dict[str, Problem | None] = {}

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Leave out shown tests that a problem's own reference does not pass: some prompts show a wrong value."""
        alone = [part for problem in problems for part in problem.parts or (problem,)]
        shown = [(p, s) for p in alone if (s := shown_problem(p)) is not None and p.reference]
        single = [(p, s, case) for p, s in shown for case in s.cases]
        jobs = [_with(s, (case,)).job(p.reference, str(n)) for n, (p, s, case) in enumerate(single)]
        passed: dict[str, list[Any]] = {p.id: [] for p, _ in shown}
        for (problem, _, case), outcome in zip(single, await self.sandbox.run(jobs), strict=True):
            if outcome.verdict == "pass":
                passed[problem.id].append(case)
        for problem, tests in shown:
            kept = passed[problem.id]
            self._shown[problem.id] = _with(tests, tuple(kept)) if kept else None

    async def observe(self, problems: Sequence[Problem], codes: Sequence[str]) -> list[Observation]:
        """What is seen of each program; of one with parts, what is seen with each of its functions."""
        alone = [(part, code) for p, code in zip(problems, codes, strict=True) for part in p.parts or (p,)]
        seen = iter(await self._observe([part for part, _ in alone], [code for _, code in alone]))
        return [_joined([next(seen) for _ in problem.parts or (problem,)]) for problem in problems]

    async def _observe(self, problems: Sequence[Problem], codes: Sequence[str]) -> list[Observation]:
        # as the grader takes it: a block that is indented as a whole is code (Problem.job)
        codes = [c if p.head(c) else without_indent(c)[0] for p, c in zip(problems, codes, strict=True)]
        shown = [self._tests(problem) for problem in problems]
        tested = [i for i, tests in enumerate(shown) if tests is not None]
        outcomes: dict[int, Outcome] = dict(
            zip(tested, await self.sandbox.run([_job(shown[i], codes[i], i) for i in tested]), strict=True)
        )
        look = [
            i for i in range(len(codes)) if i not in outcomes or outcomes[i].verdict in ("fail", "killed", "timeout")
        ]
        jobs = [self._explain(problems[i], shown[i], codes[i], outcomes.get(i), str(i)) for i in look]
        seen = dict(zip(look, await self.sandbox.run(jobs), strict=True))
        results = dict(zip(look, await self._lint([problems[i] for i in look], [codes[i] for i in look]), strict=True))
        return [
            self._observation(shown[i], outcomes.get(i), seen.get(i), results.get(i, ()), codes[i])
            for i in range(len(codes))
        ]

    def _tests(self, problem: Problem) -> Problem | None:
        if problem.id not in self._shown:
            self._shown[problem.id] = shown_problem(problem)
        return self._shown[problem.id]

    def _explain(self, problem: Problem, shown: Problem | None, code: str, outcome: Outcome | None, name: str) -> Job:
        case = None if shown is None or outcome is None else shown.cases[_first(outcome)]
        row = {
            "code": code,
            "begun": problem.head(code),
            "setup": problem.setup,
            "entry_point": problem.entry_point,
            "call": repr((case.args, dict(case.kwargs))) if isinstance(case, FunctionCase) else None,
            "stdin": case.stdin if isinstance(case, StdioCase) else None,
        }
        return Job(name, "program", EXPLAIN, stdin=json.dumps(row), limits=problem.limits)

    async def _lint(self, problems: Sequence[Problem], codes: Sequence[str]) -> list[Sequence[Any]]:
        """Findings in each code, read behind what the prompt supplies; their places are in the code."""
        if self.linter is None or not codes:
            return [()] * len(codes)
        heads = [p.head(c) or (f"{p.setup}\n" if p.setup else "") for p, c in zip(problems, codes, strict=True)]
        results = await self.linter.findings([head + code for head, code in zip(heads, codes, strict=True)])
        return [
            [replace(f, start=f.start - len(head), end=f.end - len(head)) for f in each or () if f.start >= len(head)]
            for head, each in zip(heads, results, strict=True)
        ]

    def _observation(
        self,
        shown: Problem | None,
        outcome: Outcome | None,
        seen: Outcome | None,
        results: Sequence[Any],
        code: str,
    ) -> Observation:
        if seen is None:
            graded = outcome is not None and outcome.graded
            return Observation(fine=graded, failed=not graded)
        if not seen.graded:
            return Observation(False, failed=True)
        facts, words = _facts(seen), _words(code, results)
        if outcome is None:
            message = _failure(facts, None) or ("" if seen.verdict == "pass" else _stopped(seen, None))
            if not message and not any(f.rule.startswith(BREAKS) for f in results):
                return Observation(fine=True)
            return Observation(False, "\n".join(filter(None, [message, words])))
        assert shown is not None
        case = shown.cases[_first(outcome)]
        # a later case may have been stopped: the note is of the first that failed
        known = outcome.note.startswith("case ")
        known = known and (isinstance(case, FunctionCase) or not STOPPED.search(outcome.note))
        answered = outcome.verdict == "fail" or known
        message = _failure(facts, (shown, case)) if answered else _stopped(outcome, _call(shown, case))
        return Observation(False, "\n".join(filter(None, [message or _noted(outcome, shown, case), words])))


def _joined(seen: Sequence[Observation]) -> Observation:
    """What is told of several functions of one program, each text once."""
    texts = dict.fromkeys(each.text for each in seen if each.text)
    return Observation(all(each.fine for each in seen), "\n\n".join(texts), any(each.failed for each in seen))


def _with(problem: Problem, cases: tuple[Any, ...]) -> Problem:
    return replace(problem, cases=cases)


def _job(shown: Problem | None, code: str, number: int) -> Job:
    assert shown is not None
    return shown.job(code, str(number))


def _first(outcome: Outcome) -> int:
    """The index of the first case that did not pass."""
    return next((n for n, passed in enumerate(outcome.cases) if not passed), 0)


def _facts(seen: Outcome) -> dict[str, Any]:
    try:
        facts = json.loads(seen.stdout.splitlines()[-1])
    except (ValueError, IndexError, RecursionError):
        return {}  # it was stopped, or the candidate wrote over it
    return facts if isinstance(facts, dict) else {}


def _failure(facts: dict[str, Any], test: tuple[Problem, Any] | None) -> str:
    """A failure in words; "" where the facts hold none."""
    if "syntax" in facts:
        return "\n".join(["The code does not compile.", quoted(cut(str(facts["syntax"]), SHOWN)), *_places(facts)])
    head = "The code fails when it is loaded." if test is None else f"This fails: {_call(*test)}"
    if "error" in facts:
        return "\n".join([head, "It raised:", quoted(cut(str(facts["error"]), SHOWN)), *_places(facts)])
    if test is None:
        return ""
    case = test[1]
    if isinstance(case, StdioCase) and "output" in facts:
        expected, got = case.stdout.strip("\n"), str(facts["output"]).strip("\n")
        return "\n".join([head, "Expected output:", quoted(cut(expected, SHOWN)), "Output:", quoted(cut(got, SHOWN))])
    if isinstance(case, FunctionCase) and "value" in facts and str(facts["value"]) != repr(case.expected):
        expected = cut(repr(case.expected), SHOWN)
        return "\n".join([head, f"Expected: {expected}", "Got:", quoted(cut(str(facts["value"]), SHOWN))])
    return ""


def _noted(outcome: Outcome, problem: Problem, case: Any) -> str:
    """The sandbox's own note, where the second run did not fail as the first."""
    return "\n".join([f"This fails: {_call(problem, case)}", quoted(cut(outcome.note, SHOWN))])


def _stopped(outcome: Outcome, call: str | None) -> str:
    where = f": {call}" if call else " when the code is loaded."
    if outcome.verdict == "timeout" or "time" in outcome.note:
        return f"The program did not end in time{where}"
    return f"The program was stopped ({cut(outcome.note, 80)}){where}"


def _call(problem: Problem, case: Any) -> str:
    if isinstance(case, StdioCase):
        return "with the input\n" + quoted(cut(case.stdin.strip("\n"), SHOWN))
    given = [*map(repr, case.args), *(f"{name}={value!r}" for name, value in case.kwargs.items())]
    return cut(f"{problem.entry_point}({', '.join(given)})", SHOWN)


def _places(facts: dict[str, Any]) -> list[str]:
    """The candidate's own lines of a traceback."""
    places = facts.get("lines")
    lines = []
    for place in places if isinstance(places, list) else []:
        if isinstance(place, list) and len(place) == 2 and isinstance(place[0], int):
            lines.append(quoted(f"line {place[0]}: {cut(str(place[1]), 120)}"))
    return lines


def _words(code: str, results: Any) -> str:
    """Ruff's first findings with their lines."""
    if not results:
        return ""
    message = [
        f"line {code.count(chr(10), 0, f.start) + 1}: {f.rule} {cut(f.message, 120)}" for f in results[:MOST_FINDINGS]
    ]
    return "\n".join(["Ruff says:", *map(quoted, message)])
