"""What a test with assertions may ask of a right program: functions passed to it, effects of methods, operators, types
of the standard library, exceptions; and that none of it lets a wrong program pass."""

from __future__ import annotations

import re

import pytest

CURRY = """
def curry(f):
    count = {}
    def g(*a):
        return f(*a) if len(a) >= count else lambda *b: g(*a, *b)
    return g
"""
LOG = """
import functools
def log(f):
    {}
    def inner(*args, **kwargs):
        return f(*args, **kwargs)
    return inner
"""
ADD = '@log\ndef add(a, b):\n    "Adds."\n    return a + b\n'
RETRY = """
def retry(times):
    def decorate(f):
        def inner():
            for left in reversed(range(times)):
                try:
                    return f()
                except Exception:
                    if not left:
                        raise
        return inner
    return decorate
"""
POINT = """
class Point:
    def __init__(self, x, y=0): self.x, self.y = x, y
    def __repr__(self): return f"Point({self.x}, {self.y})"
    def __eq__(self, other): return (self.x, self.y) == (other.x, other.y)
    def __hash__(self): return hash((self.x, self.y))
    def __add__(self, other): return Point(self.x + other.x, self.y + other.y)
    def __lt__(self, other): return self.x < other.x
"""
TABLE = """
class Table:
    def __init__(self): self.rows = {}
    def __setitem__(self, key, value): self.rows[key] = value
    def __getitem__(self, key): return self.rows[key]
    def __delitem__(self, key): del self.rows[key]
    def __len__(self): return len(self.rows)
"""
OPEN = """
class Open:
    def __enter__(self):
        self.state = "open"
        return self
    def __exit__(self, *error):
        self.state = "closed"
        return True
"""
MOVE = "class Solution:\n    def zeros(self, numbers): numbers.sort(key=lambda n: n {} 0)\n"
NAMED = "from collections import namedtuple\nPair = namedtuple('Pair', 'x y')\n"
ONCE = "class Once:\n    held = None\n    def __new__(cls):\n        cls.held = cls.held or super().__new__(cls)\n"
RIGHT = {
    "parameters, by code": (CURRY.format("f.__code__.co_argcount"), "assert curry(lambda a, b: a + b)(1)(2) == 3"),
    "parameters, by signature": (
        "import inspect\n" + CURRY.format("len(inspect.signature(f).parameters)"),
        "def add(a, b, c): return a + b + c\nassert curry(add)(1)(2)(3) == curry(add)(1, 2)(3) == 6",
    ),
    "a name, wrapped": (
        LOG.format("@functools.wraps(f)"),
        ADD + "assert add(1, b=2) == 3\nassert (add.__name__, add.__doc__) == ('add', 'Adds.')\n"
        "assert add.__wrapped__(1, 1) == 2",
    ),
    "a name, read": (
        "def f(g, x): return f'{g.__name__} {g(x)}'",
        "import math\nassert f(math.sqrt, 4) == 'sqrt 2.0' and f(len, [1]) == 'len 1'",
    ),
    "defaults of the test's own": (
        "def f(g): return [g(1), g(1, b=3), g(*[1], **{'b': 4}), g(b=5, a=1), g(1, c=0)]",
        "def g(a, b=2, *d, c=[1], **e): return a + b + bool(c)\nassert f(g) == [4, 5, 6, 7, 3]",
    ),
    "a function that comes back": ("def f(g): return g", "def g(x): return x\nassert f(g) is g and f(len) is len"),
    "an exception of the test's own": (
        RETRY,
        "class Bad(Exception): pass\ncalls = []\n@retry(3)\ndef g():\n    calls.append(1)\n    raise Bad('x', 3)\n"
        "try: g()\nexcept Bad as error: assert error.args == ('x', 3)\nelse: assert False\nassert len(calls) == 3",
    ),
    "a KeyError of the test's own": (
        "def f(g):\n    try: g()\n    except KeyError as error: return str(error)",
        "def g(): return {}['a']\nassert f(g) == \"'a'\"",
    ),
    "a method that changes its argument": (
        MOVE.format("=="),
        "a = [0, 1, 0, 2]\nSolution().zeros(a)\nassert a == [1, 2, 0, 0]",
    ),
    "a method, by a name": (
        MOVE.format("=="),
        "def check(candidate):\n    a, own = [0, 1], candidate()\n    own.zeros(a)\n    assert a == [1, 0]",
    ),
    "a closure that changes its argument": (
        "def f():\n    def g(x): x.append(1)\n    return g",
        "g, a = f(), []\ng(a)\nassert a == [1]",
    ),
    "one object": (ONCE + "        return cls.held\n", "a, b = Once(), Once()\nassert a is b and Once() is Once()"),
    "an Enum": (
        "from enum import Enum\nclass Colour(Enum):\n    RED = 1\n    BLUE = 2",
        "assert Colour(1) is Colour.RED and Colour.RED != Colour.BLUE and Colour['BLUE'].value == 2\n"
        "assert [each.name for each in Colour] == ['RED', 'BLUE']",
    ),
    "operators": (
        POINT,
        "assert repr(Point(3)) == f'{Point(3)!r}' == 'Point(3, 0)'\nassert Point(1) == Point(1) != Point(2)\n"
        "assert Point(1) + Point(2, 5) == Point(3, 5) and Point(1) < Point(2)\n"
        "assert len({Point(1), Point(1), Point(2)}) == 2\nassert sorted([Point(2), Point(1)]) == [Point(1), Point(2)]",
    ),
    "items": (
        TABLE,
        "t = Table()\nt['a'] = 1\nassert t['a'] == 1\ndel t['a']\nassert len(t) == 0\n"
        "t.z = 3\nassert t.z == 3\ndel t.z\nassert not hasattr(t, 'z')",
    ),
    "with": (OPEN, "o = Open()\nwith o as p:\n    assert p is o and p.state == 'open'\nassert o.state == 'closed'"),
    "a generator": (
        "def f(n):\n    for i in range(n): yield i",
        "import inspect, types\ng = f(2)\nassert isinstance(g, types.GeneratorType) and inspect.isgenerator(g)\n"
        "assert next(g) == 0 and list(g) == [1]",
    ),
    "the cache of a function": (
        "from functools import cache\n@cache\ndef f(n): return n if n < 2 else f(n - 1) + f(n - 2)",
        "assert f(50) == 12586269025 and f.cache_info().hits > 0\nf.cache_clear()\nassert f.cache_info().currsize == 0",
    ),
    "a Counter of the test's": (
        "def f(c): return c.most_common(1)[0][0]",
        "from collections import Counter\nassert f(Counter('aab')) == 'a'",
    ),
    "a Counter of the program's": (
        "from collections import Counter\ndef f(s): return Counter(s)",
        "assert f('aab') == {'a': 2, 'b': 1} and f('aab').most_common(1) == [('a', 2)] and f('aab')['z'] == 0",
    ),
    "a defaultdict, changed": (
        "def f(d):\n    d['x'].append(1)\n    return d",
        "from collections import defaultdict\nd = defaultdict(list)\nassert f(d) == {'x': [1]}\n"
        "f(d)\nassert d == {'x': [1]} and d['q'] == []",
    ),
    "a named tuple of the program's": (
        NAMED + "def f(): return [Pair(1, 2)]",
        "[r] = f()\nassert r == (1, 2) and r.x == 1 and r._asdict() == {'x': 1, 'y': 2}",
    ),
    "a named tuple of the test's": ("def f(p): return p.x + p.y", NAMED + "assert f(Pair(1, 2)) == 3"),
    "bytes that are no text": (
        "def f(b): return b.decode('utf-8')",
        "for kind in (UnicodeDecodeError, ValueError):\n    try: f(b'\\xff')\n"
        "    except kind as error: assert 'utf-8' in str(error)\n    else: assert False",
    ),
    "the arguments of an exception": (
        "class Low(ValueError):\n    def __init__(self, *args):\n        super().__init__(*args)\n"
        "        self.left = 3\n"
        "def f(n): raise Low('low', n, [n])",
        "try: f(1)\nexcept ValueError as error: assert error.args == ('low', 1, [1]) and error.left == 3\n"
        "else: assert False",
    ),
    "a long text of an exception": (
        "def f(n): raise ValueError('x' * n + ': ')",
        "try: f(500)\nexcept ValueError as error: assert str(error) == 'x' * 500 + ': '\nelse: assert False",
    ),
    "what an exception of the library knows": (
        "import json\ndef f(s): return json.loads(s)",
        "import json\ntry: f('[1,]')\n"
        "except json.JSONDecodeError as error: assert error.pos == 3 and error.doc == '[1,]'\n"
        "else: assert False",
    ),
    "the number of an OSError": (
        "import errno, os\ndef f(): raise OSError(errno.ENOENT, 'none')",
        "try: f()\nexcept FileNotFoundError as error: assert error.errno == 2 and error.strerror == 'none'\n"
        "else: assert False",
    ),
    "an exit status": (
        "import sys\ndef f(n): sys.exit(n)",
        "try: f(2)\nexcept SystemExit as error: assert error.code == 2\nelse: assert False",
    ),
    "a function of the test's that is named check": (
        "def f(x): return x + 1",
        "def check(a, b):\n    assert f(a) == b\ncheck(1, 2)",
    ),
}
WRONG = {
    "a generator": ("def f(n): return [n]", "import types\nassert isinstance(f(2), types.GeneratorType)"),
    "an effect": (MOVE.format("!="), "a = [0, 1, 0, 2]\nSolution().zeros(a)\nassert a == [1, 2, 0, 0]"),
    "a name": (LOG.format("pass"), ADD + "assert add.__name__ == 'add'"),
    "one object": ("class P: pass\np = P()\ndef f(k): return p", "a = f(1)\nassert f(2) is not a"),
    "values": (POINT, "assert Point(1) == Point(2)"),
    "an assert within with": (OPEN, "with Open() as o:\n    assert o.state == 'gone'"),
    "an exit": ("import sys\ndef f(n): sys.exit(0)", "f(2)"),
    "an end of the test's own iteration": (
        "def f(numbers):\n    list(numbers)\n    raise StopIteration",
        "assert all(map(lambda n: f(iter([1, 2])) == n, [1, 2, 3]))",
    ),
    "a check that calls": ("def f(x): return x + 1", "def check(candidate):\n    assert candidate(1) == 3"),
}
LIAR = """
class Liar:
    __sub__ = __rsub__ = __add__ = __radd__ = lambda self, other: 0.0
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = lambda self, other: True
    __hash__ = __len__ = lambda self: 1
    __abs__ = __float__ = lambda self: 0.0
    __iter__ = lambda self: iter([Liar()])
    __repr__ = __str__ = lambda self: "2"
def f(x): return Liar()
"""


def entry_of(code: str) -> str:
    """The last function or class that a program defines."""
    return re.findall(r"^(?:def|class) (\w+)", code, re.MULTILINE)[-1]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_passes(grade, name):
    code, test = RIGHT[name]
    assert grade.check(code, test, entry_of(code)).note == ""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_program_fails(grade, name):
    code, test = WRONG[name]
    assert grade.check(code, test, entry_of(code)).verdict == "fail"


@pytest.mark.parametrize(
    "claim",
    [
        *("abs(f(2) - 1.41) < 1e-6", "f(1) == 2", "2 == f(1)", "f(1) < 5", "f(1) >= 2", "5 > f(1)", "f(1) + 1 == 2"),
        *("f(1) in (2, 3)", "{f(1)} == {2}", "[f(1)] == [2]", "1 in f(1)", "f(1) != 2 and f(1) == 3", "f(1) is 2"),
        *("{f(1): 1} == {3: 1}", "float(f(1)) == 0", "max(f(1), 2) == 2 and f(1) == 2", "sum(f(1)) == 0"),
    ],
)
def test_operators_of_a_program_never_see_what_a_test_expects(grade, claim):
    assert grade.check(LIAR, f"assert {claim}").verdict == "fail"


@pytest.mark.parametrize(
    "test",
    [
        "import io\no = io.StringIO()\nf(o)\nassert o.getvalue() == 'a'",
        "import datetime, zoneinfo\nassert f(datetime.datetime(2024, 12, 1, tzinfo=zoneinfo.ZoneInfo('UTC')))",
    ],
)
def test_what_would_arrive_as_something_else_is_not_graded(grade, test):
    assert not grade.check("def f(x): x.write('a')", test).graded


@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_have_no_tolerance(grade, sign):
    assert grade.script(f"print({sign}10001)", ("", f"{sign}10000"), tol=1e-4).verdict == "fail"
    assert grade.script(f"print({sign}10001)", ("", f"{sign}10000.5"), tol=1e-4).verdict == "pass"
