"""Does the grader take every right answer to DeepCoder's problems and no wrong one?

    python tests/bench/corpora_deepcoder.py DATA [--mutants 3]

DATA is a file or folder for task.env.path. Runs every reference solution, for programs without one a table of their
tests' answers in four ways of printing, and mutants that answer something else; `altered` are the references with one
comparison or constant changed, some of which are right all the same. Last line: one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from envs.deepcoder import DeepCoder
from envs.sandbox import Job, LocalSandbox
from tests.envs.mutants import SAME, altered, function_mutants, program_mutants, table_program


def jobs_of(task: DeepCoder, most: int) -> list[Job]:
    """Jobs whose ids say what they are: right or wrong, the kind, the problem."""
    jobs = []
    for problem in [*task.problems("train"), *task.problems("test")]:
        if problem.reference:
            jobs.append(problem.job(problem.reference, f"right:reference:{problem.id}"))
            changed = list(altered(problem.reference, most)) if most else []
            jobs += [problem.job(code, f"altered:altered:{problem.id}") for code in changed]
        if problem.entry_point:
            wrong = function_mutants(problem)
        else:
            known = table_program(problem)
            jobs += [problem.job(known + end, f"right:{kind}:{problem.id}") for kind, end in SAME.items()]
            wrong = program_mutants(problem)
        jobs += [problem.job(code, f"wrong:{kind}:{problem.id}") for kind, code in wrong]
    return jobs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--mutants", type=int, default=3, help="altered references a problem")
    parser.add_argument("--tier")
    args = parser.parse_args()
    task = DeepCoder(args.data)
    jobs = jobs_of(task, args.mutants)
    sandbox = LocalSandbox(2, tier=args.tier)
    started = time.perf_counter()
    outcomes = asyncio.run(sandbox.run(jobs))
    seconds = time.perf_counter() - started
    asyncio.run(sandbox.close())
    total, passed, mistakes = Counter(), Counter(), []
    for outcome in outcomes:
        expected, kind, name = outcome.id.split(":", 2)
        total[f"{expected}: {kind}"] += 1
        passed[f"{expected}: {kind}"] += outcome.verdict == "pass"
        if expected != "altered" and (outcome.verdict == "pass") != (expected == "right"):
            mistakes.append([name, kind, outcome.verdict, outcome.note])
    ungraded = sum(not outcome.graded for outcome in outcomes)
    counts = {kind: [passed[kind], total[kind]] for kind in total}
    result = {"tier": sandbox.tiers[0], "problems": sum(len(task.problems(s)) for s in ("train", "test"))}
    result |= {"dropped": dict(task.dropped), "jobs": len(jobs), "seconds": round(seconds, 1), "ungraded": ungraded}
    print(json.dumps({**result, "passed_of": counts, "mistakes": mistakes}))


if __name__ == "__main__":
    main()
