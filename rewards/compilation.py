"""Compilation: does the file compile in a prepared Cactus tree (envs/etk/cactus.py)?

Score 1 or 0. Where the compiler names lines of the file, the whole is paid 1 and those lines lose it; else 0 is spread
over the code. Two ways, of which `mode` chooses: `syntax` asks a compiler for this file alone, in hundredths of a
second, `build` rebuilds what depends on it, in a second or two. An empty file compiles: code without a token is 0.
Silent for a language without a command, and for a problem whose reference does not compile in this tree.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.etk.cactus import CactusTree, Compiled, Setup, Source
from envs.packaged import cache_dir
from envs.sandbox import Sandbox
from envs.task import Problem, TaskError
from rewards.channel import ChannelResult, Completion, Span
from rewards.similarity import has_code

log = logging.getLogger("codegrain")
MODES = ("syntax", "build")
FIRST = 4
"""References that are tried before a run."""
SILENT = ChannelResult(0.0, note="not checked", silent=True)


class Compilation:
    """
    Args:
        sandbox: where compilers run.
        workdir: the tree.
        mode: one of MODES.
        syntax, build: how a file is checked in each mode, fields of envs.etk.cactus.Setup.
        target: where a file lies in the tree.
        cache: folder for what became of references; None: the user's cache.

    Raises:
        ValueError: another mode.
        TaskError: no such tree, no such field, or a compiler that is not installed.
    """

    judges_form = False

    def __init__(
        self,
        sandbox: Sandbox,
        workdir: str,
        mode: str = "syntax",
        syntax: Mapping[str, Any] | None = None,
        build: Mapping[str, Any] | None = None,
        target: str = "arrangements/{thorn}/src/{file}",
        cache: str | None = None,
    ):
        if mode not in MODES:
            raise ValueError(f"task.reward.compile.mode={mode}: {' or '.join(MODES)}")
        settings = syntax if mode == "syntax" else build
        try:
            setup = Setup(workdir=workdir, target=target, **(settings or {}))
        except TypeError as error:
            raise TaskError(f"task.reward.compile.{mode}: {str(error).partition('() ')[2]}") from None
        self.tree = CactusTree(setup, sandbox, Path(cache) if cache else cache_dir() / "compile")

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Raises TaskError where the tree has no file that is asked for; warns where none of the first compiles."""
        first = [_source(problem, problem.reference) for problem in problems if problem.reference]
        placed = [source for source in first if self.tree.has(source)]
        if first and not placed:
            where = self.tree.setup.target_of(first[0])
            raise TaskError(f"task.reward.compile: no {where} in {self.tree.setup.root}, and no other file asked for")
        checked = [source for source in placed if self.tree.setup.command_for(source)][:FIRST]
        found = await self.tree.check(checked, checked)
        if found and not any(each is None or each.ok for each in found):
            said = next(each.messages[0].text if each.messages else each.reason for each in found if each)
            log.warning("compile: none of the first %d references compiles in this tree: %s", len(found), said)

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        references = [_source(problem, problem.reference) for problem in problems]
        usable = await self.tree.usable(references)
        found: list[ChannelResult | None] = [None if each is None else SILENT for each in usable]
        asked = []
        for i, (problem, completion) in enumerate(zip(problems, completions, strict=True)):
            if usable[i] and has_code(problem, completion.code):
                asked.append(i)
            elif usable[i]:
                found[i] = ChannelResult(0.0, note="no code", verdict="no code", detail={"compiles": 0.0})
        sources = [_source(problems[i], completions[i].code or "") for i in asked]
        compiled = await self.tree.check(sources, [references[i] for i in asked])
        for i, each in zip(asked, compiled, strict=True):
            found[i] = None if each is None else _result(completions[i], each)
        return found


def _source(problem: Problem, text: str) -> Source:
    return Source(problem.data.get("thorn", ""), problem.data.get("file", ""), problem.language, text)


def _result(completion: Completion, compiled: Compiled) -> ChannelResult:
    detail = {"compiles": float(compiled.ok)}
    if compiled.ok:
        return ChannelResult(1.0, note="compiles", verdict="compiles", detail=detail)
    errors = [message for message in compiled.messages if message.severity == "error"]
    note = errors[0].text if errors else compiled.reason
    spans = _charged(completion, [e.offset for e in errors if e.offset is not None])
    return ChannelResult(0.0, spans, note=note, verdict="does not compile", detail=detail)


def _charged(completion: Completion, offsets: Sequence[int]) -> tuple[Span, ...]:
    """The code is paid 1 and the lines lose it; no spans where there is no line to name."""
    if completion.code_span is None or completion.code is None:
        return ()
    start, end = completion.code_span
    lines = completion.code.split("\n")
    numbers = {_not_blank(lines, completion.code.count("\n", 0, offset)) for offset in offsets} - {None}
    named, position = [], start
    for number, line in enumerate(lines):
        if number in numbers:
            named.append((position + len(line) - len(line.lstrip()), position + len(line.rstrip())))
        position += len(line) + 1
    return (Span(start, end, 1.0), *(Span(a, b, -1 / len(named)) for a, b in named)) if named else ()


def _not_blank(lines: Sequence[str], number: int) -> int | None:
    """The line itself, or the last one before it that has something to charge."""
    return next((n for n in range(number, -1, -1) if lines[n].strip()), None)
