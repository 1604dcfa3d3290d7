"""Masked lines of the embedded simulation, several places in each prompt: what an answer in parts is asked for.

python tests/bench/masked_places.py runs/ablation/lines/cases.jsonl
python tests/bench/run_ablation.py lines        with the runs that they are made for
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from envs.etk.completion.cases import Case, Gap, case_row, joined
from envs.etk.completion.check import MAX_LEFT_OUT
from envs.etk.completion.embedded import FLOW2D, flow2d_cases
from recipes.records.directory import write_text


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="where to write the cases, one JSON object a line")
    parser.add_argument("--places", type=int, default=8, help="places of one case at most")
    parser.add_argument("--fewest", type=int, default=5, help="places of one case at least")
    parser.add_argument("--chars", type=int, default=2000, help="of the file from a case's first place to its last")
    args = parser.parse_args(arguments)
    rows = map(case_row, cases(args.places, args.fewest, args.chars))
    args.file.parent.mkdir(parents=True, exist_ok=True)
    write_text(args.file, "".join(f"{row}\n" for row in rows))


def cases(places: int, fewest: int, chars: int) -> list[Case]:
    """Single lines without which the fields change, joined where they stand near each other."""
    lines = [case for case in flow2d_cases() if case.count == 1 and _tells(case)]
    return [case for case in joined(lines, places, lambda a, b: _chars(a, b) <= chars) if len(case.places) >= fewest]


def _tells(case: Case) -> bool:
    return case.expected["empty"]["left_out"] <= MAX_LEFT_OUT


def _chars(first: Case, last: Case) -> int:
    return len(Gap.of(Case("", first.file, first.start, last.end), FLOW2D).original)


if __name__ == "__main__":
    main()
