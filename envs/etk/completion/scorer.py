"""Completions in, scores out: each is built and run in the sandbox and compared with the reference run."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envs.etk.completion.application import Application
from envs.etk.completion.cases import Case, Gap
from envs.etk.completion.compare import RunScore
from envs.etk.completion.messages import CompilerMessage, compiler_messages
from envs.etk.completion.once import Once
from envs.etk.completion.outputs import InMemory
from envs.etk.completion.prepared import Prepared, build_log, prepare, program_of, run_job, why_not_built
from envs.sandbox import Outcome, Sandbox

Key = tuple[str, ...]
Work = tuple[Gap, str]
"""A gap and the completion for it."""
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

    Identical completions are evaluated once, also at the same time, and so are runs of identical programs: completions
    that differ in blanks are built but not run again.

    Args:
        application: what is built and run.
        sandbox: where.
        cache: folder for the built source and its reference run, of a few MB for each application.
    """

    def __init__(self, application: Application, sandbox: Sandbox, cache: Path) -> None:
        self.application, self.sandbox, self.cache = application, sandbox, cache
        self._prepared: Once[str, Prepared] = Once(1)
        self._scores: Once[Key, CompletionScore] = Once(REMEMBERED)
        self._runs: Once[str, RunScore] = Once(REMEMBERED)

    async def ready(self) -> Prepared:
        """Prepare the application, once. Raises CompletionError, or RuntimeError where the sandbox failed."""
        name = self.application.name

        async def work(_: list[str]) -> dict[str, Prepared]:
            return {name: await prepare(self.application, self.sandbox, self.cache)}

        return (await self._prepared.get([name], work))[name]

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

        async def work(missing: list[Key]) -> dict[Key, CompletionScore]:
            return await self._evaluate(prepared, {key: wanted[key] for key in missing})

        found = await self._scores.get(wanted, work)
        return [found.get(key) for key in keys]

    async def _evaluate(self, prepared: Prepared, wanted: Mapping[Key, Work]) -> dict[Key, CompletionScore]:
        """Build all, run the programs that are new, compare. What the sandbox failed on is left out."""
        jobs = [
            prepared.build_job(f"{gap.case.id}/build", gap.case.file, gap.filled(text)) for gap, text in wanted.values()
        ]
        scores: dict[Key, CompletionScore] = {}
        programs: dict[Key, str] = {}
        files: dict[str, dict[str, bytes]] = {}
        for (key, (gap, text)), built in zip(wanted.items(), await self.sandbox.run(jobs), strict=True):
            if not built.graded:
                continue
            scores[key] = self._built(prepared, gap, text, built)
            if scores[key].compile:
                program = program_of(self.application, built)
                programs[key] = _digest(program)
                files[programs[key]] = program
        seconds: dict[str, Seconds] = {}

        async def work(new: list[str]) -> dict[str, RunScore]:
            return await self._run(prepared, {digest: files[digest] for digest in new}, seconds)

        ran = await self._runs.get(files, work)
        for key, digest in programs.items():
            if digest in ran:
                scores[key] = self._with_run(scores[key], ran[digest], seconds.get(digest, Seconds()))
            else:
                del scores[key]
        return scores

    def _built(self, prepared: Prepared, gap: Gap, completion: str, built: Outcome) -> CompletionScore:
        """The score as far as the build tells."""
        trouble = why_not_built(self.application, built)
        compiled = 0.0 if trouble else 1.0
        lines = gap.lines_of(completion)
        return CompletionScore(
            compile=compiled,
            execution=0.0,
            header=0.0,
            density=0.0,
            total=self.application.metric.total(compile=compiled),
            skill=prepared.reference.failed().skill,
            baseline=prepared.reference.baseline,
            exact=lines == gap.masked,
            line_count_match=len(lines) == gap.case.count,
            reasons=(trouble,) if trouble else (),
            messages=compiler_messages(f"{built.stderr}\n{build_log(self.application, built)}", gap, completion),
            seconds=Seconds(compile=built.seconds),
        )

    async def _run(
        self, prepared: Prepared, programs: Mapping[str, dict[str, bytes]], seconds: dict[str, Seconds]
    ) -> dict[str, RunScore]:
        """Run programs, by digest, and compare; the time goes to `seconds`. What the sandbox failed on is left out."""
        also = [*filter(None, [prepared.reference.initial])]
        jobs = [run_job(self.application, f"{digest[:12]}/run", files, *also) for digest, files in programs.items()]
        found = {}
        for digest, ran in zip(programs, await self.sandbox.run(jobs), strict=True):
            if not ran.graded:
                continue
            started = time.perf_counter()
            if ran.verdict == "pass":
                outputs = InMemory({path.removeprefix("run/"): data for path, data in ran.files.items()})
                run = await asyncio.to_thread(prepared.reference.score, outputs)
            else:
                run = prepared.reference.failed(f"run: {ran.verdict}, {ran.note}")
            found[digest] = run
            seconds[digest] = Seconds(run=ran.seconds, compare=time.perf_counter() - started)
        return found

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
            seconds=replace(seconds, compile=score.seconds.compile),
        )


def _key(gap: Gap, completion: str) -> Key:
    return gap.case.file, str(gap.case.start), str(gap.case.end), completion


def _digest(files: dict[str, bytes]) -> str:
    hasher = hashlib.sha256()
    for name in sorted(files):
        hasher.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return hasher.hexdigest()
