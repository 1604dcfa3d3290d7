"""What is told of a failing program agrees with how it was graded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envs.feedback.python_tests import PythonTests
from envs.sandbox import Limits, LocalSandbox, StdioCase
from envs.task import Problem
from tests.envs.test_episode import STDIO, observed


@pytest.mark.parametrize(
    "code",
    [
        "a, b = map(int, open(0).read().split())\nprint(a - b)",
        "import os\na, b = map(int, os.read(0, 99).split())\nos.write(1, str(a - b).encode())",
        "a, b = map(int, open('/dev/stdin').read().split())\nprint(a - b)",
        "import atexit\na, b = map(int, input().split())\natexit.register(print, a - b)",
        "import threading\ndef main():\n    a, b = map(int, input().split())\n    print(a - b)\n"
        "threading.Thread(target=main).start()",
    ],
    ids=["open", "os", "/dev/stdin", "atexit", "thread"],
)
def test_a_program_may_read_and_write_as_it_likes(sandbox, code):
    problem = replace(STDIO, question="Add.\n1 2\n3\n", cases=(StdioCase("1 2\n", "3\n"),), reference="")
    (seen,) = observed(PythonTests(sandbox), problem, code)
    assert seen.text.split("\n")[-2:] == ["Output:", "    -1"]


def test_without_a_shown_sample_a_program_is_only_compiled(sandbox):
    problem = replace(STDIO, question="Double it.")
    seen, broken = observed(PythonTests(sandbox), problem, "print(2 * int(input()))", "print(2 * int(input())")
    assert seen.fine and "does not compile" in broken.text


def test_a_wrong_answer_before_a_program_is_stopped_is_what_is_told():
    sandbox = LocalSandbox(workers=1, limits=Limits(wall_s=2.0, cpu_s=1.0))
    problem = Problem("x", ">>> f(1)\n1\n>>> f(2)\n2\n", "f")
    (seen,) = observed(PythonTests(sandbox), problem, "def f(n):\n    while n == 2: pass\n    return 7\n")
    assert seen.text == "This fails: f(1)\nExpected: 1\nGot:\n    7"


def test_a_shown_assert_is_as_exact_as_a_graded_one(sandbox):
    asserted = Problem("x", "assert f(3) == 0.3", "f", check_src="assert f(3) == 0.3")
    rounded = Problem("y", ">>> f(3)\n0.3\n", "f", check_src="assert abs(f(3) - 0.3) < 1e-9")
    code = "def f(n):\n    return 0.1 * n\n"
    (seen,), (fine,) = (observed(PythonTests(sandbox), problem, code) for problem in (asserted, rounded))
    assert not seen.fine and seen.text.startswith("This fails: f(3)") and fine.fine


def test_an_indented_block_and_a_repeated_beginning_are_read_as_the_grader_reads_them(sandbox):
    problem = Problem("x", ">>> f(1)\n2\n", "f")
    begun = replace(problem, begun="def f(n):\n")
    for asked, code in ((problem, "  def f(n):\n      return n\n"), (begun, "def f(n):\n    return n\n")):
        (seen,) = observed(PythonTests(sandbox), asked, code)
        assert seen.text.startswith("This fails: f(1)"), seen.text
