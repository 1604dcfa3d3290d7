"""How many completions of the embedded simulation are built, run and compared in a second, two at a time.

    python tests/bench/bench_completion.py

Every completion is another one, compiles and runs to its end, so that no cache helps and no stage is skipped: the
slowest that a training can meet. Then a second scorer, as another process would have, gets them again, each with a
comment: from what the first has kept. Times of a stage are of the clock inside the sandbox. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from envs.etk.completion import Case, CompletionScorer, Request, flow2d
from envs.sandbox import LocalSandbox

PLACES = (
    ("hydro.cpp", "flux[k] = (mean", "flux[k] = (mean + {} * fastest * slowest * jump) / width;"),
    ("hydro.cpp", "return options.cfl", "return {} * options.cfl * state.h / fastest;"),
    ("init.cpp", "gas.density += 1.0", "gas.density += {} * blob;"),
)
"""A file, how a line of it begins, and what stands there instead, with a factor near 1."""


def requests(scorer: CompletionScorer, count: int) -> list[Request]:
    """So many completions, no two alike."""
    results = []
    for number in range(count):
        file, first, text = PLACES[number % len(PLACES)]
        lines = (scorer.application.source_dir / file).read_text().split("\n")
        [start] = [place for place, line in enumerate(lines) if line.strip().startswith(first)]
        case = Case(f"{file}:{start + 1}", file, start, start + 1)
        results.append(Request(case, text.format(f"{1 - 1e-4 * (number + 1):.4f}")))
    return results


async def measure(count: int, workers: int) -> dict[str, Any]:
    sandbox = LocalSandbox(workers)
    with tempfile.TemporaryDirectory() as cache:
        scorer = CompletionScorer(flow2d(), sandbox, Path(cache))
        started = time.perf_counter()
        await scorer.ready()
        first = time.perf_counter() - started
        wanted = requests(scorer, count)
        await scorer.score(requests(scorer, count + workers)[count:])
        started = time.perf_counter()
        scores = await scorer.score(wanted)
        took = time.perf_counter() - started
        started = time.perf_counter()
        spoken = [replace(request, completion=f"{request.completion}  // again") for request in wanted]
        kept = await CompletionScorer(flow2d(), sandbox, Path(cache)).score(spoken)
        again = time.perf_counter() - started
    await sandbox.close()
    assert all(score is not None and score.execution == 1.0 for score in scores)
    assert [score and score.total for score in kept] == [score and score.total for score in scores]
    assert not any(score.seconds.compile for score in kept if score is not None)
    spent = [score.seconds for score in scores if score is not None]
    whole = sorted(item.compile + item.run + item.compare for item in spent)
    shares = {
        f"share_{stage}": round(sum(getattr(item, stage) for item in spent) / sum(whole), 3)
        for stage in ("compile", "run", "compare")
    }
    return {
        "per_second": round(count / took, 2),
        "median_s": round(statistics.median(whole), 3),
        "p95_s": round(whole[int(0.95 * (len(whole) - 1))], 3),
        **shares,
        "completions": count,
        "workers": workers,
        "prepare_s": round(first, 2),
        "kept_per_second": round(count / again, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--completions", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options.completions, options.workers))))


if __name__ == "__main__":
    main()
