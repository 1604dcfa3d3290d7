"""Completions in, scores out: each is built and run in the sandbox and compared with the reference run."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envs.etk.completion.application import Application
from envs.etk.completion.cases import Case, Gap
from envs.etk.completion.compare import RunScore
from envs.etk.completion.messages import CompilerMessage, compiler_messages
from envs.etk.completion.outputs import InMemory
from envs.etk.completion.prepared import Prepared, build_log, prepare, program_of, run_job, why_not_built
from envs.sandbox import Sandbox

REMEMBERED = 20_000
"""Scores kept in memory; the oldest go first."""


@dataclass(frozen=True)
class Request:
    """A completion to be scored."""

    case: Case
    completion: str


@dataclass(frozen=True)
class Seconds:
    """Time on the clock, waiting for a worker not included; zero for a stage that was not needed."""

    compile: float = 0.0
    run: float = 0.0
    compare: float = 0.0


@dataclass(frozen=True)
class CompletionScore:
    """All scores are in [0, 1]; after a stage that failed they are zero.

    total: weighted mean of compile, execution, header and density. baseline: the density of a run in which nothing
    happens; skill: what the completion adds to it (see `RunScore`). exact: the masked lines themselves.
    line_count_match: as many lines as are masked. messages: the compiler's. seconds: of the first of the completions
    that were the same.
    """

    compile: float
    execution: float
    header: float
    density: float
    total: float
    skill: float | None
    baseline: float | None
    exact: bool
    line_count_match: bool
    time_mismatch: bool = False
    equal_time: float | None = None
    reasons: tuple[str, ...] = ()
    messages: tuple[CompilerMessage, ...] = ()
    seconds: Seconds = Seconds()


class CompletionScorer:
    """Scores completions of one application's cases.

    Identical completions are evaluated once, and so are runs of identical programs: completions that differ in blanks
    are built but not run again.

    Args:
        application: what is built and run.
        sandbox: where.
        cache: folder for the built source and its reference run, of a few MB for each application.
    """

    def __init__(self, application: Application, sandbox: Sandbox, cache: Path) -> None:
        self.application, self.sandbox, self.cache = application, sandbox, cache
        self._prepared: Prepared | None = None
        self._scores: dict[tuple[str, ...], CompletionScore] = {}
        self._runs: dict[str, RunScore] = {}

    async def ready(self) -> Prepared:
        """Prepare the application, once. Raises CompletionError, or RuntimeError where the sandbox failed."""
        if self._prepared is None:
            self._prepared = await prepare(self.application, self.sandbox, self.cache)
        return self._prepared

    def gap(self, case: Case) -> Gap:
        """The case in its file. Raises CompletionError."""
        return Gap.of(case, self.application.source_dir)

    async def score(self, requests: Sequence[Request]) -> list[CompletionScore | None]:
        """Scores in the order of the requests; None where the sandbox failed, which says nothing of the completion.

        Raises:
            CompletionError: the application or a case cannot be evaluated.
        """
        prepared = await self.ready()
        gaps = [self.gap(request.case) for request in requests]
        keys = [_key(gap, request.completion) for gap, request in zip(gaps, requests, strict=True)]
        wanted = {key: (gap, request.completion) for key, gap, request in zip(keys, gaps, requests, strict=True)}
        missing = [key for key in wanted if key not in self._scores]
        found = await asyncio.gather(*(self._evaluate(prepared, *wanted[key]) for key in missing))
        fresh = {key: score for key, score in zip(missing, found, strict=True) if score is not None}
        answers = [fresh.get(key) or self._scores.get(key) for key in keys]
        _remember(self._scores, fresh)
        return answers

    async def _evaluate(self, prepared: Prepared, gap: Gap, completion: str) -> CompletionScore | None:
        name, text = gap.case.id, gap.filled(completion)
        built = (await self.sandbox.run([prepared.build_job(f"{name}/build", gap.case.file, text)]))[0]
        if not built.graded:
            return None
        score = CompletionScore(
            compile=0.0,
            execution=0.0,
            header=0.0,
            density=0.0,
            total=0.0,
            skill=prepared.reference.failed().skill,
            baseline=prepared.reference.baseline,
            exact=gap.lines_of(completion) == gap.masked,
            line_count_match=len(gap.lines_of(completion)) == gap.case.count,
            messages=compiler_messages(f"{built.stderr}\n{build_log(self.application, built)}", gap, completion),
            seconds=Seconds(compile=built.seconds),
        )
        if trouble := why_not_built(self.application, built):
            return replace(score, reasons=(trouble,))
        files = program_of(self.application, built)
        digest = _digest(files)
        spent = score.seconds
        if digest not in self._runs:
            ran = (await self.sandbox.run([run_job(self.application, f"{name}/run", files)]))[0]
            if not ran.graded:
                return None
            started = time.perf_counter()
            if ran.verdict == "pass":
                outputs = InMemory({path.removeprefix("run/"): data for path, data in ran.files.items()})
                run = await asyncio.to_thread(prepared.reference.score, outputs)
            else:
                run = prepared.reference.failed(f"run: {ran.verdict}, {ran.note}")
            _remember(self._runs, {digest: run})
            spent = Seconds(built.seconds, ran.seconds, time.perf_counter() - started)
        return self._with_run(score, self._runs[digest], spent)

    def _with_run(self, score: CompletionScore, run: RunScore, seconds: Seconds) -> CompletionScore:
        stages = {"execution": run.execution, "header": run.header, "density": run.density}
        return replace(
            score,
            compile=1.0,
            execution=run.execution,
            header=run.header,
            density=run.density,
            total=self.application.metric.total(compile=1.0, **stages),
            skill=run.skill,
            time_mismatch=run.time_mismatch,
            equal_time=run.equal_time,
            reasons=run.reasons,
            seconds=seconds,
        )


def _key(gap: Gap, completion: str) -> tuple[str, ...]:
    return gap.case.file, str(gap.case.start), str(gap.case.end), completion


def _digest(files: dict[str, bytes]) -> str:
    hasher = hashlib.sha256()
    for name in sorted(files):
        hasher.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return hasher.hexdigest()


def _remember(known: dict, fresh: dict) -> None:
    """Add entries, and drop the oldest beyond REMEMBERED."""
    known.update(fresh)
    for key in list(known)[: max(0, len(known) - REMEMBERED)]:
        del known[key]
