"""A sandbox on this machine: several confined fork servers, each of which runs one program at a time."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from envs.sandbox import import_probe, seccomp, verdict
from envs.sandbox.fork_server import Hung, Memory, Worker, WorkerLost
from envs.sandbox.libraries import Unreadable, folders_of
from envs.sandbox.protocol import FunctionCase, Job, Limits, Outcome, StdioCase

log = logging.getLogger(__name__)
TIERS = ("full", "landlock", "none")
"""Kinds of confinement, strongest first."""
MAX_TRIES = 3
CLOSED = "the sandbox is closed"
PAUSE_S = 1.0
"""Before another worker is started where one did not start."""
DISK_FULL = "the disk with /tmp was almost full while the program ran; free some space"
SEARCHED_CHARS = 1 << 16
"""Number of characters of a program that are searched for imports."""
NOT_PRELOADED = re.compile(r"(?:^|\.)(?:_|tests?\b|testing|conftest|f2py|distutils|setup\b|main\b)")
"""Modules that have effects when they are imported, or that programs do not need."""
IMPORT, NAME = re.compile(r"\bimport\b"), re.compile(r"[A-Za-z_][\w.]{1,40}")


class LocalSandbox:
    """Runs jobs on `workers` fork servers; safe to use from several event loops and threads.

    Args:
        workers: number of programs that run at the same time.
        limits: limits of jobs without limits of their own.
        require: the weakest accepted tier, of TIERS. "full": namespaces with a small read-only root, no network, a
            tmpfs, a user of its own (for root), seccomp, Landlock and resource limits. "landlock": the same without
            namespaces, for containers that refuse them. "none": programs may run with the caller's own rights.
        packages: libraries outside the standard library that programs may import.
        tier: use exactly this tier.

    The first run selects the strongest tier that this machine supports, and raises RuntimeError if it is weaker than
    `require`. A tier counts as supported only if programs can import the standard library and `packages` in it.
    """

    def __init__(
        self,
        workers: int = 2,
        limits: Limits | None = None,
        *,
        require: str = "landlock",
        packages: Sequence[str] = (),
        tier: str | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"sandbox.workers={workers}: must be at least 1")
        for name in (require, tier or "none"):
            if name not in TIERS:
                raise ValueError(f"sandbox.require={name}: unknown tier; use one of {', '.join(TIERS)}")
        self.workers = workers
        self.limits = limits or Limits()
        self.tiers = (tier,) if tier else TIERS[: TIERS.index(require) + 1]
        self.packages = tuple(packages)
        self.trees: list[str] = []
        """Folders that jobs have asked for; a worker that lacks one is replaced."""
        for name in packages:
            folders_of(name)  # here, so that a wrong name is reported at once
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle: deque[Worker] = deque()
        self._all: set[Worker] = set()
        # A job's processes take turns, so on one processor none has to wake up another processor. Jobs go to any free
        # worker, so a busy processor gets fewer.
        processors = sorted(os.sched_getaffinity(0))
        spread = self.workers >= len(processors)
        self._places = [processors[n % len(processors)] if spread else None for n in range(self.workers)]
        self._closed = self._choosing = self._chosen = False

    async def run(self, jobs: Sequence[Job], progress: Callable[[int], None] | None = None) -> list[Outcome]:
        """Outcomes in the order of `jobs`. See `Sandbox`."""
        if self._closed:
            raise RuntimeError(CLOSED)
        if self._pid != os.getpid():
            self._reset()  # in a forked copy of the caller, whose workers belong to the original
        self.trees += sorted({job.tree.path for job in jobs if job.tree} - set(self.trees))
        outcomes: list[Outcome | None] = [None] * len(jobs)
        waiting = iter(range(len(jobs)))
        done = 0

        async def lane() -> None:
            nonlocal done
            for index in waiting:
                outcomes[index] = await self._run_one(jobs[index])
                done += 1
                if progress is not None:
                    progress(done)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.workers, len(jobs))):
                    group.create_task(lane())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [outcome for outcome in outcomes if outcome is not None]

    async def close(self) -> None:
        """Stop the workers."""
        with self._lock:
            self._closed = True
            workers = list(self._all) if self._pid == os.getpid() else []
            self._all.clear()
            self._idle.clear()
        for worker in workers:
            worker.stop()

    async def layers(self) -> dict[str, Any]:
        """The active layers of confinement by name. Raises RuntimeError like `run`."""
        worker = await self._take()
        self._give(worker)
        return worker.layers

    async def describe(self) -> str:
        """One line: the tier and its layers. Raises RuntimeError like `run`."""
        layers = await self.layers()
        active = ", ".join(name.replace("_", " ") for name, holds in layers.items() if holds and name != "tier")
        return f"sandbox: {layers['tier']} ({active})"

    # --- workers --------------------------------------------------------------------------------------------

    async def _started(self, tree: str | None) -> Worker:
        """An idle worker as `_take` has it; where a new one does not start, as on a crowded machine, it is tried again.

        Raises WorkerLost, OSError: MAX_TRIES failed. RuntimeError: the first of all failed.
        """
        for _ in range(MAX_TRIES - 1):
            try:
                return await self._take(tree)
            except (WorkerLost, OSError) as error:
                if not self._chosen:
                    raise
                log.warning("a sandbox worker did not start: %s", error)
                await asyncio.sleep(PAUSE_S)
        return await self._take(tree)

    async def _take(self, tree: str | None = None) -> Worker:
        """An idle worker that has the folder `tree`; a new one if there are fewer than `workers`; otherwise the next
        that becomes idle."""
        while True:
            worker = None
            with self._lock:
                if self._closed:
                    raise RuntimeError(CLOSED)
                if self._idle:
                    worker = self._idle.pop()
            if worker is not None and (tree is None or tree in worker.trees):
                return worker
            if worker is not None:
                self._lose(worker)
            with self._lock:
                free = bool(self._places) and not self._choosing  # one worker selects the tier for all
                place = self._places.pop() if free else None
                self._choosing = self._choosing or (free and not self._chosen)
            if free:
                try:
                    return await self._start(place)
                except BaseException:
                    with self._lock:
                        self._places.append(place)
                    raise
                finally:
                    self._choosing = False
            await asyncio.sleep(0.002)

    async def _start(self, processor: int | None) -> Worker:
        reasons: list[str] = []
        tiers = list(self.tiers)
        while tiers:
            tier = tiers.pop(0)
            try:
                worker = await import_probe.start(
                    tier, self.packages, processor, list(filter(os.path.isdir, self.trees))
                )
            except (seccomp.Unavailable, Unreadable, WorkerLost) as error:
                reason = f"{tier}: {error}"
                if isinstance(error, Hung) and reason not in reasons:
                    tiers.insert(0, tier)  # once more: a slow disk says nothing of the tier
                reasons.append(reason)
                continue
            if not self._chosen and tier == "none":
                log.warning("programs run UNCONFINED, with this process's rights (%s)", "; ".join(reasons))
            elif not self._chosen and reasons:
                log.warning("sandbox: the tier is %s, because %s", tier, "; ".join(reasons))
            self.tiers, self._chosen = (tier,), True
            with self._lock:
                if not self._closed:
                    self._all.add(worker)
                    return worker
            worker.stop()
            raise RuntimeError(CLOSED)
        if self._chosen:  # it has worked before
            raise WorkerLost("; ".join(reasons))
        raise RuntimeError(
            f"cannot confine programs well enough on this machine ({'; '.join(reasons)}). Namespaces need root or "
            "unprivileged user namespaces (sysctl user.max_user_namespaces), Landlock a kernel of 5.13 or later, "
            "seccomp libseccomp2; sandbox.require=none runs programs with your own rights"
        )

    def _give(self, worker: Worker) -> None:
        self._idle.append(worker)

    def _lose(self, worker: Worker) -> None:
        with self._lock:
            kept = worker in self._all  # otherwise `close` stops it in another thread
            self._all.discard(worker)
        if kept:
            worker.stop()
        with self._lock:
            self._places.append(worker.processor)

    # --- one job --------------------------------------------------------------------------------------------

    async def _run_one(self, job: Job) -> Outcome:
        """Run a job, and try again if its worker is lost.

        If a program loses MAX_TRIES workers and a harmless program does not lose its worker, the program is the cause;
        otherwise the machine is.
        """
        reason, started, blamed = "", 0.0, 0
        for _ in range(MAX_TRIES):
            if job.tree is not None and not os.path.isdir(job.tree.path):
                return verdict.not_graded(job, f"no folder {job.tree.path}")
            try:
                worker = await self._started(job.tree.path if job.tree else None)
            except (WorkerLost, OSError) as error:
                if not self._chosen:
                    raise
                return verdict.not_graded(job, str(error))
            if job.tree is not None and worker.no_trees:
                self._give(worker)
                return verdict.not_graded(job, f"a job with a folder needs namespaces: {worker.no_trees}")
            if (job.limits or self.limits).sockets and worker.tier != "full":
                self._give(worker)
                return verdict.not_graded(
                    job, f"sockets need namespaces: the sandbox's tier is {worker.tier}, not full"
                )
            started, worker.disk_full = time.monotonic(), False
            try:
                outcome = await self._run_on(worker, job)
            except verdict.BadJob as error:
                self._give(worker)
                return verdict.not_graded(job, str(error))
            except (WorkerLost, OSError) as error:  # OSError: the machine is out of memory or descriptors
                self._lose(worker)
                reason, blamed = str(error), blamed + isinstance(error, WorkerLost)
                log.warning("sandbox worker lost on job %s: %s", job.id, error)
                continue
            except BaseException:
                self._lose(worker)
                raise
            if worker.disk_full and outcome.verdict != "pass":
                log.warning("sandbox: job %s is not graded: %s", job.id, DISK_FULL)
                outcome = verdict.not_graded(job, DISK_FULL)
            self._give(worker)
            return outcome
        harmless = _harmless(job.kind, max(time.monotonic() - started, 1.0))
        if blamed == MAX_TRIES and job.id != harmless.id and (await self._run_one(harmless)).verdict == "pass":
            note = f"lost its worker {MAX_TRIES} times ({reason}), which a harmless program does not"
            return verdict.outcome(job, "killed", [False] * job.total, 0.0, note)
        return verdict.not_graded(job, reason)

    async def _run_on(self, worker: Worker, job: Job) -> Outcome:
        limits = job.limits or self.limits
        preload = self._modules_in(job.code)
        if job.kind == "function":
            return await self._run_function(worker, job, limits, preload)
        if job.kind == "check":
            text, nonce = verdict.check_payload(job)
            with Memory(verdict.candidate_payload(job)) as payload, Memory(text) as check:
                ended = await worker.ask("check", limits, [payload.fd, check.fd], preload)
                return verdict.judge_check(job, ended, check.output(limits), nonce)
        if job.kind == "command":
            text = verdict.command_payload(job)
            with Memory(text) as payload, Memory() as record, Memory(b"", True) as stdout, Memory(b"", True) as stderr:
                ended = await worker.ask(
                    "command", limits, [payload.fd, record.fd, stdout.fd, stderr.fd], tree=job.tree
                )
                outputs = stdout.output(limits), stderr.output(limits)
                return await verdict.judged(
                    limits.file_mib << 20, verdict.judge_command, job, limits, ended, record.read, *outputs
                )
        if job.kind == "program":
            run = await self._run_program(worker, job, job.stdin, limits, preload)
            return verdict.judge_program(job, limits, *run)
        verdict.check_stdio(job)
        runs: list[verdict.Run] = []
        for case in job.cases:
            assert isinstance(case, StdioCase)  # check_stdio has checked it
            ended, note, printed, _ = await self._run_program(worker, job, case.stdin, limits, preload)
            runs.append((ended, printed, note))
            if await verdict.judged(len(printed), verdict.is_last, job, limits, case, runs[-1]):
                break
        return await verdict.judged(sum(len(printed) for _, printed, _ in runs), verdict.judge_stdio, job, limits, runs)

    async def _run_function(self, worker: Worker, job: Job, limits: Limits, preload: Sequence[str]) -> Outcome:
        async def run(cases: Job) -> tuple[verdict.Ended, bytes]:
            with Memory(verdict.function_payload(cases)) as payload, Memory() as results:
                ended = await worker.ask("function", limits, [payload.fd, results.fd], preload)
                return ended, results.output(limits)

        return await verdict.run_function(job, limits, run)

    def _modules_in(self, code: str) -> list[str]:
        """Names in the lines with an import, from which the worker chooses the modules to preload."""
        words: set[str] = set()
        for line in code[:SEARCHED_CHARS].split("\n"):
            if "import" in line and IMPORT.search(line):
                words.update(name for name in NAME.findall(line) if not NOT_PRELOADED.search(name))
        numpy_parts = {"numpy.random", "numpy.linalg"} if "numpy" in words and "numpy" in self.packages else set()
        return sorted(words | numpy_parts)[:64]

    async def _run_program(
        self, worker: Worker, job: Job, stdin: str, limits: Limits, preload: Sequence[str]
    ) -> tuple[verdict.Ended, bytes, bytes, bytes]:
        """How the program ended, its note, its standard output and its standard error."""
        with (
            Memory(verdict.stdio_payload(job)) as payload,
            Memory() as note,
            Memory(stdin.encode("utf-8", "surrogatepass")) as given,
            Memory(appended=True) as out,
            Memory(appended=True) as err,
        ):
            descriptors = [payload.fd, note.fd, given.fd, out.fd]
            if job.kind == "program":
                descriptors.append(err.fd)
            ended = await worker.ask("stdio", limits, descriptors, preload)
            return ended, note.output(limits), out.output(limits), err.output(limits)


def _harmless(kind: str, seconds: float) -> Job:
    """A job of the given kind that does nothing for `seconds`."""
    limits = Limits(wall_s=seconds + 5)
    code = "import time\ndef f(seconds): return time.sleep(seconds)"
    if kind == "check":
        return Job("harmless", "check", code, "f", check_src=f"assert f({seconds}) is None", limits=limits)
    if kind == "command":
        return Job("harmless", "command", commands=(("/bin/sh", "-c", f"sleep {seconds}"),), limits=limits)
    return Job("harmless", "function", code, "f", (FunctionCase((seconds,), None),), limits=limits)
