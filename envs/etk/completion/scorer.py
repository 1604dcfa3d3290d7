"""Scores completions of masked lines: each fills its gap, and the file that results is evaluated (etk/build)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from envs.etk.build.application import Application
from envs.etk.build.compare import ApplicationError, RunScore
from envs.etk.build.compiler_messages import CompilerMessage
from envs.etk.build.evaluation import Evaluation, Evaluator, FileText, Seconds
from envs.etk.build.picture import FieldPicture
from envs.etk.build.prepared_tree import Prepared
from envs.etk.build.rounding import LARGEST
from envs.etk.completion.cases import Case, Gap
from envs.local_models import cache_folder
from envs.sandbox import Sandbox
from envs.task import Problem

PERFECT = 1 - 1e-6
"""A completion with a larger total is right, if no cell differs from the reference's by more than rounding."""


@dataclass(frozen=True)
class Request:
    """A completion to score."""

    case: Case
    completion: str


@dataclass(frozen=True)
class CompletionScore:
    """All scores are in [0, 1]; after a stage that fails they are 0.

    total: weighted mean of compile, execution, header and density. baseline: the density score of a run in which
    nothing happens. left_out: the share of the initial state's error (of the field itself, if there is no initial
    state) that the program avoids without the masked lines; 1 where its results differ by rounding alone. skill: the
    share of the error that is left then which the completion avoids, so that neither the initial state nor leaving the
    lines out earns any; 1 for the reference.
    largest: the largest difference of a cell, as a share of the reference's largest value; 0 if fields have no weight.
    rounding: how large such a difference may be in a right result. exact: the completion equals the masked lines.
    line_count_match: it has as many lines as are masked. messages: the compiler's. seconds: times of the first of
    several equal completions; 0 for a stored result. picture: the compared field beside the reference's; None if there
    was none to compare.
    """

    compile: float
    execution: float
    header: float
    density: float
    total: float
    skill: float
    left_out: float
    baseline: float | None
    exact: bool
    line_count_match: bool
    time_mismatch: bool = False
    equal_time: float | None = None
    largest: float = 0.0
    rounding: float = LARGEST
    reasons: tuple[str, ...] = ()
    messages: tuple[CompilerMessage, ...] = ()
    seconds: Seconds = field(default_factory=Seconds)
    picture: FieldPicture | None = None

    @property
    def verdict(self) -> str:
        """`pass`, or the stage that it failed in: `build`, `run` or `fields`. The reference's fields at other times are
        not right: where the time step follows from a speed, a wrong speed has the same fields after as many steps."""
        if self.total > PERFECT and self.largest <= self.rounding and not self.time_mismatch:
            return "pass"
        return "build" if not self.compile else "run" if not self.execution else "fields"


class CompletionScorer:
    """Scores completions of one application's cases.

    For each case the program without the masked lines is evaluated too, because skill is measured from there.
    Completions that give the same file are evaluated once, and those that give the same program are run once. With
    `keep`, results are stored: a file that any process has evaluated, or one of C that differs from such a file in
    comments alone, is not built again.

    Args:
        application, sandbox, cache, keep: see Evaluator.
    """

    def __init__(self, application: Application, sandbox: Sandbox, cache: Path, keep: bool = True) -> None:
        self.application = application
        self.evaluator = Evaluator(application, sandbox, cache, keep)
        self._gaps: dict[tuple[Any, ...], Gap] = {}
        self._without: dict[FileText, Evaluation] = {}
        self._timed_out: set[FileText] = set()

    async def ready(self) -> Prepared:
        """Prepare the application, once. Raises ApplicationError, or RuntimeError if the sandbox failed."""
        return await self.evaluator.ready()

    async def trial(self, case: Case) -> None:
        """Build and run the application as a completion is, with a case's own lines.

        Raises:
            ApplicationError: it does not build or does not run, so no completion could.
            RuntimeError: the sandbox failed.
        """
        [score] = await self.score([Request(case, self.gap(case).original)])
        if score is None:
            raise RuntimeError(f"the sandbox failed on {self.application.name} with the original lines of {case.id}")
        if score.verdict in ("build", "run"):
            messages = [message.text for message in score.messages if message.severity == "error"]
            raise ApplicationError(
                f"{self.application.name}: with its own lines in place of the masked ones of {case.id} it does not "
                f"{score.verdict}, so that no answer can be right: {'; '.join([*score.reasons, *messages])}. Does the "
                "build need a file that build.discard leaves out, or a path of the folder in which it was built?"
            )

    def gap(self, case: Case) -> Gap:
        """The case in its file, as it was when first asked for: what is built is a copy, which does not change when
        somebody edits the file. Raises ApplicationError."""
        key = (case.id, case.file, case.places)
        if key not in self._gaps:
            self._gaps[key] = Gap.of(case, self.application.source_dir)
        return self._gaps[key]

    async def score(self, requests: Sequence[Request]) -> list[CompletionScore | None]:
        """Scores in the order of the requests; None if the sandbox failed, which says nothing about the completion.

        Raises:
            ApplicationError: the application or a case cannot be evaluated.
        """
        prepared = await self.ready()
        gaps = [self.gap(request.case) for request in requests]
        texts = [_text(gap, request.completion) for gap, request in zip(gaps, requests, strict=True)]
        without = [_text(gap, "") for gap in gaps]
        asked = [text for text in dict.fromkeys([*texts, *without]) if text not in self._without]
        found = self._without | dict(zip(asked, await self.evaluator.evaluate(prepared, asked), strict=True))
        self._keep([text for text in dict.fromkeys(without) if text not in self._without], found)
        return [
            None
            if (results := found[text]) is None or (empty := found[without_it]) is None
            else self._score(prepared, gap, request, results, empty)
            for gap, request, text, without_it in zip(gaps, requests, texts, without, strict=True)
        ]

    def _keep(self, texts: Sequence[FileText], evaluations: Mapping[FileText, Evaluation | None]) -> None:
        """Keep what came of files without their masked lines. One that timed out is tried once more, since the machine
        may have been busy; lines without which a loop never ends would cost its whole time limit each time."""
        for text in texts:
            evaluation = evaluations[text]
            if evaluation is None:
                continue
            if evaluation.repeatable or text in self._timed_out:
                self._without[text] = evaluation
            else:
                self._timed_out.add(text)

    def _score(
        self, prepared: Prepared, gap: Gap, request: Request, evaluation: Evaluation, empty: Evaluation
    ) -> CompletionScore:
        completion, left_out = request.completion, self._left_out(prepared, empty)
        pieces = gap.pieces(completion)
        run = evaluation.run or prepared.reference.failed(*filter(None, [evaluation.build_failure]))
        stages = {"execution": run.execution, "header": run.header, "density": run.density}
        compiled, shown = 0.0 if evaluation.build_failure else 1.0, prepared.reference.picture
        return CompletionScore(
            compile=compiled,
            **stages,
            total=self.application.metric.total(compile=compiled, **stages),
            skill=skill_beyond(_avoided(evaluation), left_out),
            left_out=left_out,
            baseline=run.baseline,
            exact=tuple(pieces) == gap.masked,
            line_count_match=list(map(len, pieces)) == list(map(len, gap.masked)),
            time_mismatch=run.time_mismatch,
            equal_time=run.equal_time,
            largest=self._largest(run),
            rounding=prepared.reference.rounding,
            reasons=run.reasons,
            messages=gap.messages(evaluation.compiler_output, completion),
            seconds=evaluation.seconds,
            picture=replace(shown, result=run.picture) if run.picture and shown.reference else None,
        )

    def _largest(self, run: RunScore) -> float:
        return run.largest if self.application.metric.weights.get("density") else 0.0

    def _left_out(self, prepared: Prepared, empty: Evaluation) -> float:
        """What a program without the masked lines avoids: all of it where its results differ by rounding alone."""
        run = empty.run
        if run is not None and self._largest(run) <= prepared.reference.rounding and not run.time_mismatch:
            stages = {"execution": run.execution, "header": run.header, "density": run.density}
            if self.application.metric.total(compile=1.0, **stages) > PERFECT:
                return 1.0
        return _avoided(empty)


class Scorers:
    """The scorers of the applications that problems name (`data["application"]`), made when first asked for.

    What grades answers and what tells of their failures give the same arguments and so share a scorer for each
    application, which is prepared once.

    Args:
        sandbox, keep: see Evaluator.
        cache: folder for built sources and reference runs; None: the user's cache.
    """

    _made: ClassVar[WeakValueDictionary[tuple[int, int, Path, bool], CompletionScorer]] = WeakValueDictionary()
    """By identity of application and sandbox, which a scorer keeps alive."""

    def __init__(self, sandbox: Sandbox, cache: str | None = None, keep: bool = True) -> None:
        self.sandbox, self.keep = sandbox, keep
        self.cache = cache_folder("simulations", cache)
        self._own: dict[int, CompletionScorer] = {}

    def of(self, problem: Problem) -> CompletionScorer:
        """The scorer of the problem's application."""
        application = problem.data["application"]
        if id(application) not in self._own:
            key = (id(application), id(self.sandbox), self.cache, self.keep)
            scorer = self._made.get(key)
            if scorer is None:
                self._made[key] = scorer = CompletionScorer(application, self.sandbox, self.cache, self.keep)
            self._own[id(application)] = scorer
        return self._own[id(application)]

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Build and run the unchanged applications, once as a completion is, and read the files with masked lines.
        Raises ApplicationError if one cannot be built or run."""
        for problem in problems:
            self.of(problem).gap(problem.data["case"])
        for scorer, problem in {self.of(problem): problem for problem in reversed(problems)}.items():
            await scorer.trial(problem.data["case"])

    async def score(self, problems: Sequence[Problem], completions: Sequence[str]) -> list[CompletionScore | None]:
        """Scores in order, as CompletionScorer.score gives them."""
        scores: list[CompletionScore | None] = [None] * len(problems)
        by_scorer: dict[CompletionScorer, list[int]] = {}
        for i, problem in enumerate(problems):
            by_scorer.setdefault(self.of(problem), []).append(i)
        for scorer, indices in by_scorer.items():
            requests = [Request(problems[i].data["case"], completions[i]) for i in indices]
            for i, score in zip(indices, await scorer.score(requests), strict=True):
                scores[i] = score
        return scores


def _text(gap: Gap, completion: str) -> FileText:
    return FileText(gap.case.file, gap.filled(completion))


def _avoided(evaluation: Evaluation) -> float:
    """The share of the initial state's error that a run avoids; without an initial state its density score."""
    run = evaluation.run
    return 0.0 if run is None else run.density if run.skill is None else run.skill


def skill_beyond(avoided: float, left_out: float) -> float:
    """What a run avoids of the error that is left without the masked lines, which avoid `left_out` of the whole."""
    if avoided >= 1.0:
        return 1.0
    return max(0.0, (avoided - left_out) / (1.0 - left_out)) if left_out < 1.0 else 0.0
