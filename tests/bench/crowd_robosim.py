"""Do verdicts on robot programs stay the same when many judges share the processors?

    python tests/bench/crowd_robosim.py FILE --benchmark DIR [--judges 16] [--runs 3] [--mode compat]

FILE: rows id, task, program, as `python -m envs.roboeval judge` reads them. They are judged once alone, then by so many
commands at once, each with a sandbox of its own, so many times over. Rows are compared whole but for seconds. The last
line is one JSON object; the exit status is 1 where any row differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]


def judged(args: argparse.Namespace) -> list[dict]:
    """Every row of one command's output."""
    command = [sys.executable, "-m", "envs.roboeval", "judge", args.file, "--benchmark", args.benchmark]
    done = subprocess.run(
        [*command, "--mode", args.mode],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [{key: value for key, value in row.items() if "seconds" not in key} for row in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=lambda p: str(Path(p).resolve()))
    parser.add_argument("--benchmark", required=True, type=lambda p: str(Path(p).resolve()))
    parser.add_argument("--judges", type=int, default=16)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--mode", default="compat", choices=["compat", "hardened"])
    args = parser.parse_args()
    started = time.perf_counter()
    alone = judged(args)
    alone_s, crowd_s, differ = time.perf_counter() - started, [], 0
    for run in range(args.runs):
        started = time.perf_counter()
        with ThreadPoolExecutor(args.judges) as pool:
            results = list(pool.map(lambda _: judged(args), range(args.judges)))
        crowd_s.append(round(time.perf_counter() - started, 1))
        odd = [(a, b) for rows in results for a, b in zip(alone, rows, strict=True) if a != b]
        differ += len(odd)
        for a, b in odd[:3]:
            print("differs:", a, b, file=sys.stderr)
        print(f"run {run + 1}: {crowd_s[-1]} s, {len(odd)} rows differ", file=sys.stderr, flush=True)
    result = {"rows": len(alone), "judges": args.judges, "runs": args.runs, "mode": args.mode, "differ": differ}
    print(json.dumps(result | {"alone_s": round(alone_s, 1), "crowd_s": crowd_s}))
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
