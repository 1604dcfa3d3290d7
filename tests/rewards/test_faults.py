"""Faults planted at known characters: syntax and lint charge these and nothing else (more: tests/bench/faults.py)."""

from __future__ import annotations

import ast
import asyncio
import random

import pytest

from envs.sandbox import LocalSandbox
from tests.bench import faults
from tests.bench.faults import KINDS, Case

PROGRAMS = random.Random(0).sample(faults.references(), 80)


async def charges(name: str) -> list[tuple[Case, frozenset[int]]]:
    """Faults in those programs that the channel pays in full, and what it charges."""
    sandbox = LocalSandbox(2)
    channel = faults.channels(sandbox)[name]
    good = await faults.correct({name: channel}, PROGRAMS)
    cases = faults.cases_of(name, good, seed=0)
    results = await faults.score(channel, [case.problem for case in cases], [case.fault.code for case in cases])
    await sandbox.close()
    matches = zip(cases, results, strict=True)
    return [(case, faults.charged(result, case.fault.code, faults.FULL[name])) for case, result in matches]


@pytest.mark.parametrize("name", ["syntax", "lint"])
def test_every_planted_fault_is_hit_exactly(name):
    results = asyncio.run(charges(name))
    assert {case.fault.kind for case, _ in results} == set(KINDS[name]) and len(results) > 150
    assert [(case.problem.id, case.fault) for case, got in results if got != case.truth] == []


def test_faults_break_what_they_say_they_break():
    for kinds, parses in ((KINDS["syntax"], False), (KINDS["lint"], True), (KINDS["unit_tests"], True)):
        for problem in PROGRAMS[:20]:
            for fault in faults.planted.plant(problem.reference, kinds, problem.id):
                assert fault.code != problem.reference and 0 <= fault.start < fault.end <= len(fault.code)
                try:
                    ast.parse(fault.code)
                except SyntaxError:
                    assert not parses, fault
                else:
                    assert parses, fault


def test_measures():
    code = "ab = 1\nc = ab\n"
    got = faults.compare(code, frozenset(range(7, 13)), frozenset(range(11, 13)))
    assert (got["precision"], got["recall"], got["iou"], got["lines"]) == (1 / 3, 1.0, 1 / 3, 1.0)
    assert faults.compare(code, frozenset(), frozenset([0]))["precision"] == 0.0
    assert faults.first_occurrence("x = 1\ny = 1\nx = 1\n", 3) == frozenset(range(5))  # the first of two such lines
    assert len(faults.first_occurrence(code, None)) == len(code)
