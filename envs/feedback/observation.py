"""What a feedback sees of a program, and the protocol of feedbacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from envs.task import Problem


@dataclass(frozen=True)
class Observation:
    """What a feedback saw of a program.

    fine: nothing is left to repair as far as it can see. text: what a reader is told, hostile parts included. failed:
    the infrastructure could not look, which says nothing about the program.
    """

    fine: bool
    text: str = ""
    failed: bool = False


class Feedback(Protocol):
    """How a task looks at programs without its hidden tests. One that has `takes_empty` = True looks at empty answers
    too; of others a closed block without code counts as no answer. One whose task is not answered with the whole code
    has `answer`, which says what the answer is."""

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Prepare what looking at those problems takes. Raises ValueError with one line if it is not available."""
        ...

    async def observe(self, problems: Sequence[Problem], codes: Sequence[str]) -> list[Observation]:
        """What is seen of each program, in order."""
        ...
