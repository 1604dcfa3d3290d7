"""Files of a thorn: what the compiler of a prepared Cactus tree says (envs/etk/build/cactus_tree.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from envs.etk.build.cactus_tree import CactusTree, Setup, Source
from envs.feedback.observation import Observation
from envs.feedback.plain_text import cut, quoted
from envs.local_models import cache_folder
from envs.sandbox import Sandbox
from envs.task import Problem, TaskError

MOST_MESSAGES = 3


class ThornCompiler:
    """
    Args:
        sandbox: where compilers run.
        workdir: folder of the tree, configured and built.
        settings: as rewards.compilation.Compilation takes them.
        cache: folder for the results of references; None: the user's cache.

    A file is fine where it compiles, and where the compiler cannot judge it: Cactus does not compile it, or the
    reference does not compile in this tree.

    Raises:
        TaskError: there is no tree, or a program is not installed.
    """

    def __init__(self, sandbox: Sandbox, workdir: str | None = None, cache: str | None = None, **settings: Any):
        if workdir is None:
            raise TaskError(
                "episode=repair on task=etk tells what the compiler says and task.reward.compile.workdir is null: give "
                "a configured and built Cactus tree"
            )
        setup = Setup(workdir=workdir, **settings)
        self.tree = CactusTree(setup, sandbox, cache_folder("compile", cache))

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Raises TaskError if the sandbox cannot build in the tree."""
        await self.tree.ready()

    async def observe(self, problems: Sequence[Problem], codes: Sequence[str]) -> list[Observation]:
        """What the compiler says of each file."""
        references = [Source.of(problem, problem.reference) for problem in problems]
        usable = await self.tree.usable(references)
        checked = [i for i, each in enumerate(usable) if each]
        sources = [Source.of(problems[i], codes[i]) for i in checked]
        compiled = dict(zip(checked, await self.tree.check(sources, [references[i] for i in checked]), strict=True))
        return [self._observation(compiled.get(i)) if usable[i] else Observation(fine=True) for i in range(len(codes))]

    def _observation(self, compiled: Any) -> Observation:
        if compiled is None:
            return Observation(False, failed=True)
        if compiled.ok:
            return Observation(fine=True)
        errors = [m for m in compiled.messages if m.severity == "error"][:MOST_MESSAGES]
        lines = [f"{_place(m)}: {cut(m.text, 200)}" for m in errors] or [cut(compiled.reason, 200)]
        return Observation(False, "\n".join(["The file does not compile.", *map(quoted, lines)]))


def _place(message: Any) -> str:
    """A line of the answer, or the name of another file."""
    return f"line {message.line}" if message.offset is not None else PurePosixPath(message.file or "another file").name
