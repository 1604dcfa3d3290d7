"""The two worked examples of envs/etk/README.md: programs with output in text tables, built, run and compared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from envs.etk.completion.__main__ import main

EXAMPLES = Path(__file__).parent / "examples"
RIGHT = {
    "heat": {"factor": "    double factor = dt / dx / dx;", "curvature": None},
    "wave": {"acceleration": None, "displacement": None},
}
WRONG = {
    "heat": {"factor": "    const double factor = 0.5 * dt / (dx * dx);"},
    "wave": {"acceleration": "      v(i) = v(i) - dt * u(i)"},
}
COMPILERS = {"heat": "g++", "wave": "gfortran"}


@pytest.mark.cxx
@pytest.mark.parametrize("name", ["heat", "wave"])
def test_an_example_is_sound_and_its_completions_are_graded(name, tmp_path, capsys, monkeypatch):
    if shutil.which(COMPILERS[name]) is None:
        pytest.skip(f"no {COMPILERS[name]}: apt install {COMPILERS[name]}")
    monkeypatch.setenv("CODEGRAIN_CACHE", str(tmp_path))
    toml = EXAMPLES / f"{name}.toml"
    assert main(["check", "--application", str(toml), "--workers", "1"]) == 0
    cases = {row["id"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert cases.keys() == RIGHT[name].keys() and all(row["sound"] for row in cases.values())
    assert all(row["scores"]["empty"]["skill"] == 0.0 for row in cases.values())
    completions = [(case, text or cases[case]["masked"]) for case, text in RIGHT[name].items()]
    completions += WRONG[name].items()
    rows = [{"id": str(i), "case": case, "completion": text} for i, (case, text) in enumerate(completions)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["score", "--application", str(toml), "--workers", "1", str(tmp_path / "rows.jsonl")]) == 0
    *right, wrong = map(json.loads, capsys.readouterr().out.splitlines())
    assert [row["verdict"] for row in right] == ["pass"] * len(RIGHT[name])
    assert wrong["verdict"] == "fields" and wrong["skill"] < 0.7 and wrong["execution"] == 1.0
