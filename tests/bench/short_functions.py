"""The shortest hand-written problems of basics to train on, so that an answer may hold many functions.

python tests/bench/short_functions.py runs/ablation/functions/problems.jsonl --problems 49
python tests/bench/run_ablation.py functions        with the runs that it is made for
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from envs.basics import PROBLEMS, Basics
from recipes.cli import schema
from recipes.cli.overrides import compose
from recipes.models.load import load_tokenizer
from recipes.records.directory import write_text
from recipes.records.jsonl import read_jsonl


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="where to write the problems, one JSON object a line")
    parser.add_argument("--problems", type=int, default=49)
    args = parser.parse_args(arguments)
    schema.register()
    tokenizer, _ = load_tokenizer(compose(["recipe=eval", "task=basics"]).model, None)
    rows = {f"basics/{row['name']}": row for file in sorted(PROBLEMS.glob("*.jsonl")) for row in read_jsonl(file)}
    trained = [rows[problem.id] for problem in Basics().problems("train")]
    trained.sort(key=lambda row: (len(tokenizer(row["solution"]).input_ids), row["name"]))
    args.file.parent.mkdir(parents=True, exist_ok=True)
    write_text(args.file, "".join(json.dumps(row) + "\n" for row in trained[: args.problems]))


if __name__ == "__main__":
    main()
