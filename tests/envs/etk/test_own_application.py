"""`check` and `score` of a user's own application, and what its completions earn without work."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest

from envs.etk.build.application import Application, Build, Comparison, Run
from envs.etk.build.compare import ApplicationError, Metric
from envs.etk.completion.__main__ import main
from envs.etk.completion.embedded import FLOW2D, INITIAL_STATE
from envs.etk.completion.own_application import read_application
from envs.etk.completion.scorer import skill_beyond

TOML = """
name = "mine"
source_dir = "app"
cases = "cases.jsonl"
field = "density"
[build]
command = "make"
success_regex = "SUCCESS"
artifact = "flow"
discard = ["*.jsonl"]
memory_mib = 2048
disk_mib = 64
[run]
command = ["./flow", "inputs"]
inputs = ["inputs"]
success_regex = "finished"
timeout = 20.0
"""


@pytest.fixture
def application(tmp_path, monkeypatch):
    monkeypatch.setenv("CODEGRAIN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "app").mkdir()
    for path in FLOW2D.iterdir():
        if path.suffix != ".jsonl":
            shutil.copy(path, tmp_path / "app")
    (tmp_path / "app.toml").write_text(TOML)
    lines = (FLOW2D / "hydro.cpp").read_text().split("\n")
    pressure = next(n for n, line in enumerate(lines) if line.strip().startswith("return options.cfl"))
    comment = next(n for n, line in enumerate(lines) if line.startswith("//"))
    cases = [
        {"id": "step", "file": "hydro.cpp", "start": pressure, "end": pressure + 1},
        {"id": "comment", "file": "hydro.cpp", "start": comment, "end": comment + 1},
        {"id": "both", "file": "hydro.cpp", "start": comment, "end": comment + 1, "more": [[pressure, pressure + 1]]},
        {"id": "outside", "file": "hydro.cpp", "start": 9000, "end": 9001},
    ]
    (tmp_path / "cases.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in cases))
    return tmp_path / "app.toml"


def printed(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.cxx
@pytest.mark.skipif(not (shutil.which("g++") and shutil.which("make")), reason="g++ or make is not here")
def test_cases_are_checked_and_completions_scored(application, capsys):
    """26.10: and lines without which nothing changes are not sound."""
    assert main(["check", "--application", str(application)]) == 1  # three of the four are not sound
    step, comment, both, outside = printed(capsys)
    assert {"id", "masked", "empty", "reference", "sound"} <= step.keys() and "options.cfl" in step["masked"]
    assert (step["reference"], step["sound"], comment["sound"]) == (1.0, True, False) and step["empty"] < 1
    assert comment["empty"] == 1.0 and "without the masked lines" in comment["reasons"][0]
    assert not both["sound"] and both["empty"] < 1 and "place 1 by itself: without the masked" in both["reasons"][0]
    assert len(both["reasons"]) == 1
    assert outside["id"] == "outside" and "no lines 9000" in outside["error"]
    rows = [
        {"id": 1, "case": "step", "completion": step["masked"]},
        {"id": 2, "case": "step", "completion": INITIAL_STATE + step["masked"]},
        {"id": 3, "case": "step", "completion": "nonsense"},
        {"id": 4, "case": "none", "completion": ""},
        {"id": 5, "case": "step"},
    ]
    file = application.with_name("rows.jsonl")
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert main(["score", "--application", str(application), str(file)]) == 0
    right, exits, broken, unknown, missing = printed(capsys)
    assert (right["verdict"], right["total"], right["skill"], right["reasons"]) == ("pass", 1.0, 1.0, [])
    assert (exits["verdict"], exits["skill"], exits["execution"]) == ("run", 0.0, 0.0)
    assert "ended before its last line" in exits["reasons"][0]  # 7: the status was 0 and all plotfiles were there
    assert (broken["verdict"], broken["total"]) == ("build", 0.0) and "nonsense" in str(broken["reasons"])
    assert "no case 'none'" in unknown["error"] and "completion" in missing["error"]


def test_a_file_that_cannot_be_read_is_one_line(application, tmp_path, capsys):
    assert main(["check", "--application", str(tmp_path / "absent.toml")]) == 1
    for text, reason in (
        ("[", "not TOML"),
        ("name = 'x'", "cases: missing"),
        ("cases = 'cases.jsonl'", "run: must be a mapping"),
    ):
        (tmp_path / "bad.toml").write_text(text)
        with pytest.raises(ApplicationError, match=reason):
            read_application(tmp_path / "bad.toml")
        assert main(["check", "--application", str(tmp_path / "bad.toml")]) == 1
    assert all(line.startswith("envs.etk.completion: ") for line in capsys.readouterr().err.splitlines())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("timeout = 20.0", 'timeout = "20 s"', "run.timeout='20 s': must be a positive number"),
        ("inputs = [", "outputs = [", "run: unknown key outputs; use command, disk_mib, env, expect, inputs"),
        (
            'field = "density"',
            'fields = "density"',
            "application: unknown key fields; use build, cases, compare, compari",
        ),
        ("cases.jsonl", "absent.jsonl", "cases=absent.jsonl: no such file: write it with propose -o"),
        (
            'name = "mine"',
            'name = "mine"\ntoolchain = ["no-such-compiler"]',
            "needs no-such-compiler (toolchain), not found",
        ),
    ],
)
def test_a_mistake_in_the_description_is_one_line(old, new, message, application, capsys):
    application.write_text(application.read_text().replace(old, new))
    assert main(["check", "--application", str(application)]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_the_prompt_of_a_case_is_shown(application, capsys):
    assert main(["show", "--application", str(application), "step"]) == 0
    shown = capsys.readouterr().out
    before, masked = shown.split("=== masked")
    assert "return options.cfl" in masked and "return options.cfl" not in before and "`hydro.cpp`" in before
    assert main(["show", "--application", str(application), "none"]) == 1
    assert "no case 'none' in" in capsys.readouterr().err


def test_leaving_the_lines_out_has_no_skill():
    assert skill_beyond(0.4, 0.4) == skill_beyond(0.1, 0.4) == skill_beyond(0.0, 0.0) == 0
    assert skill_beyond(1.0, 0.4) == skill_beyond(1.0, 1.0) == 1
    assert skill_beyond(0.7, 0.4) == pytest.approx(0.5) and skill_beyond(0.99, 1.0) == 0


def test_the_lines_that_print_the_last_line_are_known_by_their_texts():
    run = Run(command="./x", success_regex="finished")
    for lines in ('std::printf("\\nfinished\\n");\nMPI_Finalize();', "  print *, 'finished'", 'puts("finished");'):
        assert run.printed_by(lines), lines
    for lines in ("finished = true;", 'printf("done");', "if (finished) return;"):
        assert not run.printed_by(lines), lines
    assert not Run(command="./x").printed_by('puts("finished");')


def test_the_last_line_says_that_a_run_reached_its_end():
    run = Run(command="./x", success_regex="finalized")
    assert run.reached_its_end("step 1\nAMReX (24.01) finalized\n\n") and not run.reached_its_end("finalized\nstep 1\n")
    assert Run(command="./x").reached_its_end("")
    with pytest.raises(ApplicationError, match=r"run\.success_regex"):
        Run(command="./x", success_regex="(")


def test_the_readme_names_every_key_of_a_description():
    text = (Path(__file__).parents[3] / "envs" / "etk" / "README.md").read_text()
    table = text[text.index("The keys of `app.toml`") : text.index("Results are read in four formats")]
    names = {name.rpartition(".")[2] for name in re.findall(r"`([\w.]+)`", table.replace("| `", "|`"))}
    kinds = (Application, Build, Run, Comparison, Metric)
    keys = {field.name for kind in kinds for field in dataclasses.fields(kind)}
    assert keys - {"build", "run", "comparison", "metric"} <= names
