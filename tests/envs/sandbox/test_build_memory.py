"""The memory limit holds for all processes of a build together, and the caller keeps no more than the files."""

from __future__ import annotations

import threading
import time

import psutil
import pytest

from envs.sandbox import Limits

LIMITS = Limits(memory_mib=256, cpu_s=60, wall_s=400, most_wall_s=500)
HOG = """
import time
held = []
for _ in range(40):
    held.append(bytearray(b"x") * (5 << 20))
    time.sleep(0.1)
time.sleep(300)
"""
SHARED = """
import mmap, os, time
held = mmap.mmap(-1, 90 << 20)
for n in range(0, len(held), 4096): held[n] = 1
for _ in range(3):
    if not os.fork():
        for n in range(0, len(held), 4096): held[n]
        time.sleep(2)
        os._exit(0)
for _ in range(3): os.wait()
"""


@pytest.fixture
def most_memory(grade, processes_of):
    """Runs a command, and returns its outcome with the largest resident memory in MiB of the sandbox's processes."""

    def run(*commands: list[str], **fields):
        if "python3" not in fields and grade.command(["python3", "-c", "pass"]).verdict != "pass":
            pytest.skip("no python3 within the sandbox")
        most, done = [0], threading.Event()

        def watch() -> None:
            while not done.wait(0.02):
                total = 0
                for pid in processes_of(grade.sandbox, pids=True):
                    try:
                        total += psutil.Process(pid).memory_info().rss
                    except psutil.Error:
                        continue
                most[0] = max(most[0], total >> 20)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            return grade.command(*commands, limits=LIMITS, **fields), most[0]
        finally:
            done.set()
            thread.join()

    return run


@pytest.mark.parametrize("how", ["children", "orphans"])
def test_children_of_a_build_share_one_memory_limit(most_memory, how):
    """Each of the eight stays within the limit of one process; together they hold six times as much."""
    one = "setsid python3 hog.py" if how == "orphans" else "python3 hog.py"
    script = f"for n in 1 2 3 4 5 6 7 8; do {one} & done; wait; sleep 300"
    started = time.monotonic()
    outcome, most = most_memory(["/bin/sh", "-c", script], files={"hog.py": HOG.encode()})
    assert (outcome.verdict, outcome.note) == ("killed", "memory limit"), time.monotonic() - started
    assert most < 8 * 200, "some were ended before they had all"


def test_memory_that_processes_share_counts_once(most_memory):
    outcome, _ = most_memory(["python3", "shared.py"], files={"shared.py": SHARED.encode()})
    assert (outcome.verdict, outcome.note) == ("pass", "")


def test_files_of_a_build_come_back_without_copies_in_another_form(grade):
    """48 MiB in three files, and no more than that in the caller at any time, beside a small part."""
    own, most, done = psutil.Process(), [0], threading.Event()
    grade.command(["/bin/true"])
    before = own.memory_info().rss

    def watch() -> None:
        while not done.wait(0.005):
            most[0] = max(most[0], own.memory_info().rss - before >> 20)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        script = "for n in 1 2 3; do head -c 16777216 /dev/zero > $n.bin; done"
        outcome = grade.command(["/bin/sh", "-c", script], keep=("*.bin",), limits=Limits(wall_s=300, cpu_s=60))
    finally:
        done.set()
        thread.join()
    assert {name: len(data) for name, data in outcome.files.items()} == {f"{n}.bin": 16 << 20 for n in (1, 2, 3)}
    assert most[0] < 48 + 32
