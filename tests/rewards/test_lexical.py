"""The lexical channel: real files and every beginning of them pass, planted errors are found at their character."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
from pathlib import Path

import pytest

from envs.etk.completion.embedded import FLOW2D
from envs.etk.completion.task import EtkCompletion
from envs.etk.languages import language_of
from envs.task import Problem
from rewards.attribution import TokenBytes, attribute, locate
from rewards.brackets import judge_c, judge_ccl
from rewards.channel import Completion
from rewards.fortran import judge_fortran
from rewards.lexical import Lexical, judge, main

ROWS = Path(__file__).parents[3] / "shared" / "data" / "etk_nrpy" / "thorns.jsonl.gz"
CONDITIONAL = """#ifdef A
int f(int x) {
#else
long f(long x) { if (x) {
#endif
  return x; }
"""
GUARDED = """#ifdef __cplusplus
extern "C" {
#else
typedef int flag;
#endif
int f(void);
#ifdef __cplusplus
}
#endif
"""
GOOD = [
    "",
    "int f() { return 'x' + \"(\"[0]; } // don't (\n",
    "#define OPEN {\nint f() OPEN return 0; }\n",
    "#define P(x) \\\n  f(x, \\  \n    (x)\nint a[] = {1};\n",
    "#if 0\n it's ) not read \"\n#elif 1\nint a;\n#else\n )\n#endif\n",
    "#if 1\nint a;\n#else\n ) don't\n#endif\n",
    "#if 0\n#if X\n }\n#endif\n }\n#endif\n",
    "#error don't\n#include <it's.h>\n# define S \"/*\"\nint a;\n",
    'auto s = R"x( ) " )" )x"; int n = 1\'000\'000; char c = \'\\\'\';\n',
    "char *s = \"a\\\nb\"; // joined \\\n still a comment )\n",
    "/* ) ' \" */ int a; /*/ ( */\r\n",
    "#ifdef A\n if (x) {\n#endif\n y();\n#ifdef A\n }\n#endif\n",
    "#\n%:\nint a;\n",
    "int f() {\n#ifdef A\n return 1; }\n#endif\n#ifndef A\n return 2; }\n#endif\nint b;\n",
    "int a = f(\n#if A > 1\n g(\n#endif\n x\n#if A > 1\n )\n#endif\n);\n",
    "#ifdef A\n{\n#endif\n#undef A\n#ifndef A\n}\n#endif\n",
    "#ifdef A\n#else\n{\n#endif\n#ifndef A\n}\n#endif\n",
    "#if !0\nint a = {\n#endif\n#if !defined(A)\n1}\n#else\n}\n#endif\n;\n",
    "#if (A && B) || C\n{\n#endif\n#if A && (B || C)\n}\n#else\n#endif\n",
    "#if !defined(A)\n{\n#endif\n#ifndef A\n}\n#endif\n#if defined A\n{\n#endif\n#ifdef A\n}\n#endif\n",
    "#if A == 'a'\n{\n#endif\n#if A == 'b'\n#else\n}\n#endif\n",
    "#ifdef A\n#ifndef A\n)\n#endif\n#endif\n",
    "#define B {\n#undef B\nint B;\n",
    CONDITIONAL,
    GUARDED,
]  # fmt: skip
BAD = [
    ("int f() { return (1; }", "}"),
    ("int f() { return 1); }", ")"),
    ("int a[3} = {0};", "} ="),
    ("}", "}"),
    ('char *s = "abc;\nint b;\n', "\nint"),
    ("char c = 'a;\nint b;\n", "\nint"),
    ("int a;\n#endif\nint b;\n", "f\nint b"),
    ("#if A\n#else\n#else\n#endif\n", "e\n#endif"),
    ("#ifdef A\n)\n#endif\n", ")"),
    ("#if 0\n)\n#else\n]\n#endif\n", "]"),
    ("#define CALL(x) f(x\nint a = CALL(1)); }\n", "}"),
    (GUARDED + "}\n", "}\n"),
    ("#ifdef A\n{\n#endif\n#ifdef A\n}\n#endif\n}\n", "}\n"),
    ("#ifdef A\n{\n#endif\n#ifndef A\n{\n#endif\n} }\n", "}\n"),
    (CONDITIONAL + "} }\n", "}\n"),
    ("#ifdef A\nint f(int x;\n#else\n#error A is needed\n#endif\n}\n", "}"),
]
OPEN = ["int f() {", "f(", "/* a", '"abc', "'", "#if A\n", "#if A\n#else\n", 'R"x(a)y"', "int f() { // }\n", "#if 0\n"]
FREE = [
    ("call f(a, & ! don't\n\n  ! note (\n  b)\n", None),
    ("s = 'it''s' // \"a\"\n", None),
    ("s = 'abc&\n   &def'\n", None),
    ("MACRO(a,\n b)\n", None),
    ("/*@@ don't ( @@*/\nx = 1\n", None),
    ("call f(a, &\n#ifdef X\n b)\n#else\n c)\n#endif\n", None),
    ("#if 0\n x = ((\n#endif\ny = 1\n", None),
    ("x = f(1\ny = 2\n", "\ny"),
    ("x = f(1))\n", ")\n"),
    ("x = (/1, 2]\n", "]"),
    ("s = 'abc\ny = 1\n", "\ny"),
]
FIXED = [
    ("C don't (\n      x = f(1,\n     &  2)\n\ty = (1 +\n\t1 2)\n", None),
    ("100   format(5Hdon't)\n", None),
    ("      s = 'ab\n     & c'\n", None),
    ("      x = f(1,\n      y = 2\n", "y"),
    ("      s = 'ab\nC note\n      y = 2\n", "y"),
    ("      x = f(1))\n", ")\n"),
]


def test_good_files_pass_and_so_does_every_beginning_of_them():
    for text in GOOD:
        assert judge_c(text) == (None, True), text
        assert all(judge_c(text[:cut]).first is None for cut in range(len(text))), text


@pytest.mark.parametrize(("text", "place"), BAD)
def test_an_error_is_found_at_the_character_that_makes_it_certain(text, place):
    found = judge_c(text)
    assert found == (text.rindex(place), False)
    assert all(judge_c(text[:cut]).first is None for cut in range(found.first + 1))
    assert all(judge_c(text[:cut]).first == found.first for cut in range(found.first + 1, len(text) + 1))


@pytest.mark.parametrize("text", OPEN)
def test_what_is_open_may_go_on(text):
    assert judge_c(text) == (None, False)


def test_places_are_of_the_text_with_its_continued_lines():
    text = "#define A \\\n  b \\\n  c\nint f(\\\n) { return (1\\\r\n; }\n"
    assert judge_c(text).first == text.rindex("}")


def test_many_brackets_and_conditionals_are_no_trouble():
    deep = "(" * 50_000
    assert judge_c(deep + ")" * 50_000) == (None, True) and judge_c(deep + "]").first == 50_000
    assert judge_c("#if A\n(\n" * 5_000 + "#endif\n" * 5_000 + ")" * 5_000) == (None, True)
    assert judge_c("#if A\n(\n#else\n[\n#endif\n" * 500).first is None
    chain = "".join(f"#elif A{n}\n{'(' if n % 2 else ''}\n" for n in range(2_000))
    assert judge_c(f"#if A\n{chain}#endif\n") == (None, True) and judge_c(f"#if A\n{chain}#endif\n))").first is not None


@pytest.mark.parametrize(("text", "place"), FREE)
def test_statements_of_free_form(text, place):
    check_statements(text, place, False)


@pytest.mark.parametrize(("text", "place"), FIXED)
def test_statements_of_fixed_form(text, place):
    check_statements(text, place, True)


def check_statements(text: str, place: str | None, fixed: bool) -> None:
    found = judge_fortran(text, fixed, True)
    assert found == ((None, True) if place is None else (text.rindex(place), False))
    last = len(text) if found.first is None else found.first + 1
    assert all(judge_fortran(text[:cut], fixed, True).first is None for cut in range(last))


def test_declarations_are_held_to_their_braces():
    assert judge_ccl('REAL a "don\'t {" # it\'s }\n{\n 0:*] :: "a \\" }"\n} 1.0\n') == (None, True)
    assert judge_ccl("CCTK_REAL g TYPE=gf tags='a=\"}\"' { u }\n") == (None, True)
    assert judge_ccl("a { b }}") == (7, False)
    assert judge_ccl('a { b "') == judge_ccl("tags='a") == judge_ccl("{") == (None, False)


CALL = re.compile(r"^ +[^\"'/#\n]*\)(?=;$)", re.MULTILINE)
"""A line of code that ends in a closing bracket and a semicolon."""


def real_files() -> list[tuple[str, str]]:
    files = [(path.name, path.read_text()) for path in FLOW2D.iterdir() if path.suffix in (".cpp", ".h")]
    if ROWS.exists():
        with gzip.open(ROWS, "rt", encoding="utf-8") as lines:
            files += [(row["src_filename"], row["src_code"]) for row in map(json.loads, lines)]
    return files


def test_real_files_pass_with_all_their_beginnings_and_planted_errors_do_not():
    randomly, planted = random.Random(0), 0
    judged = [(name, text) for name, text in real_files() if language_of(name).name in ("c", "c++")]
    assert len(judged) >= 5
    for name, text in judged:
        assert judge(text, language_of(name).name, name) == (None, True), name
        for _ in range(20):
            assert judge_c(text[: randomly.randrange(len(text))]).first is None
        for found in CALL.finditer(text):
            place = found.end() - 1
            assert all(judge_c(text[:place] + wrong + text[place + 1 :]).first == place for wrong in "]}"), name
            planted += 1
    assert planted > 50


def test_thorns_written_on_the_spot_pass():
    pytest.importorskip("nrpy")
    from envs.etk.task import Etk

    task = Etk()
    problems = [p for side in ("train", "test") for p in task.problems(side)]
    found = {p.language: judge(p.reference, p.language, p.data["file"]) for p in problems}
    assert found == {"c": (None, True), "c++": (None, True), "make": None}
    for problem in problems:
        for key in ("interface", "schedule", "param"):
            assert judge(getattr(task._files[problem.id], key), "ccl") == (None, True)


REFERENCE = "int f(int x) {\n  return g(x);\n}\n"
PROBLEM = Problem("t/f", "", reference=REFERENCE, language="c")


def answer(tokenizer, code: str, **changes) -> Completion:
    ids = [*tokenizer(f"{code}```").input_ids, tokenizer.eos_token_id]
    text, offsets = locate(ids, TokenBytes(tokenizer))
    values = {"code_span": (0, len(code)), "closed": True} | changes
    return Completion(text, ids, offsets, **values)


def score(problem: Problem, *answers: Completion):
    return asyncio.run(Lexical(penalty=-1.0, incomplete=-0.5).score([problem] * len(answers), answers))


def test_the_penalty_lies_on_the_first_token_for_which_the_error_is_certain(smollm2_tokenizer):
    wrong = answer(smollm2_tokenizer, REFERENCE.replace("g(x)", "g(x"))
    [result] = score(PROBLEM, wrong)
    rewards = attribute(wrong, result, judges_form=True)
    [token] = [t for t, reward in enumerate(rewards) if reward]
    start, end = wrong.offsets[token]
    assert "}" in wrong.text[start:end] and rewards[token] == result.score == -1.0


def test_what_is_left_open_is_charged_where_a_finished_answer_ends(smollm2_tokenizer):
    code = "int f(int x) {\n"
    text = f"{code}```"
    closed = answer(smollm2_tokenizer, code)
    open_end = Completion(code, [0, 1], [(0, len(code)), (len(code), len(code))], (0, len(code)))
    cut = Completion(code, [0], [(0, len(code))], (0, len(code)), finished=False)
    results = score(PROBLEM, closed, open_end, cut, Completion(text, [0], [(0, len(text))]))
    assert [r.score for r in results] == [-0.5, -0.5, 0.0, 0.0]
    fence = attribute(closed, results[0], judges_form=True)
    assert all("`" in closed.text[slice(*closed.offsets[t])] for t, reward in enumerate(fence) if reward)
    assert attribute(open_end, results[1], judges_form=True) == [0.0, -0.5]


def test_it_is_silent_where_it_cannot_tell(smollm2_tokenizer):
    good = answer(smollm2_tokenizer, REFERENCE)
    strange = Problem("t/g", "", reference="BEGIN_LOOP\n}\n", language="c")
    makefile = Problem("t/h", "", reference="SRCS = (a.c\n", language="make")
    fixed = Problem("t/i", "", reference="      END\n", language="fortran", data={"file": "a.F77"})
    include = Problem("t/j", "", reference="      x = 1\n", language="fortran", data={"file": "a.inc"})
    assert [score(p, good)[0].silent for p in (strange, makefile, fixed, include)] == [True, True, False, True]


def test_lines_in_a_gap_must_fit_those_around_it(smollm2_tokenizer):
    task = EtkCompletion()
    problems = [p for side in ("train", "test") for p in task.problems(side)]
    for problem in problems:
        assert [r.score for r in score(problem, answer(smollm2_tokenizer, problem.reference))] == [0.0]
    problem = next(p for p in problems if "(" in p.reference)
    texts = ["}}}}}}\n", problem.reference.replace(")", "", 1), problem.reference.replace("\n", " {\n", 1), "(", ""]
    found = score(problem, *(answer(smollm2_tokenizer, text) for text in texts))
    assert [r.score for r in found[:4]] == [-1.0, found[1].score, -0.5, -0.5] and found[1].score < 0
    assert found[4].score in (0.0, -0.5)


def test_the_command_answers_each_row(tmp_path, capsys):
    rows = [
        {"id": 1, "text": "int a(;\n}"},
        {"id": 2, "text": "      x = (1\n      y", "language": "fortran", "file": "a.F"},
        {"id": 3, "text": "x", "language": "perl"},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["check", str(file)]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row.get("first_illegal") for row in said] == [8, 19, None] and "language" in said[2]["error"]
