"""The syntax channel: the illegal character against an oracle, and which token pays for it."""

from __future__ import annotations

import ast
import asyncio
import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.humaneval import HumanEval
from envs.sandbox import Limits, LocalSandbox
from envs.task import Problem
from rewards.analysis.python_grammar import complete, first_illegal, not_compiled
from rewards.attribution import attribute
from rewards.channel import Completion
from rewards.syntax import FATAL, Syntax, judge, main
from tests.oracles import rows


def oracle() -> list[dict]:
    return [row for row in rows("syntax") if tuple(row["min_python"]) <= sys.version_info[:2]]


def test_every_offset_of_the_oracle():
    texts = oracle()
    assert len(texts) > 480
    wrong = {
        row["id"]: first_illegal(row["text"]) for row in texts if first_illegal(row["text"]) != row["first_illegal"]
    }
    assert wrong == {}
    assert [row["id"] for row in texts if complete(row["text"]) != row["complete"]] == []


def test_the_command_says_the_same(tmp_path, capsys):
    texts = oracle()[:50]
    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join([*map(json.dumps, texts), "not json", '{"id": 1}']))
    assert main(["check", str(path)]) == 0
    message = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(r["id"], r["first_illegal"]) for r in message[:50]] == [(r["id"], r["first_illegal"]) for r in texts]
    assert "error" in message[50] and "error" in message[51]
    assert main(["check", str(tmp_path / "absent")]) == 1


def test_no_prefix_of_a_right_program_is_illegal():
    for problem in HumanEval().problems("test")[:8]:
        code = problem.reference
        ast.parse(code)
        for cut in range(0, len(code), 3):
            assert first_illegal(code[:cut]) is None, code[:cut]


@pytest.mark.parametrize(
    "code",
    [
        'print(f"total {sum(xs) if xs else [0][0]!r:>{width}}, {len(xs)}")',
        "f'''{a[0]}\n{[b for b in c]}'''",
        r"x = '\N{BULLET} ' + f'{y}\N{BULLET}' + r'\N{'",
    ],
)
def test_a_string_may_be_cut_anywhere(code):
    ast.parse(code)
    for cut in range(len(code)):
        assert first_illegal(code[:cut]) is None, code[:cut]


def test_what_is_wrong_in_a_closed_string_is_illegal():
    assert first_illegal('f"{a b}"') is not None
    assert first_illegal(r"'\N{BULLETX}'") is not None and first_illegal(r"'\N{BULLET}'") is None


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from(list("abx01 .:=+-*/()[]{}'\"\\\n\t#,@!é£\x00\x0c_")), max_size=60))
def test_a_beginning_of_a_beginning_is_one(text):
    at = first_illegal(text)
    if at is None:
        assert all(first_illegal(text[:cut]) is None for cut in range(len(text)))
    else:
        assert first_illegal(text[:at]) is None
        assert first_illegal(text[: at + 1]) == at
        assert first_illegal(text + "\nx = 1\n") == at


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000,
        "-" * 5000 + "1",
        "[" * 150 + "]" * 150,
        "x = " + "a." * 5000,
        "\ud800",
        "x = '\ud800'",
        "\x00",
        "'" * 9999,
    ],
)
def test_hard_texts_are_answered(text):
    at = first_illegal(text)
    assert at is None or 0 <= at <= len(text)


def completion(text: str, code: tuple[int, int] | None, finished: bool = True, closed: bool = False) -> Completion:
    """One token a character, and an end of sequence where it was drawn."""
    offsets = [(i, i + 1) for i in range(len(text))] + [(len(text), len(text))] * finished
    return Completion(text, list(range(len(offsets))), offsets, code, finished, closed)


def rewards_of(sandbox, case: Completion) -> list[float]:
    [result] = asyncio.run(Syntax(sandbox).score([Problem("t/x", "")], [case]))
    return attribute(case, result, pays_outside_code=True)


def test_the_token_that_breaks_the_program_pays(sandbox):
    text = "```python\nx = 1 +* 2\n```"
    rewards = rewards_of(sandbox, completion(text, (10, 20), closed=True))
    assert {i: value for i, value in enumerate(rewards) if value} == {text.index("*"): -1.0}


def test_a_byte_order_mark_is_no_fault(sandbox):
    right, wrong = "```python\n\ufeffx = 1\n```", "```python\n\ufeffx = 1 +* 2\n```"
    assert not any(rewards_of(sandbox, completion(right, (10, 17), closed=True)))
    rewards = rewards_of(sandbox, completion(wrong, (10, 21), closed=True))
    assert {i: value for i, value in enumerate(rewards) if value} == {wrong.index("*"): -1.0}


def test_an_answer_that_ends_too_early(sandbox):
    fenced = "```python\nif x:\n```"
    rewards = rewards_of(sandbox, completion(fenced, (10, 16), closed=True))
    assert sum(rewards) == pytest.approx(-1) and all(rewards[i] < 0 for i in range(16, 19))
    bare = completion("```python\nif x:", (10, 15))
    assert rewards_of(sandbox, bare)[-1] == -1.0  # the end of sequence
    cut = completion("```python\nif x:", (10, 15), finished=False)
    assert not any(rewards_of(sandbox, cut))
    assert rewards_of(sandbox, completion("no code", None))[-1] == -1.0
    assert sum(rewards_of(sandbox, completion("```python\n# x\n```", (10, 14), closed=True))) == pytest.approx(-1)
    assert not any(rewards_of(sandbox, completion("```python\nx = 1\n```", (10, 16), closed=True)))


def test_the_place_behind_letters_of_several_bytes():
    text = "x = '日本語日本語'; return 1\ny = 2\n"
    assert not_compiled(text) == text.index("return")
    assert not_compiled("é = 1 +* 2\n") == "é = 1 +* 2".index("*")  # the parser counts letters


def test_a_text_that_brings_the_parser_down_is_found_in_its_batch():
    box = LocalSandbox(1, Limits(cpu_s=1.0))
    texts = ["x = 1", "x = (", "y = [" + "1, " * 3_000_000 + "?]", "x = )"]
    assert [each and each[:2] for each in asyncio.run(judge(box, texts))] == [
        (None, True),
        (None, False),
        FATAL[:2],
        (4, False),
    ]
    asyncio.run(box.close())
