"""Cases with several masked places in one file, and rows for files beside a thorn's sources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envs.etk.__main__ import main
from envs.etk.build.compare import ApplicationError
from envs.etk.completion.cases import MARK, Case, Gap, case_row, joined, piece_spans, read_cases
from envs.etk.completion.embedded import flow2d_cases
from envs.etk.completion.prompts import prompt
from envs.etk.completion.task import EtkCompletion
from envs.etk.task import Etk
from rewards.analysis.code_tokens import token_texts
from tests.bench import masked_places
from tests.envs.etk.made_checkouts import thorn

FILE = "zero\none\ntwo\nthree\nfour\nfive\nsix\n"
CASE = Case("c", "a.c", 1, 2, more=((3, 5), (6, 7)))


@pytest.fixture
def gap(tmp_path) -> Gap:
    (tmp_path / "a.c").write_text(FILE)
    return Gap.of(CASE, tmp_path)


def test_a_completion_fills_several_places(gap):
    assert gap.original == f"one\n{MARK}\nthree\nfour\n{MARK}\nsix\n" and CASE.count == 4
    assert gap.filled(gap.original).decode() == FILE
    assert gap.filled("").decode() == "zero\ntwo\nfive\n"
    assert gap.filled(f"1\n{MARK}\n{MARK}\n6\n7").decode() == "zero\n1\ntwo\nfive\n6\n7\n"
    assert gap.filled("1\n").decode() == "zero\n1\ntwo\nfive\n"  # the other places stay empty
    surplus = gap.filled(f"1\n{MARK}\n3\n{MARK}\n6\n{MARK}\n8\n").decode()
    assert surplus == f"zero\n1\ntwo\n3\nfive\n6\n{MARK}\n8\n"  # and does not compile


def test_each_place_has_its_characters_of_a_completion(gap):
    for completion in (gap.original, f"1\n{MARK}\n{MARK}\n6\n7", "1\n", "", f"{MARK}\n\n{MARK}\n{MARK}\n", f"{MARK}"):
        texts = [completion[start:end] for start, end in piece_spans(completion, 3)]
        assert [tuple(t.removesuffix("\n").split("\n")) if t else () for t in texts] == gap.pieces(completion)
    first, second, third = piece_spans(f"1\n{MARK}\n3\r4\n", 3)
    assert (first, second, third) == ((0, 2), (6, 10), (10, 10))
    assert [(case.id, case.places) for case in CASE.alone] == [
        ("c/1", ((1, 2),)), ("c/2", ((3, 5),)), ("c/3", ((6, 7),)),
    ]  # fmt: skip


def test_neighbors_of_a_file_are_joined_with_a_line_between():
    cases = [Case(name, file, start, end) for name, file, start, end in (
        ("e", "g", 0, 2), ("d", "f", 9, 10), ("b", "f", 1, 3), ("c", "f", 3, 4), ("a", "f", 0, 1), ("f", "f", 5, 6),
    )]  # fmt: skip
    made = [(case.id, case.file, case.places) for case in joined([*cases, CASE], 2, lambda first, last: True)]
    assert made == [
        ("c", "a.c", CASE.places),  # which has several already
        ("a+c", "f", ((0, 1), (3, 4))),
        ("b+f", "f", ((1, 3), (5, 6))),
        ("d", "f", ((9, 10),)),
        ("e", "g", ((0, 2),)),
    ]
    assert [case.id for case in joined(cases, 9, lambda first, last: True)] == ["a+c+f+d", "b", "e"]
    near = [case.id for case in joined(cases, 9, lambda first, last: last.end - first.start <= 6)]
    assert near == ["a+c+f", "b", "d", "e"]


def test_messages_are_located_in_the_place_that_they_are_about(gap):
    completion = f"1\n{MARK}\n3\n{MARK}\nlast\n"
    lines = gap.filled(completion).decode().split("\n")
    log = "".join(f"a.c:{lines.index(line) + 1}:1: error: {line}\n" for line in ("1", "two", "3", "last"))
    messages = gap.messages(log, completion)
    located = {message.text: message.offset for message in messages}
    assert located == {"1": 0, "two": None, "3": completion.index("3"), "last": completion.index("last")}
    assert {m.text: m.line for m in messages if m.offset is not None} == {"1": 1, "3": 3, "last": 5}


def test_the_prompt_shows_what_is_between_the_places(gap, tmp_path):
    shown = prompt(gap, 1000).user
    assert (
        "zero\n<place 1: 1 missing line>\ntwo\n<place 2: 2 missing lines>\nfive\n<place 3: 1 missing line>\n" in shown
    )
    assert f"write a line with only `{MARK}`" in shown and "four" not in shown
    single = prompt(Gap.of(Case("c", "a.c", 1, 2), tmp_path), 1000).user
    assert MARK not in single and "before the missing line:" in single


def test_cases_are_read_and_written_with_their_places(tmp_path):
    (tmp_path / "cases.jsonl").write_text(case_row(CASE) + "\n")
    assert read_cases(tmp_path / "cases.jsonl") == [CASE]
    for more in ("[3, 5]", "[[3]]", '[["3", 5]]', "3"):
        row = f'{{"id": "c", "file": "a.c", "start": 1, "end": 2, "more": {more}}}'
        (tmp_path / "cases.jsonl").write_text(row)
        with pytest.raises(ApplicationError, match=r"line 1: (more must be|start and end must be)"):
            read_cases(tmp_path / "cases.jsonl")
    (tmp_path / "a.c").write_text(FILE)
    for places in (((1, 3),), ((2, 4),), ((9, 10),), ((5, 6), (3, 4))):  # overlapping, adjacent, absent, out of order
        with pytest.raises(ApplicationError, match=r"case c: no lines \d+ to \d+ behind line \d+: .* in order"):
            Gap.of(Case("c", "a.c", 1, 2, more=places), tmp_path)


def test_declarations_and_parameter_files_are_rows_if_they_are_wanted(tmp_path, capsys):
    folder = thorn(tmp_path / "Tree" / "Arr" / "Wave")
    texts = {"param.ccl": 'REAL speed "c" # a comment\n{\n} 1.0\n', "interface.ccl": "implements: wave\n"}
    texts |= {"par/pulse.par": 'ActiveThorns = "Wave" # all\n! a note\nwave::speed = 2\n', "test/a.par": " \n"}
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)

    def rows(*options: str) -> dict[str, dict]:
        out = tmp_path / "rows.jsonl"
        assert main(["build", str(tmp_path / "Tree"), "-o", str(out), *options]) == 0
        capsys.readouterr()
        return {row["src_filename"]: row for row in map(json.loads, out.read_text().splitlines())}

    plain, more = rows(), rows("--beside", "ccl,par")
    assert more.keys() - plain.keys() >= {"param.ccl", "interface.ccl", "par/pulse.par"}
    assert "test/a.par" not in more and all(more[name] == row for name, row in plain.items())
    assert more["param.ccl"]["param"] == "" and more["param.ccl"]["interface"] == texts["interface.ccl"]
    assert more["par/pulse.par"]["param"] == texts["param.ccl"] and more["par/pulse.par"]["language"] == "par"
    wanted = more.keys() - plain.keys()  # whatever languages are asked of `src`
    assert set(rows("--beside", "ccl,par", "--languages", "fortran")) == wanted
    assert set(rows("--beside", "par", "--languages", "fortran")) == {"par/pulse.par"}
    assert main(["build", str(tmp_path / "Tree"), "-o", str(tmp_path / "x.jsonl"), "--beside", "txt"]) == 1
    assert "--beside txt: must be ccl, par or ccl,par" in capsys.readouterr().err

    rows("--beside", "ccl,par")
    task = Etk("path", str(tmp_path / "rows.jsonl"), split="thorn", test_share=0)
    problems = {Path(problem.data["file"]).name: problem for problem in task.problems("train")}
    assert problems["param.ccl"].language == "ccl" and "REAL speed" not in problems["param.ccl"].question
    assert "Create the Cactus declaration (CCL) file `param.ccl`" in problems["param.ccl"].question
    assert token_texts(texts["par/pulse.par"], "par") == (
        "ActiveThorns", "=", '"Wave"', "wave", "::", "speed", "=", "2"
    )  # fmt: skip
    assert "comment" not in token_texts(texts["param.ccl"], "ccl")


def test_the_embedded_simulation_with_other_places(tmp_path):
    """`cases` takes the place of its own; the ablation of lines asks for five to eight places of one line."""
    masked_places.main([str(tmp_path / "cases.jsonl")])
    task = EtkCompletion(cases=str(tmp_path / "cases.jsonl"), train_size=5)
    problems = [*task.problems("train"), *task.problems("test")]
    assert len(problems) == 6 and len(task.problems("train")) == 5
    own = {(case.file, place) for case in flow2d_cases() for place in case.places}
    for problem in problems:
        case = problem.data["case"]
        assert 5 <= len(case.places) <= 8 and case.count == len(case.places)
        assert {(case.file, place) for place in case.places} < own
        assert problem.question.count("missing line>") == len(case.places)
    asked = [(p.data["file"], place) for p in problems for place in p.data["case"].places]
    assert len(set(asked)) == len(asked)
