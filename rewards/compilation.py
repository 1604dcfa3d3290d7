"""Compilation: does the file compile in a prepared Cactus tree (envs/etk/build/cactus_tree.py)?

The score is 1 or 0. A file that compiles must also define the names that its thorn needs of it (Setup.object), so that
a lone semicolon scores 0. If the compiler names lines of the file, the code is paid 1 and those lines lose it;
otherwise the 0 is spread over the code. `mode` selects how it is checked: `syntax` compiles this file alone; `build`
builds the configuration again, which also links it. An empty file compiles, so code without a token scores 0. The
channel is silent for a file that Cactus does not compile, and for a problem whose reference does not compile in this
tree.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from envs.etk.build.cactus_tree import CactusTree, Compiled, Setup, Source
from envs.local_models import cache_folder
from envs.sandbox import Sandbox
from envs.task import Problem, TaskError
from rewards.analysis.code_tokens import has_code
from rewards.channel import ChannelResult, Completion, Span, charged

log = logging.getLogger("codegrain")
TRIED_REFERENCES = 4
"""Number of references that `ready` compiles before a run."""
SILENT = ChannelResult(0.0, note="not checked", silent=True)


class Compilation:
    """
    Args:
        sandbox: where compilers run.
        workdir: folder of the tree.
        mode: `syntax` or `build`.
        configuration, timeout, memory_mib, disk_mib: see envs.etk.build.cactus_tree.Setup.
        cache: folder for the results of references; None: the user's cache.

    Raises:
        TaskError: an unknown mode, the tree or its configuration does not exist, or a program is not installed.
    """

    def __init__(self, sandbox: Sandbox, workdir: str, cache: str | None = None, **settings: Any):
        setup = Setup(workdir=workdir, **settings)
        self.tree = CactusTree(setup, sandbox, cache_folder("compile", cache))

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Warn if none of the first references compiles.

        Raises:
            TaskError: the tree has no file of the problems, or the sandbox cannot build in it.
        """
        await self.tree.ready()
        references = [Source.of(problem, problem.reference) for problem in problems if problem.reference]
        in_tree = [source for source in references if self.tree.has(source)]
        if references and not in_tree:
            path = references[0].target
            raise TaskError(f"task.reward.compile: no {path} in {self.tree.setup.root}, and no other file asked for")
        checked = [source for source in in_tree if self.tree.checks(source)][:TRIED_REFERENCES]
        results = await self.tree.check(checked, checked)
        if results and not any(result is None or result.ok for result in results):
            message = next(r.messages[0].text if r.messages else r.reason for r in results if r)
            log.warning("compile: none of the first %d references compiles in this tree: %s", len(results), message)

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        references = [Source.of(problem, problem.reference) for problem in problems]
        usable = await self.tree.usable(references)
        results: list[ChannelResult | None] = [None if each is None else SILENT for each in usable]
        checked = []
        for i, (problem, completion) in enumerate(zip(problems, completions, strict=True)):
            if usable[i] and has_code(problem, completion.code):
                checked.append(i)
            elif usable[i]:
                results[i] = ChannelResult(0.0, note="no code", verdict="no code", detail={"compiles": 0.0})
        sources = [Source.of(problems[i], completions[i].code or "") for i in checked]
        compiled = await self.tree.check(sources, [references[i] for i in checked])
        for i, each in zip(checked, compiled, strict=True):
            results[i] = None if each is None else _result(completions[i], each)
        return results


def _result(completion: Completion, compiled: Compiled) -> ChannelResult:
    detail = {"compiles": float(compiled.ok)}
    if compiled.ok:
        return ChannelResult(1.0, note="compiles", verdict="compiles", detail=detail)
    errors = [message for message in compiled.messages if message.severity == "error"]
    note = errors[0].text if errors else compiled.reason
    spans = _charged_spans(completion, [e.offset for e in errors if e.offset is not None])
    return ChannelResult(0.0, spans, note=note, verdict="does not compile", detail=detail)


def _charged_spans(completion: Completion, offsets: Sequence[int]) -> tuple[Span, ...]:
    """`charged` at the lines of `offsets`."""
    if completion.code_span is None or completion.code is None:
        return ()
    lines = completion.code.split("\n")
    named = {_last_nonblank(lines, completion.code.count("\n", 0, offset)) for offset in offsets} - {None}
    places, position = [], completion.code_span[0]
    for number, line in enumerate(lines):
        if number in named:
            places.append((position + len(line) - len(line.lstrip()), position + len(line.rstrip())))
        position += len(line) + 1
    return charged(completion.code_span, 0.0, places)


def _last_nonblank(lines: Sequence[str], number: int) -> int | None:
    """The index of the last line that is not blank, up to `number`."""
    return next((n for n in range(number, -1, -1) if lines[n].strip()), None)
