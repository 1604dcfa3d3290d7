"""What graded code may write in place of a record is read as hostile input: types, ranges, sizes."""

from __future__ import annotations

import asyncio
import json

import pytest

from envs.sandbox import FunctionCase, Job, Outcome
from envs.task import Problem
from rewards.analysis.in_sandbox import CRASH, analyse
from rewards.channel import Completion
from rewards.unit_tests import UnitTests, suspects

RIGHT = {"cases": [[1, 2], [1]], "raised": [None, None], "ok": [None, None]}
FORGED = [
    '{"cases": [[Infinity]], "raised": [null], "ok": [null]}',
    '{"cases": [[1e999]], "raised": [null], "ok": [null]}',
    '{"cases": [[NaN]], "raised": [null], "ok": [null]}',
    '{"cases": [[1]], "raised": [-Infinity], "ok": [null]}',
    '{"cases": [[1]], "raised": [1.5], "ok": [null]}',
    '{"cases": [[1]], "raised": [null], "ok": [Infinity]}',
    '{"cases": [[1]], "raised": [null], "ok": [0]}',
    '{"cases": [[true]], "raised": [null], "ok": [null]}',
    '{"cases": [["1"]], "raised": [null], "ok": [null]}',
    '{"cases": [[0, -5]], "raised": [null], "ok": [null]}',
    '{"cases": [[123456789012345678901234567890]], "raised": [null], "ok": [null]}',
    '{"cases": [[' + "9" * 5000 + ']], "raised": [null], "ok": [null]}',
    '{"cases": [[1]], "raised": [], "ok": [null]}',
    '{"cases": [1], "raised": [null], "ok": [null]}',
    '{"cases": {"1": 2}, "raised": [null], "ok": [null]}',
    '{"cases": [[1]], "raised": [null]}',
    '{"cases": ' + "[" * 100_000,
    "[" * 100_000,
    "[]",
    "1e999",
    "\ud800",
    "",
]
COLLIDING = json.dumps({"cases": [[n * ((1 << 61) - 1) + 7 for n in range(1, 60_000)]], "raised": [None], "ok": [None]})


@pytest.mark.parametrize("record", [*FORGED, COLLIDING], ids=lambda record: record[:40])
def test_a_forged_record_of_coverage_points_at_nothing(record):
    assert suspects(record, [False]) == suspects("x\n" + record + "\n", [False]) == []


def test_a_record_of_coverage_points_at_lines():
    record = json.dumps(RIGHT)
    assert suspects(record, [False, True]) == suspects(f"noise\n{record}\n", [False, True]) == [2]


@pytest.mark.parametrize("record", FORGED[:3])
def test_training_goes_on_after_a_forged_record(record, sandbox):
    """The code writes its record wherever it can and ends before the real one is written."""
    code = f"import os\nfor n in range(1, 9):\n    try: os.write(n, {record!r}.encode() + b'\\n')\n"
    code += "    except OSError: pass\ndef f(x):\n    os._exit(0)\n"
    task = Problem("p", "", "f", (FunctionCase((1,), 1),))
    completion = Completion(code, [0], [(0, len(code))], (0, len(code)))
    [result] = asyncio.run(UnitTests(sandbox, locate=True).score([task], [completion]))
    assert result is not None and result.score == 0.0 and not result.passed


class Printing:
    """A sandbox whose programs print a given text; what a crashed parser leaves cannot be had at will."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def run(self, jobs: list[Job], progress=None) -> list[Outcome]:
        return [Outcome(job.id, "pass", 1, 1, 0.0, stdout=self.text, exit_status=0) for job in jobs]


@pytest.mark.parametrize("text", ["[1]", "[1, 2, 3]", "{}", "x", "[Infinity, 1]", "[" * 100_000, "null", ""])
def test_an_analysis_that_prints_something_else_has_no_answer(text):
    answers = asyncio.run(analyse(Printing(text), "", [1, 2]))
    assert len(answers) == 2 and set(answers) <= {CRASH, 1}
    assert asyncio.run(analyse(Printing("[1, 2]"), "", ["a", "b"])) == [1, 2]
