"""Rows of DeepCoder that cannot be used are counted on both sides of the split, and told in one line."""

from __future__ import annotations

import json

import pytest

from envs.deepcoder import DeepCoder
from envs.task import TaskError
from tests.envs.test_deepcoder import PAIRS, ids, rows, write


def test_dropped_rows_are_counted_and_said(tmp_path, caplog):
    good = rows(8)
    bad = [
        "{not json\n",
        "[]\n",
        {"id": "b1", "problem": "p"},
        {"id": "b2", "problem": "", "tests": json.dumps(PAIRS)},
        {"id": "b3", "problem": 5, "tests": json.dumps(PAIRS)},
        {"id": "r1", "problem": "again", "tests": json.dumps(PAIRS)},
        {"id": "b4", "problem": "p", "tests": "[{"},
        {"id": "b5", "problem": "p", "tests": json.dumps([{"input": "x" * 3000, "output": "1"}])},
    ]
    task = DeepCoder(str(write(tmp_path / "a.jsonl", [*good, *bad])), largest_mib=0.002)
    assert sum(len(side) for side in ids(task)) == 8
    assert dict(task.dropped) == {
        "not a JSON object": 2,
        "no tests": 1,
        "no problem text": 2,
        "id seen before": 1,
        "tests are not JSON": 1,
        "tests over task.env.largest_mib": 1,
    }
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("deepcoder: left out 8 of 16 rows (2 not a JSON object, 2 no problem text, ")


def test_rows_left_out_of_both_sides_are_told_in_one_line(tmp_path, caplog):
    """A bad line of a held-out file counts like one of a training file."""
    write(tmp_path / "train.jsonl", ["{cut\n", *rows(9), {"id": "b1", "problem": "p"}])
    held_out = [row | {"id": f"t{n}", "problem": f"another text {n}"} for n, row in enumerate(rows(3))]
    write(tmp_path / "test.jsonl", [*held_out, "[]\n"])
    task = DeepCoder(str(tmp_path))
    assert [len(side) for side in ids(task)] == [9, 3]
    assert dict(task.dropped) == {"not a JSON object": 2, "no tests": 1}
    assert [record.getMessage() for record in caplog.records] == [
        "deepcoder: left out 2 of 11 training rows (1 not a JSON object, 1 no tests) "
        "and 1 of 4 held-out rows (1 not a JSON object)"
    ]
    write(tmp_path / "test.jsonl", ["{cut\n"])
    with pytest.raises(TaskError, match=r"no usable held-out rows \(1 not a JSON object\): see task\.env\.path"):
        DeepCoder(str(tmp_path))
