"""What honest programs return and what tests do with it: NumPy, exact numbers, objects, functions."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from envs.sandbox import FunctionCase, Job, run_sync
from envs.sandbox.comparison import same, shown

RESULTS = [
    ("import numpy as np\ndef f(): return np.int64(3)", 3),
    ("import numpy as np\ndef f(): return np.uint8(200)", 200),
    ("import numpy as np\ndef f(): return [np.int32(3), np.bool_(True), np.float32(0.5)]", [3, True, 0.5]),
    ("import numpy as np\ndef f(): return np.float64(0.1)", 0.1),
    ("import numpy as np\ndef f(): return np.longdouble(0.5)", 0.5),
    ("import numpy as np\ndef f(): return np.complex128(1 + 2j)", 1 + 2j),
    ("import numpy as np\ndef f(): return np.arange(6).reshape(2, 3)", [[0, 1, 2], [3, 4, 5]]),
    ("import numpy as np\ndef f(): return np.array(7)", 7),
    ("import numpy as np\ndef f(): return (np.array([True]), np.array([0.5]))", ([True], [0.5])),
    ("import numpy as np\ndef f(): return {np.int64(1): np.zeros((0, 3))}", {1: []}),
    ("import numpy as np\ndef f(): return np.array(['a', 'b'])", ["a", "b"]),
    ("import numpy as np\ndef f(): return {np.str_('a'), 'b'}", {"a", "b"}),
    ("from decimal import Decimal\ndef f(): return Decimal('1.50')", 1.5),
    ("from decimal import Decimal\ndef f(): return [Decimal('0.1')]", [0.1]),
    ("from decimal import Decimal\ndef f(): return Decimal(3)", 3),
    ("from decimal import Decimal\ndef f(): return Decimal('1.5')", Decimal("1.5")),
    ("from fractions import Fraction\ndef f(): return Fraction(1, 3)", 1 / 3),
    ("from fractions import Fraction\ndef f(): return Fraction(1, 3)", Fraction(1, 3)),
    ("from fractions import Fraction\ndef f(): return {Fraction(4, 2), 0.5}", {2, 0.5}),
    ("def f(): return bytearray(b'a')", b"a"),
]


def test_results_of_honest_idioms_pass(sandbox):
    jobs = [Job(code, "function", code, "f", (FunctionCase((), expected),)) for code, expected in RESULTS]
    wrong = [Job(code, "function", code, "f", (FunctionCase((), "something else"),)) for code, _ in RESULTS]
    outcomes = run_sync(sandbox, [*jobs, *wrong])
    assert {o.id: o.note for o in outcomes[: len(jobs)] if o.verdict != "pass"} == {}
    assert {o.verdict for o in outcomes[len(jobs) :]} == {"fail"}


@pytest.mark.parametrize(
    ("value", "expected", "tol", "equal"),
    [
        (Decimal("0.2"), 0.1, 0.0, False),
        (Decimal("0.1"), Fraction(1, 10), 0.0, True),
        (Decimal("0.11"), 0.1, 0.02, True),
        (Fraction(1, 3), 0.33, 0.01, True),
        (Decimal("NaN"), float("nan"), 0.0, True),
        (Decimal("sNaN"), 1, 0.0, False),
        (Decimal("Infinity"), float("inf"), 0.0, True),
        (Decimal("1E+999999999"), 1.0, 5.0, False),
        (Decimal("1E+999999999"), float("inf"), 5.0, False),
        ((1 << 1_000_000), Decimal(1), 5.0, False),
        (Fraction(1, 3), 0.33, 0.0, False),
        (Decimal(1), True, 0.0, True),
        (Decimal(1), 1 + 0j, 0.0, True),
        (Decimal(1), "1", 0.0, False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exact_numbers(value, expected, tol, equal):
    assert same(value, expected, tol) is equal


def test_what_is_refused_says_what_to_change(grade):
    note = grade.call("def f(): return (n for n in range(3))", ((), [0, 1, 2])).note
    assert note == "case 1: a value of type generator is not plain data: return list(...) of it"
    assert "return list(...)" in grade.call("def f(): return {1: 2}.keys()", ((), [1])).note
    assert "type A is not plain data" in grade.call("class A: pass\ndef f(): return A()", ((), [1])).note
    assert grade.call("def f(): return range(3)", ((), [0, 1, 2])).note.endswith("got range(0, 3)")
    outcome = grade.check("def f(x): return x", "assert f(object()) == 1")
    assert not outcome.graded and "type object is not plain data" in outcome.note
    outcome = grade.check("class A: pass\ndef f(x): return A()", "assert f(1) == 1")
    assert outcome.note.endswith("(a result of type A is not plain data: return plain data)")


def test_each_call_has_an_object_of_its_own(grade):
    """As on the contest's site, where a method may collect its answer in the object."""
    code = (
        "class Solution:\n    def __init__(self): self.out = []\n"
        "    def f(self, x):\n        self.out.append(x)\n        return self.out"
    )
    assert grade.call(code, ((1,), [1]), ((2,), [2])).verdict == "pass"
    assert grade.check(code, "assert f(1) == [1] and f(2) == [2]").verdict == "pass"


def test_items_in_any_order(grade):
    code = "def f(): return [[2, 1], [3]]"
    assert grade.call(code, ((), [[3], [2, 1]])).verdict == "fail"
    assert grade.call(code, ((), [[3], [2, 1]]), unordered=True).verdict == "pass"
    assert grade.call(code, ((), [[3], [1, 2]]), unordered=True).verdict == "fail"
    assert grade.call("def f(): return [{1: 0.5}]", ((), [{1: 0.5}]), unordered=True).verdict == "pass"
    code = "def f(): return [{2: {3}}, {1: [0.5], 7: 0}]"
    assert grade.call(code, ((), [{7: 0, 1: [0.5]}, {2: {3}}]), unordered=True).verdict == "pass"
    assert grade.call(code, ((), [{7: 1, 1: [0.5]}, {2: {3}}]), unordered=True).verdict == "fail"
    code = "def f(): return [0.1 + 0.2, 1e9, 2]"
    assert grade.call(code, ((), [2, 0.3, 1e9]), unordered=True, tol=1e-6).verdict == "pass"
    assert grade.call(code, ((), [2, 0.3, 1e9]), unordered=True).verdict == "fail"
    assert grade.call(code, ((), [2, 0.4, 1e9]), unordered=True, tol=1e-6).verdict == "fail"


def test_letters_of_any_case(grade):
    for printed, verdict in (("yEs", "pass"), ("no", "fail")):
        assert grade.script(f"print({printed!r})", ("", "YES\n"), any_case=True).verdict == verdict
    assert grade.script("print('yEs')", ("", "YES\n")).verdict == "fail"


def test_notes_show_the_beginning_of_a_value():
    assert shown([1, (2,), {3}, {"a": None}]) == "[1, (2,), {3}, {'a': None}]"
    assert shown(["x" * 1000] * 1000).endswith("...") and len(shown([0] * 10**6)) == 70
    assert shown(1 << 100_000) == "a large int"


POINT = "class P:\n    def __init__(self, x): self.x = x\n    def add(self, y): return self.x + y\n"
TESTS = {
    "a list changed in place": ("def f(a): a.sort()", "a = [3, 1, 2]\nf(a)\nassert a == [1, 2, 3]"),
    "a dictionary": ("def f(a): a['x'] = [1]", "a = {}\nb = a\nf(a)\nassert b == {'x': [1]}"),
    "a set by name": ("def f(*, a): a.add(2)", "a = {1}\nf(a=a)\nassert a == {1, 2}"),
    "a list that is returned too": ("def f(a):\n    a.sort()\n    return a", "a = [3, 1]\nf(a)\nassert a == [1, 3]"),
    "in a helper": (
        "def f(a): a.sort()",
        "def changed(g, a):\n    g(a)\n    return a\n"
        "def check(candidate):\n    assert changed(candidate, [2, 1]) == [1, 2]",
    ),
    "rows of a matrix": (
        "def f(a): a[0][0], a[1] = 9, [8, 7]",
        "a = [[1], [2]]\nrow = a[0]\nf(a)\nassert row == [9] and a == [[9], [8, 7]]",
    ),
    "an array": ("def f(a): a[0] = 5", "import numpy as np\na = np.zeros(2)\nf(a)\nassert a.tolist() == [5, 0]"),
    "attributes and methods": (POINT + "def f(x): return P(x)", "p = f(3)\nassert p.x == 3 and p.add(2) == 5"),
    "objects in a list": (
        POINT + "def f(n): return [P(i) for i in range(n)]",
        "assert [p.x for p in f(3)] == [0, 1, 2]",
    ),
    "objects passed on": (POINT + "def f(x): return x.x if hasattr(x, 'x') else P(x)", "assert f(f(3)) == 3"),
    "a generator": (
        "def f(n):\n    yield from range(n)",
        "assert list(f(3)) == [0, 1, 2]\ng = f(1)\nassert next(g) == 0 and next(g, None) is None and sum(f(4)) == 6",
    ),
    "a view": ("def f(d): return d.keys()", "assert sorted(f({'b': 1, 'a': 2})) == ['a', 'b'] and len(f({1: 2})) == 1"),
    "a deque": (
        "from collections import deque\ndef f(x): return deque(x)",
        "assert list(f([1])) == [1] and 1 in f([1])",
    ),
    "a deque by value": (
        "from collections import deque\ndef f(q):\n    q.append(deque([7], 2))\n    return deque(q, 3)",
        "from collections import deque\nassert f(deque([1])) == deque([1, deque([7])])\nassert f(deque()).maxlen == 3\n"
        "q = deque()\nf(q)\nassert q == deque([deque([7])]) and q[0].maxlen == 2",
    ),
    "dates and times": (
        "import datetime as d\ndef f(day, n): return [day + d.timedelta(days=n), d.timedelta(n, 1, 2), d.time(1, 2)]",
        "from datetime import *\nday = datetime(2020, 2, 28, 1, tzinfo=timezone(timedelta(hours=2)))\n"
        "assert f(day, 2) == [datetime(2020, 3, 1, 1, tzinfo=day.tzinfo), timedelta(2, 1, 2), time(1, 2)]\n"
        "assert f(date(2020, 2, 28), -1)[:2] == [date(2020, 2, 27), timedelta(-1, 1, 2)]",
    ),
    "an enumeration": (
        "import enum\nclass C(enum.Enum):\n    R = 1\ndef f(x): return C.R",
        "assert f(1) == f(2) and f(1).name == 'R' and f(1).value == 1",
    ),
    "a function as argument": (
        "def f(g, x): return g(x) + 1",
        "assert f(lambda x: x * 2, 4) == 9 and f(len, [1, 2]) == 3\nassert f(int, '4') == 5",
    ),
    "a key function": ("def f(g): return sorted([3, 1, 2], key=g)", "assert f(lambda x: -x) == [3, 2, 1]"),
    "a function as result": (
        "def f(g):\n    def h(*a): return g(*a) + 1\n    return h",
        "@f\ndef g(x): return x\nassert g(2) == 3",
    ),
    "an exception of the test": (
        "def f(g):\n    try: return g()\n    except ValueError as e: return 'caught ' + str(e)",
        "def bad(): raise ValueError('no')\nassert f(bad) == 'caught no'",
    ),
    "calls in calls": (
        "def f(n, g): return g(n) if n else 0",
        "def back(n): return f(n - 1, back) + 1\nassert f(5, back) == 5",
    ),
    "an iterator as argument": ("def f(it): return sum(it)", "assert f(iter([1, 2])) == 3 == f(x for x in range(3))"),
    "an endless iterator": (
        "def f(it): return next(it) + next(it)",
        "import itertools\nassert f(itertools.count(3)) == 7",
    ),
    "a range": ("def f(r): return r[::-1]", "assert f(range(3)) == range(2, -1, -1) and list(f(range(2))) == [1, 0]"),
    "arrays": (
        "def f(x): return x * 2",
        "import numpy as np\nassert (f(np.array([1, 2])) == np.array([2, 4])).all()\n"
        "assert f(np.ones((2, 1))).shape == (2, 1)",
    ),
    "an array where a list is expected": (
        "import numpy as np\ndef f(x): return np.array(x)",
        "assert f([1, 2]) == [1, 2]",
    ),
    "exact numbers": (
        "from decimal import Decimal\ndef f(x): return Decimal(x)",
        "from decimal import Decimal\nassert f('1.5') == Decimal('1.5') == 1.5",
    ),
    "a match": (
        "import re\ndef f(x): return re.match('(a)', x)",
        "assert f('ab') and not f('b') and f('b') is None and f('ab').group(1) == 'a' == f('a')[0]",
    ),
    "attributes of the function": (
        "def f(x):\n    'Counts.'\n    f.calls = getattr(f, 'calls', 40) + 1\n    return x",
        "f(1)\nf(2)\nassert f.calls == 42 and f.__name__ == 'f' and f.__doc__ == 'Counts.'\n"
        "f.seen = 3\nassert f.seen == 3",
    ),
    "a cached function": (
        "from functools import lru_cache\n@lru_cache(None)\ndef f(x): return x",
        "f(1)\nf(1)\nassert f.cache_info()[0] == 1\nf.cache_clear()\nassert f.cache_info()[0] == 0",
    ),
    "a class that makes its objects": (
        "class f:\n    N = 4\n    @classmethod\n    def make(cls): return cls()\n    def lost(self): return 5",
        "assert f.N == 4 and f.make().lost() == 5",
    ),
    "any name of an attribute": (
        "class P:\n    _place, _owner = 3, 4\ndef f(): return P()",
        "assert f()._place == 3 and f()._owner == 4",
    ),
    "the function passed on": ("def f(x): return x(2) if callable(x) else x + 1", "assert f(f) == 3"),
    "text of an object": (
        "class P:\n    def __str__(self): return 'P!'\ndef f(): return P()",
        "assert str(f()) == 'P!' == f'{f()}'",
    ),
}


def test_checks_take_what_honest_tests_do(sandbox):
    jobs = [Job(name, "check", code, "f", check_src=test) for name, (code, test) in TESTS.items()]
    outcomes = run_sync(sandbox, jobs)
    assert {o.id: (o.verdict, o.note) for o in outcomes if o.verdict != "pass"} == {}
    wrong = [Job(name, "check", "def f(*a, **k): return 77", "f", check_src=test) for name, (_, test) in TESTS.items()]
    assert {o.id for o in run_sync(sandbox, wrong) if o.verdict != "fail"} == set()


@pytest.mark.parametrize("claim", ["assert f.calls == 1", "assert f.seen == ''", "assert f.gone == ''", "f.lost"])
def test_the_stand_ins_own_state_is_no_attribute_of_the_function(grade, claim):
    assert grade.check("def f(x): return x", f"f(1)\n{claim}").verdict == "fail"
    assert grade.check("class P: pass\ndef f(x): return P()", "assert f(1)._place == 1").verdict == "fail"


HELPER = """
class verify:
    ok = True
    def __init__(self, *a): pass
    __eq__ = lambda s, o: True
def f(x): return 0
"""


@pytest.mark.parametrize(
    "claim",
    [
        "assert verify(f(2), 4)",
        "assert verify(f(2)) is not None",
        "assert not (verify(f(2)) is None)",
        "assert verify(f(2)) != None",
        "assert verify(f(2)) == 4",
        "assert verify(f(2)).ok",
        "assert verify(f(2))()",
        "assert len(verify(f(2))) == 0",
        "assert list(verify(f(2))) == []",
        "assert 1 in verify(f(2))",
        "assert str(verify(f(2)))",
        "assert not isinstance(verify(f(2)), int)",
        "assert f(2) or verify()",
        "assert verify(f(1)) == verify(f(1))",
        "def check(candidate):\n    assert verify(candidate(2))",
        "try:\n    assert verify(f(2))\nexcept BaseException:\n    pass",
        "import contextlib\nwith contextlib.suppress(BaseException):\n    assert verify(f(2))",
    ],
)
def test_a_class_of_the_program_makes_no_assertion_true(grade, claim):
    """The test calls a name that nobody defines, so the program defines a class of that name."""
    assert grade.check(HELPER, claim).verdict == "fail"


def test_a_changed_argument_does_not_help_a_wrong_result(grade):
    """Changes count only if the test does not use the result: otherwise it may compute what it expects from them."""
    test = "a = [3, 1, 2]\nassert f(a) == sorted(a)\n"
    assert grade.check("def f(a):\n    a.clear()\n    return []", test).verdict == "fail"
    assert grade.check("def f(a): return sorted(a)", test).verdict == "pass"
    assert grade.check("def f(a):\n    a.clear()", "a = [3]\nassert f(a) == (a or None)").verdict == "fail"


@pytest.mark.parametrize(
    "record",
    [
        '["c",0,["l"],["d"]]',
        '["c",-1,["l"],["d"]]',
        '["c",99,["l"],["d"]]',
        '["c","x",["l"],["d"]]',
        '["c",0,1,2]',
        '["v",["k",99]]',
        '["v",["h",-1]]',
        '["v",["h",0,true,"x"],1]',
        '["v",null,["l"],["l"]]',
        '["v",null,["l",["l",9]],["d","a",1]]',
        '["v",null,["l",["l",9],1],["d"]]',
        '["e","x","BaseException"]',
        '["e","x",["l"]]',
        '["e","x","StopIteration"]',
        '["v",["e",-1]]',
        '["v",["e",1,2,3]]',
        '["v",["g","date","2020"]]',
        '["v",["g","timedelta",9999999999,0,0]]',
        '["v",["g",["l"],"x"]]',
    ],
)
def test_forged_answers_to_a_test_do_not_pass(grade, record):
    code = f"import os\ndef f(*a):\n    for _ in range(50): os.write(3, {record!r}.encode() + b'\\n')\n"
    assert grade.check(code, "a = [1]\nassert f(a, len) == 5 and a == [1]").verdict in ("fail", "killed", "timeout")
