"""Short functions of basics, so that an answer may hold many: hand-written ones, or generated ones to learn the form.

python tests/bench/short_functions.py runs/ablation/functions/problems.jsonl --problems 49
python tests/bench/short_functions.py runs/ablation/functions/form.jsonl --generated
python tests/bench/short_functions.py runs/ablation/twelve/problems.jsonl --problems 97 --plain
python tests/bench/short_functions.py runs/ablation/twelve/form.jsonl --generated --plain --longest 80
python tests/bench/run_ablation.py functions twelve        with the runs that they are made for
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Sequence
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


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="where to write the problems, one JSON object a line")
    parser.add_argument("--problems", type=int, default=49, help="how many hand-written ones, the shortest first")
    parser.add_argument("--generated", action="store_true", help="all short ones of the generated families instead")
    parser.add_argument("--plain", action="store_true", help="without annotations of types, a third fewer tokens")
    parser.add_argument("--longest", type=int, default=95, help="characters of a generated solution")
    args = parser.parse_args(arguments)
    rows = generated() if args.generated else written(args.problems)
    if args.plain:
        rows = [plain(row) for row in rows]
    if args.generated:
        rows = short(rows, args.longest)
    args.file.parent.mkdir(parents=True, exist_ok=True)
    write_text(args.file, "".join(json.dumps(row) + "\n" for row in rows))


def generated() -> list[dict[str, Any]]:
    """Two problems of each training family of levels 1 and 2."""
    trained = [family for family in families.split(200, 0)[0] if family.level <= 2]
    return [families.row(family, number) for number in (0, 1) for family in trained]


def short(rows: Sequence[dict[str, Any]], longest: int) -> list[dict[str, Any]]:
    """The rows with solutions of at most so many characters, no name twice."""
    kept: dict[str, dict[str, Any]] = {}
    for row in rows:
        if len(row["solution"]) <= longest:
            kept.setdefault(row["name"], row)
    return list(kept.values())


def written(count: int) -> list[dict[str, Any]]:
    """The hand-written training problems with the fewest tokens."""
    schema.register()
    tokenizer, _ = load_tokenizer(compose(["recipe=eval", "task=basics"]).model, None)
    rows = {f"basics/{row['name']}": row for file in sorted(PROBLEMS.glob("*.jsonl")) for row in read_jsonl(file)}
    trained = [rows[problem.id] for problem in Basics().problems("train")]
    trained.sort(key=lambda row: (len(tokenizer(row["solution"]).input_ids), row["name"]))
    return trained[:count]


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """The row without annotations of arguments and results in its signature and solution."""
    module = ast.parse(row["solution"])
    for node in ast.walk(module):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
    solution = ast.unparse(ast.fix_missing_locations(module)) + "\n"
    asked = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == row["name"])
    return row | {"signature": f"def {asked.name}({ast.unparse(asked.args)}):", "solution": solution}


if __name__ == "__main__":
    main()
