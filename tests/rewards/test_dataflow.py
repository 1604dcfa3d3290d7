"""The dataflow channel: CodeBLEU's figure against an oracle, F1 as the reward, on the variables responsible."""

from __future__ import annotations

import asyncio
import json

import pytest

from envs.sandbox import LocalSandbox
from envs.task import Problem
from rewards.analysis.python_dataflow import flows, match, strip
from rewards.attribution import attribute
from rewards.channel import Completion
from rewards.dataflow import PACKAGES, Dataflow, main
from tests.oracles import rows


@pytest.fixture(scope="module")
def box():
    sandbox = LocalSandbox(1, packages=PACKAGES)
    yield sandbox
    asyncio.run(sandbox.close())


def test_every_pair_of_the_oracle():
    pairs = rows("dataflow")
    assert len(pairs) == 299
    for row in pairs:
        results = match(row["candidate"], row["reference"])
        if row["dataflow_match_ordered"] is None:
            assert results is None, row["id"]
            continue
        assert results.recall == pytest.approx(row["dataflow_match_ordered"]), row["id"]
        assert (results.candidate_flows, results.reference_flows) == (row["candidate_flows"], row["reference_flows"])
        if row["dataflow_match"] is not None and row["candidate"].isascii() and row["reference"].isascii():
            assert results.recall == pytest.approx(row["dataflow_match"]), row["id"]


def test_recall_can_be_bought_and_f1_cannot():
    reference = "def f(xs):\n    total = 0\n    for x in xs:\n        total = total + x\n    return total\n"
    noise = "".join(f"f(v{i}, v{i % 7})\n" for i in range(200))
    bought = match(noise, reference)
    assert bought.recall > 0.3 and bought.f1 < 0.1
    assert match(reference, reference).f1 == 1.0
    renamed = reference.replace("total", "s").replace("xs", "values")
    assert match(renamed, reference).f1 == 1.0


TEXT = '''# größe
def f(a, b):
    """a, b -> c"""

    größe = a + b  # sum
    return wrong + größe
'''


def test_a_string_that_is_unpacked_is_one_value():
    results = match('a, b, c = "xyz"\nd = a\n', "a, b, c = x\nd = a\n")
    assert results is not None and results.f1 == 1 and results.unmatched == []


def test_spans_lead_back_through_comments_docstrings_and_wide_characters():
    stripped, starts = strip(TEXT)
    assert stripped == "def f(a, b):\n    größe = a + b  \n    return wrong + größe" and starts[0] == (0, 0)
    assert [TEXT[slice(*span)] for _, span in flows(TEXT)] == ["a", "b", "größe", "a", "b", "größe"]
    unfinished = "s = (\n\n# c\n"  # cannot be tokenized: kept as it is
    assert strip(unfinished) == (unfinished, [(0, 0)])


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_other_line_ends_change_nothing(end):
    code = "x = 1  # one\ny = x\nz = x + y\n"
    assert match(code.replace("\n", end), code).f1 == 1.0 and match(code, code.replace("\n", end)).f1 == 1.0


def completion(code: str) -> Completion:
    text = f"```python\n{code}```"
    tokens = [(i, i + 1) for i in range(len(text))]
    return Completion(text, list(range(len(text))), tokens, (10, 10 + len(code)), True, True)


def test_variables_with_other_flows_are_paid_less(box):
    problem = Problem("p", "", reference="def f(a, b):\n    c = a + b\n    return c\n")
    right = completion("def g(x, y):\n    z = x + y\n    return z\n")
    wrong = completion("def g(x, y):\n    z = x + x\n    return z\n")
    without = Completion("no code", [1], [(0, 7)])
    results = asyncio.run(Dataflow(box).score([problem] * 3, [right, wrong, without]))
    assert results[0].score == pytest.approx(1.0) and results[2].score == 0.0
    assert 0 < results[1].score < 1 and "recall" in results[1].note
    for case, result in zip((right, wrong), results, strict=False):
        assert sum(attribute(case, result)) == pytest.approx(result.score)
    rewards = attribute(wrong, results[1])
    least = {wrong.text[i] for i, value in enumerate(rewards) if value < 0}
    assert least and least <= set("xz")


def test_without_a_reference_the_channel_is_silent(box):
    problems = [Problem("p", ""), Problem("q", "", reference="x = 1\n"), Problem("r", "")]
    answers = [completion("x = 1\n"), completion("x = 1\n"), Completion("no code", [1], [(0, 7)])]
    results = asyncio.run(Dataflow(box).score(problems, answers))
    assert [r.silent for r in results] == [True, False, True] and results[1].score == pytest.approx(1.0)
    assert results[0].score == 0.0 and "no reference solution" in results[0].note


def test_a_reference_may_say_nothing_and_the_library_is_needed(box):
    [nothing] = asyncio.run(Dataflow(box).score([Problem("p", "", reference="pass\n")], [completion("x = 1\n")]))
    assert nothing.silent and nothing.score == 0.0 and "no data flow" in nothing.note
    without = Completion("no code", [1], [(0, 7)])  # or its other channels would weigh less
    assert asyncio.run(Dataflow(box).score([Problem("p", "", reference="pass\n")], [without]))[0].silent
    bare = LocalSandbox(1)
    with pytest.raises(RuntimeError, match=r"sandbox\.packages"):
        asyncio.run(Dataflow(bare).score([Problem("p", "", reference="x = 1\n")], [completion("x = 1\n")]))
    asyncio.run(bare.close())


def test_the_command(tmp_path, capsys):
    path = tmp_path / "pairs.jsonl"
    row = {"id": 1, "candidate": "a = b\n", "reference": "a = b\nc = d\n"}
    path.write_text(json.dumps(row) + '\n{"id": 2, "candidate": "x"}\n')
    assert main(["match", str(path)]) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first == {"id": 1, "score": pytest.approx(2 / 3), "recall": 0.5} and "error" in second


@pytest.mark.parametrize("word", ["for i in x:", "while x:", "if x:"])
def test_nested_loops_and_huge_programs_are_not_similar_and_do_not_stall(box, word):
    """12: sixteen loops around each other took 38 s."""
    nested = "".join("    " * depth + word + "\n" for depth in range(24)) + "    " * 24 + "x = x + 1\n"
    huge = ["".join(f"v{n} = v{n - 1} + 1\n" for n in range(20_000)), "x = " + "(" * 100_000, "x = " + "-a" * 30_000]
    texts = [*[nested] * 20, *huge, "a = b\n"]
    problems = [Problem("p", "", reference="a = b\nc = d\n")] * len(texts)
    results = asyncio.run(Dataflow(box).score(problems, [completion(text) for text in texts]))
    assert all(result is not None and result.score < 0.2 for result in results[:-1])
    assert results[-1].score == pytest.approx(2 / 3)
    assert all("crashes" not in result.note for result in results)


def test_an_answer_that_continues_a_program_is_compared_as_a_whole(box):
    reference, begun = "    total = a + b\n    return total\n", "def f(a, b):\n"
    code = "    total = a + a\n    return total\n"
    continued = Problem("p", "", reference=reference, begun=begun)
    whole = Problem("p", "", reference=begun + reference)
    answers = completion(code), completion(begun + code)
    [here, there] = asyncio.run(Dataflow(box).score([continued, whole], answers))
    assert here.score == pytest.approx(there.score) and 0 < here.score < 1
    charged = [
        [each.text[s.start : s.end] for s in result.spans if s.value < 0]
        for each, result in zip(answers, (here, there), strict=True)
    ]
    assert charged[0] == charged[1] != []
