"""The order that an instruction states: of everything, or between places."""

from __future__ import annotations

import re
from collections.abc import Iterable

EVERYTHING = re.compile(
    r"\bin (that|this|the) order\b|\bfirst\b(?! (aid|floor|name|class|shelf|room|row|time)\b).*\bthen\b|\band on to\b",
    re.IGNORECASE | re.DOTALL,
)
NEXT = re.compile(r"\bthen\b|\bafter that\b|\bafterwards\b", re.IGNORECASE)
Pairs = frozenset[tuple[str, str]]


def orders_everything(instruction: str) -> bool:
    """Whether the order of all places and things matters."""
    return EVERYTHING.search(instruction) is not None


def stated_pairs(instruction: str, rooms: Iterable[str]) -> Pairs:
    """Pairs of rooms of which the first comes first by the instruction's words: all that is said of it stands before a
    "then", "after that" or "afterwards", and all that is said of the other one behind. Rooms that are not named, such
    as "court 2" in "courts 1 to 4", are in no pair."""
    named = {room: places for room in set(rooms) if (places := _places(room, instruction))}
    results = set()
    for match in NEXT.finditer(instruction):
        early = [room for room, (_, end) in named.items() if end <= match.start()]
        late = [room for room, (start, _) in named.items() if start >= match.end()]
        results |= {(a, b) for a in early for b in late}
    return frozenset(results)


def _places(room: str, text: str) -> tuple[int, int] | None:
    """From the first to the last mention of a name in a text, in characters."""
    letters = re.findall(r"\w+", room)
    if not letters:
        return None
    found = list(re.finditer(r"\b" + r"\W+".join(map(re.escape, letters)) + r"\b", text, re.IGNORECASE))
    return (found[0].start(), found[-1].end()) if found else None
