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


def test_every_program_in_every_world(sandbox, oracle, benchmark_folder):
    rows, benchmark = oracle("oracle"), Benchmark(benchmark_folder)
    requests = [
        Request(row["program"], benchmark.worlds[row["task"]], conditions(row["task"]), "compat") for row in rows
    ]
    for row, results in zip(rows, asyncio.run(judge(sandbox, requests)), strict=True):
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
        rows = [json.loads(line) for line in file][::4]
    requests = [
        Request(row["program"], benchmark.worlds[row["task"]], conditions(row["task"]), "compat") for row in rows
    ]
    for row, results in zip(rows, asyncio.run(judge(sandbox, requests)), strict=True):
        assert (results.verdict == "Success") == row["passed"], row["id"]


def test_every_trace(oracle):
    rows = oracle("trace_oracle")
    assert len(rows) >= 2000
    for row in rows:
        assert satisfied(conditions(row["task"])[row["world"]], row["trace"]) == row["sat"], row["id"]


def test_every_extraction(oracle):
    for row in oracle("extraction_oracle"):
        assert robo_instruct(row["raw"]) == row["program"], row["id"]


def same(results: dict[str, str], wanted: dict[str, str | float]) -> bool:
    """Equal up to what the original left unexplored."""
    return all(
        abs(Fraction(results.get(name, 0)) - Fraction(wanted.get(name, 0))) <= Fraction(1, 10**6)
        for name in {*results, *wanted}
    )


def test_every_exact_probability(sandbox, oracle):
    rows = oracle("robosim_oracle")
    exact = [row for row in rows if row["exact"]]
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


def test_waiting_programs_have_the_same_kinds_of_outcome(sandbox, oracle):
    rows = [row for row in oracle("robosim_oracle") if not row["exact"]]
    results = asyncio.run(explorations(sandbox, [row["program"] for row in rows], "compat", ["none"], 100, 0, 0))
    for row, each in zip(rows, results, strict=True):
        assert set(each["none"].outcomes) == set(row["plain"]) and not each["none"].exact, row["id"]
