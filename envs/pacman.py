"""Pacman in one dimension: the smallest environment in which learning can be observed.

Pacman moves from cell to cell. In each cell a pellet lies on one side; the move `<` or `>` to that side eats it. The
completion is a string of moves, one token each, as many as there are cells. The largest return, 1, eats all pellets.

There are two environments. `Pacman` has one cell, and the prompt shows the pellet: "C." or ".C". `Corridor` has many
cells with hidden pellets, "C???": the policy learns which moves are right only from their rewards, which come at once
(dense placement) or as one sum at the end (sparse placement).
"""

from __future__ import annotations

import random

from envs.task import Extracted, Message, Problem, Split, TaskError

MOVES = "<>"


def play(pellets: str, moves: str) -> list[float]:
    """The reward of each move: 1 / cells if it eats the pellet of its cell ("<" or ">" in `pellets`), else 0."""
    rewards = [float(side == move) / len(pellets) for side, move in zip(pellets, moves, strict=False)]
    return rewards + [0.0] * (len(moves) - len(rewards))


class Pacman:
    """One cell and two problems: the pellet on the right or on the left."""

    closing = MOVES

    def __init__(self) -> None:
        self.name, self.cells = "pacman", 1
        self._problems = [_problem("pacman/right", "C.", ">"), _problem("pacman/left", ".C", "<")]

    def problems(self, split: Split) -> list[Problem]:
        """All problems, in every split. A problem's reference is the sides of its pellets, which are the best moves."""
        return self._problems

    def messages(self, problem: Problem) -> list[Message]:
        return [{"role": "user", "content": problem.question}]

    def extract(self, answer: str) -> Extracted | None:
        """Every character of an answer is a move."""
        return Extracted(0, len(answer), closed=True)

    def complete(self, answer: str) -> bool:
        return len(answer) >= self.cells


class Corridor(Pacman):
    """
    Args:
        length: number of cells, and of moves in an episode.
        seed: seed of the pellets' sides; half of the pellets lie on each side.

    Raises:
        TaskError: `length` is below 1.
    """

    def __init__(self, length: int, seed: int = 0) -> None:
        if length < 1:
            raise TaskError(f"task.env.length={length}: a corridor has at least one cell")
        self.name, self.cells = "corridor", length
        sides = (MOVES * length)[:length]
        pellets = "".join(random.Random(seed).sample(sides, length))
        self._problems = [_problem("corridor", "C" + "?" * length, pellets)]


def _problem(name: str, question: str, pellets: str) -> Problem:
    useless = {f"always {move}": move * len(pellets) for move in MOVES}
    return Problem(name, question, reference=pellets, data={"useless": useless})
