"""The one-dimensional world, and the channel that plays it."""

from __future__ import annotations

import asyncio

import pytest

from envs.pacman import Corridor, Pacman, play
from envs.task import TaskError
from rewards.channel import Completion
from rewards.pacman_moves import Moves


@pytest.mark.parametrize(
    ("pellets", "moves", "earned"),
    [
        (">", ">", [1]),
        (">", "<", [0]),
        ("><<>", "><<>", [0.25] * 4),
        ("><<>", ">><<", [0.25, 0, 0.25, 0]),
        ("><", "C<", [0, 0.5]),  # what is no move eats nothing
        ("><", ">", [0.5]),
        ("><", "><<", [0.5, 0.5, 0]),  # behind the last cell lies nothing
        (">", "", []),
    ],
)
def test_play(pellets, moves, earned):
    assert play(pellets, moves) == pytest.approx(earned)


def test_the_best_answers_are_paid_in_full():
    corridor = Corridor(16, seed=1)
    problems = [*Pacman().problems("train"), *corridor.problems("train")]
    assert [(p.question, p.reference) for p in problems[:2]] == [("C.", ">"), (".C", "<")]
    for problem in problems:
        best = problem.reference
        answer = Completion(best, [2] * len(best), [(i, i + 1) for i in range(len(best))], (0, len(best)))
        result = asyncio.run(Moves().score([problem], [answer]))[0]
        assert result.score == pytest.approx(1) and result.passed and len(result.spans) == len(best)


def test_a_corridor_is_drawn_from_its_seed_and_hides_its_pellets():
    first, again, other = (Corridor(16, seed).problems("train")[0] for seed in (0, 0, 1))
    assert first == again and first.reference != other.reference and first.question == other.question
    assert set(first.reference) == {"<", ">"}
    with pytest.raises(TaskError, match="at least one cell"):
        Corridor(0)
