"""Benchmarks and pictures are run by hand and seldom: each can at least be imported, with what it imports."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from tests.bench import gain
from tests.bench.paired import family_of

SCRIPTS = sorted((Path(__file__).parents[1] / "bench").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: file.stem)
def test_a_script_can_be_imported(script, monkeypatch):
    name = f"bench_scripts_{script.stem}"
    spec = importlib.util.spec_from_file_location(name, script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # dataclasses look their module up there
    monkeypatch.setattr(sys, "path", [str(script.parent), *sys.path])
    spec.loader.exec_module(module)


def test_a_gain_counts_what_passed_whatever_the_verdict_is_called(tmp_path):
    rows = [
        {"temperature": 0.0, "task_id": "a", "verdict": "Success", "passed": True, "reward": 1.0},
        {"temperature": 0.0, "task_id": "b", "verdict": "RobotExecutionError", "passed": False, "reward": 0.5},
        {"temperature": 0.0, "task_id": "c", "verdict": "error", "passed": None, "reward": None},
    ]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert gain.rates(str(tmp_path), "pass") == {0.0: {"a": 1.0, "b": 0.0}}
    assert gain.rates(str(tmp_path), "reward") == {0.0: {"a": 1.0, "b": 0.5}}


def test_of_a_prolonged_run_the_latest_evaluation_counts(tmp_path):
    row = {"task": "t", "task_id": "a", "temperature": 0.0, "reward": 0.0, "verdict": ""}
    rows = [
        row | {"when": when, "step": step, "passed": passed}
        for when, step, passed in (("before", 0, True), ("after", 2, False), ("after", 4, True))
    ]
    (tmp_path / "eval_samples.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    assert gain.rates(f"{tmp_path}@after", "pass") == {0.0: {"a": 1.0}}


def test_a_gain_in_what_a_channel_measured_draws_thorns_whole(tmp_path, capsys):
    rows = [
        {
            "temperature": 0.0,
            "task_id": f"etk/arrangement/thorn{number // 2}/file{number}.c",
            "verdict": "",
            "passed": None,
            "reward": 0.1,
            "details": {"bleu": {"bleu": number / 10}} if number else {},
        }
        for number in range(5)
    ]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert list(gain.rates(str(tmp_path), "bleu/bleu")[0.0].values()) == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert "1 of 5 answers have no score bleu/bleu" in capsys.readouterr().err
    assert gain.rates(str(tmp_path), "reward") and capsys.readouterr().err == ""
    assert {family_of(row["task_id"]) for row in rows} == {f"etk/arrangement/thorn{number}" for number in range(3)}
    assert family_of("humaneval/0") == "humaneval/0"
    assert family_of("roboeval/hand_over-12") == "roboeval/hand_over"
    with pytest.raises(SystemExit, match="no answer of it has the score judge/judged"):
        gain.rates(str(tmp_path), "judge/judged")
