"""Many programs, a tenth of them hostile, with workers killed on the way: what is left behind?

    python tests/bench/stress_sandbox.py --runs 100000

Counts processes, descriptors, mounts, marked files, control groups and memory before and after, and wrong verdicts.
`blocked_s` is the longest processor time for which the event loop of the caller computed without serving others, and
`late_s` the same by the clock, in which other work of the machine counts too. Last line: one JSON object. Exit status 1
where anything leaked, a verdict is wrong, or the event loop was blocked for more than a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
from tqdm import tqdm

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from envs.sandbox import FunctionCase, Job, Limits, LocalSandbox, StdioCase

HOSTILE = {
    "exit": "import os\ndef f(x): os._exit(0)",
    "segfault": "import ctypes\ndef f(x): ctypes.string_at(0)",
    "kill": "import os, signal\ndef f(x):\n    for p in (-1, 0, 1, os.getppid()): os.kill(p, signal.SIGKILL)",
    "fork": "import os\ndef f(x):\n    while True: os.fork()",
    "exec": "import os\ndef f(x): os.execv('/bin/sh', ['sh', '-c', 'sleep 1000'])",
    "memory": "def f(x): return len(bytearray(1 << 32))",
    "threads": "from threading import *\ndef f(x):\n    while True: Thread(target=Event().wait).start()",
    "files": "import os\ndef f(x):\n    for n in range(9999): open(f'{n}', 'w').write('x' * 99)",
    "deep": "import os\ndef f(x):\n    while True: os.mkdir('d'); os.chdir('d'); os.chmod('..', 0)",
    "output": "import sys\ndef f(x): return 'x' * (1 << 27)",
    "descriptors": "import os\ndef f(x):\n    while True: os.dup(1)",
    "source": "(" * 100_000,
    "nul": "def f(x):\n    return '\0'",
    "sleep": "import time\ndef f(x): time.sleep(1000)",
    "loop": "def f(x):\n    while True: pass",
    "lie": "class A:\n    def __eq__(self, o): return True\ndef f(x): return A()",
    "disk": """import ctypes, mmap, os
def f(x):
    while True:
        file = os.open("held", os.O_RDWR | os.O_CREAT)
        os.unlink("held")
        os.posix_fallocate(file, 0, 1 << 24)
        mmap.mmap(file, 4096)
        os.close(file)
""",
    "flood": """import os
keys = ['["i","%x"],1' % (n * ((1 << 61) - 1) + 7) for n in range(1, 20000)]
os.write(3, ('["v",["d",' + ",".join(keys) + "]]" + chr(10)).encode())
os._exit(0)
def f(x): return 0
""",
    "brackets": """import os
os.write(3, b'["v",' + b"[" * 500_000 + bytes([10]))
os._exit(0)
def f(x): return 0
""",
    "digits": "def f(x): return 10 ** 100_000",
    "nested": "def f(x):\n    v = x\n    for _ in range(10_000): v = [v]\n    return v",
    "records": """import os
for n in range(3, 64):
    try: os.write(n, b'["v",null]' + bytes([10]))
    except OSError: pass
os._exit(0)
def f(x): return 0
""",
    "surrogate": "def f(x): return chr(0xD800) * 99",
    "builtins": """import builtins
for name in ("isinstance", "type", "len", "int", "repr", "str", "dict", "list"):
    setattr(builtins, name, lambda *a, **k: 4)
def f(x): return None
""",
    "signals": """import signal
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
def f(x):
    while True: pass
""",
    "outlive": """import threading
def f(x):
    threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()
    return x - 1
""",
    "hook": "import atexit, os\natexit.register(os._exit, 0)\ndef f(x): return -1",
}
CHECKED = {
    "helper": "class same:\n    def __init__(self, *values): pass\ndef f(x): return 0",
    "true": "class A:\n    def __bool__(self): return True\n    __eq__ = lambda a, b: True\ndef f(x): return A()",
    "assertion": "def f(x): raise AssertionError",
    "verdict": """import os
for n in range(3, 64):
    try: os.write(n, b'["v",true]' + bytes([10]))
    except OSError: pass
def f(x): return -1
""",
}
"""Hostile programs against a test that calls a name which nobody defines."""
HONEST = {
    "plain": "def f(x): return x + 1",
    "dataclass": """from __future__ import annotations
from dataclasses import dataclass, field
@dataclass(frozen=True)
class Point:
    x: int
    more: list[int] = field(default_factory=list)
def f(x: int) -> int: return Point(x).x + 1
""",
    "generator": "def numbers(n):\n    yield from range(n, n + 2)\ndef f(x): return list(numbers(x))[-1]",
    "decimal": "from decimal import Decimal\ndef f(x): return Decimal(x) + 1",
    "recursion": "import sys\nsys.setrecursionlimit(9000)\n"
    "def d(n): return n and 1 + d(n - 1)\ndef f(x): return d(5000) - 5000 + x + 1",
    "threads": "import threading\ndef f(x):\n    out = []\n"
    "    t = threading.Thread(target=lambda: out.append(x + 1))\n    t.start()\n    t.join()\n    return out[0]",
    "asyncio": "import asyncio\nasync def g(x):\n    await asyncio.sleep(0)\n    return x + 1\n"
    "def f(x): return asyncio.run(g(x))",
    "walrus": "def f(x): return y + 1 if (y := x) >= 0 else None",
    "match": "def f(x):\n    match [x]:\n        case [int(n)]: return n + 1",
    "state": "seen = {}\ndef f(x):\n    global last\n    seen[x] = last = x + 1\n    return seen[x]",
}
SCRIPTS = {
    "input": "print(int(input()) + 1)",
    "exit": "import sys\nprint(int(sys.stdin.readline()) + 1, flush=True)\nsys.exit(0)",
    "main": "import sys\ndef main():\n    print(int(sys.stdin.buffer.read()) + 1)\n"
    "if __name__ == '__main__':\n    main()",
    "loop": "while True:\n    try: line = input()\n    except EOFError: break\n    print(f'{int(line) + 1}')",
}
SHORT = Limits(wall_s=0.2, cpu_s=1.0)


def jobs(start: int, count: int, draw: random.Random) -> list[Job]:
    """Honest programs of three kinds, and one in ten that is none."""
    made = []
    for n in range(start, start + count):
        if draw.random() < 0.1:
            name = draw.choice([*HOSTILE, *CHECKED])
            case, test = FunctionCase((n,), n), f"assert same(f({n}), {n})"
            kind = "check" if name in CHECKED else "function"
            code, cases = {**HOSTILE, **CHECKED}[name], (case,) if kind == "function" else ()
            made.append(Job(f"hostile/{name}/{n}", kind, code, "f", cases, check_src=test, limits=SHORT))
        elif n % 3 == 0:
            name = draw.choice(list(HONEST))
            made.append(Job(f"ok/{name}/{n}", "function", HONEST[name], "f", (FunctionCase((n,), n + 1),)))
        elif n % 3 == 1:
            name = draw.choice(list(SCRIPTS))
            made.append(Job(f"ok/{name}/{n}", "stdio", SCRIPTS[name], cases=(StdioCase(f"{n}\n", f"{n + 1}\n"),)))
        else:
            name = draw.choice(list(HONEST))
            made.append(Job(f"ok/{name}/{n}", "check", HONEST[name], "f", check_src=f"assert f({n}) == {n + 1}"))
    return made


class Heartbeat:
    """How long an event loop does not serve a task that only sleeps."""

    def __init__(self) -> None:
        self.computed = self.late = 0.0
        self.task = asyncio.create_task(self.beat())

    async def beat(self) -> None:
        while True:
            started, computed = time.monotonic(), time.thread_time()
            await asyncio.sleep(0.01)
            self.late = max(self.late, time.monotonic() - started - 0.01)
            self.computed = max(self.computed, time.thread_time() - computed)


def folders(sandbox: LocalSandbox) -> list[Path]:
    """The folders of this sandbox's workers, also of those that were killed: any whose process has ended."""
    own = {worker.process.pid for worker in sandbox._all}
    numbers = [(path, int(path.name.split("-")[1])) for path in Path("/tmp").glob("sandbox-*")]
    return [path for path, pid in numbers if pid in own or not os.path.exists(f"/proc/{pid}")]


def census(sandbox: LocalSandbox) -> dict[str, int]:
    """What is there now, of this process and of its sandbox's workers."""
    own = psutil.Process()
    below = own.children(recursive=True)
    with open("/proc/self/mounts") as file:
        mounts = len(file.readlines())
    inside = 0
    for process in below:
        try:
            with open(f"/proc/{process.pid}/mounts") as file:
                inside = max(inside, len(file.readlines()))
        except OSError:
            continue
    return {
        "processes": len(below),
        "descriptors": own.num_fds(),
        "worker_descriptors": max((p.num_fds() for p in below), default=0),
        "mounts": mounts,
        "worker_mounts": inside,
        "files": len(folders(sandbox)),
        "groups": len([worker for worker in sandbox._all if worker.group and worker.group.folder.exists()]),
        "mib": own.memory_info().rss >> 20,
        "worker_mib": max((p.memory_info().rss for p in below), default=0) >> 20,
    }


async def run(args: argparse.Namespace) -> dict:
    draw, verdicts, wrong, killed = random.Random(0), Counter(), [], 0
    sandbox = LocalSandbox(args.workers, tier=args.tier)
    await sandbox.run(jobs(0, 500, draw))
    groups = {worker.group.folder.parent for worker in sandbox._all if worker.group}
    before, started, heartbeat = census(sandbox), time.perf_counter(), Heartbeat()
    for start in tqdm(range(0, args.runs, 1000), unit="k"):
        batch = jobs(start, min(1000, args.runs - start), draw)
        task = asyncio.create_task(sandbox.run(batch))
        if args.kill:
            await asyncio.sleep(draw.random())
            for worker in list(sandbox._all)[:1]:
                killed += 1
                os.kill(worker.process.pid, signal.SIGKILL)
        for job, outcome in zip(batch, await task, strict=True):
            verdicts[outcome.verdict] += 1
            if (outcome.verdict == "pass") != job.id.startswith("ok/") or outcome.verdict == "error":
                wrong.append((job.id, outcome.verdict, outcome.note))
    seconds = time.perf_counter() - started
    heartbeat.task.cancel()
    after = census(sandbox)
    tier = sandbox.tiers[0]
    await sandbox.close()
    left = {"processes": len(psutil.Process().children(recursive=True))}
    left["files"] = len(folders(sandbox))
    left["groups"] = sum(len(list(folder.glob(f"sandbox-{os.getpid()}-*"))) for folder in groups)
    return {
        "tier": tier,
        "runs": args.runs,
        "per_second": round(args.runs / seconds, 1),
        "verdicts": dict(verdicts),
        "workers_killed": killed,
        "wrong": wrong[:20],
        "blocked_s": round(heartbeat.computed, 3),
        "late_s": round(heartbeat.late, 3),
        "before": before,
        "after": after,
        "left_when_closed": left,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tier")
    parser.add_argument("--no-kill", dest="kill", action="store_false", help="kill no workers on the way")
    result = asyncio.run(run(parser.parse_args()))
    print(json.dumps(result))
    before, after = result["before"], result["after"]
    grown = [key for key in before if after[key] > before[key] + (50 if "mib" in key else 4)]
    blocked = result["blocked_s"] > 1
    sys.exit(1 if result["wrong"] or blocked or grown or any(result["left_when_closed"].values()) else 0)


if __name__ == "__main__":
    main()
