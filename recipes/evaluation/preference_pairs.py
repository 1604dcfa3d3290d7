"""Preference pairs: two graded answers to one problem that differ in reward and little in length."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from datasets import Dataset

from recipes.cli.errors import UserError
from recipes.records.jsonl import named_rows

PAIRS = "pairs.jsonl"
COLUMNS = ("prompt", "chosen", "rejected")


def preference_pairs(rows: Sequence[dict[str, Any]], margin: float, most: int) -> list[tuple[dict, dict]]:
    """(chosen, rejected) among the answers to one problem, at most `most` pairs.

    The rewards differ, by `margin` or more; answers without a grade are left out. Pairs of nearly the same length come
    first, since a preference for length is the easiest to learn. No text is chosen twice or rejected twice. Answers
    that the length limit cut are left out: an end that the policy did not write would be preferred, or not.
    """
    whole = (row for row in rows if row["reward"] is not None and row.get("finished", True))
    graded = {row["completion"]: row for row in whole}.values()
    pairs = itertools.permutations(graded, 2)
    apart = [(a, b) for a, b in pairs if a["reward"] > b["reward"] and a["reward"] - b["reward"] >= margin]
    apart.sort(key=lambda pair: (abs(pair[0]["tokens"] - pair[1]["tokens"]), -pair[0]["reward"], pair[0]["sample"]))
    picked: list[tuple[dict, dict]] = []
    for chosen, rejected in apart:
        if len(picked) < most and all(chosen is not a and rejected is not b for a, b in picked):
            picked.append((chosen, rejected))
    return picked


def read_pairs(path: str) -> Dataset:
    """The pairs of a run directory or file, as TRL reads them. Raises UserError where there are none, or one lacks a
    column."""
    file, rows = named_rows("recipe.pairs", path, PAIRS, COLUMNS, "recipes/pairs.py")
    if not rows:
        raise UserError(f"recipe.pairs={path}: no preference pairs in {file}; recipes/pairs.py writes them")
    return Dataset.from_list([{key: row[key] for key in COLUMNS} for row in rows])
