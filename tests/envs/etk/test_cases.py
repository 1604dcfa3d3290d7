"""Cases, prompts, answers, compiler messages and configuration: what needs no compiler."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import pytest

from envs.etk.answer import extracted
from envs.etk.build.application import Run
from envs.etk.build.compiler_messages import compiler_messages
from envs.etk.build.prepared_tree import prepare
from envs.etk.completion import (
    Application,
    ApplicationError,
    Build,
    Case,
    Gap,
    Metric,
    flow2d_cases,
    prompt,
    read_cases,
)
from envs.etk.completion.check import MAX_LEFT_OUT, faults
from envs.etk.completion.embedded import FLOW2D
from envs.etk.completion.prompts import nearest

SOURCE = "int a;\n\tint b = 1;\n\nint c;"


@pytest.fixture
def source(tmp_path):
    (tmp_path / "x.cpp").write_text(SOURCE)
    return tmp_path


def gap(source, start, end, file="x.cpp"):
    return Gap.of(Case("x", file, start, end), source)


@pytest.mark.parametrize("start, end", [(0, 1), (1, 2), (1, 3), (2, 3), (0, 4), (3, 4)])
def test_the_original_lines_restore_the_bytes(source, start, end):
    assert gap(source, start, end).filled(gap(source, start, end).original) == SOURCE.encode()


def test_odd_bytes_survive(tmp_path):
    data = b"// caf\xe9\r\nint x;\r\n\xff\n"
    (tmp_path / "y.cpp").write_bytes(data)
    results = gap(tmp_path, 1, 2, "y.cpp")
    assert results.filled(results.original) == data
    assert results.filled("\ud800 \u00e9") == b"// caf\xe9\r\n? \xc3\xa9\n\xff\n"


def test_completions_of_any_length(source):
    assert gap(source, 1, 2).filled("") == b"int a;\n\nint c;"
    assert gap(source, 1, 2).filled("\n") == b"int a;\n\n\nint c;"
    assert gap(source, 1, 2).filled("x;\ny;") == gap(source, 1, 2).filled("x;\ny;\n") == b"int a;\nx;\ny;\n\nint c;"
    assert gap(source, 1, 2).pieces("") == [()] and gap(source, 1, 2).pieces("\n") == [("",)]


@pytest.mark.parametrize("start, end, file", [
    (2, 2, "x.cpp"), (3, 2, "x.cpp"), (-1, 1, "x.cpp"), (0, 5, "x.cpp"), (0, 1, "y.cpp"), (0, 1, "../x.cpp"),
    (0, 1, "/x"),
])  # fmt: skip
def test_cases_that_cannot_be(source, start, end, file):
    with pytest.raises(ApplicationError, match="case x"):
        gap(source, start, end, file)


@pytest.mark.parametrize("row", [
    {"id": "a", "file": "x"}, {"id": "a", "file": "x", "start": 0.0, "end": 1}, [],
    {"id": 1, "file": "x", "start": 0, "end": 1},
    {"id": "a", "file": "x", "start": 0, "end": 1, "lines": 2},
])  # fmt: skip
def test_bad_rows_of_cases(tmp_path, row):
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps({"id": "a", "file": "x", "start": 0, "end": 1}) + "\n" + json.dumps(row))
    with pytest.raises(ApplicationError, match=r"cases\.jsonl, line 2"):
        read_cases(path)
    path.write_text(2 * (json.dumps({"id": "a", "file": "x", "start": 0, "end": 1}) + "\n"))
    with pytest.raises(ApplicationError, match="a second case a"):
        read_cases(path)


def test_the_prompt_shows_all_of_a_short_file_but_the_gap(source):
    results = prompt(gap(source, 1, 3))
    assert "2 missing lines in the file `x.cpp`" in results.user and "int b" not in results.literal
    assert "```cpp\nint a;\n```" in results.user and "```cpp\nint c;\n```" in results.user
    assert results.literal.endswith("<|assistant|>\nHere are the 2 missing lines:\n```cpp\n")
    assert [message["role"] for message in results.messages] == ["system", "user"]


@pytest.mark.parametrize(
    ("name", "spoken", "fence"),
    [("x.F90", "Fortran", "fortran"), ("x.c", "C", "c"), ("x.cxx", "C++", "cpp"), ("x", "C++", "cpp")],
)
def test_the_prompt_is_in_the_files_language(tmp_path, name, spoken, fence):
    (tmp_path / name).write_text("a\nb\nc\n")
    results = prompt(Gap.of(Case("x", name, 1, 2), tmp_path))
    assert f"an expert {spoken} developer" in results.system and results.prefill.endswith(f":\n```{fence}\n")
    assert results.user.count(f"```{fence}\n") == 2


def test_the_nearest_lines_are_kept():
    before, after = tuple(f"b{k}" for k in range(10)), tuple(f"a{k}" for k in range(10))
    assert nearest(before, after, 12) == (("b8", "b9"), ("a0", "a1"))
    assert nearest(before, after, 14) == (("b8", "b9"), ("a0", "a1"))
    assert nearest(before, after[:1], 12) == (("b7", "b8", "b9"), ("a0",))
    assert nearest(before, after, 1000) == (before, after)
    assert nearest((*before, "x" * 50), after, 12) == ((), ("a0", "a1", "a2", "a3"))


@pytest.mark.parametrize("answer, code, closed", [
    ("  x = 1;\n", "  x = 1;\n", False), ("  x = 1;\n```\nDone.", "  x = 1;\n", True),
    ("```cpp\nx;\n```", "x;\n", True), ("```\ncpp\nx;\n```", "x;\n", True), ("```\ncpp\n```", "", True),
    ("cpp\nx;\n```", "x;\n", True), ("x;\n  ```c++\ny;", "x;\n", True), ("s = \"```\";\n", "s = \"```\";\n", False),
    ("", "", False), ("```", "", False), ("return;\ny;\n", "return;\ny;\n", False), ("c", "", False),
    ("x\fy```;\n```", "x\fy```;\n", True), ("fortran\nx = 1\n", "x = 1\n", False),
])  # fmt: skip
def test_the_completion_in_an_answer(answer, code, closed):
    results = extracted(answer)
    assert (answer[results.start : results.end], results.closed) == (code, closed)


def test_messages_land_in_the_completion(source):
    log = (
        "make: entering\nx.cpp: In function 'int f()':\nx.cpp:2:9: error: 'é' was not declared\n   2 | \tint q\n"
        "../src/x.cpp:3:6: warning: unused\nx.cpp:1:5: error: before\nx.cpp:4:1: fatal error: after\n"
        "other.h:2:1: error: elsewhere\nx.cpp:2:900: Error: far right\ncollect2: error: ld returned 1\n"
    )
    results = compiler_messages(log, "x.cpp", ["\té = 2 + x;", "y += z;"], lines_before=1)
    assert [(m.severity, m.line, m.column, m.offset) for m in results] == [
        ("error", 1, 8, 7), ("warning", 2, 6, 17), ("error", 1, 5, None), ("error", 4, 1, None), ("error", 2, 1, None),
        ("error", 1, 12, 11),
    ]  # fmt: skip
    assert results[0].text == "'é' was not declared" and results[4].file == "other.h"


@pytest.mark.parametrize("log, lines, good", [
    ("SUCCESS\n\n", 1, True), ("UNSUCCESSFUL\n", 1, False), ("SUCCESSFUL", 1, False), ("SUCCESS\nerror: x\n", 1, False),
    ("SUCCESS\nbye\n", 2, True), ("", 1, False), ("g++ -Werror=all\nBuild SUCCESS.", 1, True),
])  # fmt: skip
def test_the_success_pattern(log, lines, good):
    assert Build("make", success_regex="SUCCESS", success_lines=lines).succeeded(log) is good
    assert Build("make").succeeded(log)


def test_an_application_from_plain_configuration(tmp_path):
    config = {
        "source_dir": str(tmp_path),
        "build": {
            "command": "make -j8 > build.log",
            "log": "build.log",
            "success_regex": "SUCCESS",
            "artifact": "main.ex",
        },
        "run": {"command": ["./main.ex", "inputs"], "inputs": ["inputs"], "expect": ["plt00001"], "env": {"A": "1"}},
        "field": "phi",
        "norm": "l2",
        "weights": {"density": 1.0},
    }
    results = Application.from_config(config)
    assert results.metric == Metric(expect=["plt00001"], field="phi", norm="l2", weights={"density": 1.0})
    assert (results.name, results.run.env, results.build.log) == (tmp_path.name, {"A": "1"}, "build.log")
    for wrong, message in [
        ({"source_dir": "/no/such/folder"}, "no such folder"), ({"biuld": {}}, "unknown key biuld"),
        ({"run": {}}, "command"),
        ({"build": {"command": "make", "cwd": "../x"}}, "leads out"), ({"reference": "/no/such"}, "reference"),
        ({"build": {"command": "make", "timeout": 0}}, "positive"), ({"run": None}, "run: must be a mapping"),
        ({"build": {"command": "make", "success_regex": "("}}, "success_regex"), ({"norm": "l0"}, "norm"),
    ]:  # fmt: skip
        with pytest.raises(ApplicationError, match=message):
            Application.from_config({**config, **wrong})


async def prepared_without(tools, tmp_path):
    application = Application("x", tmp_path, Build("make"), Run("./x"), toolchain=tools)
    await prepare(application, None, tmp_path / "cache")


def test_a_missing_compiler_is_named(tmp_path):
    with pytest.raises(ApplicationError, match=r"building x needs no-such-g \(toolchain\).*apt install no-such-g"):
        asyncio.run(prepared_without(["sh", "no-such-g"], tmp_path))
    assert not (tmp_path / "cache").exists()


def test_the_embedded_set():
    cases = flow2d_cases()
    assert len(cases) >= 40 and {case.file for case in cases} == {"init.cpp", "hydro.cpp"}
    assert {case.difficulty for case in cases} == {"easy", "medium", "hard"}
    ranks = [["easy", "medium", "hard"].index(case.difficulty) for case in cases]
    assert all(a <= b for a, b in pairwise(ranks))
    assert len({case.kind for case in cases}) >= 7
    for case in cases:
        results = Gap.of(case, FLOW2D)
        assert 1 <= case.count <= 6 and results.original.strip() and results.original != case.broken
        assert not faults(case, case.expected)
        assert case.expected["empty"]["left_out"] <= MAX_LEFT_OUT


def test_a_useless_mask_is_rejected():
    case = flow2d_cases()[0]
    nearly = {**case.expected, "empty": dict.fromkeys(case.expected["empty"], 0.951)}
    assert any("more than 0.95" in fault for fault in faults(case, nearly))
    assert any("the original scores" in fault for fault in faults(case, {**case.expected, "original": nearly["empty"]}))
    assert any(
        "scores as the original" in f for f in faults(case, {**case.expected, "broken": case.expected["original"]})
    )
