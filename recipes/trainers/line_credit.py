"""Credit for lines: two answers of a group exchange lines in which they differ, and the mixed answers are graded.

GRPO's advantage of answer i is the mean over the group's answers j of R_i - R_j, on every token. If an answer has
several choices, most of that difference was made by other choices than a token's own. Here i and j are compared line
by line. At each place where they differ, i's lines have the mean of two effects: of having them in i (R_i minus the
reward of i with j's lines there), and of having them in j (the reward of j with i's lines there, minus R_j). j's lines
have the same with the other sign, so a pair as a whole pushes nowhere. Lines that both have get nothing from this pair.

If i and j differ at one place, the effect is R_i - R_j: GRPO's own. Answers of the same text differ at their end, where
one was cut. If the reward is a sum over lines, each line has its own part of the difference. If no mixed answer earns
anything, as where lines only work together, each place has half of the difference. No further answers are sampled;
mixed answers cost grading alone.

Difference rewards: Wolpert and Tumer 2002, "Optimal payoff functions for members of collectives"; as a baseline for one
of several choices: Foerster et al. 2018, "Counterfactual Multi-Agent Policy Gradients", arXiv 1705.08926, equation 4.
The mean over both contexts is the Shapley value (1953) of a place among two.
"""

from __future__ import annotations

import difflib
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from envs.task import Task
from recipes.sampling.background_grading import Grader
from recipes.sampling.group_batch import GroupRollout
from rewards.channel import Completion, as_completion
from rewards.compose import Grade

MOST_PLACES = 12
"""Places at which two answers may differ. If there are more, they are exchanged as a whole: GRPO's difference."""


@dataclass(frozen=True)
class Place:
    """Where two answers of a group differ.

    rows: the answers' rows in the batch. lines: of each the lines there, or none. mixed: the text of each with the
    other's lines. answers: how many of the group have a grade.
    """

    rows: tuple[int, int]
    lines: tuple[slice, slice]
    mixed: tuple[str, str]
    answers: int


class LineCredit:
    """
    Args:
        task, grader: of the training.
        group: completions of a group, which lie side by side in a batch of this process.
        length: how many tokens a text has.
    """

    def __init__(self, task: Task, grader: Grader, group: int, length: Callable[[str], int]):
        self._task, self._grader, self._group, self._length = task, grader, group, length

    def __call__(self, rollout: GroupRollout, width: int) -> torch.Tensor:
        """Advantages of this process's answers, (B, width). Enters into the rollout how many mixed answers were graded
        and how long that took."""
        started = time.perf_counter()
        result = torch.zeros(len(rollout.grades), width)
        places = [place for first in range(0, len(result), self._group) for place in self._places(rollout, first)]
        rewards = self._rewards(rollout, places)
        for place in places:
            first, second = (_total(rollout.grades[row]) for row in place.rows)
            with_second, with_first = (rewards[self._group_of(place), text] for text in place.mixed)
            # one of the two itself; another answer of the group may have its text and end otherwise
            with_second = second if place.mixed[0] == rollout.completions[place.rows[1]].text else with_second
            with_first = first if place.mixed[1] == rollout.completions[place.rows[0]].text else with_first
            effect = ((first - with_second) + (with_first - second)) / 2 / place.answers
            for row, lines, sign in zip(place.rows, place.lines, (1.0, -1.0), strict=True):
                completion = rollout.completions[row]
                columns = [token - completion.given for token in tokens_of(completion, lines)]
                result[row, [column for column in columns if column >= 0]] += sign * effect
        rollout.clock["seconds/mixed"] = time.perf_counter() - started
        return result

    def _group_of(self, place: Place) -> int:
        return place.rows[0] // self._group

    def _places(self, rollout: GroupRollout, first: int) -> list[Place]:
        """Where the graded answers of the group that begins at row `first` differ; nowhere if all earned the same."""
        rows = [row for row in range(first, first + self._group) if rollout.grades[row] is not None]
        totals = [_total(rollout.grades[row]) for row in rows]
        if not totals or max(totals) - min(totals) <= 1e-6:
            return []
        lines = {row: rollout.completions[row].text.splitlines(keepends=True) for row in rows}
        return [
            Place(
                (a, b),
                (mine, other),
                (exchanged(lines[a], mine, lines[b][other]), exchanged(lines[b], other, lines[a][mine])),
                len(rows),
            )
            for a, b in itertools.combinations(rows, 2)
            # equal texts differ in how they end: one was cut by the length limit
            for mine, other in differing(lines[a], lines[b]) or [(behind(lines[a]), behind(lines[b]))]
        ]

    def _rewards(self, rollout: GroupRollout, places: Sequence[Place]) -> dict[tuple[int, str], float]:
        """The rewards of mixed answers, by group and text. One that cannot be graded counts as the mean of the two
        answers that it is made of, so that half of their difference is left."""
        known = {
            (row // self._group, completion.text): grade.total
            for row, (completion, grade) in enumerate(zip(rollout.completions, rollout.grades, strict=True))
            if grade is not None
        }
        wanted: dict[tuple[int, str], Place] = {}
        for place in places:
            for text in place.mixed:
                if (self._group_of(place), text) not in known:
                    wanted.setdefault((self._group_of(place), text), place)
        batch = self._grader.batch()
        for number, ((_, text), place) in enumerate(wanted.items()):
            finished = all(rollout.completions[row].finished for row in place.rows)
            completion = replace(as_completion(self._task, text, self._length), finished=finished)
            batch.add(number, rollout.problems[place.rows[0]], completion)
        for (key, place), grade in zip(wanted.items(), batch.collect(), strict=True):
            mean = sum(_total(rollout.grades[row]) for row in place.rows) / 2
            known[key] = mean if grade is None else grade.total
        rollout.mixed_answers = len(wanted)
        return known


def differing(first: Sequence[str], second: Sequence[str]) -> list[tuple[slice, slice]]:
    """Where two lists of lines differ: the lines of each, of which one may be none. As many lines in place of others
    are taken one by one."""
    matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
    places = []
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        if tag == "replace" and a_end - a == b_end - b:
            pairs = zip(range(a, a_end), range(b, b_end), strict=True)
            places += [(slice(i, i + 1), slice(j, j + 1)) for i, j in pairs if first[i] != second[j]]
        elif tag != "equal":
            places.append((slice(a, a_end), slice(b, b_end)))
    return places if len(places) <= MOST_PLACES else [(slice(0, len(first)), slice(0, len(second)))]


def behind(lines: Sequence[str]) -> slice:
    """The place behind all lines."""
    return slice(len(lines), len(lines))


def exchanged(lines: Sequence[str], place: slice, others: Sequence[str]) -> str:
    """The text of `lines` with others at a place."""
    return "".join([*lines[: place.start], *others, *lines[place.stop :]])


def tokens_of(completion: Completion, lines: slice) -> list[int]:
    """Indices of the tokens that overlap some lines of the text, for the last line with what stands behind the text; if
    there are no lines, the token that does not write any there: the one behind the place, or the last."""
    ends = [0, *itertools.accumulate(len(line) for line in completion.text.splitlines(keepends=True))]
    start, end = ends[lines.start], ends[lines.stop]
    last = lines.stop == len(ends) - 1  # with which the end of the sequence is exchanged too
    tokens = [t for t, (s, e) in enumerate(completion.offsets) if (s < end or last) and (e > start or s >= end)]
    if start == end:
        tokens = [t for t, (s, _) in enumerate(completion.offsets) if s >= start][:1]
    return tokens or [len(completion.offsets) - 1] if completion.offsets else []


def _total(grade: Grade | None) -> float:
    assert grade is not None
    return grade.total
