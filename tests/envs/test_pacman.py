"""The one-dimensional world, and the channel that plays it."""

from __future__ import annotations

import asyncio

import pytest

from envs.pacman import Pacman, play
from envs.task import TaskError
from rewards.channel import Completion
from rewards.moves import Moves


@pytest.mark.parametrize(
    ("picture", "moves", "earned"),
    [
        ("C.", ">", [1]),
        ("C.", "<", [0]),
        (".C", "<", [1]),
        ("C...", ">>>", [1 / 3] * 3),
        ("C...", ">><>", [1 / 3, 1 / 3, 0, 0]),  # back and forth: an eaten pellet is gone
        ("..C", "<>><<", [0.5, 0, 0, 0, 0.5]),  # the wall behind stops
        ("C..", "C.>", [0, 0, 0.5]),  # what is no move stands still
        ("C.", "", []),
    ],
)
def test_play(picture, moves, earned):
    assert play(picture, moves) == pytest.approx(earned)


def test_two_worlds_and_their_best_answers():
    task = Pacman(4)
    assert task.name == "corridor" and Pacman().name == "pacman"
    for problem, best in zip(task.problems("train"), (">>>>", "<<<<"), strict=True):
        answer = Completion(best, [2] * 4, [(i, i + 1) for i in range(4)], (0, 4))
        result = asyncio.run(Moves().score([problem], [answer]))[0]
        assert result.score == pytest.approx(1) and result.passed and len(result.spans) == 4
    with pytest.raises(TaskError, match="at least one cell"):
        Pacman(0)
