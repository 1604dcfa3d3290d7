"""An evaluation shared by the processes of a run: each answers some of the problems, and all get all the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from torch import distributed

from rewards.channel import Completion
from rewards.compose import Grade

T = TypeVar("T")


class Answer(NamedTuple):
    """A graded completion. base: whether it passes its problem's base tests (base_tests.py), None without them."""

    completion: Completion
    grade: Grade | None
    base: bool | None


def own_share(problems: Sequence[T]) -> Sequence[T]:
    """The problems that this process answers: every n-th of n processes; all of them in a run of one process."""
    own, processes = _place()
    return problems[own::processes]


def of_all_processes(own: Sequence[Answer], samples: int) -> list[Answer]:
    """The answers of all processes, in the order of the problems. All processes call it together.

    own: this process's answers, `samples` to each problem of its `own_share`, side by side. They keep their pictures;
    those of the other processes have none.
    """
    number, processes = _place()
    parts: list[Any] = [own]
    if processes > 1:
        parts = [None] * processes
        distributed.all_gather_object(parts, own)
        parts[number] = own
    places = range(0, max(map(len, parts)), samples)
    return [answer for at in places for part in parts for answer in part[at : at + samples]]


def gathered(own: Sequence[T]) -> list[T]:
    """What all processes have, those of the first process first: the same list in all. They call it together."""
    _, processes = _place()
    if processes == 1:
        return list(own)
    parts: list[Any] = [None] * processes
    distributed.all_gather_object(parts, list(own))
    return [item for part in parts for item in part]


def own_seed(seed: int) -> int:
    """This process's seed: the problems of different processes are answered independently of each other."""
    number, processes = _place()
    return seed * processes + number


def rank() -> int:
    """This process's number."""
    return _place()[0]


def _place() -> tuple[int, int]:
    """This process's rank, and the number of processes."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()
