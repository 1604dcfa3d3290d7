"""Which verdict, count and note each way of ending gets."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading

import pytest

from envs.sandbox import Limits

LIBRARY = """
abc array ast asyncio bisect calendar cmath collections.abc colorsys concurrent.futures contextlib copy
csv dataclasses datetime decimal difflib enum fractions functools graphlib hashlib heapq io itertools
json math numbers operator os queue random re shelve sqlite3 statistics string struct sys textwrap
threading time types typing unicodedata wave xml.etree.ElementTree zlib zoneinfo
"""
LOOP = "while True:\n    pass\n"


def test_pass_and_fail_count_cases(grade):
    outcome = grade.call("def f(x):\n    return x * 2\n", ((1,), 2), ((2,), 5), ((3,), 6))
    assert (outcome.verdict, outcome.passed, outcome.total) == ("fail", 2, 3)
    assert outcome.cases == (True, False, True)
    assert outcome.note == "case 2: expected 5, got 4"
    assert grade.call("def f(x):\n    return x * 2\n", ((1,), 2), ((2,), 4)).verdict == "pass"


def test_notes_name_the_exception_and_the_line(grade):
    assert grade.call("def f():\n    return x\n", ((), 1)).note == "case 1: NameError: name 'x' is not defined (line 2)"
    assert grade.call("y = 1\nx\n", ((), 1)).note == "NameError: name 'x' is not defined (line 2)"
    assert "SyntaxError" in grade.call("def f(:\n", ((), 1)).note
    assert grade.call("g = 1", ((), 1)).note == "NameError: name 'f' is not defined"
    assert grade.script("print(1)\n1/0", ("", "1")).note == "case 1: ZeroDivisionError: division by zero (line 2)"


def test_a_program_may_recurse_as_deep_as_in_python(grade):
    """It counts itself, from the module on: the frames below it are the sandbox's."""
    deepest = "def f(n):\n    try: return f(n + 1)\n    except RecursionError: return n\nprint(f(1))"
    alone = subprocess.run([sys.executable, "-I", "-c", deepest], capture_output=True, text=True, check=True)
    assert int(grade.program(deepest).stdout) >= int(alone.stdout) > 900
    limit = "import sys\nsys.setrecursionlimit(sys.getrecursionlimit())\ndef f(n): return n and f(n - 1)\nf(990)"
    assert grade.script(limit, ("", "")).verdict == "pass"


def test_a_byte_order_mark_is_no_mistake(grade):
    assert grade.call("\ufeffdef f(x): return x", ((1,), 1)).verdict == "pass"


def test_later_cases_run_after_an_exception(grade):
    outcome = grade.call("def f(x):\n    return 1 // x\n", ((0,), 0), ((1,), 1))
    assert outcome.cases == (False, True)


@pytest.mark.parametrize("code", [LOOP + "def f(): pass", "def f():\n    while True: pass"])
def test_an_endless_loop_is_ended(grade, code):
    assert grade.call(code, ((), 1), limits=Limits(wall_s=2.0, cpu_s=1.0)).verdict in ("timeout", "killed")


def test_sleep_is_a_timeout_and_keeps_what_was_answered(grade):
    code = "import time\ndef f(x):\n    if x: time.sleep(1000)\n    return x\n"
    outcome = grade.call(code, ((0,), 0), ((1,), 1), ((0,), 0), limits=Limits(wall_s=2.0))
    assert (outcome.verdict, outcome.cases) == ("timeout", (True, False, False))
    assert (
        grade.script("import time; time.sleep(1000)", ("", ""), ("", ""), limits=Limits(wall_s=1.0)).verdict
        == "timeout"
    )


def test_times_of_each_case(grade):
    """A process that runs out of time on its third case is followed by one that begins with it."""
    slow = "import time\ndef f(x):\n    time.sleep(0.3 if x < 5 else 100)\n    return -x if x == 4 else x\n"
    each = Limits(wall_s=1.0, each_case=True)
    right = [((x,), x) for x in range(4)]
    together = grade.call(slow, *right, limits=Limits(wall_s=1.0))  # 1.2 s of sleep
    assert together.verdict == "timeout" and together.cases[0] and not together.cases[3]
    outcome = grade.call(slow, *right, limits=each)
    assert (outcome.verdict, outcome.note) == ("pass", "") and outcome.seconds > 1.2
    assert grade.call(slow, *right, ((9,), 9), ((1,), 1), limits=each).cases == (True,) * 4 + (False,) * 2
    wrong = grade.call(slow, *right, ((4,), 4), ((1,), 1), limits=each)
    assert (wrong.verdict, wrong.cases) == ("fail", (True,) * 4 + (False, True))
    burn = "import time\ndef f(x):\n    end = time.process_time() + 0.7\n    while time.process_time() < end: pass\n"
    assert grade.call(burn, *[((x,), None) for x in range(2)], limits=Limits(cpu_s=1, each_case=True)).verdict == "pass"


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("def gcd(a, b): return a if not b else gcd(b, a % b)", "pass"),
        ("from math import gcd", "pass"),
        ("class Solution:\n    def gcd(self, a, b): return __import__('math').gcd(a, b)", "pass"),
        ("from operator import add as gcd\nclass Solution:\n    def gcd(self, a, b): return 4", "pass"),
        ("def gcd(a, b): return 4\nclass Solution:\n    def gcd(self, a, b): return 5", "pass"),
        (
            "from functools import lru_cache\nclass Solution:\n    def gcd(self, a, b): return -1\n"
            "@lru_cache(None)\ndef gcd(a, b): return a if not b else gcd(b, a % b)",
            "pass",
        ),
        ("pass", "fail"),
        ("class Solution: pass", "fail"),
    ],
)
def test_the_entry_point_is_the_solutions_own(grade, code, verdict):
    """The setup's `from math import *` has one of that name too."""
    outcome = grade.call(code, ((12, 8), 4), entry="gcd", setup="from math import *")
    assert outcome.verdict == verdict, outcome.note


def test_values_from_json(grade):
    code = "def f(): return [(1, 'a'), {2: (3.0,)}]"
    assert grade.call(code, ((), [[1, "a"], {"2": [3.0]}])).verdict == "fail"
    assert grade.call(code, ((), [[1, "a"], {"2": [3.0]}]), as_json=True).verdict == "pass"
    assert grade.call(code, ((), [[1, "a"], {"2": [3.5]}]), as_json=True).verdict == "fail"


def test_cpu_limit_is_killed(grade):
    outcome = grade.call(f"def f():\n    {LOOP.replace(chr(10), ' ')}", ((), 1), limits=Limits(wall_s=30, cpu_s=1))
    assert (outcome.verdict, outcome.note) == ("killed", "CPU time limit")


def test_memory_bomb(grade, sandbox):
    assert grade.call("def f():\n    return len(bytearray(1 << 33))", ((), 1 << 33)).verdict in (
        "fail",
        "killed",
    )
    bomb = "def f():\n    a = []\n    while True: a.append(bytearray(1 << 24))"
    assert grade.call(bomb, ((), 1), limits=Limits(memory_mib=256)).verdict in ("fail", "killed")


def test_crash_is_killed(grade):
    crash = "import ctypes\ndef f():\n    ctypes.string_at(0)"
    outcome = grade.call(crash, ((), 1))
    assert (outcome.verdict, outcome.note) == ("killed", "ended by SIGSEGV")
    assert grade.check(crash, "def check(candidate):\n    assert candidate() == 1").verdict == "killed"


@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(0)\ndef f(): return 1",
        "import sys; sys.exit(0)\ndef f(): return 1",
        "import os\ndef f(): os._exit(0)",
        "import sys\ndef f(): sys.exit(0)",
        "import atexit, os\natexit.register(os._exit, 0)\ndef f(): return 2",
    ],
)
def test_leaving_early_is_a_failure(grade, code):
    assert grade.call(code, ((), 1)).verdict == "fail"
    assert grade.check(code, "def check(candidate):\n    assert candidate() == 1").verdict == "fail"
    assert (
        grade.check(code, "try:\n    assert f() == 1\nexcept Exception:\n    pass\nassert f() == 1").verdict == "fail"
    )


def test_script_output_is_compared_by_line(grade):
    assert grade.script("print('1 ')\nprint('2')\nprint()", ("", "1\n2")).verdict == "pass"
    assert grade.script("print(1)", ("", "1\n2")).verdict == "fail"
    assert grade.script("print(1)\nprint(2)", ("", "1")).verdict == "fail"
    assert grade.script("print(' 1.0')", ("", "1")).verdict == "pass"
    assert grade.script("print(1.01)", ("", "1")).verdict == "fail"
    assert grade.script("import sys\nsys.stdout.write('1'); sys.exit(3)", ("", "1")).note == "case 1: exit status 3"
    assert grade.script("import os\nos.write(1, b'1'); os._exit(0)", ("", "1")).verdict == "pass"


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nprint(sum(map(int, sys.stdin.buffer.read().split())))",
        "print(sum(map(int, open(0).read().split())))",
        "n = 0\nwhile True:\n    try: n += int(input())\n    except EOFError: break\nprint(n)",
        "import sys, io\nout = io.StringIO()\nsys.stdin.readline\nout.write(str(sum(map(int, sys.stdin))))\n"
        "sys.stdout.write(out.getvalue())\nexit()",
        "import atexit, sys\natexit.register(lambda: print(6))\nsys.setrecursionlimit(10**6)",
        "import threading\nthreading.Thread(target=lambda: print(6)).start()",
        "f = open(1, 'w')\nf.write('6')",
        "import sys\nprint(sum(int(line) for line in sys.stdin))",
        "import sys\nprint(sum(map(int, sys.stdin.read().split())), end='')",
        "import sys\ndata = sys.stdin.readlines()\nsys.stdout.write(str(sum(map(int, data))) + '\\n')",
        "import sys\ninput = sys.stdin.readline\nprint(int(input()) + int(input()) + int(input()))",
        "import os\nprint(sum(map(int, os.read(0, 1 << 16).split())))",
        "import os, sys\nos.write(1, str(sum(map(int, sys.stdin))).encode())",
        "import io, os\nr = io.BytesIO(os.read(0, os.fstat(0).st_size)).readline\nprint(int(r()) + int(r()) + 3)",
        "import fileinput\nprint(sum(int(line) for line in fileinput.input()))",
        "import sys\nsys.stdout = open(1, 'w', buffering=1 << 16, closefd=False)\nprint(sum(map(int, sys.stdin)))",
        "import sys, os\nprint(sum(map(int, sys.stdin)))\nsys.stdout.flush()\nos._exit(0)",
        "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(1 << 28)\n"
        "def main():\n    def deep(n): return n and 1 + deep(n - 1)\n"
        "    print(sum(map(int, sys.stdin)) + deep(20000) - 20000)\n"
        "t = threading.Thread(target=main)\nt.start()\nt.join()",
        "import numpy as np, sys\nprint(np.array(sys.stdin.read().split(), dtype=int).sum())",
        "def main(): print(sum(int(input()) for _ in '123'))\nif __name__ == '__main__':\n    exit(main())",
        "from sys import *\nprint(eval('+'.join(stdin.read().split())), file=stdout)",
        "from sys import stdin, stdout\nstdout.buffer.write(b'%d\\n' % sum(map(int, stdin.buffer)))",
        "import sys\nsys.stdin = open('/dev/stdin')\nprint(sum(int(input()) for _ in range(3)))",
        "print(sum(map(int, open('/dev/fd/0'))))",
        "with open('/proc/self/fd/0') as f: print(sum(map(int, f)))",
        "import sys\nsys.stdout = open('/dev/stdout', 'w')\nprint(sum(map(int, sys.stdin)))",
        "print(6, file=open('/dev/fd/1', 'a'))",
        "f = open('/dev/stdout', 'w')\nf.write('6\\n')\nf.flush()\nprint()",
        "import sys\nsys.stderr = open('/dev/stderr', 'w')\nprint(1, file=sys.stderr)\nprint(6)",
        "import threading\nt = threading.Thread(target=lambda: print(sum(map(int, open('/dev/stdin')))))\nt.start()",
        # streams of contests' own: by descriptor, from the mode of the one before
        "import io, os, sys\nclass Fast(io.IOBase):\n    def __init__(self, file):\n"
        "        self.number, self.writes, self.held = file.fileno(), 'r' not in file.mode, io.BytesIO()\n"
        "        self.write = self.held.write if self.writes else None\n"
        "    def readline(self): return self.held.readline()\n"
        "    def flush(self):\n        if self.writes: os.write(self.number, self.held.getvalue())\n"
        "    def fill(self):\n        self.held = io.BytesIO(os.read(self.number, 1 << 16))\n        return self\n"
        "into = Fast(sys.stdin).fill()\nsys.stdout = Fast(sys.stdout)\n"
        "sys.stdout.write(b'%d' % sum(int(into.readline()) for _ in range(3)))",
        "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.detach(), 'utf-8')\nprint(sum(map(int, sys.stdin)))",
        "import os\nprint(6 if os.path.basename(__file__) else 0)",
        "class Last:\n    def __del__(self): print(6)\nlast = Last()",
        "import sys\nprint(sum(map(int, sys.stdin)))\ndel sys.modules['__main__']",
        "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()): print('noise')\n"
        "print(*[sum(map(int, iter(input, '3'))) + 3], sep='')",
    ],
)
def test_script_idioms(grade, code):
    assert grade.script(code, ("1\n2\n3\n", "6\n")).verdict == "pass"


@pytest.mark.parametrize(
    "code",
    [
        "def g(n):\n    yield from range(n)\ndef f(n): return sum(g(n))",
        "import sys\nsys.setrecursionlimit(20_000)\ndef g(n): return n if n == 0 else g(n - 1)\n"
        "def f(n): return g(10_000) + sum(range(n))",
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 0\n"
        "def f(n): return sum(P(i).x for i in range(n))",
        "from threading import Thread\ndef f(n):\n    found = []\n"
        "    ts = [Thread(target=found.append, args=(i,)) for i in range(n)]\n"
        "    for t in ts: t.start()\n    for t in ts: t.join()\n    return sum(found)",
        "import numpy as np\ndef f(n): return int(np.arange(n).sum()) + int(np.linalg.det(np.eye(2))) - 1",
        "from collections import Counter\nimport functools\n@functools.lru_cache(None)\n"
        "def h(n): return n and n + h(n - 1)\ndef f(n): return Counter({'a': h(n - 1)})['a']",
        "import tempfile\ndef f(n):\n    with tempfile.TemporaryFile('w+') as file:\n"
        "        file.write(str(sum(range(n))))\n        file.seek(0)\n        return int(file.read())",
    ],
    ids=["generator", "recursion", "dataclass", "threads", "numpy", "cache", "temporary file"],
)
def test_honest_idioms(grade, code):
    assert grade.call(code, ((20,), 190)).note == ""


def test_sources_of_ten_megabytes(grade):
    comment = "# " + "x" * (10 << 20) + "\ndef f(): return 1"
    assert grade.call(comment, ((), 1)).verdict == "pass"
    assert grade.call("x = [" + "1," * (5 << 20) + "]\ndef f(): return 1", ((), 1)).verdict in (
        "pass",
        "fail",
        "killed",
    )
    assert grade.call("def f(): return 1", ((), 1)).verdict == "pass"


def test_huge_output_is_killed(grade):
    flood = "while True: print('x' * 100000)"
    assert grade.script(flood, ("", "x")).verdict == "killed"
    assert grade.call("def f():\n    return 'a' * (1 << 25)", ((), "a")).verdict == "fail"
    noisy = "import sys\ndef f():\n    print('x' * 10**7, file=sys.stderr)\n    return not print('y' * 10**7)"
    assert grade.call(noisy, ((), 1)).verdict == "pass"


BOMB = "b() { b | b & }; while true; do b; done"


def test_a_program_starts_no_process_and_a_builds_fork_bomb_is_bounded(grade, processes_of):
    assert "PermissionError" in grade.program("import os\nos.fork()").note
    most, done = [0], threading.Event()

    def watch():
        while not done.wait(0.05):
            most[0] = max(most[0], processes_of(grade.sandbox))

    thread = threading.Thread(target=watch)
    thread.start()
    outcome = grade.command(["/bin/sh", "-c", BOMB], limits=Limits(wall_s=1.0))
    done.set()
    thread.join()
    assert outcome.verdict in ("timeout", "killed", "fail")
    assert most[0] < 64 + 8
    assert grade.call("def f(): return 1", ((), 1)).verdict == "pass"


def test_descendants_do_not_survive(grade, sandbox, processes_of):
    grade.call("def f(): return 1", ((), 1))
    before = processes_of(sandbox)
    assert grade.command(["/bin/sh", "-c", "setsid sleep 1000 & setsid sleep 1000 &"]).verdict == "pass"
    assert processes_of(sandbox) <= before


def test_a_command_builds_runs_and_brings_back_its_files(grade):
    files = {"src/main.c": b'#include <stdio.h>\nint main() { puts("1.5"); fprintf(stderr, "hm"); return 0; }\n'}
    outcome = grade.command(
        ["/bin/sh", "-c", "cat src/main.c > copy.c && mkdir -p out && echo 1.5 | tee out/field.txt && echo hm >&2"],
        ["/bin/sh", "-c", "wc -c < copy.c > out/size.txt"],
        files=files,
        keep=("out/*.txt",),
    )
    assert (outcome.verdict, outcome.stdout, outcome.stderr, outcome.exit_status) == ("pass", "1.5\n", "hm\n", 0)
    assert outcome.files["out/field.txt"] == b"1.5\n"
    assert int(outcome.files["out/size.txt"]) == len(files["src/main.c"])


def test_a_command_that_fails_ends_the_build(grade):
    outcome = grade.command(["/bin/sh", "-c", "echo no >&2; exit 3"], ["/bin/sh", "-c", "echo never"])
    assert (outcome.verdict, outcome.exit_status, outcome.stdout, outcome.stderr) == ("fail", 3, "", "no\n")
    assert outcome.note == "command 1 ended with status 3"
    assert "FileNotFoundError" in grade.command(["/no/such/program"]).note
    assert grade.command(["/bin/sleep", "100"], limits=Limits(wall_s=0.5)).verdict == "timeout"
    assert grade.command(["/bin/true"], files={"../x": b""}).verdict == "error"


SPIN = "while :; do :; done"


@pytest.mark.parametrize("command", [["sh", "-c", SPIN], ["sh", "-c", f"sh -c '{SPIN}'; exit $?"]])
def test_a_command_without_processor_time_left_is_killed_and_does_not_fail(grade, command):
    """On a busy machine that limit may come before the one of the clock, from which waiting is taken off."""
    outcome = grade.command(command, limits=Limits(wall_s=60, cpu_s=1))
    assert (outcome.verdict, outcome.note) == ("killed", "CPU time limit")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here")
def test_a_compiler_runs(grade):
    files = {"a.c": b'#include <stdio.h>\nint main() { puts("built"); return 0; }\n'}
    outcome = grade.command(["gcc", "-O1", "-o", "a", "a.c"], ["./a"], files=files, limits=Limits(wall_s=60, cpu_s=30))
    assert (outcome.note, outcome.stdout) == ("", "built\n")


def test_a_program_says_what_it_printed(grade):
    outcome = grade.program("import sys\nprint(input())\nprint('no', file=sys.stderr)\nsys.exit(2)", stdin="hello\n")
    assert (outcome.verdict, outcome.exit_status) == ("fail", 2)
    assert (outcome.stdout, outcome.stderr, outcome.note) == ("hello\n", "no\n", "exit status 2")
    assert grade.program("print(1)").verdict == "pass"
    assert grade.program("while True: print('x' * 100000)").verdict == "killed"


def test_standard_library_is_there(grade):
    names = LIBRARY.split()
    code = "import importlib\ndef f(names): return [importlib.import_module(n).__name__ for n in names]"
    if grade.sandbox.tiers == ("landlock",):
        names = [
            name for name in names if name not in ("colorsys", "shelve", "sqlite3", "wave", "xml.etree.ElementTree")
        ]
    outcome = grade.call(code, ((names,), names))
    assert outcome.verdict == "pass", outcome.note
    code = (
        "import asyncio, concurrent.futures as cf, dataclasses as dc\n"
        "@dc.dataclass\nclass P:\n    x: 'int' = 1\n"
        "async def g(): return P().x\ndef f():\n    with cf.ThreadPoolExecutor(4) as pool:\n"
        "        return asyncio.run(g()) + pool.submit(int, '2').result()\n"
    )
    assert grade.call(code, ((), 3)).note == ""


BURN = "import time\ndef f():\n    while time.process_time() < 0.6: pass\n    return 1\n"


def test_a_crowded_machine_changes_no_verdict(grade):
    """0.6 s of processor time within 1 s: waiting for a processor is not the program's doing, sleeping is."""
    spin = [sys.executable, "-c", "while True: pass"]
    places = 3 * len(os.sched_getaffinity(0))
    # a session each: the kernel shares processors out among sessions first
    crowd = [subprocess.Popen(spin, start_new_session=True) for _ in range(places)]
    try:
        outcome = grade.call(BURN, ((), 1), limits=Limits(wall_s=1.0, cpu_s=2.0))
        assert outcome.verdict == "pass" and outcome.seconds > 1.0
        check = grade.check(BURN, "assert f() == 1", limits=Limits(wall_s=1.0, cpu_s=2.0))
        assert check.verdict == "pass"
        assert grade.script("import time; time.sleep(100)", ("", ""), limits=Limits(wall_s=1.0)).verdict == "timeout"
    finally:
        for process in crowd:
            process.kill()
            process.wait()


def test_a_test_may_link_objects_of_the_solutions_classes(grade):
    solution = """
class Node:
    def __init__(self, value):
        self.value, self.next = value, None
def total(node):
    return node.value + total(node.next) if node else 0
"""
    check = "first = Node(1)\nfirst.next = Node(2)\nfirst.next.next = Node(3)\nassert total(first) == 6\n"
    assert grade.check(solution, check, "total").verdict == "pass"
    assert grade.check(solution.replace("else 0", "else 1"), check, "total").verdict == "fail"
    sealed = solution.replace("class Node:", "class Node:\n    __slots__ = ('value',)")
    assert grade.check(sealed, check, "total").verdict == "fail"
