"""Short functions of basics, so that an answer may hold many: hand-written ones, or generated ones to learn the form.

python tests/bench/short_functions.py runs/ablation/functions/problems.jsonl --problems 49
python tests/bench/short_functions.py runs/ablation/functions/form.jsonl --generated
python tests/bench/run_ablation.py functions        with the runs that they are made for
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from envs.basics import PROBLEMS, Basics, families
from recipes.cli import schema
from recipes.cli.overrides import compose
from recipes.models.load import load_tokenizer
from recipes.records.directory import write_text
from recipes.records.jsonl import read_jsonl

LONGEST = 95
"""Characters of a generated solution."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="where to write the problems, one JSON object a line")
    parser.add_argument("--problems", type=int, default=49, help="how many hand-written ones, the shortest first")
    parser.add_argument("--generated", action="store_true", help="all short ones of the generated families instead")
    args = parser.parse_args(arguments)
    rows = generated() if args.generated else written(args.problems)
    args.file.parent.mkdir(parents=True, exist_ok=True)
    write_text(args.file, "".join(json.dumps(row) + "\n" for row in rows))


def generated() -> list[dict[str, Any]]:
    """Two problems of each training family of levels 1 and 2, where they are short; no name twice."""
    trained = [family for family in families.split(200, 0)[0] if family.level <= 2]
    made = (families.row(family, number) for number in (0, 1) for family in trained)
    rows: dict[str, dict[str, Any]] = {}
    for row in made:
        if len(row["solution"]) <= LONGEST:
            rows.setdefault(row["name"], row)
    return list(rows.values())


def written(count: int) -> list[dict[str, Any]]:
    """The hand-written training problems with the fewest tokens."""
    schema.register()
    tokenizer, _ = load_tokenizer(compose(["recipe=eval", "task=basics"]).model, None)
    rows = {f"basics/{row['name']}": row for file in sorted(PROBLEMS.glob("*.jsonl")) for row in read_jsonl(file)}
    trained = [rows[problem.id] for problem in Basics().problems("train")]
    trained.sort(key=lambda row: (len(tokenizer(row["solution"]).input_ids), row["name"]))
    return trained[:count]


if __name__ == "__main__":
    main()
