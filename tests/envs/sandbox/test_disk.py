"""Without a file system of their own, programs share the host's disk: none takes more than its part, and a full disk is
no program's fault."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from envs.sandbox import Limits

ROOT = Path(__file__).parents[3]
GRADE = """
import asyncio, json, os, sys, threading, time
from envs.sandbox import FunctionCase, Job, Limits, LocalSandbox, run_sync

rows, taken_mib, tier = json.loads(sys.argv[1])
lowest = [1 << 60]
def watch():
    while True:
        room = os.statvfs("/tmp")
        lowest[0] = min(lowest[0], room.f_bavail * room.f_frsize >> 20)
        time.sleep(0.002)
box = LocalSandbox(2, Limits(wall_s=20, cpu_s=10), tier=tier)
try:
    asyncio.run(box.layers())
except RuntimeError as error:
    print(json.dumps(str(error)))
    sys.exit()
with open("/tmp/taken", "wb") as file:
    os.posix_fallocate(file.fileno(), 0, max(taken_mib, 1) << 20)
threading.Thread(target=watch, daemon=True).start()
jobs = [Job(str(n), "function", code, "f", (FunctionCase((), 1),)) for n, code in enumerate(rows)]
outcomes = run_sync(box, jobs)
asyncio.run(box.close())
print(json.dumps([[[o.verdict, o.note] for o in outcomes], lowest[0]]))
"""
"""Grades functions that should return 1, with part of the disk taken; prints the outcomes and the least free space."""
SMALL_DISK = "mount -t tmpfs -o size=1g,nr_inodes=100k none /tmp"
HELD = """
import ctypes, os
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
def new():
    number = os.open("x", os.O_RDWR | os.O_CREAT)
    os.unlink("x")
    return number
"""
MAPPED = """
def f():
    for _ in range(2000):
        number = new()
        fill(number)
        assert libc.mmap(None, 4096, 3, 1, number, 0) > 0
        os.close(number)
    return 1
"""
OPENED = """
def f():
    for _ in range(50):
        fill(new())
    return 1
"""
HIDDEN = """
import ctypes
def f(): return 1 if all(ctypes.CDLL(None).prctl(option, 0, 0, 0, 0) for option in (1, 4)) else 2
"""
ALLOCATE = "def fill(number): os.posix_fallocate(number, 0, 64 << 20)\n"
WRITE = "def fill(number):\n    for _ in range(63): os.write(number, bytes(1 << 20))\n"
HOGS = [HELD + fill + hold for fill in (ALLOCATE, WRITE) for hold in (MAPPED, OPENED)]
RIGHT = """
import tempfile
def f():
    with tempfile.TemporaryFile() as file:
        file.write(bytes(4 << 20))
        file.flush()
    for _ in range(30):
        with open("x", "wb") as file:
            file.write(bytes(4 << 20))
        __import__("os").unlink("x")
    return 1
"""


@pytest.fixture(params=["root", "ordinary"])
def grade_on_small_disk(request, as_ordinary_user):
    """Grades with a /tmp of 1 GiB, of which a part is taken."""

    def grade(codes: list[str], taken_mib: int = 0, tier: str = "landlock") -> tuple[list[list[str]], int]:
        if os.getuid() != 0 or not shutil.which("unshare"):
            pytest.skip("a small disk needs root and unshare")
        if any(Path(path).resolve().is_relative_to("/tmp") for path in (ROOT, sys.prefix, sys.base_prefix)):
            pytest.skip("the small disk would hide this interpreter, which is below /tmp")
        wanted = json.dumps([codes, taken_mib, tier])
        run = as_root if request.param == "root" else as_ordinary_user
        answer = json.loads(run(GRADE, wanted, as_root=SMALL_DISK))
        if isinstance(answer, str):
            pytest.skip(f"this machine does not allow it: {answer}")
        return answer

    return grade


def as_root(source: str, *arguments: str, as_root: str) -> str:
    """Root without the right to look into other users' processes, as in most containers."""
    words = ["setpriv", "--bounding-set", "-sys_ptrace", sys.executable, "-c", source, *arguments]
    command = ["unshare", "--mount", "/bin/sh", "-c", f'{as_root}; exec "$@"', "small-disk", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip(f"this machine does not allow a small disk: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_deleted_files_count(grade_on_small_disk):
    outcomes, lowest = grade_on_small_disk(HOGS)
    assert outcomes == [["killed", "file limit"]] * len(HOGS)
    assert lowest > 300, "a program took far more than its part"


def test_right_programs_pass_beside_those_that_fill_the_disk(grade_on_small_disk):
    outcomes, _ = grade_on_small_disk([code for hog in HOGS for code in (hog, *[RIGHT] * 20)])
    assert {tuple(outcome) for outcome in outcomes if outcome[0] != "killed"} == {("pass", "")}
    assert [n for n, outcome in enumerate(outcomes) if outcome[0] == "killed"] == [21 * n for n in range(len(HOGS))]


def test_a_full_disk_leaves_programs_ungraded(grade_on_small_disk):
    wrong = "def f(): return 2"
    outcomes, _ = grade_on_small_disk([RIGHT, wrong, "def f(): return 1"], taken_mib=1000)
    assert outcomes[1][0] == "error" and "almost full" in outcomes[1][1]
    assert outcomes[2] == ["pass", ""]
    outcomes, _ = grade_on_small_disk([RIGHT, wrong], taken_mib=1022)
    assert [outcome[0] for outcome in outcomes] == ["error", "error"]


def test_programs_cannot_hide_their_files(grade_on_small_disk):
    assert grade_on_small_disk([HIDDEN])[0] == [["pass", ""]]


AGAIN = HELD + ALLOCATE + MAPPED.replace("range(2000)", "range(64)")
"""Create, unlink, allocate 64 MiB, map a page, close, again: 4 GiB."""


def test_deleted_files_that_stay_mapped_are_bounded_in_both_tiers(grade):
    """The free space is the whole machine's, so that others may take some meanwhile."""
    free = shutil.disk_usage("/tmp").free
    lowest, done = [free], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            lowest[0] = min(lowest[0], shutil.disk_usage("/tmp").free)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        outcome = grade.call(AGAIN, ((), 1), limits=Limits(wall_s=30, cpu_s=20))
    finally:
        done.set()
        thread.join()
    if grade.sandbox.tiers == ("full",):
        assert outcome.verdict == "fail" and "No space left" in outcome.note
    else:
        assert (outcome.verdict, outcome.note) == ("killed", "file limit")
    assert free - lowest[0] < 2 << 30
    assert grade.call("def f(): return 1", ((), 1)).verdict == "pass"


def test_a_full_disk_of_the_machine_does_not_matter_in_the_full_tier(grade_on_small_disk):
    """Its programs write to memory; in the landlock tier they are ungraded, see above."""
    outcomes, _ = grade_on_small_disk([RIGHT, "def f(): return 2", "def f(): return 1"], taken_mib=1022, tier="full")
    assert [outcome[0] for outcome in outcomes] == ["pass", "fail", "pass"]
