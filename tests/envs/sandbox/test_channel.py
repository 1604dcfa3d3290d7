"""Whatever comes back over a program's channel is a verdict on that program: never a pass, never an exception."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.sandbox import FunctionCase, Job, Limits, Outcome, StdioCase, fusion, run_sync, verdict
from envs.sandbox.worker import remote

EXPECTED = {"a key": [1, (2.5, {"x"}), None, "never said by chance"]}
CASES = (FunctionCase((1,), EXPECTED), FunctionCase((2,), EXPECTED))
LIMITS = Limits(wall_s=3.0, cpu_s=2.0)
RIGHT = b'["v",["d","a key",["l",1,["t",2.5,["s","x"]],null,"never said by chance"]]]'
LITTLE = rb"""
null
1
"v"
"ve"
{}
[]
["v"]
["v",1,2]
{"v":1,"e":2}
["v",{"a":1}]
["v",[]]
["v",[1]]
["v",["q",1]]
["v",["l",{}]]
[["v"],1]
["v",1e999]
["v",-Infinity]
["v",NaN]
["v",["f","nan"]]
["v",["f",1]]
["v",["f","1_0"]]
["v",["i","-0x_1"]]
["v",["i",""]]
["v",["d",["f","nan"],1,["f","nan"],2]]
["v",["d",1]]
["v",["d",["l"],1]]
["v",["d",1e400,1]]
["v",["d",true,1,1,2,1.0,3]]
["v",["s",["l",1]]]
["v",["s",["s"]]]
["v",["z",["d"]]]
["v","\ud800"]
["v",["d","\udfff",1]]
["v",["b","zz"]]
["v",["b","\ud800"]]
["v",["c",1]]
["v",["c","x","y"]]
["v",["y",1]]
["v",["y",["l"]]]
["v",["h",0]]
["v",["h",-1]]
["v",["h","x"]]
["v",["h",1e300]]
["v",["h",null]]
["h",0]
["e",1]
["e",null]
["e",["l"]]
["e"]
["e","\ud800\u202e\u0000"]
["e","x",1]
["e","x","KeyError"]
["e","x","StopIteration"]
["e","x","BaseException"]
["e","x","SystemExit"]
["e","x",["ValueError"],0,null]
["e","x",["SystemExit"],-1,["l",["t",0],["d"]]]
["e","x",["StopIteration"],-1,["l",["t"],["d"]]]
["e","x",["UnicodeDecodeError"],-1,["l",["t",1],["d","told",1,"args",2]]]
["e","x",["json.decoder.JSONDecodeError"],1e9,["l",["t","a","b",1],["d",1,2]]]
["e","x",[],true,["l",["t"]]]
["e",1,{},[],["t",["l"],["d"]]]
["v",["p","P",["l","x","count"],1,2]]
["v",["p","P",["l","x"],1,2]]
["v",["p","class",["l","__class__","import"],1,2]]
["v",["p","P",["l","\ufb01","fi"],1,2]]
["v",["p",1,["l",1],1]]
["v",["j","Counter",["d","a","b"],null]]
["v",["j","defaultdict",["d"],["y","list"]]]
["v",["j","defaultdict",["d"],1]]
["v",["j","eval",["d"],null]]
["v",["j","OrderedDict",["l"],null]]
["v",["k",0,["l"]]]
["v",["h",1,true,"generator"]]
["o"]
["o","x"]
["o",1,false]
["o",{},[]]
["o",null,null,null]
["load"]
["load",{}]
["load","\udc80"]
["ready"]
["ready",1]
["ready",["l"]]
["ready",["l",1,["l"]]]
["ready",["l","check","f","assert"]]
""".strip().split(b"\n")
COLLIDING = [b'["i","%x"]' % (n * (2**61 - 1)) for n in range(1, 3000)]
ODD = [
    *LITTLE,
    *(b"", b"\n", b"\0", b"\xff\xfe", "é".encode()),
    *(b"[" * 300 + b"]" * 300, b'["v",' + b'["l",' * 250 + b"]" * 251, b'{"v":' * 5000, b"[" * 100_000),
    b'["v",' + b"9" * 5000 + b"]",
    b'["v",["i","' + b"f" * 6000 + b'"]]',
    b'["v",["d",["i","' + b"f" * 5000 + b'"],1]]',
    b'["v",["c",["i","' + b"f" * 400 + b'"],1]]',
    *(RIGHT[:-1], RIGHT + b"]", b" " + RIGHT[:-2], RIGHT.replace(b'"l"', b'"t"'), RIGHT.replace(b"never", b"\\ud83d")),
    b'["v",["s",' + b",".join(COLLIDING) + b"]]",
    b'["v",["d",' + b",1,".join(COLLIDING) + b",1]]",
]
"""Records that nobody asked for."""
NOISE = b'[]{}",:0123456789.-elvtsdzbfyhcio\\u\n\0\xff N'


def mutated(draw: random.Random) -> bytes:
    """One of them, or a right one, with a few bytes changed, dropped, doubled or from another."""
    record = bytearray(draw.choice([*ODD, RIGHT, RIGHT, RIGHT]))
    for _ in range(draw.randrange(1, 5)):
        where, what = draw.randrange(len(record) + 1), draw.randrange(4)
        if what == 0:
            record[where:where] = bytes(draw.choices(NOISE, k=draw.randrange(1, 6)))
        elif what == 1:
            del record[where : where + draw.randrange(1, 8)]
        elif what == 2:
            record[where : where + 1] = bytes([draw.randrange(256)])
        else:
            other = draw.choice(ODD)
            record[where:where] = other[: draw.randrange(len(other) + 1)]
    return bytes(record)


seeds = st.integers(0, 1 << 32).map(random.Random)
odd_bytes = st.one_of(st.sampled_from(ODD), seeds.map(mutated), st.binary(max_size=200))
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.just(10**400), st.floats(), st.text(), st.just("\ud800")),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=12,
)
endings = st.sampled_from(
    [
        verdict.Ended("exit", 0, "", "", 0.1),
        verdict.Ended("exit", 1, "", "", 0.1),
        verdict.Ended("exit", 0, "SIGXCPU", "", 2.0),
        verdict.Ended("timeout", 0, "", "", 3.0),
        verdict.Ended("files", 0, "", "SIGSEGV", 0.1),
        verdict.Ended("stopped", 0, "", "signal 40", float("nan")),
    ]
)


def is_a_verdict(outcome: Outcome, graded: bool = True) -> None:
    """Printable, counted, not passed, and the program's own where the sandbox is not to blame."""
    assert outcome.verdict != "pass" and outcome.graded is graded, outcome
    assert outcome.passed < outcome.total == len(outcome.cases)
    assert outcome.note.isprintable() and len(outcome.note) <= verdict.MAX_NOTE
    json.dumps([outcome.verdict, outcome.cases, outcome.note]).encode()


@settings(max_examples=600, deadline=None)
@given(st.lists(odd_bytes, max_size=4), st.booleans(), endings, st.booleans(), st.sampled_from([0.0, 1e-6]))
def test_records_of_function_jobs(records, whole, ended, as_json, tol):
    job = Job("j", "function", "", "f", CASES, as_json=as_json, tol=tol)
    raw = b"\n".join(records) + (b"\n" if whole else b"")
    is_a_verdict(verdict.judge_function(job, LIMITS, ended, raw))
    assert verdict.answered(job, Limits(each_case=True), ended, raw) == 0


@settings(max_examples=300, deadline=None)
@given(odd_bytes, odd_bytes, endings)
def test_outputs_and_notes(output, note, ended):
    stdio = Job("j", "stdio", "", cases=(StdioCase("", "1e5 \ud800 0\n7"), StdioCase("", "2")))
    is_a_verdict(verdict.judge_stdio(stdio, LIMITS, [(ended, output, note)]))
    failed = verdict.Ended("exit", 3, "", "", 0.1)
    is_a_verdict(verdict.judge_program(Job("j", "program"), LIMITS, failed, note, output, note))


@settings(max_examples=300, deadline=None)
@given(st.one_of(odd_bytes, anything.map(lambda value: json.dumps(value).encode())), endings)
def test_what_stands_in_a_verdicts_place(raw, ended):
    check = Job("j", "check", "", "f", check_src="")
    is_a_verdict(verdict.judge_check(check, ended, raw, "a nonce"))
    build = Job("j", "command", commands=(("true",),) * 9)
    outcome = verdict.judge_command(build, LIMITS, ended, reading(raw), b"\xff", b"\0")
    assert outcome.verdict != "pass" and outcome.graded


@pytest.mark.parametrize(
    "line",
    [
        '[[0,0,0,3,0,0,0,0,0],"",[]]',
        '[[0],"",[]]',
        '[[0,0,0,0,0,0,0,0,0,0],"",[]]',
        '[[0,0,0,0,0,0,0,0,Infinity],"",[]]',
        '[[0,0,0,0,0,0,0,0,1e999],"",[]]',
        '[[0,0,0,0,0,0,0,0,true],"",[]]',
        '[[0,0,0,0,0,0,0,0,0],"",{}]',
        '[[0,0,0,0,0,0,0,0,0],"",[["x",-1]]]',
        '[[0,0,0,0,0,0,0,0,0],"",[["x",2]]]',
        '[[0,0,0,0,0,0,0,0,0],"",[["x",1e9]]]',
        '[[0,0,0,0,0,0,0,0,0],"",[["x",67108864],["y",1]]]',
        '[[0,0,0,0,0,0,0,0,0],"",[[["x"],1]]]',
        "[" * 9999,
    ],
)
def test_a_builds_record_is_checked_before_it_is_read(line):
    """A build may write its own record. Nothing of it is taken on trust, and no more is read than was allowed."""
    build, ended = Job("j", "command", commands=(("true",),) * 9), verdict.Ended("exit", 0, "", "", 0.1)
    outcome = verdict.judge_command(build, LIMITS, ended, reading(line.encode() + b"\nx"), b"", b"")
    assert outcome.verdict != "pass" and outcome.files == {}


def reading(data: bytes) -> Callable[[int, int], bytes]:
    return lambda size, start: data[start : start + size]


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_servers_answer_is_an_outcome_or_trouble(data):
    """Also where a part of the driver's report is something else."""

    def draw(right: object, *others: object):
        return data.draw(st.sampled_from([*[right] * 8, *others]))

    job, nonce = Job("j", "stdio", "", cases=(StdioCase("", "what no odd bytes say"),)), "a" * 32
    end = {"end": "exit", "code": 0, "signal": "", "other_signal": "", "seconds": 0.1}
    end[draw("seconds", *end, "more")] = data.draw(st.one_of(st.floats(), anything))
    header = {"ends": draw([end], end, [end] * 3, None, [None], [])}
    pieces = data.draw(st.lists(odd_bytes, min_size=3, max_size=draw(3, 4)))
    text = remote.pack(header, pieces[: draw(3, 2)])
    place = draw(text, "file", "x", text[:9])
    stdout = f"ready 3.11.7\n{nonce} {draw(len(text), 0, 1, '9' * 5000)} {place} end\n"
    files = {nonce: draw(base64.b64encode(text.encode()).decode(), "x", None, 7, "é")}
    result = {"status": "Finished", "stdout": stdout, "return_code": 0, "execution_time": 0.1}
    answer = {"status": "Success", "run_result": result, "files": files}
    target = draw(None, answer, result, files)
    if target is not None:
        target[data.draw(st.sampled_from(sorted(target)))] = data.draw(anything)
    try:
        _, ends, results = fusion._read(answer, nonce, job, LIMITS, 1)
    except fusion.ServerError:
        return
    is_a_verdict(verdict.judge_stdio(job, LIMITS, list(zip(ends, results[1::3], results[0::3], strict=True))))


SAY = "import os\nframe = {!r}\nwhile frame: frame = frame[os.write(3, frame):]\n"
ANSWER = (
    'import os\nos.write(3, b\'["ready",["l","Node"]]\\n\')\nframe = {!r}\n'
    "while os.read(3, 1 << 16):\n    rest = frame\n    while rest: rest = rest[os.write(3, rest):]\n"
)
TEST = """
def check(candidate):
    try:
        found = candidate([1])
    except ValueError:
        found = None
    assert candidate(found) == {"a key": "never said by chance"}
"""


@pytest.mark.parametrize("seed", [0, 1])
def test_programs_that_write_them(sandbox, seed):
    """Each is alone with what it does: the honest ones between them pass."""
    draw = random.Random(seed)
    frames = [frame + b"\n" for frame in [*ODD, *(mutated(draw) for _ in ODD)]]
    honest = "def f(x): return {'a key': 'never said by chance'}"
    jobs = []
    for number, frame in enumerate(draw.sample(frames, 70)):
        jobs += [
            Job(f"{number} function", "function", SAY.format(frame) + "def f(x): pass", "f", CASES, limits=LIMITS),
            Job(f"{number} load", "check", SAY.format(frame) + "def f(x): pass", "f", check_src=TEST, limits=LIMITS),
            Job(f"{number} call", "check", ANSWER.format(frame), "f", check_src=TEST, limits=LIMITS),
        ]
        if number % 10 == 0:
            jobs.append(Job("honest", "check", honest, "f", check_src=TEST, limits=LIMITS))
    for job, outcome in zip(jobs, run_sync(sandbox, jobs), strict=True):
        if job.id == "honest":
            assert outcome.verdict == "pass", outcome
        else:
            is_a_verdict(outcome)


@pytest.mark.parametrize(
    "solution",
    [
        "def f(x):\n    for _ in range(198): x = [x]\n    return x",
        "def f(x): return 'x' * (3 << 20)",
        "def f(x): return object()",
        "def f(x): return [object()]",
    ],
    ids=["deep", "large", "opaque", "opaque within"],
)
def test_what_a_test_cannot_pass_on_is_the_programs_doing(grade, solution):
    for test in ("assert f([[f(1)], f(2)]) == 1", "g = f(1)\ntry:\n    f([[g, g]])\nfinally:\n    assert f(g) == 1"):
        outcome = grade.check(solution, test, limits=Limits(wall_s=10, cpu_s=5))
        assert outcome.verdict == "fail", outcome


def test_a_test_that_swallows_everything_passes_no_program_that_is_gone(grade):
    test = "try:\n    f(1)\nexcept:\n    pass\nelse:\n    assert False"
    assert grade.check("def f(x): raise KeyError(x)", test).verdict == "pass"
    assert grade.check("import os\ndef f(x): os._exit(0)", test).verdict == "fail"
    assert grade.check("import os\ndef f(x): os.write(3, b'[]\\n')", test).verdict == "fail"


def test_a_test_whose_module_is_missing_grades_no_program(grade):
    """No program could pass it; one whose own module is missing fails."""
    for test in ("import no_such_module\nassert f(1) == 1", "assert f(1) == 1\nfrom math import no_such_name"):
        outcome = grade.check("def f(x): return x", test)
        assert outcome.verdict == "error" and "the test itself cannot import" in outcome.note, outcome
    test = "try:\n    import no_such_module as module\nexcept ImportError:\n    module = None\nassert f(1) == 1"
    assert grade.check("def f(x): return x", test).verdict == "pass"
    for program in ("def f(x):\n    import no_such_module", "import no_such_module", "def f(x): raise ImportError"):
        assert grade.check(program, test).verdict == "fail"


def test_a_test_may_expect_the_assertion_errors_of_a_program(grade):
    """Functions check their arguments by `assert`; outside of a `try` such an error is the program's."""
    test = "try:\n    f(-1)\nexcept AssertionError as error:\n    assert str(error) == 'negative'\nelse:\n    1 / 0\n"
    program = "def f(x):\n    assert x >= 0, 'negative'\n    return x"
    assert grade.check(program, test + "assert f(4) == 4").verdict == "pass"
    for wrong in ("def f(x): return x", "def f(x): assert False, 'negative'", "def f(x): raise ValueError"):
        assert grade.check(wrong, test + "assert f(4) == 4").verdict == "fail"
    outcome = grade.check(program, "assert f(4) == 4\nassert f(-4) == 4")
    assert (outcome.verdict, outcome.note) == ("fail", "AssertionError: negative (line 2)")


@pytest.mark.parametrize(
    ("error", "program"),
    [
        ("json.JSONDecodeError", "import json\ndef f(x): return json.loads(x)"),
        ("decimal.InvalidOperation", "import decimal\ndef f(x): return decimal.Decimal(x)"),
        ("statistics.StatisticsError", "import statistics\ndef f(x): return statistics.mean(x[2:])"),
        ("re.error", "import re\ndef f(x): return re.compile(x)"),
        ("struct.error", "import struct\ndef f(x): return struct.pack('i', x)"),
    ],
)
def test_a_test_may_expect_the_exceptions_of_a_library(grade, error, program):
    """They are the library's own classes in the test too, with their text."""
    module = error.partition(".")[0]
    test = f"import {module}\ntry:\n    f('(')\nexcept {error} as error:\n    assert str(error)\nelse:\n    1 / 0"
    assert grade.check(program, test).verdict == "pass"
    for wrong in ("def f(x): return x", "def f(x): raise Exception", "def f(x): raise SystemExit"):
        assert grade.check(wrong, test).verdict == "fail"
    mine = f"class {error.partition('.')[2]}(Exception): pass\ndef f(x): raise {error.partition('.')[2]}('no')"
    assert grade.check(mine, test).verdict == "fail"


def test_a_program_skips_no_test(grade):
    """A testing library counts `SkipTest` as no failure, so the name of a program's exception is not believed there."""
    test = (
        "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(f(1), 2)\n"
        "result = unittest.TestResult()\nT('test').run(result)\nassert result.wasSuccessful()"
    )
    assert grade.check("def f(x): return x + 1", test).verdict == "pass"
    assert grade.check("import unittest\ndef f(x): raise unittest.SkipTest('no')", test).verdict == "fail"
