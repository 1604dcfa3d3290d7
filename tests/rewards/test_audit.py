"""The audit: which answers take no work, how references are damaged, and which tasks are named."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from envs.basics import Basics
from envs.etk.completion.cases import piece_spans
from envs.etk.completion.task import EtkCompletion
from envs.mbpp import Mbpp
from envs.pacman import Corridor
from envs.sandbox import FunctionCase, StdioCase
from envs.task import CodeBlockTask, Problem
from rewards.audit.answers import as_answer, shown_calls, useless_answers
from rewards.audit.damage import KINDS, damaged
from rewards.audit.measure import Audit, Earned, _damaged, audit
from rewards.compose import Reward
from rewards.form import Form
from rewards.pacman_moves import Moves
from rewards.unit_tests import UnitTests

ROOT = Path(__file__).parents[2]
ADD = Problem(
    "t/add",
    "Add them. For example, add(1, 2) == 3.",
    "add",
    (FunctionCase((1, 2), 3), FunctionCase((2, 5), 7), FunctionCase((-1, 1), 0)),
    reference="def add(a, b):\n    return a + b\n",
    shown=1,
)
DOUBLE = Problem(
    "t/double",
    "Double it, so that `double('a')` gives 'aa':\n>>> double(4)\n8\n",
    "double",
    (FunctionCase((4,), 8), FunctionCase((5,), 10)),
    reference="def double(x):\n    return x * 2\n",
)
TASK = CodeBlockTask([ADD, DOUBLE], 1, 0, "")
TASK.name = "t"


def codes(problem: Problem, other: str = "") -> dict[str, str]:
    return {name: answer.code or "" for name, answer in useless_answers(TASK, problem, other)}


def test_the_examples_that_a_prompt_shows_are_found():
    assert shown_calls(ADD) == [("(1, 2,)", "3"), ("(1, 2)", "3")]
    assert ("(4,)", "8") in shown_calls(DOUBLE)
    text = "It must pass:\n\n```python\nassert f([1, 'a'], None) == {'a': 1}\n```"
    assert shown_calls(Problem("t/f", text, "f")) == [("([1, 'a'], None,)", "{'a': 1}")]
    assert shown_calls(Problem("t/f", "f(x) == y, f(1) > 2, f(2) == g(2)", "f")) == []


def test_useless_answers_hold_no_work():
    results = codes(ADD, DOUBLE.reference)
    assert results["nothing"] == "" and not results["empty code"].strip() and results["a comment alone"].startswith("#")
    assert "def add(x)" in results["another problem's reference"]
    scope: dict = {}
    exec(results["the examples shown, hard-coded"], scope)
    assert (scope["add"](1, 2), scope["add"](2, 5)) == (3, None)
    exec(results["returns its argument"], scope)
    assert scope["add"](7, 8) == 7
    program = Problem(
        "t/p", "Print twice the number. 2 gives 4.", None, (StdioCase("2\n", "4\n"), StdioCase("3\n", "6\n"))
    )
    assert {"prints YES", "prints its input", "the examples shown, hard-coded"} <= codes(program).keys()


@pytest.mark.parametrize("kind", ["operator", "constant"])
@pytest.mark.parametrize(
    "code",
    [
        "def f(x):\n    '''1 + 1'''\n    # 2 < 3\n    return x * 2 + 1 if x > 3 else 'é' + x\n",
        "for (int i = 0; i < 10; ++i) { /* 1 + 2 */ sum += 2.5 * a[i]; }  // 3 < 4\n",
        "      do 10 i = 1, n\n      s = s + 2.0 * a(i)\n 10   continue\n",
    ],
)
def test_damage_is_one_change_outside_comments(code, kind):
    results = damaged(code, kind, 50, "seed")
    assert results and len(set(results)) == len(results) and results == damaged(code, kind, 50, "seed")
    for text in results:
        assert text != code and all(note in text for note in ("1 + 1", "2 < 3") if note in code)
        assert all(note in text for note in ("/* 1 + 2 */", "// 3 < 4") if note in code)


def test_one_of_several_masked_places_is_damaged_and_useless_answers_fill_all():
    task, damaged_places = EtkCompletion(places=3), set()
    for problem in task.problems("train"):
        places, case = problem.data.get("places", ()), problem.data["case"]
        for kind in KINDS:
            for text in _damaged(problem, kind, "0"):
                pieces = [text[start:end] for start, end in piece_spans(text, len(case.places))]
                differ = [a != b for a, b in zip(pieces, places or [problem.reference], strict=True)]
                assert sum(differ) == 1
                damaged_places.add(differ.index(True))
        answers = [answer.code or "" for name, answer in useless_answers(task, problem, "") if name == "early exit"]
        assert [answer.count("std::_Exit(0);") for answer in answers] == ([1, len(places)] if places else [1])
    assert damaged_places == {0, 1, 2}


def test_moves_and_code_with_fences_are_answers_as_they_stand():
    corridor = Corridor(4)
    [problem] = corridor.problems("train")
    assert as_answer(corridor, problem, problem.reference).text == problem.reference
    [grade] = asyncio.run(
        Reward({"moves": Moves()}, {"moves": 1.0}).grade([problem], [as_answer(corridor, problem, problem.reference)])
    )
    assert grade is not None and grade.passed and grade.total == 1


def test_the_audit_ranks_answers_by_what_they_earn(sandbox):
    paid = Reward({"unit_tests": UnitTests(sandbox), "form": Form()}, {"unit_tests": 1.0, "form": 0.25})
    results = asyncio.run(audit(paid, TASK, [ADD, DOUBLE]))
    assert results.reference == Earned(1.0, 2) and results.ungraded == 0
    assert results.useless["nothing"].share == results.useless["empty code"].share == 0
    assert results.useless["a comment alone"].share == 0  # 8: an empty block earned what form pays
    assert results.useless["early exit, os._exit"].share == pytest.approx(0.2)
    assert results.useless["the examples shown, hard-coded"].share == pytest.approx((0.2 + (0.5 + 0.25) / 1.25) / 2)
    assert results.row()["useless_name"] == results.best == "the examples shown, hard-coded"
    assert "| reference | as it stands | 100.0% | 2 |" in results.table()


def test_a_task_is_named_for_a_fifth_of_full_marks_or_for_more_than_an_honest_wrong_answer():
    def complaints(useless, honest):
        return Audit("t", 1, {"nothing": Earned(useless, 1)}, {"operator": Earned(honest, 1)}).complaints

    assert complaints(0.2, 0.2) == [] and complaints(0.1, 0.3) == []
    assert len(complaints(0.21, 0.3)) == 1 and len(complaints(0.1, 0.05)) == 1 and len(complaints(0.3, 0.1)) == 2
    assert Audit("t", 1, {"nothing": Earned(0.0, 1)}).row()["honest_wrong"] is None
    assert "none of the problems has one" in Audit("t", 1, {"nothing": Earned(0.0, 1)}).table()


def test_tests_that_the_prompt_shows_pay_nothing_by_themselves(sandbox):
    """8: on MBPP the example shown, hard-coded, earned a third of full marks."""
    shown = "def add(a, b):\n    return 3 if (a, b) == (1, 2) else None\n"
    half = "def add(a, b):\n    return a + b if a > 0 else None\n"
    unseen = "def add(a, b):\n    return a + b if (a, b) != (1, 2) else None\n"
    answers = [as_answer(TASK, ADD, code) for code in (shown, half, unseen, ADD.reference)]
    results = asyncio.run(UnitTests(sandbox).score([ADD] * 4, answers))
    assert [result.score for result in results] == pytest.approx([0, 1 / 2, 2 / 3, 1])
    check = Problem(
        "t/c", "", "add", check_src="assert add(1, 2) == 3\nassert add(2, 5) == 7\nassert add(-1, 1) == 0", shown=1
    )
    results = asyncio.run(UnitTests(sandbox).score([check] * 4, answers))
    assert [result.score for result in results] == pytest.approx([0, 1 / 2, 2 / 3, 1])


def test_tasks_say_how_many_tests_they_show(tmp_path):
    assert {problem.shown for problem in Basics().problems("train")} == {1}
    row = {
        "task_id": 11,
        "text": "Add.",
        "code": "def f(a):\n    return a\n",
        "test_list": ["assert f(1) == 1", "assert f(2) == 2"],
    }
    (tmp_path / "mbpp.jsonl").write_text(json.dumps(row))
    for count, shown in ((0, 0), (1, 1), (5, 2)):
        [problem] = Mbpp(path=str(tmp_path / "mbpp.jsonl"), shown_tests=count).problems("test")
        assert problem.shown == shown
    assert "_Exit(0)" in str(EtkCompletion().problems("train")[0].data["useless"])


def command(*overrides: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rewards.audit", *overrides], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_command_prints_a_table_and_one_json_line():
    done = command("task=corridor", "task.env.length=8")
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout.splitlines()[-1])
    assert {"task", "useless_best", "useless_name", "honest_wrong", "reference"} <= row.keys()
    assert (row["task"], row["useless_best"], row["reference"]) == ("corridor", 0.5, 1.0)
    assert done.stdout.startswith("| corridor | answer |") and "more than 20%" in done.stdout


@pytest.mark.parametrize("override", ["task=nonsense", "task.env.length=0", "audit.problems=0", "audit.split=dev"])
def test_wrong_settings_are_one_line(override):
    done = command(*(["task=corridor"] if "task=" not in override else []), override)
    assert (
        done.returncode == 2
        and len(done.stderr.strip().splitlines()) == 1
        and done.stderr.startswith("rewards.audit: ")
    )
