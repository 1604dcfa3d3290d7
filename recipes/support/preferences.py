"""Preference pairs: of one problem's graded answers, two that differ in reward and little in length."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset

from recipes.support.main import UserError
from recipes.support.records import read_jsonl

PAIRS = "pairs.jsonl"


def preference_pairs(rows: Sequence[dict[str, Any]], margin: float, most: int) -> list[tuple[dict, dict]]:
    """(chosen, rejected) among the graded answers of one problem, at most `most` of them.

    Rewards differ, and by `margin` or more: ties are dropped, as are answers that could not be graded. Of what is left
    the pairs nearest in length come first, since a preference for length is the easiest to learn; no text is in two
    pairs on the same side.
    """
    graded = {row["completion"]: row for row in rows if row["reward"] is not None}.values()
    both = itertools.permutations(graded, 2)
    far = [(a, b) for a, b in both if a["reward"] > b["reward"] and a["reward"] - b["reward"] >= margin]
    far.sort(key=lambda pair: (abs(pair[0]["tokens"] - pair[1]["tokens"]), -pair[0]["reward"], pair[0]["sample"]))
    picked: list[tuple[dict, dict]] = []
    for chosen, rejected in far:
        if len(picked) < most and all(chosen is not a and rejected is not b for a, b in picked):
            picked.append((chosen, rejected))
    return picked


def read_pairs(path: str) -> Dataset:
    """The pairs of a run directory or file, as TRL takes them. Raises UserError where there are none."""
    file = Path(path) / PAIRS if Path(path).is_dir() else Path(path)
    rows = read_jsonl(file)
    if not rows:
        raise UserError(f"no preference pairs in {file} (recipe.pairs): recipes/pairs.py writes them")
    return Dataset.from_list([{key: row[key] for key in ("prompt", "chosen", "rejected")} for row in rows])
