"""The task on rows from files and on thorns that nrpy writes."""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from envs.etk.checkout import Checkouts
from envs.etk.rows import nrpy_thorns
from envs.etk.task import Etk, outline
from envs.task import TaskError
from rewards.analysis.code_tokens import COMMENTS
from rewards.similarity import code_bleu

ROWS = Path(__file__).parents[4] / "shared" / "data" / "etk_nrpy" / "thorns.jsonl.gz"
NRPY = "2.2026.10"
"""Wrote ROWS."""


@pytest.fixture
def nrpy() -> str:
    try:
        return importlib.metadata.version("nrpy")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package nrpy is not here (pip install nrpy)")


def row(thorn: str, name: str, code: str | None = None, **changes) -> dict:
    texts = {"context": "b.h:\n```\nint b;\n\n```\n\n", "interface": "i", "schedule": "", "param": "p"}
    code = f"int {name[0]}; // {thorn}\n" if code is None else code
    row = {"thorn_name": thorn, "src_filename": name, "src_code": code, **texts, "configuration": None, "extra": 1}
    return {k: v for k, v in (row | changes).items() if v != "absent"}


def write(path: Path, rows) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def path(tmp_path) -> str:
    """Five arrangements of two thorns and six files each."""
    thorns = [f"{arrangement}/{thorn}" for arrangement in "ABCDE" for thorn in ("WaveC", "WaveF77")]
    return write(tmp_path / "rows.jsonl", [row(t, n, f"{t} {n}") for t in thorns for n in ("a.c", "b.F", "sub/c.cc")])


def test_problems_carry_their_reference_and_language(path):
    task = Etk(source="path", path=path, test_share=0.0, context_order="useful", own_language=True)
    problem = next(p for p in task.problems("train") if p.id == "etk/A/WaveC/b.F")
    assert problem.reference == "A/WaveC b.F" and problem.language == "fortran" and task.problems("test") == []
    _, user, assistant = task.messages(problem)
    assert user["content"] == problem.question and "b.h:\n```c\nint b;\n```" in problem.question
    assert assistant["content"].endswith("b.F:\n```fortran\n")
    assert {p.language for p in task.problems("train")} == {"c", "c++", "fortran"} <= set(COMMENTS)
    assert len({p.id for p in task.problems("train")}) == 30


@pytest.mark.parametrize("split", ["arrangement", "thorn"])
def test_nothing_of_a_family_is_on_two_sides(path, split):
    seeds = [
        Etk(source="path", path=path, split=split, test_share=0.3, validation_share=0.2, split_seed=s)
        for s in (0, 0, 1)
    ]
    ids = [{side: [p.id for p in task.problems(side)] for side in ("train", "validation", "test")} for task in seeds]
    assert ids[0] == ids[1] != ids[2]
    for sides in ids:
        assert [len(sides[side]) for side in ("train", "validation", "test")] == [18, 6, 6]
        owners = [
            {name.split("/")[1] for name in names} for names in sides.values()
        ]  # WaveC and WaveF77 are one family
        assert sum(map(len, owners)) == 5 == len(set.union(*owners))


def test_a_large_arrangement_is_trained_on_and_a_small_share_still_holds_one_out(tmp_path):
    large = [row("Large/T", f"{n}.c") for n in range(50)] + [row(f"{a}/T", "a.c") for a in "AB"]
    task = Etk(source="path", path=write(tmp_path / "rows.jsonl", large), test_share=0.001)
    assert len(task.problems("test")) == 1 and len(task.problems("train")) == 51


def test_answers_are_complete_at_the_closing_line(path):
    task = Etk(source="path", path=path)
    assert [task.complete(a) for a in ("int a;\n", "int a; `", "```c\nint a;\n", "int a;\n```")] == [0, 0, 0, 1]
    assert all(c in task.closing for c in "`")
    results = task.extract("")
    assert (results.start, results.end) == (0, 0)


@pytest.mark.parametrize("order", ["useful", "row"])
def test_a_problem_says_which_files_its_prompt_shows(tmp_path, order):
    context = "long.c:\n```\n" + "int long_name;\n" * 50 + "\n```\n\nb.h:\n```\nint b;\n\n```\n\n"
    rows = [row("A/T", "a.c", context=context), row("B/T", "a.c", context="")]
    task = Etk(source="path", path=write(tmp_path / "r.jsonl", rows), context_order=order, context_limit=300)
    one, other = sorted((p for side in ("train", "test") for p in task.problems(side)), key=lambda p: p.id)
    visible = one.data["visible"]
    assert all(text.rstrip("\n") in one.question for text in visible) and other.data["visible"] == ()
    assert [len(text) < 300 for text in visible] == ([True, True] if order == "useful" else [True])


def test_the_literal_style_is_text(path):
    task = Etk(source="path", path=path, style="literal", context_limit=9)
    problem = task.problems("train")[0]
    assert task.messages(problem) == problem.question and "```\nb.h:\n```\n\n```" in problem.question


def test_rows_without_code_and_filtered_ones_are_left_out_and_reported(tmp_path, caplog):
    rows = [row("A/T", "a.c"), row("B/T", "a.c", "  \n"), row("C/T", "make.code.defn", "SRCS = a.c\n"), row("", "a.c")]
    rows += [row("D/T", "a.c", "int a; // A/T\n"), row("D/T", "a.c", "int other;\n"), row("D/T", "x.pl", "perl")]
    with caplog.at_level(logging.INFO, "codegrain"):
        task = Etk(source="path", path=write(tmp_path / "r.jsonl", rows), languages=["c", "c++"], drop_duplicates=True)
    ids = {p.id for side in ("train", "test") for p in task.problems(side)}
    assert ids == {"etk/A/T/a.c", "etk/D/T/a.c", "etk/D/T/x.pl"}
    for reason in ("1 no code", "1 no name", "1 of another language", "1 duplicate of another thorn's"):
        assert reason in caplog.text


def test_one_name_twice_gives_two_problems(tmp_path):
    rows = [row("A/T", "a.c", "int x;"), row("A/T", "a.c", "int y;")]
    task = Etk(source="path", path=write(tmp_path / "r.jsonl", rows), test_share=0)
    assert {p.id: p.reference for p in task.problems("train")} == {"etk/A/T/a.c": "int x;", "etk/A/T/a.c#2": "int y;"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"source": "web"}, "task.env.source=web: one of nrpy, hub, path"),
        ({"source": "path"}, "set both or neither"),
        ({"source": "hub", "path": "rows.jsonl"}, "set both or neither"),
        ({"source": "path", "path": "nowhere"}, "no such file or folder"),
        ({"split": "row"}, "task.env.split=row"),
        ({"test_share": 0.6, "validation_share": 0.4}, "below 1 together"),
        ({"languages": ["pascal"]}, "unknown language pascal"),
        ({"style": "poem"}, "task.env.style=poem"),
        ({"max_src_chars": 1}, "no rows left"),
        ({"split": "arrangement"}, "all rows are of the arrangement A"),
    ],
)
def test_what_makes_no_task_is_said_in_one_line(tmp_path, settings, message):
    given = {"source": "path", "path": write(tmp_path / "rows.jsonl", [row("A/T", "a.c"), row("A/U", "a.c")])}
    if "source" in settings:
        given = {}
    with pytest.raises(TaskError) as caught:
        Etk(**(given | settings))
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_rows_of_another_dataset_are_refused(tmp_path):
    with pytest.raises(TaskError, match="need the column schedule"):
        Etk(source="path", path=write(tmp_path / "rows.jsonl", [row("A/T", "a.c", schedule="absent")]))


def test_the_hub_is_asked_for_its_rows(monkeypatch):
    import datasets

    rows = datasets.Dataset.from_list([row(f"{a}/T", "a.c") for a in "AB"])
    asked = []
    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: asked.append((*a, k["split"])) or rows)
    task = Etk(source="hub", test_share=0.5)
    assert asked == [("xinshuo/ET_code_with_context", None, "train")]
    assert len(task.problems("train")) == len(task.problems("test")) == 1


def test_without_nrpy_the_message_says_what_to_install(monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    with pytest.raises(TaskError, match=re.escape("codegrain[etk]")):
        Etk()


def test_nrpys_thorns_are_made_once_by_whoever_is_first(nrpy, tmp_path, monkeypatch):
    monkeypatch.setenv("CODEGRAIN_CACHE", str(tmp_path))
    with ThreadPoolExecutor(2) as pool:
        folders = set(pool.map(lambda _: nrpy_thorns(), range(2)))
    assert folders == {tmp_path / f"nrpy-{nrpy}" / "NRPy"} and len(list(tmp_path.glob("nrpy-*/*"))) == 1
    task = Etk()
    problems = [p for side in ("train", "test") for p in task.problems(side)]
    assert (len(task.problems("train")), len(task.problems("test"))) == (16, 4)  # two of 22 are copies of held-out ones
    held_out = {outline(p.reference) for p in task.problems("test")}
    assert held_out.isdisjoint(outline(p.reference) for p in task.problems("train"))
    assert all(code_bleu(p.reference, p.reference, language=p.language) == 1.0 for p in problems)
    thorns = {side: {p.id.split("/")[2].removesuffix("X") for p in task.problems(side)} for side in ("train", "test")}
    assert not thorns["train"] & thorns["test"]


def test_an_outline_is_what_copies_with_other_names_share():
    code = "void Wave_update(CCTK_ARGUMENTS) {\n" + "  u[i] = 2.0 * v[i] - w[i];\n" * 4 + "}\n"
    assert outline(code) == outline(code.replace("Wave", "Other").replace("u[i]", "phi[ i ]"))
    assert outline(code) != outline(code.replace("2.0", "3.0"))
    assert outline("SRCS = a.c") != outline("SRCS = b.c")  # too short to be a copy


def test_a_failing_nrpy_leaves_no_half_of_its_thorns(nrpy, tmp_path, monkeypatch):
    monkeypatch.setenv("CODEGRAIN_CACHE", str(tmp_path))
    monkeypatch.setattr("envs.etk.rows.EXAMPLES", ("carpetx_wavetoy_thorns", "no_such_example"))
    with pytest.raises(TaskError, match=r"no_such_example failed: .*No module named"):
        nrpy_thorns()
    assert not list(tmp_path.glob("nrpy-*/*"))


def test_rows_of_nrpys_thorns_are_the_known_ones(nrpy):
    if not ROWS.exists():
        pytest.skip("../shared/data/etk_nrpy is not here")
    if nrpy != NRPY:
        pytest.skip(f"the rows are those of nrpy {NRPY}, here is {nrpy}")
    checkouts = Checkouts([nrpy_thorns()], url="https://github.com/nrpy/nrpy")
    ours = {(r["thorn_name"], r["src_filename"]): r for thorn in checkouts.thorns for r in checkouts.rows(thorn)}
    with gzip.open(ROWS, "rt", encoding="utf-8") as lines:
        expected = {(r["thorn_name"], r["src_filename"]): r for r in map(json.loads, lines)}
    assert ours.keys() == expected.keys() and len(ours) == 22
    for name, want in expected.items():
        assert {**ours[name], "context": ours[name]["context"][:12_000]} == {**want, "language": ours[name]["language"]}
