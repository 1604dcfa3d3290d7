"""Robot instructions of several clauses that `task.env.generated=40` does not have, as a file for `task.env.train`.

python tests/bench/robot_instructions.py runs/ablation/robots/asked.jsonl
python tests/bench/run_ablation.py robots        with the runs that they are made for
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from envs.roboeval.generated import COMPOSED, STRUCTURES, composed, instruction
from envs.roboeval.task import MARK
from recipes.records.jsonl import write_jsonl


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="where to write the instructions, one JSON object a line")
    parser.add_argument("--each", type=int, default=8, help="instructions of each of the four structures")
    parser.add_argument("--first", type=int, default=40 * COMPOSED, help="number of a structure's first instruction")
    args = parser.parse_args(arguments)
    args.file.parent.mkdir(parents=True, exist_ok=True)
    write_jsonl(args.file, rows(args.first, args.each))


def rows(first: int, each: int) -> Iterator[dict[str, Any]]:
    """`each` instructions of every structure, from number `first` on, in turn."""
    for number in range(first, first + each):
        for structure in STRUCTURES:
            made = instruction(composed(structure, number), number)
            asked = {"text": f"{MARK} {made['text']}", "program": made["program"]}
            yield asked | ({"ordered": True} if made["ordered"] else {})


if __name__ == "__main__":
    main()
