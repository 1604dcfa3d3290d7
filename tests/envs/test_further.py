"""More problems to train on beside those of basics, and problems that are kept for validation."""

from __future__ import annotations

import gzip
import json

import pytest

from envs.basics import PROBLEMS, Basics, families
from envs.task import TaskError


def test_they_are_trained_on_and_nothing_else_changes(tmp_path):
    held_out, other = Basics().problems("test")[:2]
    rows = [
        {"name": "twice", "solution": "def twice(x):\n    return 2 * x + x % 7 - x // 3\n"},
        {"name": held_out.entry_point, "solution": held_out.reference},
        {"name": other.entry_point, "solution": f"def first(x):\n    return x\n\n{other.reference}"},
    ]
    fields = {"family": "a", "signature": "def f(x):", "description": "Do.", "hidden": []}
    lines = [json.dumps({**fields, **row, "examples": [{"args": [1], "expected": 3}]}) for row in rows]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    alone, more = Basics(), Basics(further=str(tmp_path / "rows.jsonl"))
    assert [p.id for p in more.problems("train")] == [p.id for p in alone.problems("train")] + ["basics/further/twice"]
    assert [p.id for p in more.problems("test")] == [p.id for p in alone.problems("test")]
    assert more.problems("train")[-1].cases[0].expected == 3
    for wrong, reason in (
        ({"examples": []}, r"wrong\.jsonl:1: twice has no tests"),
        ({"solution": "def twice("}, "no Python"),
        ({"solution": "twice = lambda x: 2 * x"}, "has no `def twice`"),
        ({"description": None}, "description is no text"),
        ({"again": True}, "a second problem has this id"),
    ):
        again = [json.dumps({**json.loads(lines[0]), **wrong})] * (2 if "again" in wrong else 1)
        (tmp_path / "wrong.jsonl").write_text("\n".join(again))
        with pytest.raises(TaskError, match=reason):
            Basics(further=str(tmp_path / "wrong.jsonl"))
    with pytest.raises(TaskError, match=r"no such file or folder: .*absent \(task\.env\.further\)"):
        Basics(further=str(tmp_path / "absent"))
    for name, content, reason in (
        ("empty.jsonl", b"", "is empty"),
        ("latin.jsonl", lines[0].replace("Do.", "Tu é.").encode("latin-1"), "cannot be read: .*is not UTF-8"),
        ("cut.jsonl.gz", gzip.compress(lines[0].encode())[:40], "cannot be read: .*damaged"),
    ):
        (tmp_path / name).write_bytes(content)
        for key in ("further", "path"):
            with pytest.raises(TaskError, match=rf"task\.env\.{key}={tmp_path / name}: (it )?{reason}"):
                Basics(**{key: str(tmp_path / name)})


@pytest.mark.parametrize("setting", [{"generated": -3}, {"held_out_families": -5}, {"train_size": -1}])
def test_numbers_below_0_are_refused(setting):
    (name,) = setting
    with pytest.raises(TaskError, match=rf"task\.env\.{name}=-.: it must be 0 or more"):
        Basics(**setting)


def test_a_share_of_the_families_for_validation(tmp_path):
    apart = Basics(generated=2, validation=0.2)
    whole = Basics(generated=2)
    train, validation, test = (apart.problems(split) for split in ("train", "validation", "test"))
    assert [p.id for p in test] == [p.id for p in whole.problems("test")]
    assert {p.id for p in train} < {p.id for p in whole.problems("train")}
    assert {p.id for p in validation} < {p.id for p in whole.problems("train")}
    assert not {p.family for p in train} & {p.family for p in validation} and len(train) > 600 and len(validation) > 80
    new = [[p for p in side if p.id.startswith("basics/new/")] for side in (train, validation)]
    kept, trained = ({families.shape_of(p.reference) for p in side} for side in (validation, new[0]))
    assert not kept & trained
    assert not {families.shape_of(p.reference) for p in new[1]} & {families.shape_of(p.reference) for p in train}
    assert whole.problems("validation") == []
    for share in (1.0, -0.1, 0.0001):
        with pytest.raises(TaskError, match=rf"task\.env\.validation={share}"):
            Basics(validation=share)
    row = {"name": "f", "signature": "def f(x):", "description": "Do.", "solution": "def f(x):\n    return x\n"}
    cases = {"examples": [{"args": [1], "expected": 1}], "hidden": []}
    rows = [{**row, **cases, "id": f"mine/{n}", "family": "one" if n else "other"} for n in range(11)]
    (tmp_path / "one.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    with pytest.raises(TaskError, match="too few families"):
        Basics(path=str(tmp_path / "one.jsonl"), train_size=10, validation=0.5)


def test_generated_problems_beside_ones_own_are_refused(tmp_path):
    with pytest.raises(TaskError, match=r"task\.env\.generated=3 with task\.env\.path="):
        Basics(path=str(PROBLEMS), generated=3)


def test_practice_beside_ones_own_problems_is_refused(tmp_path):
    with pytest.raises(TaskError, match=r"task\.env\.practice=true with task\.env\.path="):
        Basics(path=str(tmp_path), practice=True)
