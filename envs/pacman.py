"""Pacman in one dimension: the smallest world in which a policy can be seen to learn.

Pacman passes cell after cell. In each a pellet lies to one side; `<` or `>` reaches there and eats it, and on he
goes. The answer is a string of moves, one token each, as many as there are cells. The best return, 1, eats all.

Two worlds. `Pacman` has one cell, and its picture shows the pellet: "C." or ".C", a binary environment. `Corridor` has
many, and the pellets are out of sight, "C???": which move was right can only be learnt from what it earned, at once
(dense placement) or in one sum at the end (sparse).
"""

from __future__ import annotations

import random

from envs.task import Extracted, Message, Problem, Split, TaskError

MOVES = "<>"


def play(pellets: str, moves: str) -> list[float]:
    """What each move earns: 1 / cells where it goes to its cell's pellet ("<" or ">" in `pellets`), else 0."""
    earned = [float(side == move) / len(pellets) for side, move in zip(pellets, moves, strict=False)]
    return earned + [0.0] * (len(moves) - len(earned))


class Pacman:
    """One cell; two problems, the pellet to the right and to the left."""

    closing = MOVES

    def __init__(self) -> None:
        self.name, self.cells = "pacman", 1
        self._problems = [Problem("pacman/right", "C.", reference=">"), Problem("pacman/left", ".C", reference="<")]

    def problems(self, split: Split) -> list[Problem]:
        """The whole world, in either split. A problem's reference is where its pellets lie: the best moves."""
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
        length: cells, and moves an episode.
        seed: of where the pellets lie, half of them to either side.

    Raises:
        TaskError: no cell.
    """

    def __init__(self, length: int, seed: int = 0) -> None:
        if length < 1:
            raise TaskError(f"task.env.length={length}: a corridor has at least one cell")
        self.name, self.cells = "corridor", length
        sides = (MOVES * length)[:length]
        pellets = "".join(random.Random(seed).sample(sides, length))
        self._problems = [Problem("corridor", "C" + "?" * length, reference=pellets)]
