"""Pacman in one dimension: the smallest world in which a policy can be seen to learn.

The prompt is a picture, `C` for Pacman and `.` for pellets, which all lie to one side: "C." or ".C" for one pellet,
"C...." for a corridor of four. The answer is a string of moves, `<` and `>`, one token each, as many as there are
pellets. A move into a cell eats its pellet; walls stop. The best return, 1, takes every move towards the food.

With one pellet it is a binary environment; a long corridor pays the same total
reward late (sparse placement) or with each move (dense placement).
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.task import Extracted, Message, Problem, Split, TaskError

STEPS = {"<": -1, ">": 1}


def play(picture: str, moves: str) -> list[float]:
    """What each move earns: 1 / pellets where it eats one, else 0. Characters that are no move stand still."""
    position, pellets = picture.index("C"), {i for i, c in enumerate(picture) if c == "."}
    worth = 1 / len(pellets)
    earned = []
    for move in moves:
        position = min(max(position + STEPS.get(move, 0), 0), len(picture) - 1)
        earned.append(worth if position in pellets else 0.0)
        pellets.discard(position)
    return earned


class Pacman:
    """
    Args:
        length: pellets, and moves an episode.
        sides: where the food may lie, "right", "left" or both: a prompt each.

    Raises:
        TaskError: no cell, no side or an unknown one.
    """

    closing = "<>"

    def __init__(self, length: int = 1, sides: Sequence[str] = ("right", "left")):
        if length < 1:
            raise TaskError(f"task.env.length={length}: a corridor has at least one cell")
        if not sides or not set(sides) <= {"right", "left"}:
            raise TaskError(f"task.env.sides={list(sides)}: name right, left or both")
        self.sides = list(sides)
        self.name, self.length = "pacman" if length == 1 else "corridor", length

    def problems(self, split: Split) -> list[Problem]:
        """The whole world, in either split."""
        pictures = {"right": "C" + "." * self.length, "left": "." * self.length + "C"}
        return [Problem(id=f"{self.name}/{side}", question=pictures[side]) for side in self.sides]

    def messages(self, problem: Problem) -> list[Message]:
        return [{"role": "user", "content": problem.question}]

    def extract(self, answer: str) -> Extracted | None:
        """Every character of an answer is a move."""
        return Extracted(0, len(answer), closed=True)

    def complete(self, answer: str) -> bool:
        return len(answer) >= self.length
