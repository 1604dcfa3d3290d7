"""What an instruction itself says about a program: the weaker measure where there is no reference program.

Its words must occur as names of places and things; the text of messages counts as much as these at most, and names that
are not in the instruction count against the program. The verbs of the instruction tell which functions are needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from envs.roboeval.messages import content, repeats
from envs.roboeval.open_world import ROOMS
from envs.roboeval.trace import Event

ENOUGH = 0.7
"""Share of the instruction's words with which a program has full marks: some of them are no names."""
UNKNOWN = 0.1
"""Share of full marks where the instruction names nothing."""
EVENTS = {"go_to": "GoTo", "is_in_room": "CheckEntity", "ask": "Ask", "say": "Say", "pick": "Pick", "place": "Place"}
VERBS = {
    "ask": r"\bask\b|\bfind out from\b",
    "say": r"\b(tell|say|report|announce|warn|inform|let \w+( \w+)? know|confirm)\b",
    "pick": r"\b(bring|fetch|carry|deliver|move|pick up|take (the|a|an|it|them|every|each)|get me)\b",
    "place": r"\b(bring|fetch|carry|deliver|move|put|set down|take (the|a|an|it|them|every|each))\b",
    "is_in_room": r"\b(check|look|see (if|whether)|whether there|if there|count|how many|find)\b",
}


def asked_actions(instruction: str) -> list[str]:
    """The functions that the verbs of an instruction call for."""
    return [name for name, pattern in VERBS.items() if re.search(pattern, instruction, re.IGNORECASE)]


def named_share(
    instruction: str, events: Iterable[Event], nouns: Sequence[str] = (), actions: Sequence[str] = ()
) -> float:
    """From 0 to 1: how much of what an instruction names a program uses, over the events of all its runs.

    Args:
        nouns, actions: words and functions that are known to be needed; empty: those of the instruction.
    """
    wanted = content(" ".join(nouns) or instruction)
    if not wanted:
        return UNKNOWN
    done = list(events)  # going to the rooms that get_all_rooms lists tells nothing
    names = {text for kind, text, _ in done if kind in ("GoTo", "CheckEntity", "Pick", "Place") and text not in ROOMS}
    known = {name for name in names if content(name) & wanted and not repeats(name, instruction)}
    texts = {" ".join([text, *(options or ())]) for kind, text, options in done if kind in ("Ask", "Say")}
    by_name = {word for name in known for word in content(name) & wanted}
    by_text = {word for text in texts if not repeats(text, instruction) for word in content(text) & wanted} - by_name
    used = min(1.0, (len(by_name) + min(len(by_name), len(by_text))) / (ENOUGH * len(wanted)))
    kinds = {kind for kind, _, _ in done}
    needed = [EVENTS[action] for action in (actions or asked_actions(instruction))]
    acted = sum(kind in kinds for kind in needed) / len(needed) if needed else 1.0
    return used * len(known) / len(names) * (0.5 + 0.5 * acted) if names else 0.0
