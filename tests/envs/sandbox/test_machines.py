"""Callers and machines unlike this one: a mask of modes, root without other users, few processes, many open files."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from envs.sandbox import FunctionCase, Job, Limits, LocalSandbox, StdioCase, import_probe, run_sync
from envs.sandbox.fork_server import WorkerLost

ROOT = Path(__file__).parents[3]
GRADE = """
import asyncio, json, sys
from envs.sandbox import FunctionCase, Job, LocalSandbox, StdioCase, run_sync

PROGRAMS = [
    "import tempfile\\nwith tempfile.TemporaryFile('w+') as file: print(file.write('hello') + 1)",
    "import os\\npath = os.path.abspath('x')\\nopen(path, 'w').write('6')\\nprint(open(path).read())",
    "print(6, file=open('/dev/stdout', 'w'))\\nopen('/dev/null', 'w').close()",
]
box = LocalSandbox(1, tier=sys.argv[1])
try:
    asyncio.run(box.layers())
except RuntimeError as error:
    print(json.dumps(str(error)))
    sys.exit()
jobs = [Job(str(n), "stdio", code, cases=(StdioCase("", "6"),)) for n, code in enumerate(PROGRAMS)]
jobs.append(Job("build", "command", commands=(("/bin/sh", "-c", "echo x > y && cat y > /dev/null"),)))
print(json.dumps([[o.verdict, o.note] for o in run_sync(box, jobs)]))
asyncio.run(box.close())
"""
"""What programs commonly do with files, in one tier; or why the machine does not allow the tier."""
ALL_PASS = [["pass", ""]] * 4


def graded(tier: str, *prefix: str) -> list:
    """What GRADE prints as a command behind `prefix`."""
    command = [*prefix, sys.executable, "-c", GRADE, tier]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    if "unshare:" in done.stderr or "prlimit:" in done.stderr:
        pytest.skip(f"not allowed here: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(params=["full", "landlock"])
def tier(request: pytest.FixtureRequest, sandbox: LocalSandbox) -> str:
    """Those that this machine allows (`sandbox` skips the others)."""
    if sandbox.tiers != (request.param,):
        pytest.skip("the other tier's turn")
    return request.param


@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare here")
def test_root_of_a_user_namespace_without_other_users(tier):
    """As in rootless containers."""
    assert graded(tier, "unshare", "--user", "--map-root-user") == ALL_PASS


@pytest.mark.skipif(shutil.which("unshare") is None or os.geteuid() != 0, reason="only root can replace /dev/null")
def test_a_machine_whose_null_device_is_closed_to_others_grades_nothing(tier, tmp_path):
    """Root can use it, so only programs would notice, and fail."""
    null = tmp_path / "null"
    try:
        os.mknod(null, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        null.open("w").close()
    except PermissionError as error:
        pytest.skip(f"no devices here: {error}")
    null.chmod(0o644)
    over_it = f'mount --bind {null} /dev/null && exec "$@"'
    reason = graded(tier, "unshare", "--mount", "/bin/sh", "-c", over_it, "closed")
    assert "programs may not use /dev/null, whose mode is 644: chmod 666 /dev/null" in reason


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="no prlimit here")
def test_a_user_who_may_have_few_processes(as_ordinary_user):
    limit = "prlimit --pid $$ --nproc=100:100"
    printed = json.loads(as_ordinary_user(GRADE, "landlock", as_root=limit))
    if isinstance(printed, str) and "maximum limit" not in printed:
        pytest.skip(printed)
    assert printed == ALL_PASS


def test_a_caller_with_more_than_a_thousand_open_files(tier):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    held = []
    try:
        held += [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
        box = LocalSandbox(1, tier=tier)
        [outcome] = run_sync(box, [Job("j", "function", "def f(x): return x", "f", (FunctionCase((1,), 1),))])
        asyncio.run(box.close())
        assert outcome.verdict == "pass"
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("failures", [1, 9])
def test_a_worker_that_does_not_start_again_ends_no_training(tier, monkeypatch, failures):
    monkeypatch.setattr("envs.sandbox.local.PAUSE_S", 0.01)
    box, start = LocalSandbox(1, tier=tier), import_probe.start
    job = Job("j", "stdio", "print(1)", cases=(StdioCase("", "1"),))
    assert run_sync(box, [job])[0].verdict == "pass"
    left = [failures]

    async def fails_first(*arguments):
        left[0] -= 1
        if left[0] >= 0:
            raise WorkerLost("it did not start in 30 s")
        return await start(*arguments)

    monkeypatch.setattr(import_probe, "start", fails_first)
    for worker in list(box._all):
        box._idle.clear()
        box._lose(worker)
    [outcome] = run_sync(box, [job])
    asyncio.run(box.close())
    if failures == 1:
        assert outcome.verdict == "pass"
    else:
        assert not outcome.graded and "did not start in 30 s" in outcome.note


def test_the_wall_time_is_no_longer_than_the_most_that_is_allowed(grade):
    slow = Limits(wall_s=20.0, most_wall_s=0.5)
    outcome = grade.script("import time\ntime.sleep(5)\nprint(1)", ("", "1"), limits=slow)
    assert outcome.verdict == "timeout" and outcome.seconds < 4


def test_rows_of_a_file_are_json(tmp_path):
    """So a tuple equals a list, and a key its text."""
    file = tmp_path / "rows.jsonl"
    row = {"id": "a", "kind": "function", "entry_point": "f", "code": "def f(x): return (x, {1: x})"}
    file.write_text(json.dumps({**row, "cases": [{"args": [2], "expected": [2, {"1": 2}]}]}) + "\n")
    command = [sys.executable, "-m", "envs.sandbox", "run", str(file), "--workers", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout)["verdict"] == "pass", done.stdout + done.stderr


@pytest.mark.parametrize(
    "setting",
    [
        {"memory_mib": 512.5},
        {"memory_mib": 0},
        {"cpu_s": "abc"},
        {"cpu_s": 0},
        {"wall_s": -1},
        {"most_wall_s": float("inf")},
        {"open_files": 4},
        {"output_kib": 0},
        {"file_mib": 0},
        {"files": 1},
        {"processes": True},
    ],
)
def test_a_limit_that_no_program_can_keep_is_refused(setting):
    ((name, value),) = setting.items()
    with pytest.raises(ValueError, match=rf"sandbox\.limits\.{name}={value}: a .*number .*expected"):
        Limits(**setting)


@pytest.mark.parametrize("user", ["the caller", "an ordinary user"])
def test_hard_limits_of_the_caller_stay(tier, user):
    """An ordinary user may not raise them, nor may root in a container. A mask of modes closes no folder of a program,
    and what signals the caller ignores is its own matter."""
    dropped = ["setpriv", "--bounding-set=-sys_resource"] if user == "the caller" else []
    if dropped and os.geteuid():
        dropped = []
    if user == "an ordinary user" and (os.geteuid() or tier == "full"):
        pytest.skip("an ordinary user has no namespaces here, or is the caller")
    limited = """umask 077; trap '' CHLD XCPU; ulimit -t 3600; ulimit -v 6000000; ulimit -f 20000; exec "$@\""""
    assert graded(tier, *dropped, "bash", "-c", limited, "-") == ALL_PASS
