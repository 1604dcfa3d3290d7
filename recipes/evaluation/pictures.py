"""Pictures of a few answers of an evaluation: which answers, and what of them a row of samples.jsonl holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rewards.compose import Grade

MOST = 4
"""Answers of one evaluation that a report draws, each to another problem."""


def chosen(rows: Sequence[dict[str, Any]], most: int = MOST) -> list[int]:
    """Places of up to `most` rows of different problems: one that passes, then failing ones from the worst to the best.

    Where too few fail, more that pass are chosen. Rows have task_id, passed and reward.
    """
    order = sorted(range(len(rows)), key=lambda i: (float(rows[i].get("reward") or 0.0), i))
    passing = _of_different_problems(rows, [i for i in order if rows[i].get("passed")], set())
    shown = passing[: min(1, most)]
    failing = [i for i in order if not rows[i].get("passed")]
    failing = _of_different_problems(rows, failing, {str(rows[i]["task_id"]) for i in shown})
    room = most - len(shown)
    if len(failing) > room:
        failing = [failing[i * (len(failing) - 1) // max(1, room - 1)] for i in range(room)]
    taken = {str(rows[i]["task_id"]) for i in failing}
    more = [i for i in passing[1:] if str(rows[i]["task_id"]) not in taken]
    return [*shown, *failing, *more[: room - len(failing)]]


def _of_different_problems(rows: Sequence[dict[str, Any]], places: Sequence[int], taken: set[str]) -> list[int]:
    """The first place of each problem, without problems that are `taken`."""
    first: dict[str, int] = {}
    for i in places:
        if str(rows[i]["task_id"]) not in taken:
            first.setdefault(str(rows[i]["task_id"]), i)
    return list(first.values())


def with_pictures(
    rows: Sequence[dict[str, Any]], grades: Sequence[Grade | None], most: int = MOST
) -> list[dict[str, Any]]:
    """The rows of an evaluation, up to `most` of them, as `chosen`, with a `picture` if a channel makes one.

    A picture whose `reference` equals that of the picture before it is stored without it.
    """
    makers = {i: make for i, grade in enumerate(grades) if grade and (make := _maker(grade))}
    drawable = [*makers]
    result, reference = list(rows), None
    for i in sorted(drawable[place] for place in chosen([rows[i] for i in drawable], most)):
        picture = dict(makers[i]())
        if picture.get("reference") == reference:
            picture.pop("reference", None)
        reference = picture.get("reference", reference)
        result[i] = {**rows[i], "picture": picture}
    return result


def _maker(grade: Grade) -> Callable[[], Mapping[str, Any]] | None:
    return next((result.picture for result in grade.results.values() if result.picture), None)


def pictured(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with a picture, each picture with its reference, in the order of the rows."""
    results: list[dict[str, Any]] = []
    reference = None
    for row in rows:
        if picture := row.get("picture"):
            reference = picture.get("reference", reference)
            results.append({**row, "picture": {**picture, "reference": reference}})
    return results
