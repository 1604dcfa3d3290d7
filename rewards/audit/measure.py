"""Grades useless answers, damaged references and references of a sample of problems, and compares what they earn."""

from __future__ import annotations

import itertools
import random
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from envs.etk.completion.cases import MARK
from envs.task import Problem, Split, Task, TaskError
from rewards.audit.answers import as_answer, useless_answers
from rewards.audit.damage import KINDS, damaged
from rewards.channel import Completion
from rewards.compose import Grade, Reward

LIMIT = 0.2
"""A task whose best useless answer earns a larger share of full marks is named."""
DAMAGED = 2
"""Damaged references of each kind and problem that are tried."""
AT_ONCE = 512
"""Answers that are graded together."""
REFERENCE, HONEST = "reference", "honest wrong"


@dataclass(frozen=True)
class Earned:
    """Mean share of full marks, and the number of problems it is a mean over."""

    share: float
    problems: int


@dataclass(frozen=True)
class Audit:
    """What answers to a task's problems earn, in shares of full marks (Reward.full_marks).

    useless: by name of the answer. honest: by kind of damage. reference: None where no problem has one. ungraded:
    answers that could not be graded.
    """

    task: str
    problems: int
    useless: dict[str, Earned]
    honest: dict[str, Earned] = field(default_factory=dict)
    reference: Earned | None = None
    ungraded: int = 0

    @property
    def best(self) -> str:
        """The useless answer that earns most."""
        return max(self.useless, key=lambda name: self.useless[name].share)

    @property
    def honest_wrong(self) -> float | None:
        """Mean share over all damaged references; None without one."""
        count = sum(each.problems for each in self.honest.values())
        return sum(each.share * each.problems for each in self.honest.values()) / count if count else None

    @property
    def complaints(self) -> list[str]:
        """Why the task is named; empty if useless answers earn little."""
        best = self.useless[self.best].share
        results = []
        if best > LIMIT:
            results.append(f"{self.best} earns {best:.1%} of the maximum reward, more than {LIMIT:.0%}")
        if self.honest_wrong is not None and best > self.honest_wrong + 1e-9:
            results.append(f"{self.best} earns {best:.1%}, more than an honest wrong answer ({self.honest_wrong:.1%})")
        return results

    def row(self) -> dict[str, Any]:
        """The summary as plain data, shares rounded."""

        def rounded(share: float | None) -> float | None:
            return None if share is None else round(share, 4)

        return {
            "task": self.task,
            "useless_best": rounded(self.useless[self.best].share),
            "useless_name": self.best,
            "honest_wrong": rounded(self.honest_wrong),
            "reference": rounded(self.reference.share if self.reference else None),
            "problems": self.problems,
            "ungraded": self.ungraded,
            "named": self.complaints,
            "useless": {name: rounded(each.share) for name, each in self.useless.items()},
        }

    def table(self) -> str:
        """All shares as a table in Markdown, the best useless answer first."""
        ordered = sorted(self.useless.items(), key=lambda item: -item[1].share)
        rows = [("useless", name, each) for name, each in ordered]
        rows += [("honest wrong", f"the reference with another {kind}", each) for kind, each in self.honest.items()]
        lines = [f"| {self.task} | answer | share of the maximum reward | problems |", "|---|---|---|---|"]
        lines += [f"| {kind} | {name} | {each.share:.1%} | {each.problems} |" for kind, name, each in rows]
        if self.reference is None:
            lines.append("| reference | none of the problems has one | | |")
        else:
            lines.append(f"| reference | as it stands | {self.reference.share:.1%} | {self.reference.problems} |")
        return "\n".join(lines)


def sampled(task: Task, splits: Sequence[Split], count: int, seed: int) -> tuple[Split, list[Problem]]:
    """The first of `splits` that has problems, and at most `count` of them, drawn with `seed`.

    Raises TaskError, that of the first split, if no split's data is there.
    """
    failure: TaskError | None = None
    for split in splits:
        try:
            problems = task.problems(split)
        except TaskError as error:
            failure = failure or error
            continue
        if problems:
            drawn = random.Random(seed).sample(range(len(problems)), min(count, len(problems)))
            return split, [problems[i] for i in sorted(drawn)]
    raise failure or TaskError(f"task={task.name}: no problems in {', '.join(splits)}")


async def audit(reward: Reward, task: Task, problems: Sequence[Problem], seed: int = 0) -> Audit:
    """Grade useless answers, damaged references and references of `problems`.

    A damaged reference that is still correct is no wrong answer and is left out.

    Raises TaskError where nothing can be graded.
    """
    asked = [item for number in range(len(problems)) for item in _answers(task, problems, number, seed)]
    shares: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    ungraded = 0
    for start in range(0, len(asked), AT_ONCE):
        batch = asked[start : start + AT_ONCE]
        grades = await reward.grade([problem for problem, *_ in batch], [answer for *_, answer in batch])
        for (problem, kind, name, _), grade in zip(batch, grades, strict=True):
            if grade is None:
                ungraded += 1
            elif kind != HONEST or not grade.passed:
                shares[kind, name][problem.id].append(_share(reward, grade))
    if ungraded == len(asked):
        raise TaskError(f"task={task.name}: none of {ungraded} answers could be graded; the log says why")
    earned = {
        key: _mean(by_problem, max if key[0] == "useless" else statistics.mean) for key, by_problem in shares.items()
    }
    return Audit(
        task=task.name,
        problems=len(problems),
        useless={name: each for (kind, name), each in earned.items() if kind == "useless"},
        honest={name: each for (kind, name), each in earned.items() if kind == HONEST},
        reference=earned.get((REFERENCE, REFERENCE)),
        ungraded=ungraded,
    )


def _answers(
    task: Task, problems: Sequence[Problem], number: int, seed: int
) -> list[tuple[Problem, str, str, Completion]]:
    """(problem, kind, name, answer) of everything that is graded for one problem."""
    problem = problems[number]
    others = [other.reference for other in (*problems[number + 1 :], *problems[:number]) if other.reference]
    other = next((text for text in others if text != problem.reference), "")
    results = [(problem, "useless", name, answer) for name, answer in useless_answers(task, problem, other)]
    if problem.reference:
        results.append((problem, REFERENCE, REFERENCE, as_answer(task, problem, problem.reference)))
        for kind in KINDS:
            for text in _damaged(problem, kind, f"{seed}:{problem.id}"):
                results.append((problem, HONEST, kind, as_answer(task, problem, text)))
    return results


def _damaged(problem: Problem, kind: str, seed: str) -> list[str]:
    """At most DAMAGED wrong answers; of several masked places one is damaged, each in its turn, and never a mark."""
    places = problem.data.get("places", (problem.reference,))
    by_place = [[(n, text) for text in damaged(place, kind, DAMAGED, seed)] for n, place in enumerate(places)]
    in_turns = [each for turn in itertools.zip_longest(*by_place) for each in turn if each is not None]
    return [f"{MARK}\n".join([*places[:n], text, *places[n + 1 :]]) for n, text in in_turns[:DAMAGED]]


def _share(reward: Reward, grade: Grade) -> float:
    full = reward.full_marks(grade)
    return grade.total / full if full else 0.0


def _mean(by_problem: dict[str, list[float]], of_one: Any) -> Earned:
    return Earned(statistics.mean(of_one(each) for each in by_problem.values()), len(by_problem))
