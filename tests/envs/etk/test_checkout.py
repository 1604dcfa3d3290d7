"""Rows from made-up checkouts with the odd things of real ones; the numbers are the specification's rules."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envs.etk.checkout import GENERATED, Checkouts, Filters, decoded, repository_url
from envs.etk.context import joined, parted
from envs.etk.languages import LEFTOVERS, SOURCES, language_of
from envs.etk.thorns import find_thorns, listed
from envs.task import TaskError
from tests.envs.etk.made_checkouts import THORNLIST, names, thorn

PARTIAL = "folder with not all of interface.ccl, schedule.ccl, param.ccl"


def build(*checkouts: Path, **settings):
    checkouts_ = Checkouts(list(checkouts), **settings)
    return checkouts_, [row for thorn in checkouts_.thorns for row in checkouts_.rows(thorn)]


def test_r1_r2_r3_a_row_has_the_names_and_texts_of_its_thorn(tmp_path):
    thorn(tmp_path / "tree" / "Base" / "Boundary", {"a.c": "x", "sub/a.c": "y"}, param="", configuration="REQUIRES X\n")
    thorn(tmp_path / "tree" / "Lonely")
    _, rows = build(tmp_path / "tree")
    assert names(rows) == ["Base/Boundary/a.c", "Base/Boundary/sub/a.c", "tree/Lonely/a.c"]
    assert rows[0]["interface"] == "# interface of Boundary\n" and rows[0]["param"] == ""
    assert rows[0]["configuration"] == "REQUIRES X\n" and rows[2]["configuration"] == ""
    assert list(rows[0])[:10] == [
        "thorn_name", "url", "src_filename", "interface", "schedule", "param", "configuration", "src_code",
        "context_filenames", "context",
    ]  # fmt: skip
    assert names(build(tmp_path / "tree", arrangement="Mine")[1])[2] == "Mine/Lonely/a.c"
    assert names(build(tmp_path / "tree" / "Base" / "Boundary")[1])[0] == "Base/Boundary/a.c"


def test_r4_r5_part_of_a_thorn_is_none_and_without_src_there_are_no_rows(tmp_path):
    thorn(tmp_path / "A" / "Good")
    thorn(tmp_path / "A" / "Core", {})
    (tmp_path / "A" / "slides" / "src").mkdir(parents=True)
    (tmp_path / "A" / "slides" / "schedule.ccl").write_text("x")
    (tmp_path / "A" / "slides" / "src" / "a.c").write_text("int x;")
    thorn(tmp_path / "A" / "slides" / "Deep")  # a stray file above does not hide a thorn
    checkouts, rows = build(tmp_path)
    assert names(rows) == ["A/Good/a.c", "slides/Deep/a.c"]
    assert checkouts.skipped == {PARTIAL: 1, "thorn without src": 1}


def test_r6_names_come_from_arrangements_and_no_real_thorn_comes_twice(linked):
    want = ["Again/Boundary/a.c", "CactusBase/IOUtil/a.c", "Carpet/Carpet/a.c"]
    for given in (linked, linked.parent, linked / "arrangements"):
        checkouts, rows = build(given)
        assert names(rows) == want
        assert checkouts.skipped == {"thorn that was found under another name": 1}
    both, rows = build(linked, linked)
    assert names(rows) == want and both.skipped["thorn that was found under another name"] == 5


def test_r6_a_walk_follows_no_links_to_folders(linked):
    (linked / "repos" / "again").symlink_to(linked / "repos" / "carpet")
    source = linked / "repos" / "carpet" / "Carpet" / "src"
    (source / "elsewhere").symlink_to(linked / "repos" / "cactusbase" / "Boundary" / "src")
    checkouts, rows = build(linked / "repos")
    assert names(rows) == ["cactusbase/Boundary/a.c", "cactusbase/IOUtil/a.c", "carpet/Carpet/a.c"]
    assert checkouts.skipped == {"link to a folder": 1}


def test_r6_a_linked_file_is_the_row_of_the_file_itself(tmp_path):
    first = thorn(tmp_path / "A" / "First", {"own.c": "int own;\n"})
    second = thorn(tmp_path / "A" / "Second", {"shared.c": "int shared;\n"})
    (first / "src" / "link.c").symlink_to(second / "src" / "shared.c")
    (tmp_path / "outside.c").write_text("int outside;\n")
    (second / "src" / "outside.c").symlink_to(tmp_path / "outside.c")
    checkouts, rows = build(tmp_path / "A")
    assert names(rows) == ["A/First/own.c", "A/Second/outside.c", "A/Second/shared.c"]
    assert checkouts.skipped == {"the same file as another row's": 1}


def test_r7_a_thorn_list_counts_below_checkout_alone_and_keeps_its_order(linked):
    assert listed(THORNLIST) == ["Carpet/Carpet", "CactusBase/Boundary", "CactusBase/Absent"]
    assert listed("A/B\n\n#A/C\nA/D # x\n") == ["A/B", "A/D"]
    checkouts, rows = build(linked, names=listed(THORNLIST))
    assert names(rows) == ["Carpet/Carpet/a.c", "CactusBase/Boundary/a.c"]
    assert checkouts.absent == ["CactusBase/Absent"]
    with pytest.raises(TaskError, match="2 of the list are absent"):
        build(linked, names=["A/B", "../repos/carpet"])


def test_r7_a_list_looks_into_every_checkout_and_names_what_is_no_thorn(tmp_path, linked):
    thorn(tmp_path / "other" / "Mine" / "New")
    (tmp_path / "other" / "Mine" / "empty").mkdir()
    results = find_thorns([linked, tmp_path / "other"], ["Mine/New", "Mine/empty", "CactusBase/IOUtil"])
    assert [t.name for t in results.found] == ["Mine/New", "CactusBase/IOUtil"] and results.skipped == {PARTIAL: 1}


def test_r7_the_checkout_that_has_the_whole_thorn_gives_it(tmp_path):
    thorn(tmp_path / "A" / "P" / "Part")
    (tmp_path / "A" / "P" / "Part" / "param.ccl").unlink()
    whole = thorn(tmp_path / "B" / "P" / "Part")
    assert [t.folder for t in find_thorns([tmp_path / "A", tmp_path / "B"], ["P/Part"]).found] == [whole]


def test_r6_around_a_cactus_folder_nothing_is_lost(tmp_path):
    """Names are those of the arrangements, also where the repository lies beside."""
    thorn(tmp_path / "CactusBase" / "Boundary")
    real = thorn(tmp_path / "aaa" / "Linked")
    (tmp_path / "flesh" / "arrangements" / "README").mkdir(parents=True)
    assert [t.name for t in find_thorns([tmp_path]).found] == ["CactusBase/Boundary", "aaa/Linked"]
    thorn(tmp_path / "flesh" / "arrangements" / "X" / "Y")
    (tmp_path / "flesh" / "arrangements" / "X" / "Linked").symlink_to(real)
    assert [t.name for t in find_thorns([tmp_path]).found] == ["CactusBase/Boundary", "X/Linked", "X/Y"]


def test_r8_order_does_not_depend_on_the_file_system(tmp_path):
    for name in ("B/T", "A/Z", "A/C"):
        thorn(tmp_path / name, dict.fromkeys(["z.c", "b/x.c", "a.c", "B.c"], "int x;"))
    assert [name.removeprefix("A/C/") for name in names(build(tmp_path)[1])[:4]] == ["B.c", "a.c", "b/x.c", "z.c"]
    assert list(dict.fromkeys(row["thorn_name"] for row in build(tmp_path)[1])) == ["A/C", "A/Z", "B/T"]


def test_r9_leftovers_binaries_blanks_and_broken_links_are_no_rows(tmp_path):
    folder = thorn(
        tmp_path / "A" / "T",
        {"good.c": "int x;", "a.c~": "x", "#a.c#": "x", "a.c.swp": "x", "a.c.bak": "x", "a.c_old": "x", ".a.c": "x"}
        | {"bin.c": b"int x;\0", "blank.c": " \n\t\n", "empty.h": "", ".git/a.c": "x", "CVS/a.c": "x"},
    )
    (folder / "src" / "gone.c").symlink_to(folder / "nothing")
    os.mkfifo(folder / "src" / "pipe.c")  # reading one would wait for ever
    checkouts, rows = build(tmp_path)
    assert names(rows) == ["A/T/good.c"]
    assert checkouts.skipped == {
        "editor or backup file": 5,
        "hidden or version control's": 3,
        "binary": 1,
        "blank": 2,
        "dangling link": 1,
        "no plain file": 1,
    }
    assert not any(pattern.endswith(("c", "h", "90")) for pattern in LEFTOVERS)


def test_r10_sources_are_chosen_by_name_and_case(tmp_path):
    want = {"x.c": "c", "x.C": "c++", "x.cu": "c++", "x.h": "c", "x.H": "c++", "x.F": "fortran", "x.f90": "fortran"}
    want |= {"x.inc": "fortran", "make.code.defn": "make", "sub/make.configuration.deps": "make", "a.b.cxx": "c++"}
    others = ["x.CC", "x.F95", "x.cl", "README", "make.code", "x.pl", "Makefile", "x.defn"]
    thorn(tmp_path / "A" / "T", dict.fromkeys([*want, *others], "text"))
    checkouts, rows = build(tmp_path)
    assert {row["src_filename"]: row["language"] for row in rows} == want
    assert checkouts.skipped == {"no source by its name": len(others)}
    assert "fixed" in language_of("x.F77").spoken and "preprocessor" in language_of("x.F77").spoken
    assert "free" in language_of("x.f90").spoken and "preprocessor" not in language_of("x.f90").spoken
    mine = {**SOURCES, ".cl": SOURCES[".c"]}
    assert len(build(tmp_path, sources=mine)[1]) == len(want) + 1


def test_r11_no_byte_is_lost(tmp_path):
    texts = {"crlf.c": b"int a;\r\nint b;\r\n", "latin.F": b"C G\xf6del\n", "utf.cc": "// Gödel\f\u2028\n".encode()}
    thorn(tmp_path / "A" / "T", texts)
    _, rows = build(tmp_path)
    assert {row["src_filename"]: row["src_code"] for row in rows} == {
        "crlf.c": "int a;\r\nint b;\r\n",
        "latin.F": "C Gödel\n",
        "utf.cc": "// Gödel\f\u2028\n",
    }
    assert decoded(b"\xef\xbb\xbfx") == "\ufeffx"


def test_r12_the_context_is_the_thorns_other_files_without_twins(tmp_path):
    thorn(tmp_path / "A" / "T", {"a.c": "same\n", "b.c": "other", "c.c": "same\n"})
    _, rows = build(tmp_path)
    assert [row["context"] for row in rows] == [
        "b.c:\n```\nother\n```\n\n",
        "a.c:\n```\nsame\n\n```\n\nc.c:\n```\nsame\n\n```\n\n",
        "b.c:\n```\nother\n```\n\n",
    ]
    assert [row["context_filenames"] for row in rows] == ["b.c\n", "a.c\nc.c\n", "b.c\n"]
    thorn(tmp_path / "B" / "Single")
    assert build(tmp_path / "B")[1][0]["context"] == ""


@pytest.mark.parametrize(
    "files",
    [
        [],
        [("a.c", "int a;\n"), ("sub/b.h", ""), ("c.F", "no newline")],
        [("a.c", "/*\n```\nnot a block\n*/\n"), ("b.c", "\n\n"), ("c.c", "x:\n"), ("d.c", "```\n")],
    ],
)
def test_a_context_is_taken_apart_again(files):
    assert parted(joined(files)) == files


def test_a_cut_context_keeps_the_beginning_of_its_last_file():
    whole = joined([("a.c", "int a;\n"), ("b.c", "int b;\nint c;\n")])
    for length in range(len("a.c:\n```\n"), len(whole) + 1):
        files = parted(whole[:length])
        assert files[0][0] == "a.c" and "int a;\n".startswith(files[0][1])
        if len(files) > 1:
            assert files[1][0] == "b.c" and "int b;\nint c;\n".startswith(files[1][1])
    assert parted(whole) == [("a.c", "int a;\n"), ("b.c", "int b;\nint c;\n")]
    assert parted("of another form") == [("", "of another form")] and parted(" \n") == []


def test_r13_r14_filters_are_off_by_default_and_say_what_they_dropped(tmp_path):
    thorn(tmp_path / "A" / "First", {"long.c": "x" * 50, "make.code.defn": "SRCS = long.c\n", "twin.c": "int twin;\n"})
    thorn(
        tmp_path / "A" / "Second", {"twin.c": "int twin;\n", "same.c": "int twin;\n", "g.c": "/* Generated by Kranc */"}
    )
    assert len(build(tmp_path)[1]) == 6

    def kept(**settings):
        checkouts, rows = build(tmp_path, filters=Filters(**settings))
        assert checkouts.filters.on == settings and sum(checkouts.skipped.values()) == 6 - len(rows)
        return [name.removeprefix("A/") for name in names(rows)]

    assert "First/long.c" not in kept(max_src_chars=49) and "First/long.c" in kept(max_src_chars=50)
    assert kept(min_src_chars=24) == ["First/long.c", "Second/g.c"]
    assert kept(languages=["make"]) == ["First/make.code.defn"]
    assert "Second/g.c" not in kept(drop_generated=True)
    assert kept(drop_duplicates=True)[-1] == "Second/g.c" and len(kept(drop_duplicates=True)) == 4
    with pytest.raises(TaskError, match="unknown language rust"):
        Filters(languages=["c", "rust"])


@pytest.mark.parametrize(
    ("head", "generated"),
    [
        ("/*  File produced by Kranc */", True),
        ("#ifndef KRANC_DIFF_FUNCTIONS\n#  define PDstandardNth1(u) ((-KRANC_GFOFFSET3D(u,-1,0,0))*p1o2dx)\n", True),
        ("#undef KRANC_DIFF_FUNCTIONS\n#if ! VECTORISE_INLINE\n#  define KRANC_DIFF_FUNCTIONS\n", False),
        ("// Automatically generated by foo.py -- do not edit", True),
        ("# auto-generated", True),
        ("/* A lexical scanner generated by flex */", True),
        ("! This file was generated automatically by Foo", True),
        ("/* This is a generated file */", True),
        ("// Code generated by protoc.", True),
        ("# Generated by the script create.py", True),
        ("/* NRPy+-generated */", True),
        ("/* DO NOT EDIT! */", True),
        ("/* Do not edit this file by hand. */", True),
        ("# don't edit", True),
        ("/* Please do not edit the following table without asking */", False),
        ("/* we don't edit here */", False),
        ("/* The code written with Mathematica was checked by hand */", False),
        ("/* gravitational waves generated by a binary */", False),
        ("/* The file is written by the IO thorn */", False),
        ("/*@@ @file Boundary.c @date 2002 @author X @@*/", False),
    ],
)
def test_r14_generators_are_known_by_their_marks(head, generated):
    assert bool(GENERATED.search(head)) == generated


def test_the_url_is_the_repositorys_without_a_password(tmp_path):
    thorn(tmp_path / "repo" / "T")
    config = tmp_path / "repo" / ".git" / "config"
    config.parent.mkdir()
    config.write_text('[core]\n\tbare = false\n[remote "origin"]\n\turl = https://me:secret@example.org/x.git\n')
    assert build(tmp_path / "repo")[1][0]["url"] == "https://example.org/x.git"
    thorn(tmp_path / "repo" / "module" / "U")
    (tmp_path / "repo" / "module" / ".git").write_text("gitdir: ../.git/modules/module\n")
    nested = tmp_path / "repo" / ".git" / "modules" / "module" / "config"
    nested.parent.mkdir(parents=True)
    nested.write_text('[remote "origin"]\n\turl = git@example.org:module.git\n')
    assert repository_url(str(tmp_path / "repo" / "module" / "U")) == "git@example.org:module.git"
    assert repository_url(str(tmp_path)) == ""


def test_sigterm_leaves_no_temporary_file(tmp_path):
    """26.5: only Ctrl-C removed it."""
    for number in range(300):
        thorn = tmp_path / "checkout" / "Many" / f"T{number}"
        (thorn / "src").mkdir(parents=True)
        for name in ("interface", "schedule", "param"):
            (thorn / f"{name}.ccl").write_text(f"# {name}\n")
        for file in range(20):
            (thorn / "src" / f"f{file}.c").write_text(f"int f{file}(void) {{ return {number}; }}\n" * 200)
    out = tmp_path / "rows.jsonl.gz"
    command = [sys.executable, "-m", "envs.etk", "build", str(tmp_path / "checkout"), "-o", str(out)]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[3], stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list(tmp_path.glob(".rows.jsonl.gz.*")):
        time.sleep(0.01)
    process.terminate()
    message = process.communicate()[1]
    assert (process.returncode, [path.name for path in tmp_path.iterdir()]) == (130, ["checkout"]), message
