"""Failed turns of an evaluation in episodes, and the right answers to them, as examples for SFT.

An example is a conversation that ends with a right answer: its own next turn where that one passed, else the answer
that the problem's demonstration has (training_data.py). The last answer alone is imitated, what failed is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from envs.episode import with_reply
from envs.task import Prompted
from recipes.cli.errors import UserError
from recipes.records.jsonl import Record, named_rows

Turns = tuple[tuple[str, str], ...]
"""An answer that failed and the environment's reply to it, for each turn."""


@dataclass(frozen=True)
class Failed:
    """turns: the failed answers so far. repaired: the next answer, where it passed."""

    turns: Turns
    repaired: str | None

    def messages(self, prompt: Prompted, broken: Callable[[str], str]) -> Prompted:
        """The conversation before the right answer.

        broken: takes the tokenizer's marks out of a text (recipes/sampling/replies.py), since a template reads them.
        """
        messages = prompt
        for answer, reply in self.turns:
            messages = with_reply(messages, prompt, broken(answer), broken(reply))
        return messages


def samples(path: str) -> tuple[Path, list[Record]]:
    """The file of recipe.answers, an evaluation's samples, and its rows. Raises UserError where it has others."""
    needs = ("task_id", "completion", "passed")
    return named_rows("recipe.answers", path, "samples.jsonl", needs, "recipes/eval.py evaluation.split=train")


def failed_turns(path: str) -> dict[str, Sequence[Failed]]:
    """What failed before a reply in an evaluation, by the problem's id; the same conversation counts once. An answer
    that the length limit cut repairs nothing: it has no end to imitate.

    Args:
        path: a run directory of recipes/eval.py with evaluation.split=train and an episode, or a file of such samples.

    Raises UserError where no sample has a second turn.
    """
    failed: dict[str, dict[Turns, Failed]] = {}
    for row in samples(path)[1]:
        told: Turns = ()
        for turn, after in itertools.pairwise(row.get("turns", [])):
            if turn["passed"]:  # the reply saw what the grade did not
                break
            told = (*told, (turn["completion"], after["heard"]))
            repaired = after["completion"] if after["passed"] and after.get("finished", True) else None
            known = failed.setdefault(row["task_id"], {})
            if told not in known or repaired is not None:
                known[told] = Failed(told, repaired)
    if not failed:
        raise UserError(
            f"recipe.answers={path}: no answer there has a second turn, so an episode has nothing to imitate: evaluate "
            "with evaluation.split=train and the same episode first, or set episode=null"
        )
    return {problem: list(conversations.values()) for problem, conversations in failed.items()}
