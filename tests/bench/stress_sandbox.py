"""Many programs, a tenth of them hostile, with workers killed on the way: what is left behind?

    python tests/bench/stress_sandbox.py --runs 100000

Counts processes, descriptors, mounts, marked files and memory before and after, and wrong verdicts. Last line: one JSON
object. Exit status 1 where anything leaked or a verdict is wrong.
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
}
SHORT = Limits(wall_s=0.2, cpu_s=1.0)


def jobs(start: int, count: int, draw: random.Random) -> list[Job]:
    """Honest programs of three kinds, and one in ten that is none."""
    made = []
    for n in range(start, start + count):
        if draw.random() < 0.1:
            name = draw.choice(list(HOSTILE))
            case = FunctionCase((n,), n)
            made.append(Job(f"hostile/{name}/{n}", "function", HOSTILE[name], "f", (case,), limits=SHORT))
        elif n % 3 == 0:
            made.append(Job(f"ok/{n}", "function", "def f(x): return x + 1", "f", (FunctionCase((n,), n + 1),)))
        elif n % 3 == 1:
            made.append(Job(f"ok/{n}", "stdio", "print(int(input()) + 1)", cases=(StdioCase(f"{n}\n", f"{n + 1}\n"),)))
        else:
            made.append(Job(f"ok/{n}", "check", "def f(x): return x + 1", "f", check_src=f"assert f({n}) == {n + 1}"))
    return made


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
        "files": len(list(Path("/tmp").glob("sandbox-*"))),
        "mib": own.memory_info().rss >> 20,
        "worker_mib": max((p.memory_info().rss for p in below), default=0) >> 20,
    }


async def run(args: argparse.Namespace) -> dict:
    draw, verdicts, wrong, killed = random.Random(0), Counter(), [], 0
    sandbox = LocalSandbox(args.workers, tier=args.tier)
    await sandbox.run(jobs(0, 500, draw))
    before, started = census(sandbox), time.perf_counter()
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
    after = census(sandbox)
    tier = sandbox.tiers[0]
    await sandbox.close()
    left = {"processes": len(psutil.Process().children(recursive=True))}
    left["files"] = len(list(Path("/tmp").glob("sandbox-*")))
    return {
        "tier": tier,
        "runs": args.runs,
        "per_second": round(args.runs / seconds, 1),
        "verdicts": dict(verdicts),
        "workers_killed": killed,
        "wrong": wrong[:20],
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
    sys.exit(1 if result["wrong"] or grown or any(result["left_when_closed"].values()) else 0)


if __name__ == "__main__":
    main()
