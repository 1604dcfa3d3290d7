"""Groups in which nothing passes, drawn again from behind the beginning of the reference solution.

Where no answer of a group passes there is nothing to learn. Shown the first part of the reference, as the beginning of
its own answer, the policy has less left to write, so that some answers pass (BREAD, arXiv 2506.17211; AdaBack, arXiv
2506.18110; QuestA, arXiv 2507.13266). Tokens that were given are read and never trained on.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from envs.task import Problem, Task
from recipes.cli.console import log
from recipes.data.chat_tokens import ids_behind
from recipes.data.training_data import demonstration
from rewards.compose import Grade

MEMORY = 0.9
"""Decay of the moving mean of shares. A problem that was never drawn again starts at this mean."""


@dataclass(frozen=True)
class PrefixSettings:
    """
    enabled: whether groups are drawn again.
    share: part of the reference's code, in tokens, that is shown at first, between 0 and 1. Where the question shows
        the signature, the code behind it counts; the signature is shown in any case.
    step: how far a problem's share moves: up by this where nothing passed, down by it where all did.
    until: part of the training after which nothing is shown. The most that may be shown falls evenly towards it.
    """

    enabled: bool
    share: float
    step: float
    until: float


@dataclass(frozen=True)
class Prefixed:
    """A group to draw again: its number, the ids that its answers begin with, which share of the code that shows."""

    group: int
    begun: list[int]
    share: float


class Shown(NamedTuple):
    """How many groups were drawn again, and the sum of the shares of the reference that they were shown."""

    groups: float = 0.0
    shares: float = 0.0


class ReferencePrefixes:
    """Chooses which groups are drawn again, and how much of its reference each problem is shown.

    A problem's share moves by `step * (1 - 2 * pass rate)` with each group that was drawn behind it: towards a pass
    rate of one half. Call `groups_to_draw_again` after a rollout is graded, and `observe` with what the new groups
    earned.

    Args:
        rollouts: how many the whole training makes.
        longest: of an answer, in tokens; a prefix leaves room for at least one more.
    """

    def __init__(self, settings: PrefixSettings, task: Task, tokenizer: Any, rollouts: int, longest: int):
        self.settings, self._task, self._tokenizer = settings, task, tokenizer
        self._rollouts, self._longest = max(1, rollouts), longest
        self._made = 0
        self._typical = settings.share
        self._shares: dict[str, float] = {}
        self._last: list[float] = []

    def groups_to_draw_again(
        self, problems: Sequence[Problem], grades: Sequence[Grade | None], group: int
    ) -> list[Prefixed]:
        """Groups of which no answer passes, of a rollout with `group` answers of each problem side by side; the rollout
        is counted."""
        most = 1.0 - self._made / (self._rollouts * self.settings.until)
        self._made += 1
        graded = [grade for grade in grades if grade is not None]
        if self._made == 1 and graded and all(grade.passed is None for grade in graded):
            log.warning(
                "recipe.prefix.enabled=true: no channel of this reward says whether an answer passes, so no group "
                "is drawn again"
            )
        chosen = []
        for number, first in enumerate(range(0, len(problems), group)):
            problem = problems[first]
            passed = [g.passed for g in grades[first : first + group] if g is not None and g.passed is not None]
            if most > 0 and passed and not any(passed) and problem.reference:
                share = min(most, self._shares.get(problem.id, self._typical))
                if begun := self._beginning(problem, share):
                    chosen.append(Prefixed(number, begun, share))
        self._last = [prefixed.share for prefixed in chosen]
        return chosen

    def observe(self, problem: Problem, share: float, grades: Sequence[Grade | None]) -> None:
        """What a group earned that was drawn from behind `share` of its reference."""
        passed = [float(g.passed) for g in grades if g is not None and g.passed is not None]
        if passed:
            moved = min(1.0, max(0.0, share + self.settings.step * (1.0 - 2.0 * fmean(passed))))
            self._shares[problem.id] = moved
            self._typical = MEMORY * self._typical + (1.0 - MEMORY) * moved

    @property
    def shown(self) -> Shown:
        """Of this process's last rollout."""
        return Shown(float(len(self._last)), sum(self._last))

    def state(self) -> dict[str, Any]:
        return {"made": self._made, "typical": self._typical, "shares": dict(self._shares), "last": list(self._last)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._made, self._typical = state["made"], state["typical"]
        self._shares, self._last = dict(state["shares"]), list(state["last"])

    def _beginning(self, problem: Problem, share: float) -> list[int]:
        """The first tokens of the reference as an answer: at least one, never all, none that leaves no room."""
        assert problem.reference is not None
        answer = demonstration(self._task.messages(problem), problem.reference)
        ids, code = self._ids(answer), problem.reference.rstrip()
        first = self._tokens_until(ids, answer, len(_already_asked(answer, problem)))
        end = answer.rfind(code)
        last = self._tokens_until(ids, answer, end + len(code)) if end >= 0 else len(ids)
        shown = first + round(share * max(0, last - first))
        return ids[: max(1, min(shown, len(ids) - 1, self._longest - 1))] if len(ids) > 1 else []

    def _ids(self, text: str) -> list[int]:
        return ids_behind(text, self._tokenizer)

    def _tokens_until(self, ids: Sequence[int], answer: str, end: int) -> int:
        """How many of the answer's tokens lie before its character `end`, but for one that reaches across it."""
        pairs = zip(ids, self._ids(answer[:end]), strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _already_asked(answer: str, problem: Problem) -> str:
    """The first lines of an answer that say nothing new: the opening fence, and after it the lines of the question down
    to the signature of the function that it asks for, if the question shows it."""
    lines = answer.splitlines(keepends=True)
    fence = lines[0] if lines and lines[0].startswith("```") else ""
    asked = {line.strip() for line in problem.question.splitlines()}
    shown = "".join(itertools.takewhile(lambda line: line.strip() in asked, lines[bool(fence) :]))
    return fence + shown if problem.entry_point and problem.entry_point in shown else fence


def prefixes_of(
    settings: Mapping[str, Any] | None, task: Task, tokenizer: Any, rollouts: int, longest: int
) -> ReferencePrefixes | None:
    """What `recipe.prefix` asks for; None where it is not enabled. Raises UserError for a wrong number."""
    if not settings or not settings["enabled"]:
        return None
    return ReferencePrefixes(PrefixSettings(**settings), task, tokenizer, rollouts, longest)
