"""Do our verdicts on MBPP and MBPP+ agree with EvalPlus's own command, task by task, on right and wrong solutions?

    python tests/bench/evalplus_agreement.py MbppPlus-v0.2.0.jsonl.gz        # evalplus==0.3.1 must be importable

Solutions: each task's reference, functions that call it and answer something else, and the reference with a comparison
turned round or a constant changed. EvalPlus runs them in processes of its own; they are ours, not a model's. A verdict
is two: on the base tests, and on all tests. Last line: one JSON object with the number of solutions, of those that pass
the base tests and all tests, of agreements in both, and the tasks that differ.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from envs.data import data_files, file_rows
from envs.mbpp import plus
from envs.sandbox import LocalSandbox
from tests.envs.mutants import altered, function_mutants

SLOW = {"Mbpp/271", "Mbpp/300", "Mbpp/599", "Mbpp/603", "Mbpp/630"}
"""Seconds to minutes of processor time a solution."""


def solutions(rows: list[dict]) -> list[tuple[str, str]]:
    """(task, code) of all solutions."""
    results = []
    for row in rows:
        problem = plus.plus_problem(row)
        codes = [problem.reference, *(code for _, code in function_mutants(problem)), *altered(problem.reference)]
        results += [(row["task_id"], code) for code in codes]
    return results


def theirs(rows: list[dict], asked: list[tuple[str, str]], folder: Path) -> list[tuple[bool, bool]]:
    """EvalPlus's verdicts (base tests, all tests), in order."""
    data, samples = folder / "data.jsonl", folder / "samples.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    samples.write_text("".join(json.dumps({"task_id": task, "solution": code}) + "\n" for task, code in asked))
    command = [sys.executable, "-m", "evalplus.evaluate", "mbpp", "--samples", str(samples), "--parallel", "2"]
    environment = os.environ | {"MBPP_OVERRIDE_PATH": str(data), "HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
    subprocess.run(command, env=environment, check=True, stdout=sys.stderr)
    results = json.loads((folder / "samples_eval_results.json").read_text())["eval"]
    taken = {task: iter(matches) for task, matches in results.items()}
    verdicts = []
    for task, code in asked:
        result = next(taken[task])
        assert result["solution"] == code
        base = result["base_status"] == "pass"
        verdicts.append((base, base and result["plus_status"] == "pass"))
    return verdicts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    rows = list(file_rows(data_files(parser.parse_args().data), (*plus.COLUMNS, "contract", "assertion")))
    rows = [{key: value for key, value in row.items() if key != "id"} for row in rows if row["task_id"] not in SLOW]
    asked = solutions(rows)
    by_task = {row["task_id"]: plus.plus_problem(row) for row in rows}

    async def grade() -> list[tuple[bool, bool]]:
        sandbox = LocalSandbox(2)
        problems = [problem for task, _ in asked for problem in (by_task[task].data["base"], by_task[task])]
        codes = [code for _, code in asked for _ in range(2)]
        jobs = [problem.job(code, str(n)) for n, (problem, code) in enumerate(zip(problems, codes, strict=True))]
        passed = [outcome.verdict == "pass" for outcome in await sandbox.run(jobs)]
        await sandbox.close()
        return list(zip(passed[::2], passed[1::2], strict=True))

    ours = asyncio.run(grade())
    with tempfile.TemporaryDirectory() as folder:
        evalplus = theirs(rows, asked, Path(folder))
    differ = sorted({task for (task, _), a, b in zip(asked, ours, evalplus, strict=True) if a != b})
    agree = sum(a == b for a, b in zip(ours, evalplus, strict=True))
    for (task, code), a, b in zip(asked, ours, evalplus, strict=True):
        if a != b:
            print(task, "ours", a, "EvalPlus", b, code[-200:], sep="\n", file=sys.stderr)
    counts = {"passed_base": sum(base for base, _ in ours), "passed": sum(every for _, every in ours)}
    print(json.dumps({"tasks": len(rows), "solutions": len(asked), **counts, "agree": agree, "differ": differ}))


if __name__ == "__main__":
    main()
