"""Lint: what Ruff finds, each finding on its characters.

Score: minus the weights of the findings, never below -`cap`; -`cap` for code that brings Ruff down. A finding's weight
is that of the longest prefix of its rule in `weights`, whatever the length of its span. Code that does not parse is for
the syntax channel, an answer without code for the form channel: both score 0 here. One process judges a batch (Ruff,
docs.astral.sh/ruff), which reads no configuration and no `# noqa`: a comment that silences a rule is the first thing a
policy learns.

    python -m rewards.lint check FILE     one JSON object a line: id, text -> id, findings [{rule, start, end, message}]
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ruff import find_ruff_bin

from envs.rows import answer, command, read_rows
from envs.task import Problem
from rewards.channel import ChannelResult, Completion, Span

SELECT = ("E4", "E7", "E9", "F", "B", "S", "W605")
IGNORE = ("S101", "S311", "E741", "B905")
"""Asserts, pseudo-random numbers, the name l, zip without strict: right in a snippet."""
LINES = re.compile(r"\r\n|\r|\n")
"""Where Ruff breaks lines, and nowhere else."""
SECONDS = 30.0
BATCH = 256


@dataclass(frozen=True)
class Finding:
    """`rule` from character `start` to `end` (excluded) of a text; at least one character unless the text is empty."""

    rule: str
    start: int
    end: int
    message: str


@dataclass(frozen=True)
class Linter:
    """
    Args:
        select, ignore: rules or their prefixes.
        builtins: names that need no definition (a simulator's functions).
        target: the grammar, that of this interpreter, which the local sandbox runs programs with.
    """

    select: Sequence[str] = SELECT
    ignore: Sequence[str] = IGNORE
    builtins: Sequence[str] = ()
    target: str = f"py{sys.version_info[0]}{sys.version_info[1]}"

    async def findings(self, texts: Sequence[str]) -> list[list[Finding] | None]:
        """Findings of each text, in order of place; [] where it does not parse, None where it brings Ruff down."""
        if not texts:
            return []
        # in a thread: asyncio's own subprocess, cancelled while it starts, may wait for ever (Python 3.11)
        raw = await asyncio.to_thread(self._run, texts)
        if raw is None:
            if len(texts) == 1:
                return [None]
            half = len(texts) // 2
            return [*await self.findings(texts[:half]), *await self.findings(texts[half:])]
        found: list[list[Finding]] = [[] for _ in texts]
        starts: dict[int, list[int]] = {}
        broken = set()
        for item in raw:
            n = int(Path(item["filename"]).stem)
            rule = item["code"] or "invalid-syntax"
            if rule == "invalid-syntax":
                broken.add(n)
                continue
            if n not in starts:
                starts[n] = [0, *(line.end() for line in LINES.finditer(texts[n]))]
            found[n].append(_finding(rule, item, starts[n], texts[n]))
        ordered = (sorted(each, key=lambda f: (f.start, f.end, f.rule)) for each in found)
        return [[] if n in broken else each for n, each in enumerate(ordered)]

    def _run(self, texts: Sequence[str]) -> list[dict[str, Any]] | None:
        """Ruff's own records, None where it crashed or hung. Raises RuntimeError where it refuses (an unknown rule)."""
        with tempfile.TemporaryDirectory(prefix="lint-") as folder:
            for n, text in enumerate(texts):
                # a lone surrogate is no UTF-8: a question mark is as long
                (Path(folder) / f"{n}.py").write_bytes(text.encode("utf-8", "replace"))
            try:
                done = subprocess.run([*self._command(folder)], capture_output=True, check=False, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                return None
        if done.returncode == 2:
            raise RuntimeError(f"ruff: {done.stderr.decode(errors='replace').strip()}")
        return json.loads(done.stdout) if done.returncode == 0 and done.stdout else None

    def _command(self, folder: str) -> Iterator[str]:
        yield from (find_ruff_bin(), "check", "--isolated", "--no-cache", "--exit-zero", "--quiet", "--ignore-noqa")
        yield from ("--output-format", "json", "--target-version", self.target)
        yield from ("--select", ",".join(self.select), "--ignore", ",".join(self.ignore))
        if self.builtins:
            yield from ("--config", f"builtins = {json.dumps(list(self.builtins))}")
        yield folder


def _finding(rule: str, item: Mapping[str, Any], starts: Sequence[int], text: str) -> Finding:
    """Rows and columns count from 1, columns in code points; a byte order mark is in no column."""

    def place(where: Mapping[str, int]) -> int:
        row = min(where["row"], len(starts))
        mark = 1 if row == 1 and text.startswith("\ufeff") else 0
        return min(starts[row - 1] + where["column"] - 1 + mark, len(text))

    start, end = place(item["location"]), place(item["end_location"] or item["location"])
    if end <= start:  # nothing to point at: the character there, or the last one
        start, end = min(start, max(len(text) - 1, 0)), min(start, max(len(text) - 1, 0)) + 1
    return Finding(rule, start, min(end, len(text)), item["message"])


class Lint:
    """
    Args:
        weights: penalty by prefix of a rule, such as F or S307; a finding that no prefix fits costs nothing.
        cap: the most that one completion can lose.
        linter: rules, ignored rules, names known.
    """

    judges_form = False

    def __init__(self, weights: Mapping[str, float], cap: float = 1.0, linter: Linter | None = None):
        self.weights, self.cap, self.linter = dict(weights), cap, linter or Linter()

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        coded = [i for i, completion in enumerate(completions) if completion.code is not None]
        supplied = [problems[i].setup for i in coded]
        found = await self._judge([s and f"{s}\n" for s in supplied], [completions[i].code or "" for i in coded])
        results: list[ChannelResult | None] = [ChannelResult(0.0, note="no code") for _ in completions]
        for i, findings in zip(coded, found, strict=True):
            results[i] = self._result(completions[i], findings)
        return results

    async def _judge(self, heads: Sequence[str | None], codes: Sequence[str]) -> list[list[Finding] | None]:
        """Findings that each code has both alone and after its head (imports and helpers that the prompt supplies).

        What of the two has only one is not the code's: a name that the head defines, and its definition repeated.
        """
        behind = [n for n, head in enumerate(heads) if head]
        found = await self.linter.findings([*codes, *(f"{heads[n]}{codes[n]}" for n in behind)])
        for n, joined in zip(behind, found[len(codes) :], strict=True):
            alone, shift = found[n], len(heads[n] or "")
            if alone is not None and joined is not None:
                kept = {(f.rule, f.start - shift, f.end - shift) for f in joined}
                found[n] = [f for f in alone if (f.rule, f.start, f.end) in kept]
        return found[: len(codes)]

    def weight(self, rule: str) -> float:
        """Of the longest prefix of the rule that has one."""
        known = [prefix for prefix in self.weights if rule.startswith(prefix)]
        return self.weights[max(known, key=len)] if known else 0.0

    def _result(self, completion: Completion, findings: list[Finding] | None) -> ChannelResult:
        assert completion.code_span is not None
        start, end = completion.code_span
        if findings is None:  # alone too, so the text does it; ungraded would be a policy's way out
            return ChannelResult(-self.cap, (Span(start, end, -self.cap),), note="brings the linter down")
        counted = [(f, self.weight(f.rule)) for f in findings if self.weight(f.rule)]
        total = sum(weight for _, weight in counted)
        scale = min(1.0, self.cap / total) if total else 1.0
        spans = tuple(Span(start + f.start, start + f.end, -w * scale) for f, w in counted)
        note = "; ".join(f"{f.rule} {f.message}" for f, _ in counted[:3])
        return ChannelResult(sum(span.value for span in spans), spans, note=note)


async def _check(path: str) -> None:
    rows = read_rows(path, "text")
    texts = [row["text"] for row in rows if "error" not in row]
    answers: list[dict[str, Any]] = []
    for start in range(0, len(texts), BATCH):
        for found in await Linter().findings(texts[start : start + BATCH]):
            down = {"error": "brings the linter down"}
            answers.append(down if found is None else {"findings": [asdict(each) for each in found]})
    answer(rows, answers)


main = command("rewards.lint", "check", __doc__.splitlines()[0], _check)

if __name__ == "__main__":
    sys.exit(main())
