"""DeepCoder: what a problem's text says of right answers, and that answers which it takes pass."""

from __future__ import annotations

import pytest

from envs.deepcoder import DeepCoder
from envs.deepcoder.statement import several_answers, tolerance_of
from envs.task import TaskError
from tests.envs.test_deepcoder import SHARED, all_problems, graded, task

__all__ = ["task"]


def test_rows_that_take_any_of_several_answers_are_left_out(task, tmp_path):
    """Their tests know one answer, so most right ones would fail."""
    usual = DeepCoder(str(SHARED))
    assert dict(usual.dropped) == {"takes any of several answers (task.env.several_answers=keep)": 42}
    gone = {p.id for p in all_problems(task)} - {p.id for p in all_problems(usual)}
    assert {"deepcoder/cc-0014", "deepcoder/cc-0134", "deepcoder/lcd-train-89"} <= gone
    with pytest.raises(TaskError, match=r"task\.env\.several_answers=no: choose drop or keep"):
        DeepCoder(str(SHARED), several_answers="no")


@pytest.mark.parametrize(
    ("text", "several"),
    [
        ("If there are multiple answers, print any of them.", True),
        ("There can be several solutions; you may output any.", True),
        ("Otherwise, print any suitable value of d.", True),
        ("Return any valid n-bit sequence.", True),
        ("You can print the pairs in any order.", True),
        ("You can perform the operations in any order.", False),
        ("He may choose any one of them.", False),
        ("If the guests cannot find any solution, print -1.", False),
        ("Print any number of spaces.", False),
        ("The function should not return any value.", False),
        ("Count the ways; there may be multiple ways.", False),
    ],
)
def test_what_a_statement_says_of_several_answers(text, several):
    assert several_answers(f"A problem. {text}\n\nExamples") is several


@pytest.mark.parametrize(
    ("text", "tolerance"),
    [
        ("if its absolute or relative error does not exceed $10^{-6}$.", 1e-6),
        ("Answers within 10-5 of the actual answer will be accepted.", 1e-5),
        ("within 10^-5 of the correct answer", 1e-5),
        ("if the error is at most 1e-4", 1e-4),
        ("with an absolute error of at most 0.001", 1e-3),
        ("accepted if \\frac{|a - b|}{max(1, |b|)} ≤ 10^{-4}. The error of 10^{-9} is not asked.", 1e-4),
        ("-10^9 <= x <= 10^{9}, an error is printed", None),
        ("modulo 10^{9} + 7", None),
        ("within 10 - 25 days", None),
    ],
)
def test_what_a_statement_says_of_errors(text, tolerance):
    assert tolerance_of(text) == (tolerance and pytest.approx(tolerance))


def test_the_error_that_a_statement_allows_is_allowed(task, sandbox):
    """Answers that the statement takes: rounded or with all digits, and lists in another order."""
    problems = {problem.id: problem for problem in all_problems(task)}
    rounded = problems["deepcoder/lcd-test-separate-squares-ii"]
    program, listed = problems["deepcoder/cc-0001"], problems["deepcoder/lcd-test-find-indices-of-stable-mountains"]
    table = {case.stdin: case.stdout for case in program.cases}

    def printing(change: str) -> str:
        return f"import sys\nx = float({table!r}[sys.stdin.read()])\nprint({change})"

    backwards = (
        "def stableMountains(height, t):\n    return [i for i in range(len(height) - 1, 0, -1) if height[i - 1] > {}]"
    )
    jobs = [
        rounded.job(
            rounded.reference
            + "\n_f = Solution.separateSquares\nSolution.separateSquares = lambda s, q: round(_f(s, q), 5)",
            "right rounded",
        ),
        rounded.job(
            rounded.reference
            + "\n_f = Solution.separateSquares\nSolution.separateSquares = lambda s, q: _f(s, q) + 1e-3",
            "wrong rounded",
        ),
        *(
            program.job(printing(f"x + {error}"), f"{right} {error}")
            for error, right in ((5e-5, "right"), (3e-4, "wrong"))
        ),
        listed.job(backwards.format("t"), "right order"),
        listed.job(backwards.format("t + 1"), "wrong items"),
    ]
    assert [i for i, v in graded(sandbox, jobs).items() if (v == "pass") != i.startswith("right")] == []
