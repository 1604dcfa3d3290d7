"""One sandbox for all tests of this folder, and helpers to grade a single program."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from envs.sandbox import FunctionCase, Job, Limits, LocalSandbox, Outcome, StdioCase, run_sync

ROOT = Path(__file__).parents[3]
QUICK = Limits(wall_s=3.0, cpu_s=2.0)
_serial = count()


@pytest.fixture(scope="session", params=["full", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[LocalSandbox]:
    """A local sandbox with short limits, once for each kind of confinement that this machine allows."""
    box = LocalSandbox(2, QUICK, tier=request.param, packages=["numpy"])
    try:
        asyncio.run(box.layers())
    except RuntimeError as error:
        pytest.skip(f"this machine does not allow it: {error}")
    yield box
    asyncio.run(box.close())


class Grader:
    """Grades one program at a time."""

    def __init__(self, sandbox: LocalSandbox) -> None:
        self.sandbox = sandbox

    def call(self, code: str, *cases: tuple, entry: str = "f", **fields) -> Outcome:
        """A `function` job; each case is (args, expected)."""
        made = tuple(FunctionCase(args, expected) for args, expected in cases)
        return self._one(kind="function", code=code, entry_point=entry, cases=made, **fields)

    def script(self, code: str, *cases: tuple[str, str], **fields) -> Outcome:
        """A `stdio` job; each case is (stdin, stdout)."""
        return self._one(kind="stdio", code=code, cases=tuple(StdioCase(*case) for case in cases), **fields)

    def check(self, code: str, test: str, entry: str = "f", **fields) -> Outcome:
        """A `check` job."""
        return self._one(kind="check", code=code, entry_point=entry, check_src=test, **fields)

    def program(self, code: str, **fields) -> Outcome:
        """A `program` job."""
        return self._one(kind="program", code=code, **fields)

    def command(self, *commands: list[str], **fields) -> Outcome:
        """A `command` job."""
        return self._one(kind="command", commands=tuple(map(tuple, commands)), **fields)

    def _one(self, **fields) -> Outcome:
        [outcome] = run_sync(self.sandbox, [Job(id=f"job-{next(_serial)}", **fields)])
        return outcome


@pytest.fixture
def grade(sandbox: LocalSandbox) -> Grader:
    return Grader(sandbox)


@pytest.fixture(scope="session")
def grader() -> type[Grader]:
    """For tests with a sandbox of their own."""
    return Grader


@pytest.fixture(name="processes_of")
def _processes_of() -> Callable[..., int | list[int]]:
    return processes_of


def processes_of(sandbox: LocalSandbox, pids: bool = False) -> int | list[int]:
    """How many (or which) processes of this host belong to the sandbox's workers or their programs."""
    roots = {worker.process.pid for worker in sandbox._all}
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue

    def belongs(pid: int) -> bool:
        while pid > 1:
            if pid in roots:
                return True
            pid = parents.get(pid, 0)
        return False

    results = [pid for pid in parents if belongs(pid)]
    return results if pids else len(results)


AS_NOBODY = """
set -e
if [ -n "$1" ]; then
    mount --bind "$2" "$3"
    mount -t tmpfs -o mode=755 none "$1"
    mkdir -p "$2"
    mount --bind "$3" "$2"
fi
eval "$4"
shift 4
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"""


@pytest.fixture
def as_ordinary_user(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Runs a Python source with arguments as a user without rights, and returns what it printed.

    If the interpreter is below a folder that is closed to this user, the user sees nothing else there. `as_root` is a
    line of shell that root runs first, in a mount namespace of its own.
    """

    def run(
        source: str,
        *arguments: str,
        python: str = sys.executable,
        variables: dict[str, str] | None = None,
        as_root: str = "",
    ) -> str:
        command = [python, "-c", source, *arguments]
        if os.getuid() == 0:
            prefix = os.path.realpath(sys.base_prefix)
            above = [path for path in reversed(Path(prefix).parents) if not path.stat().st_mode & 0o001]
            for needed in (ROOT, Path(sys.prefix)):
                if needed != Path(prefix) and any(
                    not path.stat().st_mode & 0o001 for path in (needed, *needed.parents)
                ):
                    pytest.skip(f"other users may not read {needed}")
            held = tmp_path_factory.mktemp("held")
            words = [str(above[0]) if above else "", prefix, str(held), as_root, *command]
            command = ["unshare", "--mount", "/bin/sh", "-c", AS_NOBODY, "as-nobody", *words]
            if not shutil.which("unshare") or not shutil.which("setpriv"):
                pytest.skip("no unshare or no setpriv to become another user with")
        environment = {**os.environ, **(variables or {})}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        if "mount:" in done.stderr or "unshare:" in done.stderr or "setpriv:" in done.stderr:
            pytest.skip(f"cannot become another user here: {done.stderr.strip()[-200:]}")
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    return run
