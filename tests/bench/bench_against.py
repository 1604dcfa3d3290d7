"""Whether grading is as fast as in another checkout of this repository, measured in turns on one machine.

    git worktree add ../before COMMIT
    python tests/bench/bench_against.py ../before [--rounds 5] [--only sandbox robosim completion]

In each round each checkout grades the same programs in a process of its own: HumanEval's reference solutions with their
tests (bench_sandbox.py), robot programs in closed worlds (bench_robosim.py), and completions of the embedded simulation
(bench_completion.py), two at a time. Rates by the clock and processor time of all processes are medians over rounds;
processor time depends less on other work of the machine. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = ("sandbox", "robosim", "completion")
MEASURE = """
import asyncio, json, os, sys, time
root, kind, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.path[:0] = [root + "/tests/bench", root]
from bench_sandbox import cpu_seconds

def timed(work, number):
    started, before = time.perf_counter(), cpu_seconds(os.getpid())
    work()
    return number / (time.perf_counter() - started), (cpu_seconds(os.getpid()) - before) / number * 1e3

if kind == "sandbox":
    import bench_sandbox
    programs = bench_sandbox.programs()[:count]
    grade, close = bench_sandbox.ours()
    assert all(grade(programs))
    result = timed(lambda: [grade(programs) for _ in range(3)], 3 * len(programs))
    close()
elif kind == "robosim":
    from bench_robosim import LocalSandbox, judge, requests
    async def run():
        sandbox = LocalSandbox(2)
        await judge(sandbox, requests(64, 0))  # both workers have started
        started, before = time.perf_counter(), cpu_seconds(os.getpid())
        judged = await judge(sandbox, requests(count, 1000))
        took = count / (time.perf_counter() - started), (cpu_seconds(os.getpid()) - before) / count * 1e3
        await sandbox.close()
        assert all(each is not None and each.verdict == "Success" for each in judged)
        return took
    result = asyncio.run(run())
else:
    import bench_completion
    before = cpu_seconds(os.getpid())
    row = asyncio.run(bench_completion.measure(count, 2))
    result = row["per_second"], (cpu_seconds(os.getpid()) - before) / count * 1e3
print(json.dumps(result))
"""
"""Prints programs a second and milliseconds of processor time for each. Of a completion, those that prepare the
application and read what is kept are part of it."""
COUNTS = {"sandbox": 164, "robosim": 160, "completion": 12}


def measured(root: Path, kind: str) -> list[float]:
    command = [sys.executable, "-c", MEASURE, str(root), kind, str(COUNTS[kind])]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{root}: {kind}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    roots = {"before": options.before.resolve(), "now": ROOT}
    runs: dict[str, dict[str, list[list[float]]]] = {kind: {"before": [], "now": []} for kind in options.only}
    for number in range(options.rounds):
        for kind in options.only:
            for name in roots if number % 2 == 0 else reversed(roots):
                runs[kind][name].append(measured(roots[name], kind))
                rate, cpu = runs[kind][name][-1]
                print(f"{kind} {name}: {rate:.2f} a second, {cpu:.2f} ms", file=sys.stderr)
    result = {}
    for kind, by_name in runs.items():
        table = {
            name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in by_name.items()
        }
        result[kind] = {
            **{f"{name}_per_second": round(rate, 2) for name, (rate, _) in table.items()},
            **{f"{name}_cpu_ms": round(cpu, 2) for name, (_, cpu) in table.items()},
            "rate": round(table["now"][0] / table["before"][0], 3),
            "cpu": round(table["now"][1] / table["before"][1], 3),
        }
    print(json.dumps({"rounds": options.rounds, **result}))


if __name__ == "__main__":
    main()
