"""Evaluates an application in which one source file has another text: it is built, run and compared with a reference.

A text that is built once is not built again, and a program that is run once is not run again: results are shared by
concurrent callers (once.py) and by all processes of the machine (result_cache.py).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from envs.etk.build.application import Application
from envs.etk.build.cactus_tests import TestSuite
from envs.etk.build.compare import Reference, RunScore
from envs.etk.build.compiler_messages import compiler_lines, compiler_messages
from envs.etk.build.jobs import build_failure, build_log, last_output, program_of, run_failure, run_job
from envs.etk.build.once import Once
from envs.etk.build.outputs import InMemory
from envs.etk.build.own_comparison import ComparedByCommand
from envs.etk.build.prepared_tree import AnyReference, Prepared, prepare
from envs.etk.build.result_cache import ResultCache, without_comments
from envs.etk.languages import language_of
from envs.sandbox import Outcome, Sandbox

log = logging.getLogger("codegrain")
MAX_IN_MEMORY = 20_000
"""Number of texts and of programs whose results stay in memory; the oldest are removed first."""
UNREPEATABLE = tuple(f"{stage}: {how}" for stage in ("build", "run", "comparison") for how in ("timeout", "killed"))
"""Failures that may not occur again, for example under less load."""

KILLED = re.compile(r"\bKilled\b")
"""What compilers and shells print of a process that the kernel has ended, where memory was short."""


@dataclass(frozen=True)
class Seconds:
    """Wall time of each stage, without waiting for a worker; 0 for a stage whose result was already there."""

    compile: float = 0.0
    run: float = 0.0
    compare: float = 0.0


@dataclass(frozen=True)
class Evaluation:
    """The result of building and running the application with one text.

    build_failure: why it was not built, None if it was. compiler_output: the compiler's lines that name a place.
    run: the score of the program's run, None without a program. repeatable: False if the result may differ next time.
    """

    build_failure: str | None
    compiler_output: str
    run: RunScore | None = None
    seconds: Seconds = Seconds()
    repeatable: bool = True

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Evaluation:
        """The evaluation that `row` returned."""
        run = row["run"] and RunScore(**{**row["run"], "reasons": tuple(row["run"]["reasons"])})
        return cls(row["build_failure"], row["compiler_output"], run)

    def row(self) -> dict[str, Any]:
        """Plain data, without times."""
        run = self.run and asdict(self.run)
        return {"build_failure": self.build_failure, "compiler_output": self.compiler_output, "run": run}


@dataclass(frozen=True)
class FileText:
    """Another text of the application's source file `file`."""

    file: str
    data: bytes

    def key(self, digest: str) -> str:
        """The key of its evaluation; `digest` stands for everything else that the result depends on."""
        return _digest({digest: b"", self.file: self.data})

    def plain_key(self, digest: str) -> str | None:
        """A key that texts share if they differ in comments alone; None if that is not certain."""
        language = language_of(self.file)
        if language is None or language.name not in ("c", "c++"):
            return None
        if language.name == "c" and b"//" in self.data:  # no comment by the rules of C89
            return None
        plain = without_comments(decoded(self.data))
        return None if plain is None else f"plain-{FileText(self.file, encoded(plain)).key(digest)}"


def decoded(data: bytes) -> str:
    """A text from which `encoded` makes the same bytes again, whatever they are."""
    return data.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """The bytes of a text; a character that UTF-8 cannot encode becomes a question mark."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


class Evaluator:
    """Evaluates texts of one application's files.

    Args:
        application: what is built and run.
        sandbox: where it is built and run.
        cache: folder for the built source and its reference run (a few MB for each application) and for results.
        keep: False neither stores results in `cache` nor reads them from there.
    """

    def __init__(self, application: Application, sandbox: Sandbox, cache: Path, keep: bool = True) -> None:
        self.application, self.sandbox, self.cache = application, sandbox, cache
        self._stored = ResultCache(cache) if keep else None
        self._prepared: Once[str, Prepared] = Once(1)
        self._evaluations: Once[str, Evaluation] = Once(MAX_IN_MEMORY, lambda evaluation: evaluation.repeatable)
        self._runs: Once[str, RunScore] = Once(MAX_IN_MEMORY, _repeatable)

    async def ready(self) -> Prepared:
        """Prepare the application, once. Raises ApplicationError, or RuntimeError if the sandbox failed."""
        name = self.application.name

        async def work(_: list[str]) -> dict[str, Prepared]:
            return {name: await prepare(self.application, self.sandbox, self.cache)}

        return (await self._prepared.get([name], work))[name]

    async def evaluate(self, prepared: Prepared, texts: Sequence[FileText]) -> list[Evaluation | None]:
        """Evaluations in the order of the texts; None if the sandbox failed."""
        keys = [text.key(prepared.digest) for text in texts]
        text_by_key = dict(zip(keys, texts, strict=True))

        async def work(missing: list[str]) -> dict[str, Evaluation]:
            return await self._evaluate(prepared, {key: text_by_key[key] for key in missing})

        evaluations = await self._evaluations.get(text_by_key, work)
        return [evaluations.get(key) for key in keys]

    async def _evaluate(self, prepared: Prepared, texts: Mapping[str, FileText]) -> dict[str, Evaluation]:
        """Stored results, and new ones for all other texts; a text on which the sandbox failed is missing."""
        if self._stored is None:
            return await self._build(prepared, texts)
        plain_keys = {key: text.plain_key(prepared.digest) or key for key, text in texts.items()}
        rows = self._stored.get({*texts, *plain_keys.values()})
        row_by_key = {key: rows.get(key, rows.get(plain_keys[key])) for key in texts}
        stored = {key: Evaluation.from_row(row) for key, row in row_by_key.items() if row is not None}
        built = await self._build(prepared, {key: text for key, text in texts.items() if key not in stored})
        rows = {key: each.row() for key, each in built.items() if each.repeatable}
        # the compiler's messages name places in one text, so a result with messages is not shared
        shared = {plain_keys[key]: row for key, row in rows.items() if not row["compiler_output"]}
        self._stored.put(rows | shared)
        return stored | built

    async def _build(self, prepared: Prepared, texts: Mapping[str, FileText]) -> dict[str, Evaluation]:
        """Build all texts, run the programs that are new, and compare."""
        jobs = [prepared.build_job(f"{text.file}/build", text.file, text.data) for text in texts.values()]
        evaluations: dict[str, Evaluation] = {}
        program_digests: dict[str, str] = {}
        programs: dict[str, dict[str, bytes]] = {}
        for key, outcome in zip(texts, await self.sandbox.run(jobs), strict=True):
            if not outcome.graded:
                continue
            evaluations[key] = self._built(outcome)
            if evaluations[key].build_failure is None:
                program = program_of(self.application, outcome)
                program_digests[key] = _digest(program)
                programs[program_digests[key]] = program
        seconds: dict[str, Seconds] = {}

        async def work(new: list[str]) -> dict[str, RunScore]:
            return await self._run(prepared, {digest: programs[digest] for digest in new}, seconds)

        runs = await self._runs.get(programs, work)
        for key, digest in program_digests.items():
            if digest in runs:
                built, run = evaluations[key], runs[digest]
                repeatable = built.repeatable and _repeatable(run)
                spent = replace(seconds.get(digest, Seconds()), compile=built.seconds.compile)
                evaluations[key] = replace(built, run=run, seconds=spent, repeatable=repeatable)
            else:
                del evaluations[key]
        return evaluations

    def _built(self, outcome: Outcome) -> Evaluation:
        """The evaluation after the build."""
        failure = build_failure(self.application, outcome)
        printed = build_log(self.application, outcome)
        killed = KILLED.search(f"{outcome.stderr}\n{printed}")
        repeatable = not ((failure or "").startswith(UNREPEATABLE) or (failure and killed))
        output = compiler_lines(f"{outcome.stderr}\n{printed}")
        if failure and not any(message.severity == "error" for message in compiler_messages(output, "", ())):
            failure = f"{failure}; {last_output(outcome.stderr, printed)}"
        return Evaluation(failure, output, seconds=Seconds(compile=outcome.seconds), repeatable=repeatable)

    async def _run(
        self, prepared: Prepared, programs: Mapping[str, dict[str, bytes]], seconds: dict[str, Seconds]
    ) -> dict[str, RunScore]:
        """Run programs, by digest, and compare; times are added to `seconds`. A program on which the sandbox failed is
        missing."""
        initial = prepared.reference.initial
        jobs = [run_job(self.application, f"{digest[:12]}/run", files, initial) for digest, files in programs.items()]
        scores = {}
        for digest, outcome in zip(programs, await self.sandbox.run(jobs), strict=True):
            if not outcome.graded:
                continue
            started = time.perf_counter()
            failure = run_failure(self.application, outcome)
            if failure is None:
                files = {path.removeprefix("run/"): data for path, data in outcome.files.items()}
                run = await self._compare(prepared.reference, digest, files)
            else:
                run = prepared.reference.failed(failure)
            if run is not None:
                scores[digest] = run
                seconds[digest] = Seconds(run=outcome.seconds, compare=time.perf_counter() - started)
        return scores

    async def _compare(self, reference: AnyReference, digest: str, files: Mapping[str, bytes]) -> RunScore | None:
        """The score of a run's result files; None if the sandbox failed."""
        if not isinstance(reference, ComparedByCommand):
            return await asyncio.to_thread(_compared, reference, InMemory(files))
        if missing := reference.missing(files):
            return reference.failed(missing)
        [outcome] = await self.sandbox.run([reference.job(f"{digest[:12]}/comparison", files)])
        return reference.score(outcome) if outcome.graded else None


def _repeatable(run: RunScore) -> bool:
    return not any(reason.startswith(UNREPEATABLE) for reason in run.reasons)


def _compared(reference: Reference | TestSuite, outputs: InMemory) -> RunScore:
    """The score of a run. Its files may hold anything, so an unforeseen error counts as damage and ends no training."""
    try:
        return reference.score(outputs)
    except Exception as error:
        log.warning("outputs that cannot be compared: %s: %s", type(error).__name__, error)
        return reference.failed(f"run: its outputs cannot be compared: {error}")


def _digest(files: Mapping[str, bytes]) -> str:
    hasher = hashlib.sha256()
    for name in sorted(files):
        hasher.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return hasher.hexdigest()
