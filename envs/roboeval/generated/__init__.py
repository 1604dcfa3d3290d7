"""Generated instructions for robot programs, each with a reference program; written for this collection.

A family (family.py) has wordings and a program in one of the YAML files here; words come from vocabulary.yaml. Beside
families there are instructions of several clauses (composed.py). Instruction k of a family or structure is the same on
every machine; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from envs.roboeval.generated.composed import STRUCTURES, composed
from envs.roboeval.generated.family import Family, families, instruction

__all__ = ["COMPOSED", "HELD_OUT", "STRUCTURES", "Family", "composed", "families", "instruction", "rows"]
HELD_OUT = frozenset(
    {
        "hand_over",
        "refill",
        "bring_me_what_is_chosen",
        "what_is_there",
        "anywhere",
        "count_rooms_of_a_kind",
        "names_of_no",
        "ask_number",
        "all_agree",
        "tell_and_return",
        "message_by_sight",
        "where_is_somebody",
    }
)
"""Families that are never trained on, three of each subject."""
COMPOSED = 24
"""Instructions of each structure for one of each family."""


def rows(count: int, held_out: bool = False) -> Iterator[dict[str, Any]]:
    """The first `count` instructions of every family for training, with 24 times as many of every structure that is
    composed of parts; or the first `count` of every held-out family."""
    for family in families():
        if (family.name in HELD_OUT) == held_out:
            yield from (instruction(family, number) for number in range(count))
    if not held_out:
        for structure in STRUCTURES:
            yield from (instruction(composed(structure, number), number) for number in range(COMPOSED * count))
