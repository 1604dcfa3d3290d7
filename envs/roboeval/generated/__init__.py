"""Generated instructions for robot programs: families of wordings with a reference program, written for this collection.

Row k of a family is the same on every machine; nothing is stored. HELD_OUT names the families that are never trained
on: one in six of each subject.
"""

from __future__ import annotations

from collections.abc import Iterator

from envs.roboeval.generated import asking, carrying, looking, telling
from envs.roboeval.generated.family import Family, row

__all__ = ["FAMILIES", "HELD_OUT", "rows"]
FAMILIES: tuple[Family, ...] = (*carrying.FAMILIES, *looking.FAMILIES, *asking.FAMILIES, *telling.FAMILIES)
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


def rows(count: int, held_out: bool = False) -> Iterator[dict[str, str]]:
    """The first `count` instructions of every family for training, or of every held-out family."""
    for family in FAMILIES:
        if (family.name in HELD_OUT) == held_out:
            yield from (row(family, number) for number in range(count))
