"""How fast robot programs are judged, isolated, against one process a world as RoboEval starts them.

    python tests/bench/bench_robosim.py [--rounds 3]

The baseline starts an interpreter for each world, imports what the original imports (numpy among it), lets the program
act on a simple world and looks at it every 0.1 s, for a second at most, as the original does; one after another.
Ours runs in the sandbox, two workers. Both judge the same programs, in rounds that alternate, so that a busy minute
meets both; rates are medians over rounds. One program in eight waits for somebody who never comes, as the references
of RoboEval's own tasks do. `loop_seconds` is what the dearest of several endless programs costs. Processor time (of
this process and all that it started) is beside the clock's, which cannot be trusted when others are at work. The last
line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bench_sandbox import cpu_seconds

from envs.roboeval import Request, World, judge
from envs.roboeval.rewriting import rewritten
from envs.roboeval.trace import T, check, every, go, has, inside, report, say, visit
from envs.sandbox import LocalSandbox

COLLECT = """def task_program():
    # request {n}
    start = get_current_location()
    missing = []
    for room in get_all_rooms():
        if "lab" in room:
            go_to(room)
            if not is_in_room("fire extinguisher"):
                missing.append(room)
    go_to(start)
    if len(missing) == 0:
        say("Every lab has a fire extinguisher")
    else:
        say("No fire extinguisher in " + ", ".join(missing))
"""
POLL = """def task_program():
    # request {n}
    start = get_current_location()
    votes = {{"pizza": 0, "salad": 0}}
    for room in get_all_rooms():
        if "studio" not in room:
            continue
        go_to(room)
        if is_in_room("person"):
            answer = ask("", "Would you like pizza or salad?", ["pizza", "salad"])
            votes[answer] += 1
    go_to(start)
    say(str(votes["pizza"]) + " want pizza and " + str(votes["salad"]) + " want salad")
"""
FETCH = """def task_program():
    # request {n}
    go_to("archive")
    if is_in_room("red folder"):
        pick("red folder")
        go_to("start_loc")
        place("red folder")
        say("Here is the red folder")
    else:
        go_to("start_loc")
        say("There is no red folder")
"""
WAIT = """def task_program():
    # request {n}
    go_to("gate")
    while True:
        if is_in_room("visitor"):
            say("Hello, please come in")
            break
        time.sleep(1)
"""
ENDLESS = [
    "def task_program():\n    while True:\n        pass\n",
    "def task_program():\n    while True:\n        say('again and again')\n",
    "import itertools\ndef task_program():\n    sum(itertools.count())\n",
    "def task_program():\n    n = 9 ** 9 ** 9\n",
    "def task_program():\n    while True:\n        try:\n            rooms = sorted(get_all_rooms())\n"
    "        except BaseException:\n            pass\n",
]


def tasks() -> list[tuple[str, list[World], list[dict]]]:
    """Program texts, worlds and conditions of four tasks of our own."""
    labs = ("green lab", "blue lab", "white lab", "hall", "start_loc")
    extinguishers = [("green lab",), ("blue lab", "white lab"), (), ("green lab", "blue lab", "white lab")]
    collect = [World(labs, objects=dict.fromkeys(rooms, ("fire extinguisher",))) for rooms in extinguishers]
    looked = every(*(visit(T, room, check("extinguisher")) for room in labs[:3]), report("extinguisher"))
    studios = ("north studio", "south studio", "kitchen", "start_loc")
    answers = [("pizza", "pizza"), ("pizza", "salad"), ("salad", "salad")]
    poll = [World(studios, people={r: ((a,),) for r, a in zip(studios, pair, strict=False)}) for pair in answers]
    asked = every(inside(T, go("north studio")), report(has("pizza", "salad")))
    fetch = [World(("archive", "start_loc"), objects={"archive": labels}) for labels in (("red folder",), ())]
    gate = ("gate", "start_loc")
    wait = [World(gate, people={"gate": (("yes",),)}), World(gate, may_timeout=True)]
    return [
        (COLLECT, collect, [looked] * 4),
        (POLL, poll, [asked] * 3),
        (FETCH, fetch, [inside(T, say("folder"))] * 2),
        (WAIT, wait, [inside(T, say("hello")), inside(T, check("visitor"))]),
    ]


def requests(number: int, serial: int) -> list[Request]:
    """Different programs; every eighth one waits."""
    collect, poll, fetch, wait = tasks()
    turn = [collect, poll, fetch, collect, poll, collect, poll, wait]
    made = []
    for n in range(number):
        text, worlds, conditions = turn[n % len(turn)]
        made.append(Request(text.format(n=serial + n), worlds, conditions))
    return made


PRELUDE = """
import copy, json, os, random, re, sys, time
import numpy
world = json.loads(sys.argv[1])
class Robot:
    room, held = world["robot_start"], None
    def get_current_location(self): return self.room
    def get_all_rooms(self): return world["rooms"]
    def go_to(self, location):
        print("GoTo", location, flush=True)
        self.room = next(room for room in world["rooms"] if re.search(room, location, re.IGNORECASE))
    def is_in_room(self, entity):
        print("CheckEntity", entity, flush=True)
        labels = world["objects"].get(self.room, [])
        return any(re.search(label, entity) for label in labels) or bool(world["people"].get(self.room))
    def ask(self, person, question, options):
        print("Ask", question, options, flush=True)
        return next(o for o in options if re.search(world["people"][self.room][0][0], o))
    def say(self, message): print("Say", message, flush=True)
    def pick(self, obj): print("Pick", obj, flush=True)
    def place(self, obj): print("Place", obj, flush=True)
robot = Robot()
"""


def baseline(chosen: Sequence[Request]) -> None:
    """A process a world, polled. Raises RuntimeError where a program that is right ends with an error."""
    with tempfile.TemporaryDirectory() as folder:
        for request in chosen:
            path = Path(folder) / "program.py"
            path.write_text(f"{PRELUDE}\n{rewritten(request.program).text}\n\ntask_program(robot)\n")
            for world in request.worlds:
                command = [sys.executable, str(path), json.dumps(world.data)]
                with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
                    for _ in range(10):
                        time.sleep(0.1)
                        process.stdout.read1(1024)
                        if process.poll() is not None:
                            break
                    process.kill()
                if process.returncode not in (0, -signal.SIGKILL):
                    raise RuntimeError(f"the baseline cannot run a program that is right: {request.program}")


def spent() -> tuple[float, float]:
    """The clock, and the processor time of this process and all that it started."""
    return time.perf_counter(), cpu_seconds(os.getpid())


def since(start: tuple[float, float]) -> tuple[float, float]:
    now = spent()
    return now[0] - start[0], now[1] - start[1]


async def race(sandbox: LocalSandbox, options: argparse.Namespace) -> dict[str, float]:
    """Both on the same programs, in rounds that alternate."""
    ours, expected, serial = [], [], 64
    await judge(sandbox, requests(serial, 0))
    for _ in range(options.rounds):
        chosen = requests(options.ours, serial)
        serial += len(chosen)
        start = spent()
        results = await judge(sandbox, chosen)
        ours.append([seconds / len(chosen) for seconds in since(start)])
        if not all(judgement is not None and judgement.verdict == "Success" for judgement in results):
            raise RuntimeError("a program that is right was not judged so")
        start = spent()
        baseline(chosen[: options.theirs])
        expected.append([seconds / options.theirs for seconds in since(start)])
        print(f"ours {1 / ours[-1][0]:.1f} programs/s, a process a world {1 / expected[-1][0]:.2f}", file=sys.stderr)
    pairs = list(zip(ours, expected, strict=True))
    return {
        "per_second": round(1 / statistics.median(wall for wall, _ in ours), 1),
        "baseline_per_second": round(1 / statistics.median(wall for wall, _ in expected), 2),
        "ratio_original": round(statistics.median(expected[0] / ours[0] for ours, expected in pairs), 1),
        "cpu_ms": round(1e3 * statistics.median(cpu for _, cpu in ours), 2),
        "baseline_cpu_ms": round(1e3 * statistics.median(cpu for _, cpu in expected), 1),
    }


async def loops(sandbox: LocalSandbox, rounds: int) -> dict[str, float]:
    """The dearest endless program: medians of the clock and of processor time."""
    costs = []
    for text in ENDLESS:
        request, runs = Request(text, [World(("start_loc",))], [inside(T, say())]), []
        for _ in range(rounds):
            start = spent()
            [judgement] = await judge(sandbox, [request])
            runs.append(since(start))
            if judgement is None or judgement.worlds[0].status != "timeout":
                raise RuntimeError(f"an endless program was not stopped: {judgement}")
        costs.append([statistics.median(column) for column in zip(*runs, strict=True)])
        print(f"{costs[-1][0]:.3f} s, {costs[-1][1]:.3f} s of processor time: {text!r}", file=sys.stderr)
    return {
        "loop_seconds": round(max(wall for wall, _ in costs), 3),
        "loop_cpu_seconds": round(max(cpu for _, cpu in costs), 3),
        "counted_loop_seconds": round(max(wall for wall, _ in costs[:2]), 3),
    }


async def measure(options: argparse.Namespace) -> dict[str, float]:
    sandbox = LocalSandbox(2)
    try:
        return {**await race(sandbox, options), **await loops(sandbox, options.rounds)}
    finally:
        await sandbox.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ours", type=int, default=320, help="programs a round")
    parser.add_argument("--theirs", type=int, default=16)
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options))))


if __name__ == "__main__":
    main()
