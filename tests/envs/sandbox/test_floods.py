"""Answers whose hashes collide, or that are long or deep, cost the caller little time and other programs none."""

from __future__ import annotations

import asyncio
import time

import pytest

from envs.sandbox import FunctionCase, Job, Limits, run_sync
from envs.sandbox.comparison import decode, same
from envs.sandbox.verdict import Ended, judge_function
from envs.sandbox.worker.codec import depth_of, make_encoder, parse

PRIME = (1 << 61) - 1
HEAD = f"""
def colliding(count): return ['["i","%x"]' % (n * {PRIME} + 7) for n in range(1, count + 1)]
def of(tag, items): return '["v",["' + tag + '",' + ",".join(items) + "]]"
text = """
"""Source of answers whose integers have one hash."""
FLOODS = {
    "half of a set": "of('s', [*map(str, range(8, 40000)), *colliding(39000)])",
    "keys": "of('d', [key + ',1' for key in colliding(70000)])",
    "long tuples": "of('s', ['[\"t\"' + ',0' * 3000 + ',' + last + ']' for last in colliding(250)])",
    "nested sets": "of('l', ['[\"s\",' + ','.join(colliding(60)) + ']'] * 1000)",
    "brackets": "of('l', ['[\"l\"]'] * 300000)",
    "unclosed brackets": "'[\"v\",' + '[[],' * 450000",
    "quotes": "'[\"v\",\"' + '[' * 300 + '\\\\\"' * 800000 + '\"]'",
    "digits": 'of(\'l\', [\'["q","%x","3"]\' % (1 << 8000)] * 900)',
    "decimals": 'of(\'s\', [\'["m","1E+999999999"]\', \'["m","1E-399"]\'] * 40000)',
    "a shape": '\'["v",["a","int64",["l",1000,0,1000],["l"]]]\'',
}
EXPECTED = ["x" * 1000] * 64


def flood(text: str) -> str:
    return f"import os{HEAD}{text}\nos.write(3, text.encode() + b'\\n')\nos._exit(0)\ndef f(): return 1\n"


@pytest.mark.parametrize("name", FLOODS)
def test_a_hash_flood_is_judged_in_linear_time(name):
    """Sets of these answers would take minutes, since each member is compared with all before it."""
    space: dict[str, str] = {}
    exec(HEAD + FLOODS[name], space)
    text = space["text"]
    assert len(text) < 4 << 20
    job = Job("flood", "function", "", "f", (FunctionCase((), EXPECTED),))
    started = time.process_time()
    outcome = judge_function(job, Limits(), Ended("exit", 0, "", "", 1.0), text.encode() + b"\n")
    assert outcome.verdict == "fail"
    assert time.process_time() - started < 60, "a hang"


def test_other_programs_are_served_while_a_flood_is_judged(grade):
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - before)

    async def run() -> list[str]:
        ticking = asyncio.create_task(tick())
        limits = Limits(wall_s=30.0, cpu_s=20.0)
        sleep = "import time\ndef f(x):\n    time.sleep(0.3)\n    return x\n"
        jobs = []
        for name, text in FLOODS.items():
            jobs.append(Job(name, "function", flood(text), "f", (FunctionCase((), EXPECTED),), limits=limits))
            jobs.append(Job("right", "function", sleep, "f", (FunctionCase((1,), 1),), limits=limits))
        outcomes = await grade.sandbox.run(jobs)
        ticking.cancel()
        return [outcome.verdict for outcome in outcomes]

    assert asyncio.run(run()) == ["fail", "pass"] * len(FLOODS)
    assert longest < 8, "the event loop was blocked"


def test_a_flood_of_the_check_process_ends_its_own_job_only(sandbox):
    code = f"import os{HEAD}of('s', colliding(60000))\n"
    code += "def f(x):\n    os.write(3, text.encode() + b'\\n')\n    os._exit(0)\n"
    jobs = [Job("flood", "check", code, "f", check_src="assert f(1) == 1", limits=Limits(wall_s=4, cpu_s=2))]
    jobs += [Job("right", "check", "def f(x): return x", "f", check_src="assert f(1) == 1")]
    hostile, right = run_sync(sandbox, jobs)
    assert hostile.verdict in ("killed", "timeout", "fail") and right.verdict == "pass"


VALUES = [0, 1, True, 1.0, 1 + 0j, 2.5, float("nan"), None, "1", b"1", (1,), (1.0, "a"), frozenset({1}), 1 << 70, int]


def test_sets_and_keys_are_equal_as_in_python():
    encode = make_encoder(1 << 20)
    for left in VALUES:
        for right in VALUES:
            equal = left == right or (left != left and right != right)
            made = [decode(parse(encode(value))) for value in ({left}, frozenset({left}), {left: 1})]
            assert [same(value, other) for value, other in zip(made, ({right}, {right}, {right: 1}), strict=True)] == (
                [equal] * 3
            ), (left, right)
    assert same(decode(parse('["s",1,["f","nan"],1]')), {1, float("nan")})
    assert not same(decode(parse('["s",1,2]')), {1}) and not same(decode(parse('["s",1]')), {1, 2})
    with pytest.raises(ValueError, match="key"):
        same(decode(parse('["s",["l",1]]')), {1})


def test_depth_counts_brackets_outside_of_texts():
    assert depth_of('[[1,"[[[["],{"a":[]}]') == 3
    assert depth_of('["\\\\",[["\\"[[[["]]]') == 3
    assert depth_of("]]]" + "[" * 5) == 2
    for text in ('["' + '\\"[' * 500 + '"]', '["' + "[" * 1000 + '"]'):
        assert len(parse(text)) == 1
    for text in ("[" * 500, '["a",' * 300 + "1" + "]" * 300, '["\\\\"' + ",[" * 300 + "]" * 301):
        with pytest.raises(ValueError):
            parse(text)
