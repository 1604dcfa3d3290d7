"""Simulation: the lines are put into their gap, the program is built and run, and its fields are compared.

Score in [0, 1]: the mean of compile, execution, header and density (envs/etk/completion), or `skill`, what the density
adds to a run in which nothing happens. Where the compiler names places in the code, the whole is paid 1 and they lose
what is missing; else the score is spread over the code. An empty answer is scored like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from envs.etk.completion import CompletionScore, CompletionScorer, Request
from envs.packaged import cache_dir
from envs.sandbox import Sandbox
from envs.task import Problem
from rewards.channel import ChannelResult, Completion, Span

PERFECT = 1 - 1e-6
MEASURED = (
    "compile",
    "execution",
    "header",
    "density",
    "skill",
    "baseline",
    "exact",
    "line_count_match",
    "time_mismatch",
)


class Simulation:
    """
    Args:
        sandbox: where programs are built and run.
        paid: "total" or "skill".
        cache: folder for built sources and reference runs; None: the user's cache.
        keep: what came of completions is kept there as well, for all later runs. False where what a program computes
            is not the same each time.

    Raises:
        ValueError: another `paid`.
    """

    judges_form = False

    def __init__(self, sandbox: Sandbox, paid: str = "total", cache: str | None = None, keep: bool = True):
        if paid not in ("total", "skill"):
            raise ValueError(f"simulation.paid={paid}: total or skill")
        self.sandbox, self.paid, self.keep = sandbox, paid, keep
        self.cache = Path(cache) if cache else cache_dir() / "simulations"
        self._scorers: dict[str, CompletionScorer] = {}

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Build and run the applications as they are. Raises CompletionError where one cannot be."""
        for scorer in dict.fromkeys(map(self._scorer, problems)):
            await scorer.ready()

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        """Raises CompletionError where an application cannot be built as it is."""
        results: list[ChannelResult | None] = [None] * len(problems)
        by_scorer: dict[CompletionScorer, list[int]] = {}
        for i, problem in enumerate(problems):
            by_scorer.setdefault(self._scorer(problem), []).append(i)
        for scorer, places in by_scorer.items():
            requests = [Request(problems[i].data["case"], completions[i].code or "") for i in places]
            for i, found in zip(places, await scorer.score(requests), strict=True):
                results[i] = None if found is None else self._result(completions[i], found)
        return results

    def _scorer(self, problem: Problem) -> CompletionScorer:
        application = problem.data["application"]
        if application.name not in self._scorers:
            self.cache.mkdir(parents=True, exist_ok=True)
            self._scorers[application.name] = CompletionScorer(application, self.sandbox, self.cache, self.keep)
        return self._scorers[application.name]

    def _result(self, completion: Completion, found: CompletionScore) -> ChannelResult:
        score = found.total if self.paid == "total" else found.skill or 0.0
        right = found.total >= PERFECT
        verdict = "pass" if right else "build" if not found.compile else "run" if not found.execution else "fields"
        errors = [message for message in found.messages if message.severity == "error"]
        note = f"density {found.density:.3f}" if found.execution else (found.reasons or ("not run",))[0]
        if errors and not found.compile:
            note = errors[0].text
        detail = {name: getattr(found, name) for name in MEASURED}
        spans = _charged(completion, score, [e.offset for e in errors if e.offset is not None])
        return ChannelResult(score, spans, passed=right, verdict=verdict, note=note, detail=detail)


def _charged(completion: Completion, score: float, offsets: Sequence[int]) -> tuple[Span, ...]:
    """The whole is paid 1 and the places lose what is missing; no spans where there is no place to name."""
    if completion.code_span is None or score >= 1:
        return ()
    start, end = completion.code_span
    places = sorted({start + offset for offset in offsets if start + offset < end})
    if not places:
        return ()
    return (Span(start, end, 1.0), *(Span(place, place + 1, (score - 1) / len(places)) for place in places))
