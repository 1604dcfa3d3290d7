"""Each channel on answers whose score is known."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from envs.bleu import bleu
from envs.sandbox import FunctionCase, Limits, Outcome, StdioCase
from envs.task import Problem, extract_fenced
from rewards.analysis.code_tokens import has_code
from rewards.channel import ChannelResult, Completion
from rewards.compose import PLACEMENTS, Reward
from rewards.form import Form
from rewards.similarity import Similarity, code_bleu
from rewards.unit_tests import UnitTests, suspects

PROBLEM = Problem(
    "t/double",
    "double x",
    "double",
    (FunctionCase((1,), 2), FunctionCase((0,), 0)),
    reference="def double(x):\n    return 2 * x\n",
)


def answer(text: str, tokens: int = 10) -> Completion:
    code = extract_fenced(text)
    edges = [round(i * len(text) / tokens) for i in range(tokens + 1)]
    return Completion(
        text,
        list(range(tokens)),
        list(itertools.pairwise(edges)),
        None if code is None else (code.start, code.end),
        closed=code is not None and code.closed,
    )


RIGHT = answer("Here:\n```python\ndef double(x):\n    return x + x\n```")
HALF = answer("```python\ndef double(x):\n    return 0\n```")
OPEN = answer("```python\ndef double(x):\n    return 2*x")
NONE = answer("def double(x): return 2*x")


def score(channel, *answers):
    return asyncio.run(channel.score([PROBLEM] * len(answers), answers))


def test_unit_tests_pay_the_share_passed(sandbox):
    got = score(UnitTests(sandbox), RIGHT, HALF, OPEN, NONE)
    assert [r.score for r in got] == [1.0, 0.5, 1.0, 0.0]
    assert [r.passed for r in got] == [True, False, True, False]
    assert got[3].verdict == "no code"
    assert [r.score for r in score(UnitTests(sandbox, fractional=False), RIGHT, HALF)] == [1.0, 0.0]


class Broken:
    async def run(self, jobs, progress=None):
        return [Outcome(j.id, "error", 0, j.total, 0.0, "worker lost") for j in jobs]


def test_an_infrastructure_failure_is_none_and_takes_the_sample_out():
    assert score(UnitTests(Broken()), RIGHT) == [None]
    reward = Reward({"unit_tests": UnitTests(Broken()), "form": Form()}, {"unit_tests": 1.0, "form": 1.0})
    assert asyncio.run(reward.grade([PROBLEM], [RIGHT])) == [None]


def test_form_pays_a_closed_block_and_charges_length():
    channel = Form(block=1.0, no_block=-1.0, length_alpha=0.5)
    got = score(channel, RIGHT, OPEN, NONE)
    assert [r.score for r in got] == pytest.approx([0.95, -1.05, -1.05])
    assert all(sum(s.value for s in r.spans) == pytest.approx(r.score) for r in got)


MIXED = Problem(
    "t/sign",
    "sign of x",
    "sign",
    (FunctionCase((3,), 1), FunctionCase((-3,), -1), FunctionCase((0,), 0)),
    reference="def sign(x):\n    return (x > 0) - (x < 0)\n",
)
SIGN = "def sign(x):\n    if x > 0:\n        return 1\n    if x < 0:\n        {}\n    return 0\n"


def blamed(sandbox, problem: Problem, code: str, **options) -> tuple[float, list[str]]:
    """Score of the code and the characters that lose by it."""
    completion = answer(f"```python\n{code}```", tokens=30)
    [result] = asyncio.run(UnitTests(sandbox, locate=True, **options).score([problem], [completion]))
    assert sum(s.value for s in result.spans) == pytest.approx(result.score) or not result.spans
    return result.score, [completion.text[s.start : s.end] for s in result.spans if s.value < 0]


def test_failing_tests_are_charged_to_the_lines_that_only_they_execute(sandbox):
    assert blamed(sandbox, MIXED, SIGN.format("return 1")) == (pytest.approx(2 / 3), ["return 1"])
    assert blamed(sandbox, MIXED, SIGN.format("return x[0]")) == (pytest.approx(2 / 3), ["return x[0]"])
    assert blamed(sandbox, MIXED, SIGN.format("return -1")) == (1.0, [])
    hasty = replace(MIXED, limits=Limits(wall_s=2.0, cpu_s=1.0))
    endless = blamed(sandbox, hasty, SIGN.format("while True: pass"), fractional=False)
    assert endless == (0.0, ["if x < 0:", "while True: pass"])  # the third test was never reached


def test_lines_of_a_method_that_answers_are_charged(sandbox):
    method = "class Solution:\n" + "".join(f"    {line}\n" for line in SIGN.format("return 1").splitlines())
    assert blamed(sandbox, MIXED, method.replace("(x)", "(self, x)")) == (pytest.approx(2 / 3), ["return 1"])


def test_where_passing_tests_execute_the_same_lines_the_traceback_is_charged(sandbox):
    code = "def sign(x):\n    y = 6 // x\n    return (y > 0) - (y < 0)\n"
    assert blamed(sandbox, MIXED, code) == (pytest.approx(2 / 3), ["y = 6 // x"])
    assert blamed(sandbox, MIXED, "import nothing\n" + code) == (0.0, ["import nothing"])
    assert blamed(sandbox, MIXED, "def sign(x):\n    return (x\n") == (0.0, ["return (x"])
    assert blamed(sandbox, MIXED, "def sign(x):\n    return 1\n") == (pytest.approx(1 / 3), [])


def test_a_line_that_raises_is_charged_and_not_the_way_to_it(sandbox):
    code = "def sign(x):\n    y = x\n    if y > 0:\n        y = nope\n    return nope\n"
    assert blamed(sandbox, MIXED, code) == (0.0, ["y = nope", "return nope"])


@pytest.mark.parametrize(
    "code", ["import sys\nprint(1)\nsys.exit(0)\n", "def main():\n    print(1)\nraise SystemExit(main())\n"]
)
def test_a_script_that_ends_itself_is_not_charged_for_that_alone(sandbox, code):
    problem = Problem("t/stdio", "", None, (StdioCase("2", "2"),))
    lines = [line.strip() for line in code.splitlines()]
    assert blamed(sandbox, problem, code) == (0.0, lines)


def test_no_line_of_the_recorder_itself_is_charged(sandbox):
    cases = (StdioCase("2", "2"), StdioCase("1", "1"))
    code = "n = 0\nif n:\n" + "    n = 1\n" * 150 + "print(n)\n"
    assert blamed(sandbox, Problem("t/stdio", "", None, cases), code)[1] == ["n = 0", "if n:", "print(n)"]


def test_asserts_of_a_check_and_programs_are_located_too(sandbox):
    asserts = ("candidate(3) == 1", "candidate(-3) == -1", "candidate(0) == 0")
    check = "def check(candidate):\n" + "".join(f"    assert {each}\n" for each in asserts)
    problem = Problem("t/check", "", "sign", check_src=check)
    assert blamed(sandbox, problem, SIGN.format("return 1")) == (pytest.approx(2 / 3), ["return 1"])
    program = "n = int(input())\nif n > 1:\n    print(n)\nelse:\n    print('one')\n"
    cases = (StdioCase("2", "2"), StdioCase("1", "1"))
    assert blamed(sandbox, Problem("t/stdio", "", None, cases), program) == (0.5, ["print('one')"])


@pytest.mark.parametrize(
    "read", ["sys.stdin.read()", "open(0).read()", "os.read(0, 99)", "next(fileinput.input())", "input()"]
)
def test_programs_are_located_however_they_read(sandbox, read):
    program = f"import fileinput, os, sys\nn = int({read})\nif n < 0:\n    r = n\nelse:\n    r = 2 * n\nprint(r)\n"
    cases = (StdioCase("3\n", "6"), StdioCase("-4\n", "8"), StdioCase("5\n", "10"))
    assert blamed(sandbox, Problem("t/stdio", "", None, cases), program) == (pytest.approx(2 / 3), ["r = n"])


def test_a_solution_that_forges_its_coverage_moves_its_own_reward_alone(sandbox):
    forged = '{"cases": [[1]], "raised": [null], "ok": [true]}'
    write = f"os.write(1, {forged.encode()!r})"
    code = f"import os\n{write}\ndef sign(x):\n    {write}\n    os._exit(0)\n"
    total, lines = blamed(sandbox, MIXED, code)
    assert total == 0.0 and lines == []
    assert suspects("nonsense", [False]) == suspects('{"cases": 1}', [False]) == suspects("", []) == []


def test_similarity_points_at_what_matches():
    completion = answer("```python\ndef double(y):\n    return 2 * y  # as asked\n```", tokens=30)
    [result] = score(Similarity(), completion)
    assert 0 < result.score < 1
    assert sum(s.value for s in result.spans) == pytest.approx(result.score)
    paid = {completion.text[s.start : s.end] for s in result.spans}
    assert {"def", "double", "return", "2", "*"} <= paid
    assert not paid & {"y", "asked", "#"}


def test_similarity_leaves_comments_out_and_cuts_both_sides_to_the_budget():
    banner = "/* a banner\n   of many words */\n"
    code = "int f(int x) { return x + 1; } // " + "done " * 9
    assert code_bleu(banner + code, code, language="c++") == 1.0
    assert code_bleu("int f(int x)", code, language="c++") < 0.4
    assert code_bleu("int f(int x)", code, budget=6, language="c++") == 1.0
    assert code_bleu('s = "// no comment";', 's = "";', language="c++") < 1
    assert code_bleu("x = 1 ! one", "x = 1", language="fortran") == 1.0


@pytest.mark.parametrize(
    ("one", "other", "language", "file"),
    [
        ("int a; // it \\\n goes on\nint b;", "int a;\nint b;", "c", ""),
        ("int a; // it \\\r\n goes on\r\nint b;", "int a;\nint b;", "c++", ""),
        ('s = "it \\\r\n// goes on";\r\n', 's = "it \\\n// goes on";', "c", ""),
        ("int a; // one\rint b; // two\r", "int a;\nint b;\n", "c", ""),
        ("n = 1'000; // it's one", "n = 1'000;", "c++", ""),
        ('f("""a"); /* note */ g("""b")', 'f("""a"); g("""b")', "c", ""),
        ("s = '\\' // t ! it's\n", "s = '\\' // t\n", "fortran", "a.F90"),
        ("s = 'it''s ! here' ! there\n", "s = 'it''s ! here'\n", "fortran", "a.f90"),
        ("A = don't # it's\n", "A = don't\n", "make", ""),
        ("A = \\# $(B) # note\n", "A = \\# $(B)\n", "make", ""),
        ("C\r\n      x = 1\r\n", "      x = 1\n", "fortran", "a.inc"),
    ],
)
def test_comments_and_line_ends_count_for_nothing(one, other, language, file):
    assert code_bleu(one, other, language=language, file=file) == 1.0
    assert code_bleu(other, one, language=language, file=file) == 1.0


def test_what_only_looks_like_a_comment_is_code():
    assert code_bleu("      x = y\n     ! + z\n", "      x = y\n", language="fortran", file="a.F") < 0.9
    assert code_bleu("c = 99\nd = 1\n", "d = 1\n", language="fortran") < 0.9
    assert code_bleu("A = \\# b\n", "A =\n", language="make") < 0.9


FIXED_NOTES = "/*@@\n   @file a.F77\n @@*/\nCnote\n*---\nd     print *, x\n"


@pytest.mark.parametrize(
    ("file", "notes"),
    [
        ("a.F77", FIXED_NOTES),
        ("sub/a.F", FIXED_NOTES),
        ("a.f", "Cnote\n* note\n"),
        ("a.F90", "/*@@\n   @file a.F90\n @@*/\n! note\n"),
        ("a.f90", "! note\n"),
        ("", "/*@@\n   @file\n @@*/\nC note\n! note\n"),
    ],
)
def test_the_files_ending_tells_what_a_comment_is_in_fortran(file, notes):
    code = "      x = y ! why\n      call f(x)\n"
    problem = Problem("t/k", "", reference=notes + code, language="fortran", data={"file": file, "visible": (notes,)})
    [same, other] = asked(Similarity(), code, "      z = 1\n", problem=problem)
    assert same.score == pytest.approx(1) and other.score < 0.5
    assert same.detail["copy_bleu"] == 0 and not has_code(problem, notes) and has_code(problem, code)


def test_code_in_the_first_column_of_free_form_is_no_comment():
    free = Problem("t/l", "", reference="c = a + b\ncall f(c)\n", language="fortran", data={"file": "a.F90"})
    [half] = asked(Similarity(), "call f(c)\n", problem=free)
    assert half.score < 0.5 and has_code(free, "c = a + b\n")


@given(st.lists(st.sampled_from("abcdef"), max_size=12), st.lists(st.sampled_from("abcdef"), max_size=12))
def test_bleu_is_sacrebleus(candidate, reference):
    options = {"tokenize": "none", "smooth_method": "floor", "smooth_value": 0.1, "use_effective_order": True}
    expected = sacrebleu.sentence_bleu(" ".join(candidate), [" ".join(reference)], **options).score / 100
    results = bleu(candidate, reference)
    if min(len(candidate), len(reference)) >= 4 or not set(candidate) & set(reference):
        assert results.score == pytest.approx(expected, abs=1e-9)
    assert (sum(results.matches) > 0) == (results.score > 0)


def test_a_reference_of_comments_alone_is_compared_by_words():
    """26.5: the perfect answer scored 0."""
    reference = "/* Nothing to do here: see evolve.c */\n// schedule\n"
    problem = Problem("p", "", reference=reference, language="c")
    texts = [reference, "/* Nothing to do */\n", "", "int x;"]
    answers = [
        Completion(text, range(len(text)), [(i, i + 1) for i in range(len(text))], (0, len(text))) for text in texts
    ]
    scores = [result.score for result in asyncio.run(Similarity().score([problem] * 4, answers))]
    assert scores[0] == pytest.approx(1) and 0 < scores[1] < 1 and scores[2] == scores[3] == 0


def test_similarity_is_one_for_the_reference_and_zero_without_code():
    same = answer(f"```python\n{PROBLEM.reference}```")
    assert [round(r.score, 6) for r in score(Similarity(), same, NONE)] == [1.0, 0.0]
    with pytest.raises(ValueError, match="no reference"):
        asyncio.run(Similarity().score([Problem("t/x", "", "f")], [same]))


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_all_placements_pay_the_same_in_sum(sandbox, placement):
    weights = {"unit_tests": 0.7, "form": 0.2, "similarity": 0.1}
    channels = {"unit_tests": UnitTests(sandbox), "form": Form(length_alpha=0.1), "similarity": Similarity()}
    reward = Reward(channels, weights, placement)
    for completion, grade in zip(
        [RIGHT, HALF, OPEN, NONE],
        asyncio.run(reward.grade([PROBLEM] * 4, [RIGHT, HALF, OPEN, NONE])),
        strict=True,
    ):
        assert sum(grade.token_rewards) == pytest.approx(grade.total, abs=1e-9)
        for name, tokens in grade.rewards.items():
            assert sum(tokens) == pytest.approx(grade.results[name].score, abs=1e-9)
        if placement == "sparse":
            assert all(r == 0 for r in grade.token_rewards[:-1]), completion


def test_weights_must_name_the_channels():
    with pytest.raises(ValueError, match="must have the same names"):
        Reward({"form": Form()}, {"fomr": 1.0})
    for weights in ({"form": -0.1, "bleu": 1.0}, {"form": 0.0, "bleu": 0.0}):
        with pytest.raises(ValueError, match="none may be below 0"):
            Reward({"form": Form(), "bleu": Similarity()}, weights)


class Every:
    """Cannot grade the first completion, and is silent on the second."""

    async def score(self, problems, completions):
        return [None, ChannelResult(0.0, silent=True), *(ChannelResult(1.0) for _ in completions[2:])]


def test_the_log_names_the_channel_that_could_not_grade(caplog):
    grades = asyncio.run(Reward({"every": Every()}, {"every": 1.0}).grade([PROBLEM] * 4, [RIGHT, HALF, OPEN, NONE]))
    assert [grade is None for grade in grades] == [True, True, False, False]
    reasons = "every could not grade 1, all channels with a weight are silent on 1"
    assert caplog.messages == [f"2 of 4 completions not graded: {reasons}"]


SIBLING = "int f(int x) {\n  return x + 1;\n}\n"
THORN = Problem(
    "t/g",
    "g",
    reference="/* g */\nint g(int x) {\n  return x - 1;\n}\n",
    language="c",
    data={"visible": ("", "SRCS = a.c\n", SIBLING)},
)


def block(code: str) -> Completion:
    return answer(f"```c\n{code}```", tokens=40)


def asked(channel, *codes, problem=THORN):
    return asyncio.run(channel.score([problem] * len(codes), [block(code) for code in codes]))


def test_what_a_copy_of_a_visible_file_would_get_is_reported_and_with_a_baseline_not_paid():
    near = "int g(int x) {\n  return x + 1;\n}\n"
    copied = code_bleu(SIBLING, THORN.reference, language="c")
    plain = asked(Similarity(), SIBLING, near, THORN.reference)
    paid = asked(Similarity(baseline="copy"), SIBLING, near, THORN.reference, "x")
    assert 0.3 < copied < plain[1].score < 1
    assert [r.detail["copy_bleu"] for r in [*plain, *paid]] == pytest.approx([copied] * 7)
    assert [r.score for r in paid] == pytest.approx([0, (plain[1].score - copied) / (1 - copied), 1, 0])
    assert [r.detail["bleu"] for r in paid[:3]] == pytest.approx([r.score for r in plain])
    assert sum(s.value for s in paid[1].spans) == pytest.approx(paid[1].score)
    assert not paid[0].spans
    text = block(near).text
    assert {text[s.start : s.end] for s in paid[1].spans} == {text[s.start : s.end] for s in plain[1].spans}


def test_a_copy_that_is_as_good_as_the_reference_leaves_nothing_to_earn():
    twin = Problem("t/h", "", reference=SIBLING, language="c", data={"visible": ("// twin\n" + SIBLING,)})
    assert [r.score for r in asked(Similarity(baseline="copy"), SIBLING, problem=twin)] == [0]
    with pytest.raises(ValueError, match=r"similarity\.baseline=twin: .*copy or null"):
        Similarity(baseline="twin")


def test_bleu_full_is_of_the_uncut_texts():
    [result] = asked(Similarity(budget=5), "int g(int x)\n")
    assert result.detail["bleu"] == 1 and result.detail["bleu_full"] < 0.4
    assert result.detail["bleu_full"] == code_bleu("int g(int x)", THORN.reference, language="c")
    assert result.detail["copy_bleu"] == code_bleu(SIBLING, THORN.reference, 5, "c") < 1
    [without] = asked(Similarity(), "int g;\n", problem=Problem("t/i", "", reference=SIBLING, language="c"))
    assert "copy_bleu" not in without.detail


def test_numbers_among_the_details_are_measures_of_the_grade():
    [grade] = asyncio.run(Reward({"bleu": Similarity(budget=4)}, {"bleu": 1.0}).grade([THORN], [block(SIBLING)]))
    assert set(grade.measures) == {"bleu/bleu", "bleu/bleu_full", "bleu/copy_bleu"}
    assert grade.measures["bleu/bleu"] == pytest.approx(grade.total)


def test_a_failed_check_is_paid_for_the_asserts_that_hold(sandbox):
    """One check ends at its first assert that fails, so each is run by itself; what they share stands before each."""
    asserts = "".join(f"    assert candidate({x}) == {y}\n" for x, y in ((1, "k"), (2, 4), (0, 0)))
    check = f"k = 2\ndef check(candidate):\n{asserts}"
    problem = Problem("p", "", entry_point="f", check_src=check)
    bodies = ("return 2 * x", "return 2", "return x if x else 1 / x", "while True: pass")
    answers = [block(f"def f(x):\n    {body}\n") for body in bodies]
    limited = replace(problem, limits=Limits(wall_s=2.0, cpu_s=0.5))
    for fractional, scores in ((True, [1.0, 1 / 3, 0.0, 0.0]), (False, [1.0, 0.0, 0.0, 0.0])):
        results = asyncio.run(UnitTests(sandbox, fractional).score([limited] * 4, answers))
        assert [r.score for r in results] == pytest.approx(scores)
        assert [r.passed for r in results] == [True, False, False, False]


def test_copies_are_measured_against_each_place_by_itself():
    """Two masked places of one problem have references of their own, whichever comes first."""
    problem = Problem("t/places", "", data={"places": ["a = b + c\n", "d = e * f(g)\n"], "visible": ["d = e * f(g)\n"]})
    first, second = (replace(problem, reference=lines) for lines in problem.data["places"])
    channel = Similarity(baseline="copy")
    assert channel.copy_bleu(second) == 1.0 and channel.copy_bleu(first) < 0.5


def test_a_problem_without_a_reference_is_named_before_anything_is_graded():
    with pytest.raises(ValueError, match=r"t/none has no reference solution, with which task\.reward\.similarity"):
        asyncio.run(Similarity().ready([Problem("t/none", "")]))


def test_a_block_that_the_prompt_opened_is_paid_on_its_closing_fence():
    text = "int x;\n```"
    block = Completion(text, range(len(text)), [(i, i + 1) for i in range(len(text))], (0, 7), closed=True)
    [result] = asyncio.run(Form().score([Problem("p", "", language="c++")], [block]))
    assert [(text[s.start : s.end], s.value) for s in result.spans] == [("```", 1.0)]
