"""What processes of one server have in common, and may not use: random numbers, open files, each other's time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from envs.sandbox import Job, Limits, LocalSandbox, run_sync
from envs.sandbox.worker.tree import empty_tree
from envs.sandbox.worker.waiting import Waiting

GUESS = """
import copy, random
known = random.getstate()
def f(seed):
    own = random.Random(seed)
    if seed is None:
        own.setstate(known)
    return [own.randrange(10**9) for _ in range(4)]
"""
GUESS_NUMPY = """
import numpy.random
known = numpy.random.get_state()
def f(seed):
    numpy.random.set_state(known)
    if seed is not None:
        numpy.random.seed(seed)
    return [int(numpy.random.randint(10**9)) for _ in range(4)]
"""
DRAW = "import random\ndrawn = random.randrange(10**9)\nassert drawn in f({})"
DRAW_NUMPY = "import numpy.random\ndrawn = int(numpy.random.randint(10**9))\nassert drawn in f({})"


@pytest.fixture(params=["full", "landlock"])
def one_worker(request: pytest.FixtureRequest) -> Iterator[LocalSandbox]:
    """All programs come from one server, and all tests run in one check process."""
    box = LocalSandbox(1, Limits(wall_s=3.0, cpu_s=2.0), tier=request.param, packages=["numpy"])
    try:
        asyncio.run(box.layers())
    except RuntimeError as error:
        pytest.skip(f"this machine does not allow it: {error}")
    yield box
    asyncio.run(box.close())


@pytest.mark.parametrize(("code", "test"), [(GUESS, DRAW), (GUESS_NUMPY, DRAW_NUMPY)], ids=["random", "numpy"])
def test_a_candidate_does_not_know_what_its_test_will_draw(one_worker, code, test):
    jobs = [Job("import", "check", code, "f", check_src="assert f(0)")]
    jobs += [Job(f"{n}", "check", code, "f", check_src=test.format("None")) for n in range(3)]
    first, *guesses = run_sync(one_worker, jobs)
    assert first.verdict == "pass"
    assert {(outcome.verdict, outcome.note.partition(":")[0]) for outcome in guesses} == {("fail", "test line 3")}


@pytest.mark.parametrize(("code", "test"), [(GUESS, DRAW), (GUESS_NUMPY, DRAW_NUMPY)], ids=["random", "numpy"])
def test_a_test_that_seeds_does_so_for_itself_alone(one_worker, code, test):
    module = "numpy.random" if "numpy" in code else "random"
    seeding = f"import {module}\n{module}.seed(7)\n" + test.format(7)
    jobs = [
        Job("seeds", "check", code, "f", check_src=seeding),
        Job("does not", "check", code, "f", check_src=test.format(7)),
    ]
    seeds, does_not = run_sync(one_worker, jobs)
    assert (seeds.verdict, does_not.verdict, does_not.note.partition(":")[0]) == ("pass", "fail", "test line 3")


FLAGS = "def flags(): return [fcntl.fcntl(n, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_APPEND) for n in range(3)]\n"
SPOIL = "for n in range(3): fcntl.fcntl(n, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND)\n"


def test_standard_streams_are_a_programs_own(one_worker):
    """Flags belong to the open file, which a descriptor that was inherited shares."""
    function, opening = FLAGS + "def f(x): return flags()\n", "import fcntl, os\n"
    look = [
        Job("function", "check", opening + function, "f", check_src="assert f(1) == [0, 0, 0]"),
        Job("script", "program", opening + FLAGS + "import sys\nsys.exit(flags()[0] or flags()[2] & os.O_NONBLOCK)"),
    ]
    spoil = [
        Job("function", "check", opening + SPOIL + function, "f", check_src="assert f(1) == [0, 0, 0]"),
        Job("script", "program", opening + SPOIL),
    ]
    verdicts = [outcome.verdict for outcome in run_sync(one_worker, [*look, *spoil, *look, *look])]
    assert verdicts == ["pass", "pass", "fail", *["pass"] * 5]


def test_functions_read_nothing_and_write_nowhere_by_name_too(grade):
    code = "def f(name): return open('/dev/stdin').read(), open(name, 'w').write('x')"
    for name in ("/dev/stdout", "/dev/stderr", "/dev/fd/2"):
        assert grade.call(code, ((name,), ("", 1))).note == ""


def test_the_small_roots_proc_shows_a_program_itself(grade):
    if grade.sandbox.tiers != ("full",):
        pytest.skip("the landlock tier has the host's /proc, and Landlock before it")
    seen = "import os\ndef f(): return [n for n in range(1, 999) if os.path.exists(f'/proc/{n}')] == [os.getpid()]"
    assert grade.call(seen, ((), True)).note == ""
    names = "import os\ndef f(): return [n for n in ('meminfo', 'sys', 'cmdline') if os.path.exists('/proc/' + n)]"
    assert grade.call(names, ((), [])).note == ""
    for path, how in (("self/mem", "rb+"), ("self/oom_score_adj", "w"), ("self/environ", "r"), ("self/status", "r")):
        code = f"def f():\n    try: open('/proc/{path}', {how!r})\n    except OSError: return True\n"
        assert grade.call(code, ((), True)).note == "", path


MANY = """
import hashlib, threading, time
threading.stack_size(1 << 18)
data, end = bytes(1 << 22), time.monotonic() + 0.9
def burn():
    while time.monotonic() < end:
        hashlib.sha256(data)
    time.sleep(25)
def f(x):
    crowd = [threading.Thread(target=burn) for _ in range(30)]
    for thread in crowd: thread.start()
    for thread in crowd: thread.join()
    return x
"""


def test_waiting_in_many_threads_buys_no_time(grade):
    """Each of them waits for the others, about 25 s in all."""
    limits = Limits(wall_s=1.0, cpu_s=60.0, most_wall_s=60.0)
    outcome = grade.call(MANY, ((1,), 1), limits=limits)
    assert (outcome.verdict, outcome.note) == ("timeout", "wall-clock limit")
    assert grade.check(MANY, "assert f(1) == 1", limits=limits).verdict == "timeout"


def test_waiting_counts_each_moment_once(monkeypatch):
    now, threads = [0.0], {"a": 0}
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    one, old = Waiting([lambda: dict(threads)]), Waiting([], [lambda: dict(threads)])

    def pass_by(seconds: float, **waited: float) -> tuple[float, float]:
        now[0] += seconds
        for name, more in waited.items():
            threads[name] = threads.get(name, 0) + int(more * 1e9)
        return round(one.look(0.0), 6), round(old.look(0.0), 6)

    assert pass_by(1.0, a=0.5) == (0.5, 0.0)  # what an old process had waited before nobody knows
    assert pass_by(1.0, a=0.2, b=0.7, c=0.7) == (1.2, 0.7)  # side by side
    assert pass_by(1.0, a=0.6) == (1.8, 1.3)
    assert pass_by(1.0, b=0.6) == (2.4, 1.9)  # by turns
    assert pass_by(0.1, c=1.2) == (3.6, 3.1)  # told when it was over
    threads.clear()
    assert pass_by(0.1, d=0.1) == (3.7, 3.2)
    assert pass_by(0.1, d=9.0) == (4.3, 4.3)  # no more than the time there was
    assert one.look(5.0) == pytest.approx(4.3)


def test_emptying_a_folder_whatever_it_holds(tmp_path):
    top = tmp_path / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "file").write_text("x")
    (top / "outside").symlink_to(tmp_path)
    (tmp_path / "kept").write_text("x")
    deep = top / "deep"
    deep.mkdir()
    for path in (top / "a" / "b", top / "a", deep, top):
        path.chmod(0)
    empty_tree(str(top))
    assert list(top.iterdir()) == [] and (tmp_path / "kept").is_file()


def test_a_test_imports_what_programs_may(grade):
    """Also where the library may not be read, by a check process that was there before the module."""
    for module in ("random", "numpy", "numpy.random", "textwrap"):
        assert grade.check("def f(x): return x", f"import {module}\nassert f(1) == 1").note == ""
