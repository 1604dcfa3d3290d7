"""The two worked examples of envs/etk/README.md: programs with output in text tables, built, run and compared."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from envs.etk.completion.__main__ import main
from envs.etk.completion.own_application import read_application
from envs.etk.completion.proposals import statements
from envs.etk.completion.task import EtkCompletion
from envs.etk.languages import CXX, FREE, language_of
from envs.task import TaskError

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


COMPARE = """
// The last lines' second numbers beside each other: 1 less the largest difference.
#include <cmath>
#include <cstdio>
#include <cstring>

static void read(const char* name, double* values) {
    std::FILE* file = std::fopen(name, "r");
    char line[99];
    for (int i = 0; i < 64 && std::fgets(line, sizeof line, file);)
        if (line[0] != '#') std::sscanf(line, "%*f %lf", &values[i++]);
}

int main() {
    double result[64] = {}, reference[64] = {}, worst = 0;
    read("result/heat_002.txt", result);
    read("reference/heat_002.txt", reference);
    for (int i = 0; i < 64; ++i) worst = std::fmax(worst, std::fabs(result[i] - reference[i]));
    std::printf("64 values, score %f\\n", std::fmax(0.0, 1 - worst));
}
"""


def own_comparison(folder: Path, name: str, text: str, *command: str) -> Path:
    """The example in C++ with a comparison of its own, which has a file."""
    shutil.copytree(EXAMPLES / "heat", folder / "heat")
    shutil.copy(EXAMPLES / "heat_cases.jsonl", folder)
    (folder / "heat" / name).write_text(text)
    toml = (EXAMPLES / "heat.toml").read_text().replace('format = "text"\nfield = "u"\n', "")
    if name.endswith(".cpp"):
        toml = toml.replace("main.cpp step.cpp", f"main.cpp step.cpp && g++ -o compare.ex {name}")
    toml += f'\n[comparison]\ncommand = {json.dumps(command)}\nfiles = ["{command[-1].removeprefix("./")}"]\n'
    (folder / "heat.toml").write_text(toml)
    return folder / "heat.toml"


@pytest.mark.cxx
def test_a_program_of_ones_own_compares(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CODEGRAIN_CACHE", str(tmp_path / "cache"))
    toml = own_comparison(tmp_path, "compare.cpp", COMPARE, "./compare.ex")
    rows = [
        {"id": "right", "case": "factor", "completion": "    double factor = dt / dx / dx;"},
        {"id": "half", "case": "factor", "completion": "    const double factor = 0.5 * dt / (dx * dx);"},
        {"id": "ends", "case": "factor", "completion": "    return;\n    const double factor = 0;"},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["score", "--application", str(toml), "--workers", "1", str(tmp_path / "rows.jsonl")]) == 0
    right, half, ends = map(json.loads, capsys.readouterr().out.splitlines())
    assert right["verdict"] == "pass" and right["density"] == pytest.approx(1.0, abs=1e-6)
    assert half["verdict"] == "fields" and ends["density"] < half["density"] < 0.95


@pytest.mark.cxx
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 0.9", "must print 1 for the reference beside itself: it prints 0.9"),
        ("echo agreement: 0.5000D-01", "it prints 0.05"),
        ("echo no score", "no number from 0 to 1 at the end: no score"),
        ("echo 1; exit 3", "comparison: fail"),
        ("echo 1 -0.5", "no number from 0 to 1 at the end: 1 -0.5"),
        ("echo 1 nan", "no number from 0 to 1 at the end: 1 nan"),
    ],
)
def test_a_comparison_that_cannot_be_right_is_one_line(script, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CODEGRAIN_CACHE", str(tmp_path / "cache"))
    toml = own_comparison(tmp_path, "compare.sh", script, "sh", "compare.sh")
    assert main(["check", "--application", str(toml), "--workers", "1"]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.cxx
def test_the_results_of_an_earlier_run_are_in_no_build(tmp_path, capsys, monkeypatch):
    """A completion that compiles them in and writes them out again would be right without computing anything."""
    monkeypatch.setenv("CODEGRAIN_CACHE", str(tmp_path / "cache"))
    shutil.copytree(EXAMPLES / "heat", tmp_path / "heat")
    for name in ("heat.toml", "heat_cases.jsonl"):
        shutil.copy(EXAMPLES / name, tmp_path)
    for name in ("heat_000.txt", "heat_001.txt", "heat_002.txt"):
        (tmp_path / "heat" / name).write_text("0 1\n")
    included = [
        f'    __asm__(".incbin \\"{name}\\"");\n    double factor = dt / dx / dx;'
        for name in ("heat_002.txt", "heat.h")
    ]
    rows = [{"id": str(n), "case": "factor", "completion": text} for n, text in enumerate(included)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    toml = str(tmp_path / "heat.toml")
    assert main(["score", "--application", toml, "--workers", "1", str(tmp_path / "rows.jsonl")]) == 0
    result, header = map(json.loads, capsys.readouterr().out.splitlines())
    assert result["verdict"] == "build" and "heat_002.txt" in str(result["reasons"])
    assert header["compile"] == 1.0  # what else lies in the folder can be read


@pytest.mark.cxx
def test_cases_are_only_replaced_by_others(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CODEGRAIN_CACHE", str(tmp_path / "cache"))
    shutil.copytree(EXAMPLES / "heat", tmp_path / "heat")
    toml, cases = tmp_path / "heat.toml", tmp_path / "heat_cases.jsonl"
    toml.write_text((EXAMPLES / "heat.toml").read_text())
    command = ["propose", "--application", str(toml), "--workers", "1", "-o", str(cases)]
    assert main([*command, "--compiling"]) == 0
    compiling = {json.loads(line)["id"] for line in cases.read_text().splitlines()}
    shown = capsys.readouterr().err
    assert "step.cpp:8-8" not in compiling and "left out, without it the program does not compile" in shown
    assert "main.cpp:26-26: left out, it prints run.success_regex" in shown
    toml.write_text(toml.read_text().replace("g++ -O2", "no-such-compiler"))
    assert main(command) == 1
    error = capsys.readouterr().err
    assert "build.command ended with status 127; output: " in error and "no-such-compiler" in error
    assert {json.loads(line)["id"] for line in cases.read_text().splitlines()} == compiling


@pytest.mark.cxx
def test_a_folder_is_described_and_its_cases_proposed(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CODEGRAIN_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "rod"
    shutil.copytree(EXAMPLES / "heat", folder)
    assert main(["new", str(folder), "-o", str(tmp_path / "early.toml")]) == 0
    assert "no program (artifact = app.ex) and no result of a run (expect = out.txt)" in capsys.readouterr().err
    subprocess.run(["g++", "-o", "rod.ex", "main.cpp", "step.cpp"], cwd=folder, check=True)
    subprocess.run(["./rod.ex"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    assert main(["new", str(folder)]) == 0
    assert capsys.readouterr().err == ""
    toml = tmp_path / "rod.toml"
    described = tomllib.loads(toml.read_text())
    assert (described["format"], described["field"], described["build"]["artifact"]) == ("text", "u", "rod.ex")
    assert described["run"]["expect"] == ["heat_001.txt", "heat_002.txt"] and described["source_dir"] == "rod"
    assert main(["new", str(folder)]) == 1
    capsys.readouterr()
    listed = tmp_path / "rod_cases.jsonl"
    assert main(["propose", "--application", str(toml), "--workers", "1", "-o", str(listed)]) == 0
    proposed, dropped = listed.read_text(), capsys.readouterr().err
    cases = {row["id"]: row for row in map(json.loads, proposed.splitlines())}
    assert "step.cpp:4-5" in cases and "step.cpp:7-8" in cases
    assert "main.cpp:26-26: left out, the results hardly change (1.000)" in dropped  # it prints the last line
    (tmp_path / "rod_cases.jsonl").write_text(proposed)
    assert [case.id for case in read_application(toml)[1]] == list(cases)


def test_a_folder_without_sources_is_one_line(tmp_path, capsys):
    assert main(["new", str(tmp_path)]) == 1
    assert "no Makefile, CMakeLists.txt or source" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("language", "line", "computes"),
    [
        ("c++", "    u[i] = 2 * v[i];", True),
        ("c++", "    advance(u, dt);  // one step", True),
        ("c++", "    return u;", False),
        ("c++", "    }", False),
        ("c++", "    // u = 0;", False),
        ("c++", "static int n = 3;", False),
        ("c++", "    call(a,", False),
        ("fortran", "  u(i) = u(i) + dt * v(i)", True),
        ("fortran", "  call advance(u, dt)", True),
        ("fortran", "  integer :: i = 3", False),
        ("fortran", "  u = v + &", False),
        ("fortran", "  ! u = 0", False),
        ("fortran", "  if (n == 1) then", False),
    ],
)
def test_statements_that_compute(language, line, computes):
    assert statements(line, CXX if language == "c++" else FREE) == ([0] if computes else [])


@pytest.mark.parametrize(
    ("name", "text", "numbers"),
    [
        ("a.cpp", "    flux = 0.5 * (fl + fr) -\n        0.5 * speed * (ur - ul);\n    u = f(1);", [2]),
        ("a.cpp", "    if (n > 0)  // often\n        u = f(n);\n    v = f(a)\n        * f(b);", [1]),
        ("a.cpp", "{\n    /* two\n       lines */\n    u = 1;\n#endif\n\n    v = 2;", [3, 6]),
        ("a.F77", "      x = a(1) +\n     & b*c(i)\n      y = 2", [2]),
        ("a.F90", "      x = a(1) + &\n        b*c(i=2)\n     y = 2", [2]),
    ],
)
def test_a_statement_is_proposed_whole(name, text, numbers):
    assert statements(text, language_of(name)) == numbers


def test_a_toml_file_is_a_task(tmp_path):
    task = EtkCompletion(str(EXAMPLES / "heat.toml"), train_size=1)
    ids = {problem.id: split for split in ("train", "test") for problem in task.problems(split)}
    assert ids.keys() == {"heat/factor", "heat/curvature"} and sorted(ids.values()) == ["test", "train"]
    (tmp_path / "one.jsonl").write_text('{"id": "loop", "file": "step.cpp", "start": 5, "end": 6}\n')
    [problem] = EtkCompletion(str(EXAMPLES / "heat.toml"), str(tmp_path / "one.jsonl"), 0).problems("test")
    assert problem.id == "heat/loop" and problem.reference.strip().startswith("for (")
    with pytest.raises(TaskError, match=r"nowhere\.toml"):
        EtkCompletion(str(tmp_path / "nowhere.toml"))
