"""The reader of JSON lines, for tasks and commands."""

from __future__ import annotations

import gzip
import json

import pytest

from envs.command_rows import answer_each, read_rows
from envs.json_lines import json_lines, read_json_lines

LINES = '{"id": 1, "text": "a"}\n\nnot json\n[1]\n' + "[" * 100_000 + '\n  {"id": 2}\n{"id": 3, "text": "é\\u2028"}'


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_each_line_is_an_object_or_an_error(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(LINES.encode()) if name.endswith(".gz") else LINES.encode())
    rows = dict(json_lines(path))
    assert [n for n, row in rows.items() if isinstance(row, Exception)] == [3, 4, 5]
    assert rows[1] == {"id": 1, "text": "a"} and rows[6] == {"id": 2} and rows[7] == {"id": 3, "text": "é\u2028"}
    with pytest.raises(ValueError, match=rf"{name}, line 3: not JSON: Expecting value"):
        read_json_lines(path)


def test_a_byte_order_mark_is_passed_over(tmp_path):
    (tmp_path / "rows.jsonl").write_bytes(b"\xef\xbb\xbf" + b'{"id": 1}\n')
    assert read_json_lines(tmp_path / "rows.jsonl") == [{"id": 1}]


def test_a_command_answers_every_row(tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    path.write_text(LINES, encoding="utf-8")
    rows = read_rows(str(path), "text")
    assert [row["id"] for row in rows] == [1, None, None, None, 2, 3]
    assert [row.get("error", "")[:9] for row in rows] == ["", "JSONDecod", "TypeError", "Recursion", "KeyError:", ""]
    answer_each(str(path), lambda row: {"length": len(row["text"])})
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row.get("length") for row in printed] == [1, None, None, None, None, 2]
    assert printed[4] == {"id": 2, "error": "KeyError: no 'text'"}


def test_a_file_that_is_not_text_is_an_error(tmp_path):
    (tmp_path / "rows.jsonl").write_bytes(b'{"id": 1}\n\xff\xfe\n')
    with pytest.raises(OSError, match="is not UTF-8"):
        read_json_lines(tmp_path / "rows.jsonl")
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(LINES.encode())[:40])
    with pytest.raises(OSError, match="compressed file is damaged"):
        read_json_lines(tmp_path / "rows.jsonl.gz")
