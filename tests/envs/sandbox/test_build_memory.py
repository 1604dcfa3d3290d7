"""The memory limit holds for all processes of a build together, by a control group or watched, and the caller keeps no
more than the files."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from pathlib import Path

import psutil
import pytest

from envs.sandbox import Limits, LocalSandbox, __main__, memory_group

WORKER = Path(memory_group.__file__).parent / "worker"

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


@pytest.fixture(scope="module", params=["control group", "watched"])
def grade(request, sandbox, grader):
    """A grader whose builds are limited in one of the two ways."""
    box = LocalSandbox(1, sandbox.limits, tier=sandbox.tiers[0])
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "watched":
            patch.setattr(memory_group, "create", lambda: None)
        active = asyncio.run(box.layers())["build_memory"]
    try:
        if active != request.param:
            pytest.skip("this user may not create control groups here")
        yield grader(box)
    finally:
        asyncio.run(box.close())


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


PEAKS = {1: "memory.max_usage_in_bytes", 2: "memory.peak"}
FAST_HOG = b"held = [bytearray(b'x') * (5 << 20) for _ in range(40)]"


def test_the_kernel_stops_a_build_that_no_look_would_catch(sandbox, grader):
    """Eight processes that fill 200 MiB each as fast as they can never hold more than the group's limit."""
    box = LocalSandbox(1, tier=sandbox.tiers[0])
    if asyncio.run(box.layers())["build_memory"] == "watched":
        pytest.skip("this user may not create control groups here")
    [worker] = box._all
    script = "for n in 1 2 3 4 5 6 7 8; do python3 hog.py & done; wait"
    limits = Limits(memory_mib=256, cpu_s=60, wall_s=400, most_wall_s=500, file_mib=1, output_kib=64, processes=16)
    outcome = grader(box).command(["/bin/sh", "-c", script], limits=limits, files={"hog.py": FAST_HOG})
    peak = (worker.group.folder / PEAKS[worker.group.version]).read_text()
    asyncio.run(box.close())
    if outcome.verdict == "fail":
        pytest.skip(f"no python3 within the sandbox: {outcome.stderr[-200:]}")
    assert (outcome.verdict, outcome.note) == ("killed", "memory limit")
    # files, output and what the kernel needs are added: envs/sandbox/worker/group.py
    assert int(peak) <= (256 + 2 + 1 + 64 + 8) << 20


def test_a_build_that_was_ended_for_its_memory_leaves_nothing_to_the_next(grade):
    script, hog = "python3 hog.py & python3 hog.py & wait", FAST_HOG + b"\nimport time\ntime.sleep(9)"
    limits = Limits(memory_mib=256, cpu_s=60, wall_s=400, most_wall_s=500)
    grade.command(["/bin/sh", "-c", script], limits=limits, files={"hog.py": hog})
    for _ in range(3):
        outcome = grade.command(["/bin/sh", "-c", "head -c 1000000 /dev/zero > a; echo yes"], limits=limits)
        assert (outcome.verdict, outcome.stdout) == ("pass", "yes\n")


def test_groups_are_removed_with_their_worker(sandbox):
    box = LocalSandbox(1, tier=sandbox.tiers[0])
    asyncio.run(box.layers())
    [worker] = box._all
    asyncio.run(box.close())
    assert worker.group is None or not worker.group.folder.exists()


def test_doctor_says_how_the_memory_of_builds_is_limited(capsys):
    __main__.main(["doctor"])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["build_memory"] in ("control group", "watched") or not report["confined"]


def test_a_group_is_created_beside_one_with_processes_unless_that_leaves_a_limit(tmp_path):
    """Version 2: groups with processes have no limited groups below them."""
    own = tmp_path / "slice" / "service"
    own.mkdir(parents=True)
    groups = [(tmp_path, "memory", None), (tmp_path / "slice", "cpu memory", "max"), (own, "", "max")]
    for folder, below, most in groups:
        (folder / "cgroup.subtree_control").write_text(below)
        if most:
            (folder / "memory.max").write_text(most)
    assert memory_group._beside(tmp_path, own) == [tmp_path / "slice"]
    (own / "memory.max").write_text("1073741824")
    assert memory_group._beside(tmp_path, own) == []


def test_limits_and_counts_in_the_files_of_version_2(tmp_path, monkeypatch):
    """A stand-in for the kernel's folder."""
    monkeypatch.syspath_prepend(WORKER)
    import group as worker_group

    (tmp_path / "own").mkdir()
    texts = {"memory.events": "max 3\noom 0\noom_kill 0\n", "memory.stat": "anon 1000\nfile 9999999999\n"}
    for name in ("cgroup.procs", "memory.max", "memory.swap.max", "memory.oom.group"):
        texts[name] = ""
    for name, text in texts.items():
        (tmp_path / "own" / name).write_text(text)
    group = worker_group.Group(os.open(tmp_path, os.O_RDONLY), "own", 2)
    assert group.settled() and (tmp_path / "own" / "cgroup.procs").read_text() == "0"
    limits = {"memory_mib": 100, "file_mib": 10, "output_kib": 1024, "processes": 64}
    group.start(limits)
    read = {name: Path(tmp_path / "own" / name).read_text() for name in texts}
    assert read["memory.max"] == str((100 + 2 * 10 + 2 + 64 + 32) << 20)
    assert (read["memory.swap.max"], read["memory.oom.group"]) == ("0", "1")
    assert not group.too_large()
    (tmp_path / "own" / "memory.events").write_text("oom 1\noom_kill 1\n")
    assert group.too_large() and group.was_ended()
    group.start(limits)
    assert not group.was_ended(), "only what happened since the build began"
    (tmp_path / "own" / "memory.stat").write_text(f"anon {101 << 20}\n")
    assert group.too_large()
    os.close(group.parent)
    os.close(group.members)
    (tmp_path / "own" / "cgroup.procs").unlink()
    (tmp_path / "own" / "cgroup.procs").symlink_to("/dev/full")
    refused = worker_group.Group(os.open(tmp_path, os.O_RDONLY), "own", 2)
    assert not refused.settled(), "the kernel did not let a process enter"


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
