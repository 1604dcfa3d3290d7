"""What a test sees of a program: its exceptions' texts, answers as JSON, files that links lead to."""

from __future__ import annotations

import pytest


def test_expected_tuples_are_lists_where_answers_are_compared_as_json(grade):
    right = grade.call("def f(x): return [x, (x,)]", ((1,), (1, [1])), as_json=True)
    assert right.verdict == "pass", right
    assert grade.call("def f(x): return [x]", ((1,), (2,)), as_json=True).verdict == "fail"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("raise ValueError('bad')", "except ValueError as e: assert str(e) == 'bad' and e.args == ('bad',)"),
        ("return {}['a']", "except KeyError as e: assert e.args == ('a',)"),
        ("raise ValueError", "except ValueError as e: assert str(e) == ''"),
        ("raise ValueError('two\\nlines (line 9)')", "except ValueError as e: assert str(e).startswith('two\\nlines')"),
        ("return int('x')", "except ValueError as e: assert 'invalid literal' in str(e)"),
    ],
)
def test_a_test_may_read_what_an_exception_says(grade, body, expected):
    code = f"def f():\n    {body}\n"
    outcome = grade.check(code, f"def check(f):\n    try: f()\n    {expected}\n    else: assert False")
    assert outcome.verdict == "pass", outcome
    untested = grade.check(code, "def check(f):\n    f()")
    assert untested.verdict == "fail" and "(line 2)" in untested.note


def test_links_bring_back_files_of_the_job_alone(grade):
    script = "ln -s /etc/passwd out.txt; ln -s / up; echo 1 > real; ln -s real near"
    outcome = grade.command(["/bin/sh", "-c", script], keep=("out.txt", "up/etc/passwd", "near"))
    assert outcome.files == {"near": b"1\n"}
