"""Do verdicts depend on what else the machine does? HumanEval's and MBPP's own solutions, idle and crowded.

    python tests/bench/corpora_sandbox.py --mbpp mbpp.jsonl.gz --sanitized sanitized-mbpp.jsonl.gz --crowd 16

Grades each set alone, then with `crowd` spinning processes on each processor. Last line: one JSON object with the
number that pass and the rows whose verdicts differ.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from envs.sandbox import Job, LocalSandbox, Outcome
from recipes.records.jsonl import read_jsonl
from tests.bench.bench_sandbox import human_eval_rows


def human_eval_job(row: dict) -> Job:
    code = row["prompt"] + row["canonical_solution"]
    return Job(row["task_id"], "check", code, row["entry_point"], check_src=row["test"], setup=row["prompt"])


def mbpp_job(row: dict) -> Job:
    """The function is the one that the code defines and the tests call."""
    tests = "\n".join(row["test_list"])
    names = [name for name in re.findall(r"^def (\w+)", row["code"], re.MULTILINE) if re.search(rf"\b{name}\b", tests)]
    # a test leans on what the code imports: from the reference, never from what is graded
    imports = re.findall(r"^(?:import|from) .*$", row["code"], re.MULTILINE)
    setup = "\n".join([*imports, *row.get("test_imports", []), row.get("test_setup_code", "")])
    return Job(f"mbpp/{row['task_id']}", "check", row["code"], _called_last(names, tests), check_src=tests, setup=setup)


def _called_last(names: list[str], tests: str) -> str:
    """Of the functions that the tests name, the one that they call outermost: first in the first assertion."""
    return min(names, key=lambda name: re.search(rf"\b{name}\b", tests).start())


def spin() -> None:
    os.setsid()  # the kernel shares processors out among sessions first
    while True:
        pass


def grade(sandbox: LocalSandbox, sets: dict[str, list[Job]]) -> dict[str, list[Outcome]]:
    async def run() -> dict[str, list[Outcome]]:
        return {name: await sandbox.run(jobs) for name, jobs in sets.items()}

    started = time.perf_counter()
    outcomes = asyncio.run(run())
    print(f"{time.perf_counter() - started:.1f} s", file=sys.stderr)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mbpp", type=Path)
    parser.add_argument("--sanitized", type=Path)
    parser.add_argument("--crowd", type=int, default=16)
    parser.add_argument("--tier")
    args = parser.parse_args()
    sets = {"humaneval": [human_eval_job(row) for row in human_eval_rows()]}
    sets |= {
        name: [mbpp_job(row) for row in read_jsonl(path)]
        for name, path in (("mbpp", args.mbpp), ("sanitized", args.sanitized))
        if path
    }
    sandbox = LocalSandbox(2, tier=args.tier)
    idle = grade(sandbox, sets)
    crowd = [multiprocessing.Process(target=spin, daemon=True) for _ in range(args.crowd * (os.cpu_count() or 1))]
    for process in crowd:
        process.start()
    try:
        crowded = grade(sandbox, sets)
    finally:
        for process in crowd:
            process.kill()
    asyncio.run(sandbox.close())
    differ = [
        (a.id, a.verdict, b.verdict, b.note)
        for name in sets
        for a, b in zip(idle[name], crowded[name], strict=True)
        if a.verdict != b.verdict
    ]
    for name in sets:
        for outcome in idle[name]:
            if outcome.verdict != "pass":
                print(outcome.id, outcome.verdict, outcome.note, file=sys.stderr)
    count = {name: [sum(o.verdict == "pass" for o in run[name]) for run in (idle, crowded)] for name in sets}
    result = {"tier": sandbox.tiers[0], "of": {name: len(jobs) for name, jobs in sets.items()}}
    print(json.dumps({**result, "pass_idle_and_crowded": count, "differ": differ}))


if __name__ == "__main__":
    main()
