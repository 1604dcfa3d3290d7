"""Without root and without namespaces: programs run as the caller, whose files lie around them."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from envs.etk.completion import flow2d

GRADE = """
import asyncio, json, os, sys
from envs.sandbox import FunctionCase, Job, Limits, LocalSandbox, StdioCase, run_sync

jobs = [
    Job(str(n), row["kind"], row.get("code", ""), "f",
        (StdioCase("1", "1") if row["kind"] == "stdio" else FunctionCase((), row.get("expected")),),
        check_src="assert f() == 1", files={"run.sh": b"echo ran", "main.c": b"int main() { return 0; }"},
        commands=tuple(map(tuple, row.get("commands", ()))), limits=Limits(wall_s=20, cpu_s=10))
    for n, row in enumerate(json.loads(sys.argv[1]))
]
box = LocalSandbox(1, tier="landlock")
try:
    asyncio.run(box.layers())
except RuntimeError as error:
    print(json.dumps(str(error)))
    sys.exit()
[first] = box._all
outcomes = run_sync(box, jobs)
[last] = box._all
asyncio.run(box.close())
left = [name for name in os.listdir("/tmp") if name.startswith(f"sandbox-{first.process.pid}-")]
print(json.dumps([[[o.verdict, o.note, o.stdout, o.stderr] for o in outcomes], first is last, left]))
"""
"""Grades rows on one worker: verdicts and messages, whether that worker is still the same, what it left."""


BUILD = """
import asyncio, sys, tempfile
from dataclasses import replace
from pathlib import Path
from envs.etk.completion import Case, CompletionScorer, Request, flow2d
from envs.sandbox import LocalSandbox

box, application = LocalSandbox(1), replace(flow2d(), source_dir=Path(sys.argv[1]))
lines = (application.source_dir / "hydro.cpp").read_text().split("\\n")
case = Case("x", "hydro.cpp", 5, 6)
with tempfile.TemporaryDirectory() as folder:
    scorer = CompletionScorer(application, box, Path(folder))
    [score] = asyncio.run(scorer.score([Request(case, lines[5])]))
asyncio.run(box.close())
print(score.total, score.reasons)
"""
"""Builds and runs the embedded simulation, from a copy of its folder."""


@pytest.fixture
def grade_rows(as_ordinary_user):
    def grade(*rows: dict) -> list[list[str]]:
        message = json.loads(as_ordinary_user(GRADE, json.dumps(rows)))
        if isinstance(message, str):
            pytest.skip(f"this machine does not allow it: {message}")
        outcomes, same_worker, left = message
        assert same_worker and left == [], outcomes
        return outcomes

    return grade


def function(body: str, expected: object) -> dict:
    return {"kind": "function", "code": "import os\ndef f():\n" + body, "expected": expected}


def command(*words: str) -> dict:
    return {"kind": "command", "commands": [words]}


LOOK = function("    return [os.listdir('.'), len(os.listdir('..'))]", [[], 1])


def tried(*attempts: str) -> dict:
    """A program that answers with those attempts that were not refused."""
    body = "    done = []\n    here = os.getcwd()\n"
    for attempt in attempts:
        body += f"    try: {attempt}; done.append({attempt!r})\n    except OSError: pass\n"
    return function(body + "    return done", [])


def test_every_kind_of_job_is_graded(grade_rows):
    rows = [
        {"kind": "function", "code": "def f(): return 1", "expected": 1},
        {"kind": "check", "code": "def f(): return 1"},
        {"kind": "stdio", "code": "print(open('/dev/stdin').read())"},
        {"kind": "program", "code": "print(1)"},
        command("/bin/true"),
        {"kind": "check", "code": "def f(): return 2"},
    ]
    assert [outcome[0] for outcome in grade_rows(*rows)] == ["pass"] * 5 + ["fail"]


def test_a_program_leaves_the_next_its_folder_and_nothing_else(grade_rows):
    hostile = tried(
        "open('../left', 'w').close()",
        "os.mkdir('../left')",
        "os.rename(here, here + 'x')",
        "os.rename('.', '../x')",
        "os.rmdir(here)",
        "os.symlink('/', '../left')",
        "os.link('../../' + os.path.basename(here), '../left')",
        "os.chmod('..', 0)",
        "os.chmod(here, 0)",
        "os.fchmod(os.open('..', os.O_RDONLY), 0)",
        "os.fchmod(os.open('.', os.O_RDONLY), 0)",
        "os.utime('..')",
        "os.setxattr('..', 'user.a', b'b')",
    )
    outcomes = grade_rows(hostile, LOOK, hostile, LOOK)
    assert [outcome[:2] for outcome in outcomes] == [["pass", ""]] * 4


def test_modes_of_what_may_be_read_stay_as_they_are(grade_rows):
    """Opened for reading only, a file's mode can still be changed by its owner."""
    module = os.path.join(os.path.dirname(os.__file__), "colorsys.py")
    changes = (
        "os.fchmod(n, 0)",
        "os.fchown(n, -1, -1)",
        "os.setxattr(n, 'user.a', b'')",
        "os.utime(n)",
        "fcntl.ioctl(n, 0x40086602, bytes(4))",
    )
    body = f"    import fcntl\n    n, found = os.open({module!r}, os.O_RDONLY), []\n"
    for change in changes:
        body += f"    try: found.append({change})\n    except OSError as error: found.append(error.errno)\n"
    refused = function(body + "    return found", [1] * len(changes))
    assert grade_rows(refused)[0][:2] == ["pass", ""]


def test_whatever_a_program_piles_up_is_gone(grade_rows):
    pile = function(
        "    for n in range(300):\n        os.mkdir('d', 0o700)\n        os.chdir('d')\n"
        "    os.mkdir('shut', 0)\n    os.mkdir('mute', 0o400)\n    open('x', 'w').close()\n    return True",
        True,
    )
    shut = command("/bin/sh", "-c", "mkdir -p a/b c; touch a/b/x; chmod 0 a/b a c . && mv a d; chmod 0 $PWD; true")
    assert [outcome[0] for outcome in grade_rows(pile, LOOK, shut, LOOK)] == ["pass"] * 4


def test_a_build_changes_modes_in_its_folder_alone(grade_rows, tmp_path):
    tmp_path.chmod(0o777)
    mine = tmp_path / "mine"
    mine.write_text("mine")
    if os.getuid() == 0:
        os.chown(mine, 65534, 65534)
    mine.chmod(0o640)
    before = mine.stat()
    outside = f"{mine}", "..", "/proc/self/cwd/..", "link"
    script = f"ln -s {mine} link\n" + "\n".join(
        f"{tool} {path} && echo did {tool} {path}" for path in outside for tool in ("chmod 0", "touch -d 2001-01-01")
    )
    rows = [
        command("/bin/sh", "-c", script + "\ntrue"),
        command("/bin/sh", "-c", "chmod +x run.sh && touch -d 2001-01-01 run.sh && ./run.sh && stat -c '%a %y' run.sh"),
        LOOK,
    ]
    hostile, honest, look = grade_rows(*rows)
    assert hostile[0] == "pass" and "did" not in hostile[2]
    after = mine.stat()
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    assert honest[2].startswith("ran\n755 2001-01-01"), honest
    assert look[0] == "pass"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here")
def test_a_linker_makes_its_program_executable(grade_rows):
    both = [["gcc", "-o", "main", "main.c"], ["./main"]]
    assert grade_rows({"kind": "command", "commands": both})[0][:2] == ["pass", ""]


def test_strange_requests_are_answered(grade_rows):
    """Addresses, descriptors and names that lead nowhere."""
    code = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
found = []
for call in (90, 91, 268, 452, 280):
    for first in (0, 1, -1, -100, 1 << 31, 1 << 63, (1 << 64) - 1):
        for second in (0, 1, 1 << 47, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
            found.append(libc.syscall(*map(ctypes.c_ulong, (call, first % (1 << 64), second, second, 0))))
for name in (b"x" * 5000, b"", b"x/y", b"run.sh/y"):
    found.append(libc.chmod(name, 0))
assert not found.count(0), found
os.chmod("run.sh", 0o4755)
print(len(found), oct(os.stat("run.sh").st_mode & 0o7777))
"""
    run = {"kind": "command", "commands": [["python3", "-c", code]]}
    outcomes = grade_rows(run, LOOK)
    if "No such file" in outcomes[0][1]:
        pytest.skip("no python3 within the sandbox")
    assert outcomes[0][0] == "pass" and outcomes[0][2] == "214 0o755\n", outcomes
    assert outcomes[1][0] == "pass"


def test_a_simulation_is_built_from_files_of_another_user(as_ordinary_user):
    """Programs of an ordinary user's sandbox are root in a namespace of their own, where tar would set owners that do
    not exist there."""
    if not shutil.which("g++") or not shutil.which("make"):
        pytest.skip("g++ or make is not installed")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        copy = shutil.copytree(flow2d().source_dir, f"{folder}/source")
        for path in (copy, *map(str, Path(copy).rglob("*"))):
            if os.getuid() == 0:
                os.chown(path, 12345, 12345)
        assert as_ordinary_user(BUILD, copy).split()[0] == "1.0"
