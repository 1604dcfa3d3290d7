"""`python -m envs.etk.completion score FILE` compares runs with reference runs.

FILE has one JSON object a line: id, run_dir, reference_dir, and perhaps expect, field, norm, compare, strict_finite,
weights. Nothing is compiled, and what has run has compiled: `compile` counts as 1.0 in the total unless the row says
otherwise, and its weight stays in the sum. So a run that wrote nothing has the total 0.25, as it would have had
had it been built here. `skill` and `baseline` are null where the reference has no initial plotfile.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from envs.etk.completion.compare import CompletionError, Metric, Reference
from envs.etk.completion.outputs import Folder
from envs.etk.rows import Row, answer

OPTIONAL = ("expect", "field", "norm", "compare", "strict_finite", "weights")


def score_row(row: Row) -> Row:
    """Scores of one row. Raises KeyError, TypeError or ValueError (CompletionError) for a bad one."""
    for name in ("run_dir", "reference_dir"):
        if not isinstance(row[name], str):
            raise TypeError(f"{name} must be text")
    metric = Metric(**{name: row[name] for name in OPTIONAL if row.get(name) is not None})
    compiled = float(row.get("compile", 1.0))
    if compiled not in (0.0, 1.0):
        raise CompletionError("compile: 0 or 1")
    reference = Reference(Folder(Path(row["reference_dir"])), metric)
    score = dataclasses.asdict(reference.score(Folder(Path(row["run_dir"]))))
    stages = {name: score[name] for name in ("execution", "header", "density")}
    if not compiled:
        stages = dict.fromkeys(stages, 0.0)
        score["skill"] = score["skill"] and 0.0
    return {**score, **stages, "compile": compiled, "total": metric.total(compile=compiled, **stages)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; the exit status is 0 unless the file cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m envs.etk.completion", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("score", help="a JSON-lines file, one answer a row").add_argument("file")
    options = parser.parse_args(arguments)
    try:
        answer(options.file, score_row)
    except (OSError, UnicodeDecodeError) as error:
        print(f"envs.etk.completion: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
