"""The right answers of an evaluation as problems of `basics`, with the answer's own code in place of the reference.

    python tests/bench/own_answers.py runs/eval/basics/train right.jsonl --generated 10

For rejection sampling: SFT on what a model itself answered rightly (tests/bench/learning.py). One row for each problem
that has a right answer, the first of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from envs.basics import PROBLEMS, Basics, families
from envs.task import extract_fenced
from recipes.records.directory import write_text
from recipes.records.jsonl import read_jsonl


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("evaluation", type=Path, help="run directory of recipes/eval.py evaluation.split=train")
    parser.add_argument("output", type=Path)
    parser.add_argument("--generated", type=int, default=0, help="as task.env.generated of that evaluation")
    args = parser.parse_args()
    known = {f"basics/{row['name']}": row for file in sorted(PROBLEMS.glob("*.jsonl")) for row in read_jsonl(file)}
    wanted = {problem.id for problem in Basics(generated=args.generated).problems("train")}
    for family in families.FAMILIES.values():
        known |= {row["id"]: row for row in families.rows(family, args.generated) if row["id"] in wanted}
    right: dict[str, str] = {}
    for row in read_jsonl(args.evaluation / "samples.jsonl"):
        code = extract_fenced(row["completion"])
        if row["passed"] and code is not None:
            right.setdefault(row["task_id"], row["completion"][code.start : code.end])
    lines = [json.dumps(known[name] | {"solution": solution}) for name, solution in sorted(right.items())]
    write_text(args.output, "".join(line + "\n" for line in lines))
    print(f"{args.output}: {len(lines)} of {len(wanted)} problems have a right answer")


if __name__ == "__main__":
    main()
