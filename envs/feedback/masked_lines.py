"""Masked lines of a simulation: the compiler's error, a failing run, or how far the field is from the reference's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from envs.etk.completion import CompletionScore, CompletionScorer, Request
from envs.feedback.observation import Observation
from envs.feedback.plain_text import cut, quoted
from envs.local_models import cache_dir
from envs.sandbox import Sandbox
from envs.task import Problem


class MaskedLines:
    """
    Args:
        sandbox: where programs are built and run.
        cache: folder for built sources and reference runs; None: the user's cache, which the reward channel shares.
        keep: also store what came of a text there, so that the reward does not build it again.

    The reference's lines and its fields' values are never told, only how far the result is from them.
    """

    def __init__(self, sandbox: Sandbox, cache: str | None = None, keep: bool = True):
        self.sandbox, self.keep = sandbox, keep
        self.cache = Path(cache) if cache else cache_dir() / "simulations"
        self._scorers: dict[str, CompletionScorer] = {}

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Build and run the unchanged applications. Raises ApplicationError if one cannot be built or run."""
        for scorer in dict.fromkeys(map(self._scorer, problems)):
            await scorer.ready()

    async def observe(self, problems: Sequence[Problem], codes: Sequence[str]) -> list[Observation]:
        """What building and running each file showed."""
        observations = [Observation(False, failed=True)] * len(codes)
        by_scorer: dict[CompletionScorer, list[int]] = {}
        for i, problem in enumerate(problems):
            by_scorer.setdefault(self._scorer(problem), []).append(i)
        for scorer, indices in by_scorer.items():
            requests = [Request(problems[i].data["case"], codes[i]) for i in indices]
            for i, score in zip(indices, await scorer.score(requests), strict=True):
                if score is not None:
                    observations[i] = _observation(score)
        return observations

    def _scorer(self, problem: Problem) -> CompletionScorer:
        application = problem.data["application"]
        if application.name not in self._scorers:
            self.cache.mkdir(parents=True, exist_ok=True)
            self._scorers[application.name] = CompletionScorer(application, self.sandbox, self.cache, self.keep)
        return self._scorers[application.name]


def _observation(score: CompletionScore) -> Observation:
    if score.verdict == "pass":
        return Observation(fine=True)
    if not score.compile:
        errors = [m for m in score.messages if m.severity == "error"][:3]
        lines = [f"line {m.line}: {cut(m.text, 200)}" if m.offset is not None else cut(m.text, 200) for m in errors]
        lines = lines or [cut(reason, 200) for reason in score.reasons[:1]]
        return Observation(False, "\n".join(["The file does not compile.", *map(quoted, lines)]))
    if not score.execution:
        reasons = [cut(reason, 200) for reason in score.reasons[:2]]
        return Observation(False, "\n".join(["The program compiles, and its run fails.", *map(quoted, reasons)]))
    far = f"Header {score.header:.0%}, field {score.density:.0%} of the reference's (100 % is equal)."
    return Observation(False, f"The program runs, but its result differs from the reference's.\n{quoted(far)}")
