"""Several small problems in one prompt: the answer is a module of that many functions, each with its own tests."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from envs.task import Problem

ASKED = "Write the Python function:"
"""Between what a problem asks for and its signature."""


def together(problems: Sequence[Problem], size: int, seed: int = 0) -> list[Problem]:
    """The problems, `size` in one, in the order of a hash of `seed` and id, so that every process groups them alike.

    References that define one name at their top level never meet in a module; the last modules may be smaller.
    """

    def rank(problem: Problem) -> bytes:
        return hashlib.sha256(f"{seed}:{problem.id}".encode()).digest()

    open_modules: list[list[Problem]] = []
    full: list[list[Problem]] = []
    for problem in sorted(problems, key=rank):
        fitting = (m for m in open_modules if not _names(problem) & set().union(*map(_names, m)))
        module = next(fitting, None)
        if module is None:
            open_modules.append(module := [])
        module.append(problem)
        if len(module) == size:
            full.append(module)
            open_modules.remove(module)
    return [_module(parts) for parts in [*full, *open_modules]]


def _names(problem: Problem) -> set[str]:
    return {str(problem.entry_point), *re.findall(r"^(?:def|class) +(\w+)", problem.reference, re.MULTILINE)}


def _module(parts: Sequence[Problem]) -> Problem:
    asked = [problem.question.rsplit(ASKED, 1) for problem in parts]
    numbered = "\n".join(f"{number}. {text.strip()}" for number, (text, _) in enumerate(asked, 1))
    signatures = "\n\n".join(code.strip().removeprefix("```python").removesuffix("```").strip() for _, code in asked)
    return Problem(
        id="+".join([parts[0].id, *(p.id.partition("/")[2] for p in parts[1:])]),
        question=f"{numbered}\n\nWrite these Python functions in one code block:\n\n```python\n{signatures}\n```",
        reference="\n\n".join(p.reference.strip() + "\n" for p in parts),
        family="+".join(p.family for p in parts),
        parts=tuple(parts),
    )
