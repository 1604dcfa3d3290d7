"""Generated problems of the task `basics`: families of small Python problems, written for this collection.

A family is a function that draws constants, names, types and wordings from a seeded source; its reference is executed
to make tests. Problem k of a family is the same on every machine and for every split; nothing is stored. Each subject
is one file; `draft.py` says how a family is written.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from typing import Any

from envs.basics.families import (
    arithmetic,
    branching,
    calendars,
    characters,
    clock,
    codes,
    dictionaries,
    digits,
    formats,
    games,
    grids,
    layouts,
    list_checks,
    lists,
    logic,
    measures,
    membership,
    money,
    number_pipelines,
    numbers,
    pairs,
    processes,
    recursive,
    short_lists,
    short_texts,
    sorting,
    table_pipelines,
    text_checks,
    validation,
    word_pipelines,
    word_rules,
    words,
)
from envs.basics.families.cases import cases
from envs.basics.families.draft import FAMILIES, Family, choose_words
from envs.basics.families.source import Source
from envs.basics.families.trees import shape

__all__ = ["FAMILIES", "SUBJECTS", "Family", "Source", "row", "rows", "shape_of", "split"]
SUBJECTS = (
    arithmetic,
    branching,
    calendars,
    characters,
    clock,
    codes,
    dictionaries,
    digits,
    formats,
    games,
    grids,
    layouts,
    list_checks,
    lists,
    logic,
    measures,
    membership,
    money,
    number_pipelines,
    numbers,
    pairs,
    processes,
    recursive,
    short_lists,
    short_texts,
    sorting,
    table_pipelines,
    text_checks,
    validation,
    word_pipelines,
    word_rules,
    words,
)
"""The modules that register families."""


def split(held_out: int, seed: int) -> tuple[list[Family], list[Family]]:
    """(families for training, families held out), by a hash of the seed and the family's name."""

    def rank(name: str) -> str:
        return hashlib.sha256(f"{seed}:{name}".encode()).hexdigest()

    ordered = [FAMILIES[name] for name in sorted(FAMILIES, key=rank)]
    return ordered[held_out:], ordered[:held_out]


def row(family: Family, number: int) -> dict[str, Any]:
    """Problem `number` of a family, with the fields of the hand-written problems and its id."""
    source = Source(f"{family.name}:{number}")
    drawn = family.make(source)
    worded = choose_words(source, drawn, number)
    examples, hidden = cases(worded.name, worded.solution, drawn, number)
    return {
        "id": f"basics/new/{family.name}/{number}",
        "name": worded.name,
        "topic": family.make.__module__.rsplit(".", 1)[-1],
        "level": family.level,
        "family": f"new/{family.name}",
        "signature": worded.signature,
        "description": worded.description,
        "solution": worded.solution,
        "examples": [{"args": list(args), "expected": expected} for args, expected in examples],
        "hidden": [{"args": list(args), "expected": expected} for args, expected in hidden],
    }


def rows(family: Family, count: int) -> Iterator[dict[str, Any]]:
    """At most `count` different problems of a family; fewer if it has no more."""
    seen: set[str] = set()
    for number in range(4 * count):
        made = row(family, number)
        key = made["description"] + made["signature"]
        if key not in seen:
            seen.add(key)
            yield made
        if len(seen) == count:
            return


def shape_of(solution: str, name: str | None = None) -> str:
    """The shape of a reference; `name`: the function asked for, where the reference has others too."""
    return shape(ast.parse(solution), name)
