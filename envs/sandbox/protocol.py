"""The interface of all sandboxes: jobs, limits and outcomes, independent of how programs are run."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Verdict = Literal["pass", "fail", "timeout", "killed", "error"]
Kind = Literal["function", "stdio", "check", "program", "command"]


LEAST = {"memory_mib": 16, "output_kib": 1, "file_mib": 1, "files": 2, "processes": 1, "open_files": 12}
"""Of each limit the least with which a right program passes."""


@dataclass(frozen=True)
class Limits:
    """The resources of one program. Times are for all cases of a job together (`function`, `check`), or for one case
    (`stdio`, and `function` with `each_case`). Raises ValueError for one that no program could keep to.

    CPU time is what counts. The wall-clock limit is for programs that sleep: time in which a program was ready to run
    and waited for a processor does not count, so that no verdict depends on other work of the machine.
    """

    wall_s: float = 5.0
    """Wall time in seconds, without waiting for a processor; beyond it the verdict is `timeout`."""
    most_wall_s: float = 120.0
    """Wall time in seconds, including waiting for a processor."""
    cpu_s: float = 4.0
    """CPU time of one process, rounded up to whole seconds; beyond it the verdict is `killed`."""
    memory_mib: int = 1024
    """Address space of one process, and resident memory of all processes of a `command` together."""
    output_kib: int = 4096
    """Size of all results of a job, or of the standard output (and likewise the standard error) of one program."""
    file_mib: int = 64
    """Size of the largest file, and of all files together if the sandbox has a file system of its own."""
    files: int | None = None
    """Number of files and folders; None: 4096, or 1024 if the sandbox has no file system of its own, where deleting
    each takes milliseconds."""
    processes: int = 64
    """Number of processes and threads together."""
    open_files: int = 64
    """Number of open descriptors of one process."""
    sockets: bool = False
    """True: processes of a `command` may talk to each other through sockets, as MPI's do. Only in the tier full, where
    their network has no other machine and no other program; elsewhere the job is not graded."""
    each_case: bool = False
    """True: the times are for one case of a `function` job too. A process answers cases until its time is over; if all
    its answers are right, a new process continues at the interrupted case."""

    def __post_init__(self) -> None:
        for name in ("wall_s", "most_wall_s", "cpu_s"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 < value < math.inf:
                raise ValueError(f"sandbox.limits.{name}={value}: a number of seconds above 0 expected")
        for name, least in LEAST.items():
            value = getattr(self, name)
            if (type(value) is not int or value < least) and not (name == "files" and value is None):
                raise ValueError(f"sandbox.limits.{name}={value}: a whole number of at least {least} expected")


@dataclass(frozen=True)
class FunctionCase:
    """One call of the entry point. The expected result never leaves the caller's process."""

    args: tuple[Any, ...]
    expected: Any
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StdioCase:
    """One run of a program. The expected output `stdout` never leaves the caller's process."""

    stdin: str
    stdout: str


@dataclass(frozen=True)
class Tree:
    """A folder of this machine that a `command` job has as `tree`, whatever its size: the job reads the folder itself,
    and its changes go to a layer of its own.

    path: real path of the folder. writable: folders below it, also new ones, whose files the job may change. hidden:
    files and folders below it that the job does not see. Paths are relative and contain no links.
    """

    path: str
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """One program and its tests.

    kind: `function`: call `entry_point` on each case. `stdio`: run the program once for each case. `check`: run
        `check_src`, which defines `check(candidate)` or has plain asserts, with a proxy for the entry point. `program`:
        run it once on `stdin` and return its output. `command`: write `files` (contents by relative path) to an empty
        folder, run `commands` there one after another until one fails, and return the files that match `keep` (patterns
        as in glob); commands may start processes, for example a compiler's. The last two pass with exit status 0.
    setup: trusted source that runs before the solution and that `check_src` may use.
    tol: absolute tolerance if a float is involved, at any depth; integers are compared exactly. In outputs of a `stdio`
        job absolute or relative, of numbers with a decimal point or an exponent.
    unordered: whether the items of a list that a `function` returns may have any order. any_case: whether letters in
        the output of a `stdio` job may be capital or small.
    as_json: the expected values come from JSON, so a tuple equals a list, and a key equals its text.
    all_or_nothing: only the verdict matters, so a `stdio` job ends at its first wrong case; the others count as
        failed.
    tree: a folder of a `command` job; only sandboxes with namespaces can give one (tier full), others do not grade the
        job.
    limits: None for the sandbox's own limits.
    """

    id: str
    kind: Kind
    code: str = ""
    entry_point: str | None = None
    cases: tuple[FunctionCase | StdioCase, ...] = ()
    tol: float = 0.0
    unordered: bool = False
    any_case: bool = False
    as_json: bool = False
    check_src: str | None = None
    setup: str | None = None
    stdin: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    commands: tuple[tuple[str, ...], ...] = ()
    keep: tuple[str, ...] = ()
    all_or_nothing: bool = False
    tree: Tree | None = None
    limits: Limits | None = None

    @property
    def total(self) -> int:
        """Number of tests; a job without cases is one test."""
        return len(self.cases) if self.kind in ("function", "stdio") else 1


@dataclass(frozen=True)
class Outcome:
    """The result of one job.

    verdict: `pass`: all cases were answered correctly. `fail`: a wrong answer, an exception, an early exit, or source
        that does not compile. `timeout`: the wall-clock limit ended the program. `killed`: a signal or another limit
        ended it. `error`: the sandbox failed repeatedly, so the program was not graded.
    seconds: wall time of the program. note: the first failure in one line. cases: whether each case passed.
    """

    id: str
    verdict: Verdict
    passed: int
    total: int
    seconds: float
    note: str = ""
    cases: tuple[bool, ...] = ()
    # asyncio.run writes the repr of a result when it ends, which would have four characters for each zero byte
    stdout: str = field(default="", repr=False)
    """For a `program` or `command`; so are `stderr`, `exit_status` (of the last command) and `files` (of `keep`)."""
    stderr: str = field(default="", repr=False)
    exit_status: int | None = None
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def graded(self) -> bool:
        """Whether the program was graded."""
        return self.verdict != "error"


class Sandbox(Protocol):
    """Runs untrusted programs. Cancelling the task that awaits `run` stops the programs that it started."""

    async def run(self, jobs: Sequence[Job], progress: Callable[[int], None] | None = None) -> list[Outcome]:
        """Outcomes in the order of `jobs`; `progress` is called with the number of finished jobs."""
        ...

    async def describe(self) -> str:
        """One line for the log: how programs are confined. Raises RuntimeError if they cannot be confined."""
        ...

    async def close(self) -> None:
        """Stop everything; the sandbox cannot be used afterwards."""
        ...


def run_sync(sandbox: Sandbox, jobs: Sequence[Job]) -> list[Outcome]:
    """`sandbox.run` for callers without an event loop. Inside a running loop it blocks that loop and uses another one
    in a thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(sandbox.run(jobs))
    results: list[list[Outcome] | BaseException] = []

    def target() -> None:
        try:
            results.append(asyncio.run(sandbox.run(jobs)))
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=target, name="sandbox-run-sync")
    thread.start()
    thread.join()
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]
