"""Completions in, scores out: each is built and run in the sandbox and compared with the reference run."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from envs.etk.completion.application import Application
from envs.etk.completion.cases import Case, Gap, decoded, encoded
from envs.etk.completion.compare import Reference, RunScore
from envs.etk.completion.kept import Kept, without_comments
from envs.etk.completion.messages import CompilerMessage, compiler_lines, compiler_messages
from envs.etk.completion.once import Once
from envs.etk.completion.outputs import InMemory
from envs.etk.completion.prepared import Prepared, build_log, prepare, program_of, run_job, why_not_built
from envs.etk.languages import language_of
from envs.sandbox import Outcome, Sandbox

log = logging.getLogger("codegrain")
REMEMBERED = 20_000
"""Texts and programs whose scores are in memory; the oldest go first."""
FLEETING = ("build: timeout", "build: killed", "run: timeout", "run: killed")
"""Ends that may come out otherwise on another day."""


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
    that were the same; zero for what was kept.
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


@dataclass(frozen=True)
class Evaluated:
    """What came of a file's text.

    trouble: why it did not build, None where it did. said: the compiler's lines about places. run: of the program, None
    without one. lasting: whether it comes out the same on another day.
    """

    trouble: str | None
    said: str
    run: RunScore | None = None
    seconds: Seconds = Seconds()
    lasting: bool = True

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> Evaluated:
        """What `row` made."""
        run = row["run"] and RunScore(**{**row["run"], "reasons": tuple(row["run"]["reasons"])})
        return cls(row["trouble"], row["said"], run)

    def row(self) -> dict[str, Any]:
        """Plain data, without times."""
        return {"trouble": self.trouble, "said": self.said, "run": self.run and asdict(self.run)}


@dataclass(frozen=True)
class Text:
    """A file with a completion in its gap."""

    file: str
    data: bytes

    def key(self, digest: str) -> str:
        """Of this text where `digest` is what else matters."""
        return _digest({digest: b"", self.file: self.data})

    def plain_key(self, digest: str) -> str | None:
        """The same for all texts that differ in comments alone; None where that cannot be told."""
        language = language_of(self.file)
        if language is None or language.name not in ("c", "c++"):
            return None
        plain = without_comments(decoded(self.data))
        return None if plain is None else f"plain-{Text(self.file, encoded(plain)).key(digest)}"


class CompletionScorer:
    """Scores completions of one application's cases.

    Texts of a file that are identical are evaluated once, also at the same time, and so are runs of identical programs:
    completions that differ in blanks are built but not run again. What came of them is kept in `cache` too: a text that
    any process has scored, or one that differs from such a one in C's comments alone, costs a look.

    Args:
        application: what is built and run.
        sandbox: where.
        cache: folder for the built source and its reference run, of a few MB for each application, and for what came
            of completions.
        keep: False: nothing of completions is kept there, or taken from there.
    """

    def __init__(self, application: Application, sandbox: Sandbox, cache: Path, keep: bool = True) -> None:
        self.application, self.sandbox, self.cache = application, sandbox, cache
        self._kept = Kept(cache) if keep else None
        self._prepared: Once[str, Prepared] = Once(1)
        self._evaluated: Once[str, Evaluated] = Once(REMEMBERED)
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
        filled = [(self.gap(request.case), request.completion) for request in requests]
        texts = [Text(gap.case.file, gap.filled(completion)) for gap, completion in filled]
        keys = [text.key(prepared.digest) for text in texts]
        wanted = dict(zip(keys, texts, strict=True))

        async def work(missing: list[str]) -> dict[str, Evaluated]:
            return await self._evaluate(prepared, {key: wanted[key] for key in missing})

        found = await self._evaluated.get(wanted, work)
        return [
            self._score(prepared, gap, completion, found[key]) if key in found else None
            for key, (gap, completion) in zip(keys, filled, strict=True)
        ]

    async def _evaluate(self, prepared: Prepared, wanted: Mapping[str, Text]) -> dict[str, Evaluated]:
        """What is kept, and what is built and run now. What the sandbox failed on is left out."""
        if self._kept is None:
            return await self._build(prepared, wanted)
        plain = {key: text.plain_key(prepared.digest) or key for key, text in wanted.items()}
        rows = self._kept.get({*wanted, *plain.values()})
        found = {key: rows.get(key, rows.get(plain[key])) for key in wanted}
        known = {key: Evaluated.of_row(row) for key, row in found.items() if row is not None}
        built = await self._build(prepared, {key: text for key, text in wanted.items() if key not in known})
        rows = {key: each.row() for key, each in built.items() if each.lasting}
        # what the compiler said is said of places in one text
        self._kept.put(rows | {plain[key]: row for key, row in rows.items() if not row["said"]})
        return known | built

    async def _build(self, prepared: Prepared, wanted: Mapping[str, Text]) -> dict[str, Evaluated]:
        """Build all, run the programs that are new, compare."""
        jobs = [prepared.build_job(f"{text.file}/build", text.file, text.data) for text in wanted.values()]
        found: dict[str, Evaluated] = {}
        programs: dict[str, str] = {}
        files: dict[str, dict[str, bytes]] = {}
        for key, built in zip(wanted, await self.sandbox.run(jobs), strict=True):
            if not built.graded:
                continue
            found[key] = self._built(built)
            if found[key].trouble is None:
                program = program_of(self.application, built)
                programs[key] = _digest(program)
                files[programs[key]] = program
        seconds: dict[str, Seconds] = {}

        async def work(new: list[str]) -> dict[str, RunScore]:
            return await self._run(prepared, {digest: files[digest] for digest in new}, seconds)

        ran = await self._runs.get(files, work)
        for key, digest in programs.items():
            if digest in ran:
                spent = replace(seconds.get(digest, Seconds()), compile=found[key].seconds.compile)
                lasting = found[key].lasting and not any(reason.startswith(FLEETING) for reason in ran[digest].reasons)
                found[key] = replace(found[key], run=ran[digest], seconds=spent, lasting=lasting)
            else:
                del found[key]
        return found

    def _built(self, built: Outcome) -> Evaluated:
        """As far as the build tells."""
        trouble = why_not_built(self.application, built)
        lasting = not (trouble or "").startswith(FLEETING) and "Killed signal" not in built.stderr
        said = compiler_lines(f"{built.stderr}\n{build_log(self.application, built)}")
        return Evaluated(trouble, said, seconds=Seconds(compile=built.seconds), lasting=lasting)

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
                run = await asyncio.to_thread(_compared, prepared.reference, outputs)
            else:
                run = prepared.reference.failed(f"run: {ran.verdict}, {ran.note}")
            found[digest] = run
            seconds[digest] = Seconds(run=ran.seconds, compare=time.perf_counter() - started)
        return found

    def _score(self, prepared: Prepared, gap: Gap, completion: str, found: Evaluated) -> CompletionScore:
        """What came of the text, and what is the completion's own."""
        lines = gap.lines_of(completion)
        run = found.run or prepared.reference.failed(*filter(None, [found.trouble]))
        stages = {"execution": run.execution, "header": run.header, "density": run.density}
        compiled = 0.0 if found.trouble else 1.0
        return CompletionScore(
            compile=compiled,
            **stages,
            total=self.application.metric.total(compile=compiled, **stages),
            skill=run.skill,
            baseline=run.baseline,
            exact=lines == gap.masked,
            line_count_match=len(lines) == gap.case.count,
            time_mismatch=run.time_mismatch,
            equal_time=run.equal_time,
            reasons=run.reasons,
            messages=compiler_messages(found.said, gap, completion),
            seconds=found.seconds,
        )


def _compared(reference: Reference, outputs: InMemory) -> RunScore:
    """The score of a run whose files may be anything: what nobody foresaw in them is damage, and ends no training."""
    try:
        return reference.score(outputs)
    except (ValueError, ArithmeticError, LookupError, MemoryError) as error:
        log.warning("outputs that cannot be compared: %s: %s", type(error).__name__, error)
        return reference.failed(f"run: its outputs cannot be compared: {error}")


def _digest(files: Mapping[str, bytes]) -> str:
    hasher = hashlib.sha256()
    for name in sorted(files):
        hasher.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return hasher.hexdigest()
