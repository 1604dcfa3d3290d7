"""What a program may touch, and that values are rebuilt before they are compared."""

from __future__ import annotations

import math
import os
from collections import Counter, OrderedDict, namedtuple

import psutil
import pytest

from envs.sandbox import FunctionCase, Job, run_sync

Point = namedtuple("Point", "x y")
LIES = "class A:\n    __eq__ = lambda s, o: True\n    __ne__ = lambda s, o: False\n    __hash__ = lambda s: 0\n"
CHECK = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 9\n"


@pytest.mark.parametrize(
    "lie",
    [
        LIES + "def f(x): return A()",
        LIES + "def f(x): return [A()]",
        LIES + "class B(A, int): pass\ndef f(x): return B(7)",
        LIES + "class C(A, list):\n    __len__ = lambda s: 1\ndef f(x): return C()",
        "from unittest.mock import ANY\ndef f(x): return ANY",
    ],
)
def test_objects_equal_to_anything(grade, lie):
    assert grade.call(lie, ((2,), 4), ((3,), [9])).passed == 0
    assert grade.check(lie, CHECK).verdict == "fail"


@pytest.mark.parametrize(
    "code",
    [
        "import json\njson.dumps = lambda *a, **k: '[]'\njson.loads = lambda *a, **k: 4\n",
        "import builtins\n"
        "for n in ('len', 'abs', 'isinstance', 'type', 'str', 'int', 'repr', 'issubclass', 'dict', 'list'):\n"
        "    setattr(builtins, n, lambda *a, **k: 4)\n",
        "import os\nos.write = os._exit = lambda *a: 1\n",
        "import sys\nsys.modules.clear()\n",
        "import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)\n",
    ],
)
def test_monkeypatching_neither_helps_nor_hurts(grade, code):
    right, wrong = code + "def f(x): return x * x\n", code + "def f(x): return -1\n"
    assert grade.call(right, ((2,), 4), ((3,), 9)).verdict == "pass"
    assert grade.call(wrong, ((2,), 4), ((3,), 9)).passed == 0
    assert grade.check(right, CHECK).verdict == "pass"
    assert grade.check(wrong, CHECK).verdict == "fail"


def test_what_the_caller_knows_is_nowhere_in_a_servers_memory(grade, processes_of):
    """A program starts as a copy of its server's memory: no test, answer or earlier program may be in it."""
    needle = b"needle-" + b"in-a-haystack"
    text = needle.decode()
    grade.check("def f(x): return x * x", CHECK + f"    # {text}\n")
    grade.call(f"def f(x): return '{text}'", ((1,), text))
    grade.script(f"print('{text}')", (text, text))
    parents = {psutil.Process(pid).ppid() for pid in processes_of(grade.sandbox, pids=True)}
    servers = [pid for pid in processes_of(grade.sandbox, pids=True) if pid in parents]
    assert servers  # they have the check process below them, which knows its tests and is never forked
    for pid in servers:
        try:
            with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                for line in maps:
                    if " rw" not in line:
                        continue
                    start, end = (int(part, 16) for part in line.split()[0].split("-"))
                    memory.seek(start)
                    assert needle not in memory.read(end - start), line
        except PermissionError:
            pytest.skip("this user may not read its servers' memory")


def test_a_check_is_not_fooled_by_a_redefined_helper(grade):
    setup = "def helper(x):\n    return x + 1\n"
    test = "def check(candidate):\n    for i in range(5):\n        assert helper(candidate(i)) == i + 2\n"
    assert grade.check("def f(x): return x + 1", test, setup=setup).verdict == "pass"
    assert grade.check("def f(x): return helper(x)", test, setup=setup).verdict == "pass"
    cheat = "class H:\n    __eq__ = lambda s, o: True\ndef helper(x): return H()\ndef f(x): return 0\n"
    assert grade.check(cheat, test, setup=setup).verdict == "fail"


def test_checks_by_name_by_assert_and_with_exceptions(grade):
    assert grade.check("def f(x): return x", "def check(candidate):\n    assert f(candidate(1)) == 1").verdict == "pass"
    assert grade.check("def f(x): return x", "assert f(1) == 1\nassert f([1]) == [1]").verdict == "pass"
    outcome = grade.check("def f(x): return x", "assert f(1) == 1\nassert f(2) == 3\n")
    assert (outcome.verdict, outcome.passed, outcome.total) == ("fail", 0, 1)
    assert outcome.note == "test line 2: assert f(2) == 3"
    test = "try:\n    f(0)\nexcept ValueError as e:\n    assert 'no' in str(e)\nelse:\n    assert False\n"
    assert grade.check("def f(x): raise ValueError('no')", test).verdict == "pass"
    assert grade.check("class Mine(ValueError): pass\ndef f(x): raise Mine('no')", test).verdict == "pass"
    assert grade.check("def f(x): raise KeyError('no')", test).verdict == "fail"
    assert grade.check("def f(x): return x", test).verdict == "fail"


def test_checks_pass_types_and_objects_of_the_programs_own_classes(grade):
    pairs = "class Pair:\n    def __init__(self, a, b): self.a, self.b = a, b\ndef f(p, q=None): return p.a + q.b\n"
    assert grade.check(pairs, "assert f(Pair(1, 2), q=Pair(3, 4)) == 5").note == ""
    assert grade.check(pairs, "assert f(Pair(1), Pair(3, 4)) == 5").verdict == "fail"
    assert grade.check("def f(x, t): return type(x) is t", "assert f(1, int) and not f('', list)").note == ""
    shadow = "class len:\n    pass\ndef f(x): return [x]\n"  # a name that the test has already is not replaced
    assert grade.check(shadow, "assert len(f(1)) == 1").verdict == "pass"


def test_a_result_that_is_no_plain_data_is_true_or_false_and_nothing_else(grade):
    code = "import re\ndef f(x): return re.match('a', x)\n"
    assert grade.check(code, "assert f('ab')\nassert not f('b')\nassert f('b') is None").note == ""
    for claim in ("f('a') == 1", "f('a') == f('a')", "f('a') is True", "len(f('a'))", "f('a') > 0", "f('a').x == 'a'"):
        assert grade.check(code, f"assert {claim}").verdict == "fail", claim
    liar = "class Any:\n    def __eq__(self, other): return True\ndef f(x): return Any()\n"
    assert grade.check(liar, "assert f(1) == 2").verdict == "fail"
    assert grade.check(liar, "assert Any() == 2\nassert f(1) == 2").verdict == "fail"


def test_an_entry_point_called_check(grade):
    assert grade.check("def check(n): return n > 1", "assert check(2) == True", entry="check").note == ""


def test_a_broken_test_is_an_error_not_a_failure(grade):
    for test in ("def check(:", "def check(candidate): pass", "assert f(object()) is None"):
        outcome = grade.check("def f(x): return x", test)
        assert (outcome.verdict, outcome.graded) == ("error", False), test
    assert grade.check("", "def check(candidate): pass").verdict == "fail"
    assert not grade.call("def f(x): return x", ((object(),), 1)).graded
    assert not grade.call("def f(x): return x", ((1,), object())).graded
    assert grade.call("def f(x): return x", ((1,), 1)).verdict == "pass"


def test_forged_records(grade):
    forged = "import os\nfor _ in range({}):\n    os.write(3, b'[\"v\",4]\\n')\ndef f(x):\n    return -1\n"
    assert grade.call(forged.format(1), ((2,), 4), ((3,), 9)).verdict == "fail"
    assert grade.call(forged.format(5), ((2,), 4), ((3,), 4)).verdict == "fail"
    deep = "import os\nos.write(3, b'[\"v\",' + b'[' * 100000 + b'\\n')\ndef f(x):\n    return -1\n"
    assert grade.call(deep, ((2,), 4)).verdict == "fail"
    assert grade.check(forged.format(2), CHECK).verdict == "fail"


def test_hostile_values_end_as_failures(grade):
    for body in (
        "a = []\n    a.append(a)\n    return a",
        "a = []\n    for _ in range(99999): a = [a]\n    return a",
        "a = []\n    a += [a, a]\n    return a",
        "return iter(range(3))",
        "return {}.items()",
        "return 1 << 99999999",
        "raise SystemExit",
        "raise KeyboardInterrupt",
        "return f",
    ):
        assert grade.call(f"def f():\n    {body}", ((), [0, 1, 2])).verdict == "fail", body


def test_source_with_nul_and_surrogates(grade):
    assert grade.call("def f(): return 1\n\0", ((), 1)).verdict == "fail"
    assert grade.call("# \udfff\ndef f(): return 1\n", ((), 1)).verdict == "fail"
    assert grade.script("print(1)\0", ("", "1")).verdict == "fail"
    assert grade.check("\udc80", CHECK).verdict == "fail"
    echo = "def f(x): return x"
    assert grade.call(echo, (("\ud800\0\n",), "\ud800\0\n")).verdict == "pass"


def test_none_alone(grade):
    assert grade.call("def f(): pass", ((), None)).verdict == "pass"
    assert grade.call("def f(): pass", ((), 0)).verdict == "fail"
    assert grade.call("def f(): return 0", ((), None)).verdict == "fail"
    assert grade.call("import os\ndef f(): os._exit(0)", ((), None)).verdict == "fail"


VALUES = [
    None,
    True,
    0,
    -5,
    1 << 80,
    -(1 << 5000),
    1.5,
    -0.0,
    math.inf,
    "",
    'é\n"\\',
    b"\0\xff",
    1 + 2j,
    [],
    [1, [2, [3]]],
    (),
    (1,),
    {1, 2},
    frozenset({(1, 2)}),
    {"a": 1, 2: (3, 4), None: []},
    [None],
    float("1e300"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_as_they_went(grade, value):
    assert grade.call("def f(x): return x", ((value,), value)).verdict == "pass"


def test_nan_equals_nan(grade):
    assert grade.call("def f(x): return [x, 1]", ((math.nan,), [math.nan, 1])).verdict == "pass"


@pytest.mark.parametrize(
    ("code", "expected", "verdict"),
    [
        ("return (1, 2)", [1, 2], "fail"),
        ("return [1, 2]", (1, 2), "fail"),
        ("return [(1,)]", [[1]], "fail"),
        ("return 1", 1.0, "pass"),
        ("return 1.0", 1, "pass"),
        ("return 1", True, "pass"),
        ("return True", 1, "pass"),
        ("return '1'", 1, "fail"),
        ("return b'a'", "a", "fail"),
        ("return {1}", frozenset({1}), "pass"),
        ("from collections import Counter\n    return Counter('aab')", {"a": 2, "b": 1}, "pass"),
        ("from collections import OrderedDict\n    return OrderedDict(b=1, a=2)", {"a": 2, "b": 1}, "pass"),
        ("return {'a': 1}", Counter("a"), "pass"),
        ("return {'a': 1}", OrderedDict(a=1), "pass"),
        ("return (1, 2)", Point(1, 2), "pass"),
        ("return {1: 2}", {1.0: 2.0}, "pass"),
        ("import enum\n    return enum.IntEnum('E', 'A B').B", 2, "pass"),
    ],
)
def test_equality_is_pythons(grade, code, expected, verdict):
    assert grade.call(f"def f():\n    {code}", ((), expected)).verdict == verdict


def test_tolerance_holds_for_floats_only_and_at_any_depth(grade):
    def verdict(code: str, expected: object, tol: float) -> str:
        return grade.call(f"def f(): return {code}", ((), expected), tol=tol).verdict

    assert verdict("0.1 + 0.2", 0.3, 0.0) == "fail"
    assert verdict("0.1 + 0.2", 0.3, 1e-9) == "pass"
    assert verdict("{'a': [(0.1 + 0.2, 1)]}", {"a": [(0.3, 1)]}, 1e-9) == "pass"
    assert verdict("1", 2, 5.0) == "fail"
    assert verdict("1", 2.0, 5.0) == "pass"
    assert verdict("float('inf')", 1.0, 5.0) == "fail"
    assert verdict("float('nan')", 1.0, 5.0) == "fail"
    assert verdict("10 ** 400", 1.0, 5.0) == "fail"


def test_the_last_digits_of_large_floats_may_differ(grade):
    """As where a sum is taken in another order; an absolute tolerance has no room for that."""

    def verdict(code: str, expected: object, tol: float = 1e-6) -> str:
        program = f"from fractions import Fraction\ndef f(): return {code}"
        return grade.call(program, ((), expected), tol=tol).verdict

    assert verdict("[1628894626777.4414]", [1628894626777.442]) == "pass"
    assert verdict("Fraction(10 ** 16 + 2)", 1e16) == "pass"
    assert verdict("1628894626777.4414", 1628894626777.442, tol=0.0) == "fail"
    assert verdict("123456.7891", 123456.7892) == "fail"
    assert verdict("1628894626.4414", 1628894626.4514) == "fail"
    assert verdict("float('inf')", -1e308) == verdict("1e308", float("inf")) == "fail"


def test_arguments_are_new_for_each_case(grade):
    shared = [1]
    code = "seen = []\ndef f(x):\n    x.append(2)\n    seen.append(x)\n    return x"
    assert grade.call(code, ((shared,), [1, 2]), ((shared,), [1, 2])).verdict == "pass"
    assert shared == [1]


def test_methods_of_a_solution_class(grade):
    assert grade.call("class Solution:\n    def f(self, x): return x", ((1,), 1)).verdict == "pass"


def test_the_callers_environment_descriptors_and_rights_are_out_of_reach(grade, monkeypatch):
    monkeypatch.setenv("SANDBOX_TEST_SECRET", "x")
    code = (
        "import os\ndef f():\n    fds = [n for n in range(256) if _open(n)]\n"
        "    return 'SANDBOX_TEST_SECRET' in os.environ, fds, os.access('/etc/shadow', os.R_OK)\n"
        "def _open(n):\n    try: os.fstat(n); return True\n    except OSError: return False\n"
    )
    assert grade.call(code, ((), (False, [0, 1, 2, 3], False))).note == ""
    if os.getuid() == 0:
        assert grade.call("import os\ndef f(): return os.getuid() >= 0x40000000", ((), True)).verdict == "pass"


@pytest.mark.parametrize(
    "attempt",
    [
        "__import__('socket').socket()",
        "__import__('os').fork()",
        "__import__('subprocess').run(['/bin/true'])",
        "__import__('os').kill(__import__('os').getppid(), 9)",
        "open('/usr/x', 'w')",
        "open('/etc/passwd')",
        "open('/proc/self/maps')",
        "__import__('os').listdir('/root')",
        "__import__('os').listdir('/var')",
        "__import__('os').memfd_create('x')",
        "__import__('resource').prlimit(1, 0, (1, 1))",
        "__import__('fcntl').fcntl(0, 8, 1)",
        "__import__('os').sched_setaffinity(1, {0})",
    ],
)
def test_what_programs_are_refused(grade, attempt):
    code = f"def f():\n    try: {attempt}\n    except OSError as e: return True\n"
    assert grade.call(code, ((), True)).note == ""


def test_a_build_opens_no_namespace_and_no_socket(grade):
    assert grade.command(["/usr/bin/unshare", "--user", "--map-root-user", "/bin/true"]).verdict == "fail"
    assert grade.command(["/bin/bash", "-c", "echo > /dev/tcp/127.0.0.1/22"]).verdict == "fail"
    assert grade.command(["/bin/sh", "-c", "cat /etc/shadow"]).verdict == "fail"


def test_files_do_not_outlive_a_program(grade):
    leave = (
        "import os\ndef f():\n    d = os.getcwd()\n    for _ in range(300):\n        os.mkdir('d')\n"
        "        os.chdir('d')\n    os.chmod('.', 0)\n    os.chmod(d, 0)\n    return d"
    )
    assert grade.call(leave, ((), "")).verdict == "fail"
    look = "import os\ndef f(): return os.listdir('.')"
    assert grade.call(look, ((), [])).note == ""


def test_a_candidate_cannot_end_a_tests_own_iteration(grade):
    every = "assert all(map(lambda x: candidate(x) == x, [1, 2, 3]))"
    each = "for found in map(candidate, [1, 2, 3]):\n    assert found"
    for test in (every, each):
        outcome = grade.check("def f(x):\n    raise StopIteration\n", test)
        assert outcome.verdict == "fail", (test, outcome)
        assert grade.check("def f(x):\n    return x\n", test).verdict == "pass"


def test_an_opaque_result_that_a_test_passes_on_is_a_failure_and_graded(grade):
    assert grade.check("def f(x):\n    return object()\n", "assert f(f(1)) == 1").verdict == "fail"


def test_a_result_that_json_cannot_hold_is_its_own_jobs_failure(sandbox):
    expected = {f"k{n}": n for n in range(40)}
    hostile = Job(
        "hostile", "function", "def f(): return {10**4400: 1}", "f", (FunctionCase((), expected),), as_json=True
    )
    fair = Job("fair", "function", "def f(): return {1: 2}", "f", (FunctionCase((), {"1": 2}),), as_json=True)
    assert [o.verdict for o in run_sync(sandbox, [hostile, fair])] == ["fail", "pass"]


def test_nothing_is_sent_to_sockets_that_have_a_name(grade):
    code = """
import socket
def f(how):
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.send(b"x")
    if how == "sendto":
        a.sendto(b"x", "/dev/log")
    else:
        a.sendmsg([b"x"], [], 0, "/dev/log")
"""
    for how in ("sendto", "sendmsg"):
        assert "PermissionError" in grade.call(code, ((how,), None)).note


def test_a_name_in_a_comment_imports_nothing_that_runs(grade):
    for name in ("antigravity.__main__", "numpy.f2py.__main__", "numpy.conftest", "unittest.__main__", "test.support"):
        outcome = grade.call(f"# import {name}\ndef f(): return 1\n", ((), 1))
        assert outcome.verdict == "pass" and outcome.seconds < 2.5


def test_numbers_made_to_collide_do_not_hold_up_the_judge(sandbox):
    expected = [f"x{n}" for n in range(3000)]
    code = "def f(): return {(2**61 - 1) * n for n in range(1, 9000)}"
    job = Job("collide", "function", code, "f", (FunctionCase((), expected),))
    [outcome] = run_sync(sandbox, [job])
    assert outcome.verdict == "fail" and outcome.note.startswith("case 1: expected ['x0', ")
