"""The originals' answers: every verdict, every world, every trace, every extraction, every exact probability."""

from __future__ import annotations

import asyncio
import gzip
import json
from fractions import Fraction

from envs.roboeval import Benchmark, Request, judge
from envs.roboeval.checks import conditions
from envs.roboeval.exploration import explorations
from envs.roboeval.extraction import robo_instruct
from envs.roboeval.trace import satisfied
from tests.oracles import rows


def test_every_program_in_every_world(sandbox, oracle, benchmark_folder):
    benchmark = Benchmark(benchmark_folder)
    requests = [
        Request(row["program"], benchmark.worlds[row["task"]], conditions(row["task"]), "compat") for row in oracle
    ]
    for row, results in zip(oracle, asyncio.run(judge(sandbox, requests)), strict=True):
        assert results.verdict == row["verdict"], row["id"]
        for result, wanted in zip(results.worlds, row["worlds"], strict=True):
            assert (result.status, result.result) == (wanted["status"], wanted["result"]), row["id"]
            trace = [list(event) for event in result.trace]
            if wanted["status"] == "success" and "trace" in wanted:
                assert trace == wanted["trace"], row["id"]
            elif "trace_prefix" in wanted:
                assert trace[: len(wanted["trace_prefix"])] == wanted["trace_prefix"], row["id"]


def test_programs_judged_for_the_benchmark(sandbox, benchmark_folder):
    benchmark = Benchmark(benchmark_folder)
    with gzip.open(benchmark_folder / "judged_programs_dev.jsonl.gz", "rt", encoding="utf-8") as file:
        judged = [json.loads(line) for line in file][::4]
    requests = [
        Request(row["program"], benchmark.worlds[row["task"]], conditions(row["task"]), "compat") for row in judged
    ]
    for row, results in zip(judged, asyncio.run(judge(sandbox, requests)), strict=True):
        assert (results.verdict == "Success") == row["passed"], row["id"]


def test_every_trace():
    traces = rows("robot_traces")
    assert len(traces) >= 2000
    for row in traces:
        assert satisfied(conditions(row["task"])[row["world"]], row["trace"]) == row["sat"], row["id"]


def test_every_extraction():
    for row in rows("extraction"):
        assert robo_instruct(row["raw"]) == row["program"], row["id"]


def same(results: dict[str, str], wanted: dict[str, str | float]) -> bool:
    """Equal up to what the original left unexplored."""
    return all(
        abs(Fraction(results.get(name, 0)) - Fraction(wanted.get(name, 0))) <= Fraction(1, 10**6)
        for name in {*results, *wanted}
    )


def test_every_exact_probability(sandbox):
    exact = [row for row in rows("robosim") if row["exact"]]
    both = [row for row in exact if row["perturbed_exact"]]
    programs = [row["program"] for row in exact]
    for row, results in zip(
        exact, asyncio.run(explorations(sandbox, programs, "compat", ["none"], 1100, 0, 0)), strict=True
    ):
        assert same(results["none"].outcomes, row["plain"]) and results["none"].exact, row["id"]
    programs = [row["program"] for row in both]
    for row, results in zip(
        both, asyncio.run(explorations(sandbox, programs, "compat", ["text"], 700, 0, 0)), strict=True
    ):
        assert same(results["text"].outcomes, row["perturbed"]), row["id"]


def test_waiting_programs_have_the_same_kinds_of_outcome(sandbox):
    waiting = [row for row in rows("robosim") if not row["exact"]]
    results = asyncio.run(explorations(sandbox, [row["program"] for row in waiting], "compat", ["none"], 100, 0, 0))
    for row, each in zip(waiting, results, strict=True):
        assert set(each["none"].outcomes) == set(row["plain"]) and not each["none"].exact, row["id"]
