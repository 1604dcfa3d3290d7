"""What a test sees of a program: exceptions' texts, answers as JSON, numbers of any size, files that links lead to; and
that no test sees what another one has changed."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest

from envs.sandbox.comparison import decode


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


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from fractions import Fraction\ndef f(): return Fraction(10**400)", 5),
        ("from fractions import Fraction\ndef f(): return [Fraction(10**5000)]", 5),
        ("def f(): return range(10**5000)", 5),
        ("from decimal import Decimal\ndef f(): return {Decimal('1e9999999')}", {5}),
        ("from decimal import Decimal\ndef f(): return {Decimal('1e9999999'): 1}", {5: 1}),
    ],
)
def test_numbers_too_large_to_compare_or_show_are_wrong_answers(grade, code, expected):
    assert grade.call(code, ((), expected)).verdict == "fail"


def test_large_decimals_are_told_apart_by_all_of_their_digits(grade):
    code = "from decimal import Decimal\ndef f(x): return {Decimal(x)}"
    digits = "1234567890123456789012345678901"
    right = grade.call(code, ((f"{digits}E+500",), {Decimal(f"{digits}0E+499")}))
    assert right.verdict == "pass"
    assert grade.call(code, ((f"{digits}E+500",), {Decimal(f"{digits[:-1]}2E+500")})).verdict == "fail"


def test_a_short_record_of_a_large_array_is_refused():
    """A range has any length in a few bytes; its list would take gigabytes of the caller's memory."""
    started = time.process_time()
    with pytest.raises(ValueError, match="shape"):
        decode(["a", "x", ["l", 10**9], ["r", "0", f"{10**9:x}", "1"]])
    assert time.process_time() - started < 30, "a hang"


@pytest.mark.parametrize(
    "change",
    [
        "import decimal\ndecimal.getcontext().prec = 2",
        "import warnings\nwarnings.simplefilter('error')",
        "import math\nmath.isclose = lambda *a, **k: False",
        "import builtins\nbuiltins.print = None",
        "setattr(__import__('math'), 'floor', None)",
    ],
)
def test_what_a_test_changes_is_gone_for_the_next(grade, change):
    code = "def f(x): return x / 7"
    test = (
        "import decimal, math, warnings\n"
        "warnings.warn('seen')\nprint(end='')\n"
        "assert decimal.Decimal(1) / 7 == decimal.Decimal('0.1428571428571428571428571429')\n"
        "assert math.isclose(f(1), 1 / 7) and math.floor(f(8)) == 1\n"
    )
    for _ in range(3):
        assert grade.check(code, f"{change}\nassert f(7) == 1").verdict == "pass"
        assert grade.check(code, test).verdict == "pass"


@pytest.mark.parametrize(
    "test",
    [
        "out = []\nout.extend(map(candidate, [1, 2]))\nassert out == [2, 4]",
        "def check(candidate):\n    s = set()\n    s.update(map(candidate, [1, 2]))\n    assert s == {2, 4}",
        "xs = [3, 1, 2]\nxs.sort(key=candidate)\nassert xs == [1, 2, 3]",
        "out = []\nfor x in map(f, (1, 2)):\n    out.append(x)\nassert out == [2, 4]",
    ],
)
def test_another_function_may_use_what_the_candidate_returns(grade, test):
    assert grade.check("def f(x): return 2 * x", test).verdict == "pass"


@pytest.mark.parametrize("asked", ["try:\n    f(-1)\nexcept Low:\n    pass", "assert isinstance(f(1), Low)"])
def test_a_test_that_asks_for_the_programs_own_class_is_not_graded(grade, asked):
    code = "class Low(Exception): pass\ndef f(x):\n    if x < 0: raise Low\n    return Low()"
    outcome = grade.check(code, asked)
    assert outcome.verdict == "error" and "own class Low" in outcome.note


@pytest.mark.parametrize(
    ("name", "test"),
    [
        ("Fraction", "from fractions import Fraction\nassert isinstance(f(1), Fraction)"),
        ("json", "import json\ntry: f(1)\nexcept json.JSONDecodeError: pass\nassert f(1) == 2"),
        ("Stop", "class Stop(Exception): pass\ntry: r = f(1)\nexcept Stop: r = 1\nassert r == 1"),
    ],
)
def test_a_class_named_like_something_of_the_tests_own_excuses_nothing(name, test, grade):
    assert grade.check("def f(n): return 7", test).verdict == "fail"
    assert grade.check(f"class {name}: pass\ndef f(n): return 7", test).verdict == "fail"
