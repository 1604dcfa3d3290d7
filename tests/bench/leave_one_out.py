"""What each channel is worth: runs with all of them beside runs that leave one out, paired by seed.

    python tests/bench/run_ablation.py channels
    python tests/bench/leave_one_out.py runs/ablation/roboeval/grpo runs/ablation/roboeval/channels

A run whose directory is called without-CHANNEL-seedN has that channel at weight 0: its score is measured and pays
nothing. Those called dense-seedN have all. Printed is what the answers of the last ten updates are like: pass rate and
every channel's score, means over seeds with 95 % intervals (Student's t), then each minus all channels, seed by seed.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from rich.table import Table
from rich.text import Text

from recipes.cli.console import print_table
from recipes.records.jsonl import read_jsonl
from tests.bench.over_seeds import interval, with_interval

NAME = re.compile(r"(dense|without-\w+)-seed(\d+)")
ALL, LAST = "dense", 10
Ends = dict[str, dict[int, dict[str, float]]]
"""For each variant and seed, the measures of the last updates."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", help="directories of run directories")
    args = parser.parse_args()
    ends = ends_of(args.folders)
    if ALL not in ends or len(ends) == 1:
        sys.exit(f"no dense-seedN beside without-CHANNEL-seedN in {', '.join(map(str, args.folders))}")
    measures = list(next(iter(ends[ALL].values())))
    result = {name: {m: interval([end[m] for end in runs.values()]) for m in measures} for name, runs in ends.items()}
    minus = {name: less(runs, ends[ALL], measures) for name, runs in ends.items() if name != ALL}
    drawn = Table(title=f"last {LAST} updates")
    for column in ("channels", "seeds", *measures):
        drawn.add_column(column, justify="left" if column == "channels" else "right")
    rows = [("all" if name == ALL else name, str(len(ends[name])), row) for name, row in result.items()]
    for name, seeds, row in [*rows, *((f"{name} - all", "", row) for name, row in minus.items())]:
        drawn.add_row(name, seeds, *(Text(with_interval(row[measure], 3)) for measure in measures))
    print_table(drawn)
    print(json.dumps({"last": LAST, "variants": result, "minus_all": minus}))


def ends_of(folders: list[Path]) -> Ends:
    """Raises SystemExit where runs end after different updates, as where one was stopped."""
    ends: Ends = defaultdict(dict)
    lengths: dict[int, list[str]] = defaultdict(list)
    for file in sorted(f for folder in folders for f in folder.glob("*/metrics.jsonl")):
        if named := NAME.fullmatch(file.parent.name):
            rows = [row for row in read_jsonl(file) if "pass_rate" in row]
            lengths[rows[-1]["step"]].append(file.parent.name)
            rows = rows[-LAST:]
            keys = ["pass_rate", *sorted(k for k in rows[-1] if k.startswith("scores/"))]
            ends[named[1]][int(named[2])] = {key: statistics.fmean(row[key] for row in rows) for key in keys}
    if len(lengths) > 1:
        ended = "; ".join(f"{', '.join(names)} after {step}" for step, names in sorted(lengths.items()))
        sys.exit(f"these runs do not end after the same number of updates: {ended}")
    return dict(sorted(ends.items()))


def less(runs: dict[int, dict[str, float]], full: dict[int, dict[str, float]], measures: list[str]) -> dict[str, dict]:
    """One variant minus all channels, over the seeds that both have."""
    seeds = sorted(set(runs) & set(full))
    return {m: interval([runs[s][m] - full[s][m] for s in seeds]) for m in measures}


if __name__ == "__main__":
    main()
