"""DeepCoder: what a problem's text says of right answers, and that answers which it takes pass."""

from __future__ import annotations

import pytest

from envs.deepcoder import DeepCoder
from envs.deepcoder.cases import normalise
from envs.deepcoder.statement import in_any_case, in_any_order, several_answers, tolerance_of
from envs.task import TaskError
from tests.envs.test_deepcoder import SHARED, all_problems, graded, task

__all__ = ["task"]


def test_rows_that_take_any_of_several_answers_are_left_out(task, tmp_path):
    """Their tests know one answer, so most right ones would fail."""
    usual = DeepCoder(str(SHARED))
    assert dict(usual.dropped) == {"takes any of several answers (task.env.several_answers=keep)": 45}
    gone = {p.id for p in all_problems(task)} - {p.id for p in all_problems(usual)}
    assert {"deepcoder/cc-0014", "deepcoder/cc-0134", "deepcoder/cf-0246", "deepcoder/lcd-train-89"} <= gone
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
        ("For each test case, output any string of length $n$ that satisfies the conditions.", True),
        ("Return any array of n unique integers such that they add up to 0.", True),
        ("Find any perfect coloring and cut, or report that there are none.", True),
        ("Print a line of zeros and ones, the binary form of any suitable number.", True),
        ("Output any of the possible strings.", True),
        ("If multiple optimal solutions exist, output an arbitrary one.", True),
        ("If there are many answers, output one of them.", True),
        ("Any valid answer is accepted.", True),
        ("You can print the indices in arbitrary order.", True),
        ("You can perform the operations in any order.", False),
        ("If you cannot find any path that ends there, print -1.", False),
        ("Print -1 if the scores are not consistent with any valid set of games that were played.", False),
        ("For each test case print either -1 or the number of pairs that fit.", False),
        ("Output any other number that you like as a comment.", False),
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
        ("Print it with accuracy 10^-6.", 1e-6),
        ("if the absolute difference does not exceed 10^{-6}.", 1e-6),
        ("if the absolute error is at most 10**-6", 1e-6),
        ("an error of 10<sup>-5</sup>", 1e-5),
        ("The input has a precision of 0.01. Print the answer with precision 0.001.", 1e-3),
        ("The numbers of the input have a precision of 0.01", None),
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


@pytest.mark.parametrize(
    ("text", "any_case"),
    [
        ("You can output the answer in any case (upper or lower).", True),
        ("You can print each letter in any register (upper or lower).", True),
        ("The output is case-insensitive, so `yEs` and `No` will also be accepted.", True),
        ("For each test case, print YES (case-insensitive) if the farm is ideal.", True),
        ("You may print each character of the string in uppercase or lowercase (for example, yEs).", True),
        ("Each letter can be printed in either upper case or lower case.", True),
        ("Each letter can be printed in any case.", True),
        ('Output one line: "NO" if it will not be removed in any case.', False),
        ("A letter is in uppercase or lowercase; print it as it is.", False),
        ("A word can be long. Print its letters in uppercase or lowercase as they came.", False),
        ("Names are compared case-insensitively; count them.", False),
        ("Print the answer in upper case.", False),
    ],
)
def test_what_a_statement_says_of_capital_letters(text, any_case):
    assert in_any_case(f"A problem. {text}\n\nExamples") is any_case


def test_real_statements_that_take_letters_of_any_case(task):
    taken = {p.id: p for p in all_problems(task) if p.any_case}
    assert len(taken) == 33 and "deepcoder/cf-0061" in taken
    assert not any(problem.entry_point for problem in taken.values())


@pytest.mark.parametrize(
    ("text", "unordered"),
    [
        ("You may return the answer in any order.", True),
        ("return the answer in any arbitrary order.", True),
        ("Notice that the order of the output and the order of the triplets does not matter.", True),
        ("Rearrange the letters of the new string in any arbitrary order.", False),
        ("The transactions can be performed in any order.", False),
        ("Return how often the order of the operations does not matter.", False),
    ],
)
def test_what_a_statement_says_of_the_order(text, unordered):
    assert in_any_order(f"A problem. {text}\n\nExamples") is unordered


def test_results_of_one_item_stay_lists_where_the_function_returns_lists():
    tests = {"fn_name": "evens", "inputs": [[[1, 2]], [[4, 5]]], "outputs": [[2], [4]]}
    kept = "class Solution:\n    def evens(self, nums: List[int]) -> List[int]:\n        "
    assert [case.expected for case in normalise(tests, None, kept).cases] == [[2], [4]]
    assert [case.expected for case in normalise(tests, None, "def evens(nums):").cases] == [2, 4]
    nested = tests | {"outputs": [[[2]], [[4]]]}
    assert [case.expected for case in normalise(nested, None, kept).cases] == [[2], [4]]


def test_a_zero_is_an_input():
    cases = normalise({"inputs": [0, None, 3], "outputs": [0, "nothing", 9]}).cases
    assert [case.stdin for case in cases] == ["0", "", "3"]
