"""Lint: Ruff's findings, each a penalty on the characters that it names.

The score is minus the sum of the findings' weights, never below -`cap`; code that crashes Ruff scores -`cap`. A
finding's weight is that of the longest prefix of its rule in `weights`, whatever the length of its span. Code that does
not parse is judged by the syntax channel and a completion without code by the form channel; both score 0 here. One
process checks a batch (Ruff, docs.astral.sh/ruff). It ignores configuration files and `# noqa`, because a comment that
silences a rule is the first thing a policy learns.

    python -m rewards.lint check FILE     one JSON object a line: id, text -> id, findings [{rule, start, end, message}]
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ruff import find_ruff_bin

from envs.command_rows import answer, command, read_rows
from envs.indentation import without_indent
from envs.task import Problem
from rewards.channel import ChannelResult, Completion, Span

log = logging.getLogger("codegrain.lint")
SELECT = ("E4", "E7", "E9", "F", "B", "S", "W605")
IGNORE = ("S101", "S105", "S106", "S107", "S311", "E741", "B905")
"""Asserts, texts beside names like `token` (which are taken for passwords), pseudo-random numbers, the name l, zip
without strict: acceptable in a snippet."""
LINE_END = re.compile(r"\r\n|\r|\n")
"""Ruff breaks lines here and nowhere else."""
TARGET = f"py{sys.version_info[0]}{sys.version_info[1]}"
"""The grammar of this interpreter, with which the local sandbox runs programs."""
CPU_S, TIMEOUT_S = 30, 600.0
"""Processor time after which Ruff hangs on a text, and the time on the clock that a busy machine is given."""
CRASHES = (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGXCPU)
"""How Ruff ends that a text brings down: its stack overflows, or its processor time is over."""
BATCH = 256
CRASH_NOTE = "the code crashes the linter"


@dataclass(frozen=True)
class Finding:
    """`rule` from character `start` to `end` (excluded) of a text; at least one character unless the text is empty."""

    rule: str
    start: int
    end: int
    message: str


class Unfinished(Exception):
    """Ruff did not come to an end, for no fault of the texts that it was given."""


@dataclass(frozen=True)
class Linter:
    """
    Args:
        select, ignore: rules or their prefixes.
        builtins: names that need no definition, such as a simulator's functions.

    Raises:
        ValueError: one of these is a text and no list.
    """

    select: Sequence[str] = SELECT
    ignore: Sequence[str] = IGNORE
    builtins: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("select", "ignore", "builtins"):
            if isinstance(value := getattr(self, name), str):
                raise ValueError(f"lint.linter.{name}={value}: it must be a list, such as [{value}]")
            if wrong := [each for each in value if not isinstance(each, str)]:
                raise ValueError(f"lint.linter.{name}: {wrong[0]!r} is no text")

    async def findings(self, texts: Sequence[str]) -> list[list[Finding] | None]:
        """Findings of each text, in order of place; [] if the text does not parse, None if it crashes Ruff.

        Raises Unfinished if Ruff was killed or had no processor time, RuntimeError if it refuses its settings.
        """
        if not texts:
            return []
        # In a thread: asyncio's own subprocess may wait forever if it is cancelled while it starts (Python 3.11).
        records = await asyncio.to_thread(self._run, texts)
        if records is None:
            if len(texts) == 1:
                return [None]
            half = len(texts) // 2
            return [*await self.findings(texts[:half]), *await self.findings(texts[half:])]
        findings: list[list[Finding]] = [[] for _ in texts]
        line_starts: dict[int, list[int]] = {}
        unparsable = set()
        for record in records:
            n = int(Path(record["filename"]).stem)
            rule = record["code"] or "invalid-syntax"
            if rule == "invalid-syntax":
                unparsable.add(n)
                continue
            if n not in line_starts:
                line_starts[n] = [0, *(line.end() for line in LINE_END.finditer(texts[n]))]
            findings[n].append(_finding(rule, record, line_starts[n], texts[n]))
        ordered = (sorted(each, key=lambda f: (f.start, f.end, f.rule)) for each in findings)
        return [[] if n in unparsable else each for n, each in enumerate(ordered)]

    def _run(self, texts: Sequence[str]) -> list[dict[str, Any]] | None:
        """Ruff's own records; None if it crashed or hung."""
        with tempfile.TemporaryDirectory(prefix="lint-") as folder:
            for n, text in enumerate(texts):
                # A lone surrogate is not UTF-8; a question mark in its place is as long.
                (Path(folder) / f"{n}.py").write_bytes(text.encode("utf-8", "replace"))
            with subprocess.Popen(
                [*self._command(folder)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as ruff:
                hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
                soft = CPU_S if hard == resource.RLIM_INFINITY else min(CPU_S, hard)
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    resource.prlimit(ruff.pid, resource.RLIMIT_CPU, (soft, hard))
                try:
                    out, errors = ruff.communicate(timeout=TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    ruff.kill()
                    raise Unfinished(f"ruff had no answer within {TIMEOUT_S:g} s") from None
        if ruff.returncode == 2:
            raise RuntimeError(f"ruff: {errors.decode(errors='replace').strip()}")
        if ruff.returncode in CRASHES:
            return None
        if ruff.returncode or not out:
            raise Unfinished(f"ruff ended with status {ruff.returncode}")
        return json.loads(out)

    def _command(self, folder: str) -> Iterator[str]:
        yield from (find_ruff_bin(), "check", "--isolated", "--no-cache", "--exit-zero", "--quiet", "--ignore-noqa")
        yield "--no-respect-gitignore"  # the temporary folder may lie within a repository
        yield from ("--output-format", "json", "--target-version", TARGET)
        yield from ("--select", ",".join(self.select), "--ignore", ",".join(self.ignore))
        if self.builtins:
            yield from ("--config", f"builtins = {json.dumps(list(self.builtins))}")
        yield folder


def _finding(rule: str, record: Mapping[str, Any], line_starts: Sequence[int], text: str) -> Finding:
    """Ruff's rows and columns count from 1, columns in code points; a byte order mark is not counted."""

    def character(location: Mapping[str, int]) -> int:
        row = min(location["row"], len(line_starts))
        mark = 1 if row == 1 and text.startswith("\ufeff") else 0
        return min(line_starts[row - 1] + location["column"] - 1 + mark, len(text))

    start, end = character(record["location"]), character(record["end_location"] or record["location"])
    if end <= start:  # an empty location: take the character there, or the last one
        start, end = min(start, max(len(text) - 1, 0)), min(start, max(len(text) - 1, 0)) + 1
    return Finding(rule, start, min(end, len(text)), record["message"])


class Lint:
    """
    Args:
        weights: penalty by prefix of a rule, such as F or S307; a finding without a matching prefix costs nothing.
        cap: the largest total penalty of one completion.
        linter: its rules, ignored rules and known names.

    Raises:
        ValueError: a weight for rules that the linter does not select; a weight or a cap below 0.
    """

    best = 0.0

    def __init__(self, weights: Mapping[str, float], cap: float = 1.0, linter: Linter | None = None):
        if not isinstance(weights, Mapping):
            raise ValueError(f"lint.weights={weights}: it must be a mapping from rules to numbers, such as {{F: 0.4}}")
        self.weights, self.cap, self.linter = dict(weights), cap, linter or Linter()
        for name, value in {"cap": cap, **{f"weights.{rule}": weight for rule, weight in self.weights.items()}}.items():
            if not isinstance(value, int | float) or not (math.isfinite(value) and value >= 0):
                raise ValueError(f"lint.{name}={value}: it must be a number, 0 or more; penalties are taken away")
        for rule in self.weights:
            if not any(rule.startswith(chosen) or chosen.startswith(rule) for chosen in self.linter.select):
                raise ValueError(
                    f"lint.weights.{rule}={self.weights[rule]}: no finding can have this weight, since "
                    f"lint.linter.select is {', '.join(self.linter.select)}; add {rule} there"
                )
            if ignored := [name for name in self.linter.ignore if rule.startswith(name)]:
                raise ValueError(
                    f"lint.weights.{rule}={self.weights[rule]}: no finding can have this weight, since "
                    f"lint.linter.ignore has {ignored[0]}; remove one of the two"
                )

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Raises ValueError where Ruff refuses the linter's settings."""
        try:
            await self.linter.findings([""])
        except RuntimeError as error:
            raise ValueError(f"lint.linter: {' '.join(str(error).split())}") from None

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        with_code = [i for i, completion in enumerate(completions) if completion.code is not None]
        setups = [problems[i].setup for i in with_code]
        heads = [setup and f"{setup}\n" for setup in setups]
        begun = [problems[i].head(completions[i].code or "") for i in with_code]
        codes = [completions[i].code or "" for i in with_code]
        alone = [without_indent("" if given else code) for code, given in zip(codes, begun, strict=True)]
        programs = [
            f"{given}{code}" if given else own for code, given, (own, _) in zip(codes, begun, alone, strict=True)
        ]
        results: list[ChannelResult | None] = [ChannelResult(0.0, note="no code") for _ in completions]
        try:
            findings = await self._findings(heads, programs)
        except Unfinished as error:
            log.warning("%d completions without lint: %s", len(with_code), error)
            for i in with_code:
                results[i] = None
            return results
        for i, given, (_, place), found in zip(with_code, begun, alone, findings, strict=True):
            results[i] = self._result(completions[i], _moved(place, _behind(len(given), found)))
        return results

    async def _findings(self, heads: Sequence[str | None], codes: Sequence[str]) -> list[list[Finding] | None]:
        """Findings that each code has both alone and after its head (imports and helpers that the prompt supplies).

        A finding in only one of the two is not the code's fault: the code uses a name that the head defines, or defines
        it again.
        """
        with_head = [n for n, head in enumerate(heads) if head]
        bare = [code.removeprefix("\ufeff") for code in codes]  # a mark that only a file's beginning may have
        findings = await self.linter.findings([*codes, *(f"{heads[n]}{bare[n]}" for n in with_head)])
        for n, joined in zip(with_head, findings[len(codes) :], strict=True):
            alone, shift = findings[n], len(heads[n] or "") + len(bare[n]) - len(codes[n])
            if alone is not None and joined is not None:
                in_joined = {(f.rule, f.start - shift, f.end - shift) for f in joined}
                findings[n] = [f for f in alone if (f.rule, f.start, f.end) in in_joined]
        return findings[: len(codes)]

    def weight(self, rule: str) -> float:
        """The weight of the longest prefix of `rule` in `weights`, 0 if there is none."""
        prefixes = [prefix for prefix in self.weights if rule.startswith(prefix)]
        return self.weights[max(prefixes, key=len)] if prefixes else 0.0

    def _result(self, completion: Completion, findings: list[Finding] | None) -> ChannelResult:
        assert completion.code_span is not None
        start, end = completion.code_span
        if findings is None:  # Ruff crashes on this code alone; leaving it ungraded would let a policy avoid penalties
            return ChannelResult(-self.cap, (Span(start, end, -self.cap),), note=CRASH_NOTE)
        counted = [(f, self.weight(f.rule)) for f in findings if self.weight(f.rule)]
        total = sum(weight for _, weight in counted)
        scale = min(1.0, self.cap / total) if total else 1.0
        spans = tuple(Span(start + f.start, start + f.end, -w * scale) for f, w in counted)
        note = "; ".join(f"{f.rule} {f.message}" for f, _ in counted[:3])
        return ChannelResult(sum(span.value for span in spans), spans, note=note)


def _behind(given: int, findings: list[Finding] | None) -> list[Finding] | None:
    """Findings behind the first `given` characters of a program, by their places in the rest."""
    if findings is None:
        return None
    return [replace(f, start=f.start - given, end=f.end - given) for f in findings if f.start >= given]


def _moved(place: Callable[[int], int], findings: list[Finding] | None) -> list[Finding] | None:
    """Findings at the places in the code of those in the code without its indent."""
    return findings and [replace(f, start=place(f.start), end=place(max(f.start, f.end - 1)) + 1) for f in findings]


async def _check(path: str) -> None:
    rows = read_rows(path, "text")
    texts = [row["text"] for row in rows if "error" not in row]
    answers: list[dict[str, Any]] = []
    for start in range(0, len(texts), BATCH):
        for findings in await Linter().findings(texts[start : start + BATCH]):
            crashed = {"error": CRASH_NOTE}
            answers.append(crashed if findings is None else {"findings": [asdict(each) for each in findings]})
    answer(rows, answers)


main = command("rewards.lint", "check", __doc__.splitlines()[0], _check)

if __name__ == "__main__":
    sys.exit(main())
