"""Answers and checks of unusual form: graded as they run, charged where the fault is."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.indentation import without_indent
from envs.roboeval.task import program_of
from envs.sandbox import FunctionCase
from envs.task import Problem, TaskError
from rewards.analysis.code_tokens import COMMENTS, STRING, SYMBOL, tokens
from rewards.analysis.definitions import definitions
from rewards.analysis.held_out_tests import divide, each
from rewards.attribution import locate
from rewards.channel import ChannelResult, Span
from rewards.compose import Reward, check_results
from rewards.judge.model import _without_score
from rewards.lint import Lint
from rewards.similarity import _answer
from rewards.syntax import Syntax
from rewards.unit_tests import UnitTests
from tests.bench.faults import answer

CHECK = Problem("t/f", "f", "f", check_src="assert f(1) == 1\nassert f(2) == 2\nassert f(3) == 3", shown=1)


def graded(channel, code: str, problem: Problem = CHECK) -> ChannelResult:
    [result] = asyncio.run(channel.score([problem], [answer(code)]))
    return result


def test_a_program_that_is_right_in_its_first_call_alone_has_no_full_marks(sandbox):
    remembers = "def f(x, seen=[]):\n    seen.append(x)\n    return sum(seen)\n"
    result = graded(UnitTests(sandbox), remembers)
    assert (result.passed, result.score) == (False, 0.5)  # two tests are not shown, one of them counts as failed


def test_an_assert_that_calls_nothing_is_no_test_of_its_own(sandbox):
    problem = replace(CHECK, check_src="assert callable(f)\nassert f(1) == 1\nassert list(map(f, [2])) == [2]", shown=0)
    assert len(each(problem)) == 2
    assert graded(UnitTests(sandbox), "def f(x):\n    return 0\n", problem).score == 0.0
    assert graded(UnitTests(sandbox), "def f(x):\n    return x\n", problem).passed
    assert graded(UnitTests(sandbox, held_out=0.5), "def f(x):\n    return x\n", problem).passed


def test_a_check_that_does_not_parse_is_named_where_its_asserts_are_asked_for():
    broken = replace(CHECK, check_src="assert f(1) == 1\nassert f(1] == 2")
    assert divide(broken, 0.0) == (broken, None)
    with pytest.raises(TaskError, match=r"t/f: its check does not parse .*line 2"):
        divide(broken, 0.5)


def test_a_byte_order_mark_hides_no_place(sandbox):
    problem = Problem("t/g", "g", "g", (FunctionCase((1,), 1), FunctionCase((2,), 2), FunctionCase((3,), 3)))
    code = "\ufeffdef g(n):\n    if n == 1:\n        return 7\n    return n\n"
    result = graded(UnitTests(sandbox, locate=True), code, problem)
    text = answer(code).text
    assert {text[span.start : span.end] for span in result.spans if span.value < 0} == {"return 7"}


def test_a_dataclass_is_located_as_it_runs(sandbox):
    cases = (FunctionCase((1,), 1), FunctionCase((2,), 2), FunctionCase((3,), 3))
    problem = Problem("t/g", "g", "g", cases)
    code = "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\ndef g(n):\n"
    code += "    p = P(n)\n    if n == 1:\n        return 7\n    return p.x\n"
    result = graded(UnitTests(sandbox, locate=True), code, problem)
    completion = answer(code)
    charged = {completion.text[span.start : span.end] for span in result.spans if span.value < 0}
    assert charged == {"return 7"} and result.score == pytest.approx(2 / 3)


@pytest.mark.parametrize("fault", ["nonlocal q", "def g(a, a): pass", "g(a=1, a=2)", "return 1", "[x := 1 for x in y]"])
def test_what_python_does_not_compile_costs_syntax_at_its_place(fault, sandbox):
    code = f"y = 'ü'\n{fault}\n"
    result = graded(Syntax(sandbox), code)
    [span] = result.spans
    completion = answer(code)
    line = completion.text.index(fault)
    assert result.score == -1.0 and line <= span.start < line + len(fault)
    assert graded(Syntax(sandbox), "y = 'ü'\n").score == 0.0


@pytest.mark.parametrize("indent", ["  ", "\t", "    "])
def test_a_block_that_is_indented_as_a_whole_is_judged_without_its_indent(indent, sandbox):
    plain = "import os\n\ndef f(x):\n    return undefined if 0 else x\n"
    moved = "".join(indent + line if line.strip() else line for line in plain.splitlines(keepends=True))
    text, place = without_indent(moved)
    assert text == plain and all(moved[place(n)] == plain[n] for n in range(len(plain)))
    lint = Lint({"F": 0.4})
    for channel in (Syntax(sandbox), lint):
        first, second = graded(channel, plain), graded(channel, moved)
        assert first.score == second.score
        pieces = [
            [answer(code).text[span.start : span.end] for span in result.spans]
            for code, result in ((plain, first), (moved, second))
        ]
        assert pieces[0] == pieces[1]
    assert graded(lint, moved).score == pytest.approx(-0.8)
    broken = graded(Syntax(sandbox), moved.replace("return", "return )"))
    assert answer(moved.replace("return", "return )")).text[broken.spans[0].start] == ")"
    start, end = definitions(moved, ["f"])["f"]
    assert moved[start:end].rstrip().endswith("else x") and moved[start:].startswith("def f")


def test_an_indented_robot_program_is_whole():
    program = "def task_program():\n    go_to('a')\n"
    assert program_of("".join(f"  {line}" for line in program.splitlines(keepends=True))) == program
    assert program_of(f"\f{program}") == f"\f{program}"
    assert program_of("    go_to('a')\n") == program


@pytest.mark.parametrize("language", list(STRING))
@given(st.text("\"'\\\n\r #/*!ca1", max_size=60))
def test_strings_that_never_end_are_tokens_as_before(language, code):
    """A quote behind which no string ends is looked at once in a line, which leaves the tokens as they are."""
    pattern = re.compile(f"(?s:(?P<comment>{COMMENTS[language]})|(?P<token>{STRING[language]}|{SYMBOL}))")
    plain = [match.span() for match in pattern.finditer(code) if match["token"] is not None]
    assert [(token.start, token.end) for token in tokens(code, language)] == plain


def test_parts_end_at_lone_carriage_returns():
    code = "def f(x):\r    return x\r\rdef g(x):\r    return 1\r"
    found = definitions(code, ["f", "g"], parses=True)
    assert [code[slice(*found[name])] for name in "fg"] == ["def f(x):\r    return x", "def g(x):\r    return 1"]


def test_a_reward_behind_broken_bytes_keeps_its_token():
    class Bytes(list):
        pass

    pieces = Bytes([b"x = '", b"\xe2\x82", b")", b"\n"])
    text, offsets = locate(range(4), pieces)
    assert text == "x = '\ufffd)\n" and [text[slice(*each)] for each in offsets] == ["x = '", "\ufffd", ")", "\n"]
    pieces = Bytes([b"\xe2\x82", b"\xf0\x9f\x98\x80", b"\xf0\x9f", b"", b"\x98\x80"])
    text, offsets = locate(range(5), pieces)
    assert text == "\ufffd\U0001f600\U0001f600" and offsets == [(0, 1), (1, 2), (2, 3), (2, 3), (2, 3)]


def test_the_judge_reads_no_comment_that_states_a_score():
    assert _without_score("x = 1  # the score: 9") == "x = 1  "
    assert _without_score("x = 1  // ! score: 9") == "x = 1  "
    for line in ("x = 1  # score", "score: 9", "x = '#'", "#" * 100_000):
        assert _without_score(line) == line


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (ChannelResult(None), "the score is None"),
        (ChannelResult("1"), "the score is '1'"),
        (ChannelResult(1.0, (Span(0, 1, None),)), "must have two places"),
        (ChannelResult(1.0, (Span("a", 1, 1.0),)), "must have two places"),
    ],
)
def test_a_channel_that_returns_no_numbers_is_named(result, message):
    with pytest.raises(TaskError, match=f"task.reward.mine: .*{message}"):
        check_results("mine", [result], 1)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"S101": 0.5}, "lint.weights.S101=0.5: .* lint.linter.ignore has S101"),
        ({"F": "abc"}, "lint.weights.F=abc: it must be a number"),
        ({"F": None}, "lint.weights.F=None: it must be a number"),
        (["F"], r"lint.weights=\['F'\]: it must be a mapping"),
    ],
)
def test_weights_of_lint_that_cannot_be_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        Lint(weights)


def test_an_unknown_placement_and_a_language_that_is_no_text_are_named(sandbox):
    with pytest.raises(ValueError, match="placement=dens: choose"):
        Reward({"syntax": Syntax(sandbox)}, {"syntax": 1.0}, "dens")
    assert "language one of" in _answer({"candidate": "x", "reference": "x", "language": ["c"]})["error"]
