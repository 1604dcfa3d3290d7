"""The hostile programs of this folder, with their verdicts, in both tiers; and that they change nothing for others."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from envs.sandbox import FunctionCase, Job, Limits, StdioCase, run_sync

FILES = sorted((Path(__file__).parent / "hostile").glob("*.toml"))
LIMITS = Limits(wall_s=2.0, cpu_s=1.0, memory_mib=512)
PROBES = [
    Job(name, "function", f"def f(x): return x * {n}", "f", (FunctionCase((2,), 4),))
    for name, n in (("right", 2), ("wrong", 3))
]


def programs() -> Iterator[tuple[str, dict]]:
    for file in FILES:
        for name, row in tomllib.loads(file.read_text()).items():
            yield f"{file.stem}.{name}", row


def job_of(name: str, row: dict) -> Job:
    kind = row.get("kind", "function")
    cases = (FunctionCase(tuple(row.get("args", [2])), row.get("expected", 4)),)
    if kind == "stdio":
        cases = (StdioCase(row["stdin"], row["stdout"]),)
    test = row.get("test", "assert f(2) == 4") if kind == "check" else None
    return Job(name, kind, row["code"], "f", () if kind == "check" else cases, check_src=test, limits=LIMITS)


def test_the_corpus_has_all_kinds():
    rows = dict(programs())
    assert len(rows) > 80 and {row.get("kind", "function") for row in rows.values()} == {"function", "stdio", "check"}
    hostile = [row for name, row in rows.items() if not name.startswith("honest.")]
    assert all("pass" not in row["verdicts"] and row["verdicts"] for row in hostile)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_program_gets_its_verdict_and_harms_no_other(sandbox, file):
    rows = {name: row for name, row in programs() if name.startswith(f"{file.stem}.")}
    jobs = [job for name, row in rows.items() for job in (job_of(name, row), *PROBES)]
    outcomes = run_sync(sandbox, jobs)
    wrong = {o.id: (o.verdict, o.note) for o in outcomes if o.id in rows and o.verdict not in rows[o.id]["verdicts"]}
    assert wrong == {}
    assert [o.verdict for o in outcomes if o.id not in rows] == ["pass", "fail"] * len(rows)
