"""The command that makes rows of checkouts: what it writes, what it refuses."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from envs.etk.__main__ import main
from envs.etk.task import Etk
from envs.task import TaskError
from tests.envs.etk.made_checkouts import THORNLIST, names, thorn


def test_r2_a_name_that_is_no_utf8_is_read_as_a_text_is(tmp_path, capsys):
    folder = thorn(tmp_path / "A" / "T")
    Path(os.fsdecode(os.fsencode(folder / "src") + b"/caf\xe9.c")).write_text("int a;\n")
    out = tmp_path / "rows.jsonl"
    assert main(["build", str(tmp_path), "-o", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert "caf\u00e9.c" in [row["src_filename"] for row in rows]


def command(capsys, *arguments) -> tuple[int, str, str]:
    status = main(["build", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_command_writes_rows_and_a_summary(tmp_path, linked, capsys):
    (linked / "list.th").write_text(THORNLIST)
    for out in (tmp_path / "rows.jsonl", tmp_path / "rows.jsonl.gz"):
        status, printed, _ = command(capsys, linked, "--thornlist", linked / "list.th", "--min-src-chars", 5, "-o", out)
        summary = json.loads(printed)
        assert status == 0 and printed.count("\n") == 1
        assert summary["rows"] == summary["thorns"] == 2 and summary["languages"] == {"c": 2}
        assert summary["absent"] == ["CactusBase/Absent"] and summary["filters"] == {"min_src_chars": 5}
        text = gzip.decompress(out.read_bytes()).decode() if out.suffix == ".gz" else out.read_text()
        assert names(map(json.loads, text.splitlines())) == ["Carpet/Carpet/a.c", "CactusBase/Boundary/a.c"]
    first = out.read_bytes()
    command(capsys, linked, "--thornlist", linked / "list.th", "--min-src-chars", 5, "-o", out)
    assert out.read_bytes() == first


@pytest.mark.parametrize("arguments", [["bare"], ["tree", "--languages", "make"]])
def test_r5_the_command_writes_no_rows_without_an_error(tmp_path, capsys, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    thorn(tmp_path / "bare" / "A" / "Core", {})
    thorn(tmp_path / "tree" / "A" / "T")
    status, printed, error = command(capsys, *arguments, "-o", "rows.jsonl")
    assert (status, error, (tmp_path / "rows.jsonl").read_text()) == (0, "", "")
    assert json.loads(printed)["rows"] == 0 and json.loads(printed)["skipped"]
    with pytest.raises(TaskError, match=r"no rows left in rows\.jsonl"):
        Etk(source="path", path="rows.jsonl")


def test_a_device_is_not_replaced(tmp_path, capsys):
    thorn(tmp_path / "A" / "T")
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    status, _, error = command(capsys, tmp_path / "A", "-o", pipe)
    assert status == 1 and f"-o {pipe}: must be a file" in error and pipe.is_fifo()


def test_r10_the_command_takes_other_sources(tmp_path, capsys):
    thorn(tmp_path / "A" / "T", {"x.cl": "int cl;", "x.inc": "include", "x.c": "int c;"})
    out = tmp_path / "rows.jsonl"
    status, printed, _ = command(capsys, tmp_path / "A", "--sources", ".cl=.c,.inc=", "-o", out)
    assert status == 0 and json.loads(printed)["languages"] == {"c": 2}
    assert names(map(json.loads, out.read_text().splitlines())) == ["A/T/x.c", "A/T/x.cl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no such folder"),
        (["empty"], "no thorn in"),
        (["tree", "--languages", "c,pascal"], "unknown language pascal"),
        (["tree", "--sources", ".cl=.opencl"], "unknown source .cl=.opencl"),
        (["tree", "--sources", ".cl"], "unknown source .cl:"),
        (["tree", "--thornlist", "nothing.th"], "nothing.th"),
        (["tree", "--thornlist", "names.none"], "names no thorn"),
        (["tree", "--min-src-chars", "9", "--max-src-chars", "3"], "0 <= min <= max"),
        (["tree", "-o", "out/rows.parquet"], "must be a file that ends in .jsonl or .jsonl.gz"),
        (["tree", "-o", "nowhere/rows.jsonl"], "there is no folder nowhere"),
        (["tree", "--languages", ""], "unknown language : one of"),
    ],
)
def test_the_command_says_what_is_wrong_in_one_line_and_leaves_nothing(
    tmp_path, capsys, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    thorn(tmp_path / "tree" / "A" / "T")
    (tmp_path / "empty").mkdir()
    (tmp_path / "names.none").write_text("# nothing\n")
    (tmp_path / "out").mkdir()
    status, printed, error = command(capsys, "-o", "out/rows.jsonl", *arguments)
    assert status == 1 and not printed and error.count("\n") == 1 and message in error
    assert not list((tmp_path / "out").iterdir())
