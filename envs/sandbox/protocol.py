"""What every sandbox speaks: jobs in, outcomes out, and nothing about how a program is run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Verdict = Literal["pass", "fail", "timeout", "killed", "error"]
Kind = Literal["function", "stdio", "check", "program", "command"]


@dataclass(frozen=True)
class Limits:
    """What one program may use. Times cover a job's cases together (`function`, `check`) or one case (`stdio`, and
    `function` with `each_case`).

    CPU time decides. The clock is a backstop for programs that sleep: time in which a program was ready and waited for
    a processor does not count, so that no verdict depends on what else the machine does.
    """

    wall_s: float = 5.0
    """Seconds on the clock less those spent waiting for a processor; beyond them the verdict is `timeout`."""
    most_wall_s: float = 120.0
    """Seconds on the clock with all that."""
    cpu_s: float = 4.0
    """Seconds of CPU time of one process, rounded up to whole seconds; beyond them the verdict is
    `killed`."""
    memory_mib: int = 1024
    """Address space of one process."""
    output_kib: int = 4096
    """All results of a job, or the standard output (and as much standard error) of one program."""
    file_mib: int = 64
    """The largest file, and all files together where the sandbox has a file system of its own."""
    processes: int = 64
    """Processes and threads together."""
    open_files: int = 64
    """Open descriptors of one process."""
    each_case: bool = False
    """The times are those of one case of a `function` job too. A process answers cases until time runs out on it; while
    all its answers are right, a fresh one goes on at the case that it was at."""


@dataclass(frozen=True)
class FunctionCase:
    """One call of the entry point. `expected` stays with the caller."""

    args: tuple[Any, ...]
    expected: Any
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StdioCase:
    """One run of a program. `stdout` (what is expected) stays with the caller."""

    stdin: str
    stdout: str


@dataclass(frozen=True)
class Job:
    """One program and its tests.

    `function`: call `entry_point` on each case. `stdio`: run the program once for each case. `check`: run
    `check_src`, which defines `check(candidate)` or holds bare asserts, with a stand-in for the entry point.
    `program`: run it once on `stdin` and say what it printed. `command`: put `files` (contents by relative path) into
    an empty folder, run `commands` there, one after another until one fails, and bring back the files that match
    `keep` (patterns as in glob); these may start processes, a compiler's say. Both pass with exit status 0.
    `setup` is trusted source that precedes the solution and that `check_src` may use.
    `tol` is the absolute tolerance where a float is involved, at any depth; integers are compared exactly.
    `as_json`: expected values came from JSON, so a tuple answers for a list, and any key for its text.
    """

    id: str
    kind: Kind
    code: str = ""
    entry_point: str | None = None
    cases: tuple[FunctionCase | StdioCase, ...] = ()
    tol: float = 0.0
    as_json: bool = False
    check_src: str | None = None
    setup: str | None = None
    stdin: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    commands: tuple[tuple[str, ...], ...] = ()
    keep: tuple[str, ...] = ()
    limits: Limits | None = None

    @property
    def total(self) -> int:
        """How many tests the job has; without cases it is one test."""
        return len(self.cases) if self.kind in ("function", "stdio") else 1


@dataclass(frozen=True)
class Outcome:
    """What became of one job.

    `pass`: every case was answered rightly. `fail`: a wrong answer, an exception, an early exit or source
    that does not compile. `timeout`: the wall limit ended it. `killed`: a signal or another limit ended it.
    `error`: the sandbox failed, also on a second try, so the program was not graded. `note` is the first
    failure in one line.
    """

    id: str
    verdict: Verdict
    passed: int
    total: int
    seconds: float
    note: str = ""
    cases: tuple[bool, ...] = ()
    stdout: str = ""
    """Of a `program` or `command`, as `stderr`, `exit_status` (of the last command) and `files` (those kept)."""
    stderr: str = ""
    exit_status: int | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def graded(self) -> bool:
        """Whether the verdict says something about the program."""
        return self.verdict != "error"


class Sandbox(Protocol):
    """Runs untrusted programs. Cancelling the task that awaits `run` stops the programs it started."""

    async def run(self, jobs: Sequence[Job], progress: Callable[[int], None] | None = None) -> list[Outcome]:
        """Outcomes in the order of `jobs`; `progress` is called with the number of jobs finished so far."""
        ...

    async def describe(self) -> str:
        """One line for the log: how programs are confined. Raises RuntimeError where they cannot be."""
        ...

    async def close(self) -> None:
        """Stop everything; the sandbox cannot be used afterwards."""
        ...


def run_sync(sandbox: Sandbox, jobs: Sequence[Job]) -> list[Outcome]:
    """`sandbox.run` for callers without a loop; under a running loop it blocks that loop and uses a thread's
    own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(sandbox.run(jobs))
    box: list[list[Outcome] | BaseException] = []

    def target() -> None:
        try:
            box.append(asyncio.run(sandbox.run(jobs)))
        except BaseException as error:
            box.append(error)

    thread = threading.Thread(target=target, name="sandbox-run-sync")
    thread.start()
    thread.join()
    if isinstance(box[0], BaseException):
        raise box[0]
    return box[0]
