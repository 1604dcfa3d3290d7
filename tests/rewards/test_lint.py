"""The lint channel: exact characters, no way to silence it, one bad text does not spoil a batch."""

from __future__ import annotations

import asyncio
import json
import tempfile

import pytest

from envs.task import Problem
from rewards import lint
from rewards.attribution import attribute
from rewards.channel import Completion
from rewards.lint import Lint, Linter, main

WEIGHTS = {"F": 0.3, "S": 0.5, "E": 0.1, "E711": 0.2}


def find(*texts: str, **linter) -> list:
    return asyncio.run(Linter(**linter).findings(texts))


def pointed(text: str, **linter) -> dict[str, str]:
    [results] = find(text, **linter)
    return {f.rule: text[f.start : f.end] for f in results}


@pytest.mark.parametrize(
    ("text", "rule", "words"),
    [
        ("import os\n", "F401", "os"),
        ("é = '日本🦀'; z = nope\n", "F821", "nope"),
        ("x = 1\r\ny = nope\r\n", "F821", "nope"),
        ("x = 1\ry = nope\r", "F821", "nope"),
        ("x = '\u2028\x0c\x85'\ny = nope\n", "F821", "nope"),  # no line ends but for str.splitlines
        ("if True:\n\tx = nope\n", "F821", "nope"),
        ("\ufeffimport os\n", "F401", "os"),
        ("x = eval('1')  # noqa\n", "S307", "eval('1')"),
        ("# ruff: noqa\nimport os  # noqa: F401\n", "F401", "os"),
        ("def f(x=[]):\n    return x\n", "B006", "[]"),
        ("x = None\ny = x == None\n", "E711", "None"),
    ],
)
def test_findings_lie_on_their_characters(text, rule, words):
    assert pointed(text)[rule] == words


def test_names_of_a_simulator_can_be_known():
    assert pointed("go_to('x')\n") == {"F821": "go_to"}
    assert pointed("go_to('x')\n", builtins=["go_to"]) == {}
    with pytest.raises(RuntimeError, match="ruff"):
        find("x = 1\n", select=["NOSUCHRULE"])


def test_code_that_does_not_parse_is_for_the_syntax_channel():
    assert find("import os\nx = (\n", "import os\n")[0] == []


def test_a_text_that_brings_ruff_down_is_found_in_its_batch():
    texts = ["import os\n", "x = " + "not " * 20_000 + "1\n", "x = 1\n", "import re\n"]
    results = find(*texts)
    assert [len(f) if f is not None else None for f in results] == [1, None, 0, 1]
    code = Completion(texts[1], [1], [(0, len(texts[1]))], (0, len(texts[1])))
    [result] = asyncio.run(Lint(WEIGHTS, cap=0.7).score([Problem("p", "")], [code]))
    assert result.score == -0.7


def test_a_parsers_tokens_are_no_passwords():
    assert find('def f(token, password="x"):\n    return token == "+"\n\n\nf(1, password="y")\n') == [[]]


def test_an_ignore_file_hides_nothing(tmp_path, monkeypatch):
    (tmp_path / ".ignore").write_text("*\n")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert [finding.rule for finding in find("import os\n")[0]] == ["F401"]


@pytest.mark.parametrize("how", ["exit 137", "kill -KILL $$", "sleep 60"])
def test_what_is_no_fault_of_the_code_is_not_graded(how, tmp_path, monkeypatch):
    ruff = tmp_path / "ruff"
    ruff.write_text(f"#!/bin/sh\n{how}\n")
    ruff.chmod(0o755)
    monkeypatch.setattr(lint, "find_ruff_bin", lambda: str(ruff))
    monkeypatch.setattr(lint, "TIMEOUT_S", 0.5)
    code = Completion("x = 1\n", [1], [(0, 6)], (0, 6))
    results = asyncio.run(Lint(WEIGHTS).score([Problem("p", "")] * 2, [code, Completion("no code", [1], [(0, 7)])]))
    assert results[0] is None and results[1].score == 0.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": {"F": -0.4}}, r"lint\.weights\.F=-0\.4"),
        ({"weights": {"F": float("nan")}}, r"lint\.weights\.F=nan"),
        ({"weights": WEIGHTS, "cap": -1.0}, r"lint\.cap=-1"),
    ],
)
def test_penalties_are_no_gain(settings, message):
    with pytest.raises(ValueError, match=message):
        Lint(**settings)


def test_a_rule_that_ruff_does_not_know_is_said_before_anything_is_graded():
    with pytest.raises(ValueError, match=r"lint\.linter: .*NOSUCHRULE"):
        asyncio.run(Lint({"F": 1.0}, linter=Linter(select=("F", "NOSUCHRULE"))).ready([]))
    with pytest.raises(ValueError, match=r"lint\.linter\.select=E7: it must be a list"):
        Linter(select="E7")


def test_nothing_odd_stops_it():
    assert len(find("\ud800", "\x00", "", "x = '" + "a" * 10**6 + "'\n")) == 4


def completion(code: str) -> Completion:
    text = f"```python\n{code}```"
    return Completion(
        text, list(range(len(text))), [(i, i + 1) for i in range(len(text))], (10, 10 + len(code)), True, True
    )


def test_weights_spans_and_cap():
    case = completion("import os\nx = y\nz = x == None\n")
    [result] = asyncio.run(Lint(WEIGHTS, cap=10).score([Problem("p", "")], [case]))
    assert result.score == pytest.approx(-0.3 - 0.3 - 0.2)
    rewards = attribute(case, result)
    assert {case.text[i] for i, value in enumerate(rewards) if value} == set("osyNone")
    assert sum(rewards) == pytest.approx(result.score)
    [capped] = asyncio.run(Lint(WEIGHTS, cap=0.4).score([Problem("p", "")], [case]))
    assert capped.score == pytest.approx(-0.4)
    assert sum(attribute(case, capped)) == pytest.approx(-0.4)


def test_what_the_prompt_supplies_is_known_and_not_counted():
    problem = Problem("p", "", setup="import math, os\ndef helper(x): return x")
    [result] = asyncio.run(Lint(WEIGHTS).score([problem], [completion("x = helper(math.pi)\ny = nope\n")]))
    assert result.note.startswith("F821") and result.score == pytest.approx(-0.3)


def test_a_byte_order_mark_hides_nothing_behind_what_the_prompt_supplies():
    problem = Problem("p", "", setup="from typing import List")
    plain, marked = (completion(f"{mark}import os\nx = nope\n") for mark in ("", "\ufeff"))
    first, second = asyncio.run(Lint(WEIGHTS).score([problem] * 2, [plain, marked]))
    assert first.score == second.score < 0
    for result, of in ((first, plain), (second, marked)):
        assert {of.text[span.start : span.end] for span in result.spans} == {"os", "nope"}


def test_an_answer_may_repeat_what_the_prompt_supplies():
    setup = "from math import pi\n\n\ndef helper(x):\n    return x\n\n\n"
    problem = Problem("p", "", setup=setup)
    repeated = completion(f"{setup}def f(x):\n    return helper(x) * pi\n")
    unused = completion(f"{setup}import os\n\n\ndef f(x):\n    return helper(x) * pi\n")
    first, second = asyncio.run(Lint({"F": 0.3, "E402": 0.1}).score([problem] * 2, [repeated, unused]))
    assert first.score == 0
    # an import in the middle of the answer's own text
    assert second.score == pytest.approx(-0.3 - 0.1) and {unused.text[s.start : s.end] for s in second.spans} >= {"os"}


def test_the_command(tmp_path, capsys):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"id": "a", "text": "import os\\n"}\n{"id": "b"}\n')
    assert main(["check", str(path)]) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first["id"] == "a" and [f["rule"] for f in first["findings"]] == ["F401"]
    assert set(first["findings"][0]) == {"rule", "start", "end", "message"} and "error" in second


def test_a_batch_that_is_given_up_holds_up_nobody():
    """Where another channel raises, or a run is stopped."""

    async def raises() -> None:
        await asyncio.sleep(0)
        raise ValueError("another channel")

    async def together() -> None:
        await asyncio.gather(Lint({"F": 0.1}).score([Problem("p", "")], [completion("import os\n")]), raises())

    for _ in range(20):
        with pytest.raises(ValueError, match="another channel"):
            asyncio.run(together())


def test_a_weight_that_no_finding_can_have_is_refused():
    with pytest.raises(ValueError, match=r"lint.weights.C901=0.5: no finding can have this weight.* add C901 there"):
        Lint({"F": 0.1, "C901": 0.5})
    Lint({"E": 0.1, "W": 0.1, "S307": 0.5, "C": 0.1}, linter=Linter(select=["E4", "W605", "S", "C901"]))
