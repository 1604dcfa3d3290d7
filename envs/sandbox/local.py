"""A sandbox on this machine: N fork servers, each confined, each running one program at a time.

The servers are executed fresh, never forked from the caller, so programs see nothing of the caller's memory,
environment or descriptors, and a fork costs the same however large the caller is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import select
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from envs.sandbox import judge
from envs.sandbox.protocol import Job, Limits, Outcome, StdioCase
from envs.sandbox.worker.confine import remove_tree

log = logging.getLogger(__name__)

SERVER = Path(__file__).with_name("worker")
TIERS = ("namespaces", "uid")
GRACE_S = 3.0
"""How long after its own deadline a worker may stay silent."""
START_S = 30.0
CLEAN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}


class WorkerLost(RuntimeError):
    """The worker died, hung or broke; the job it had may be given to another."""


class WorkerHung(WorkerLost):
    """The worker kept silent beyond its own deadline."""


class Worker:
    """One fork server and the socket to it."""

    def __init__(self, tier: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            # -I would ignore PYTHONHASHSEED; the environment is ours, so -s -S -P isolate as well.
            command = [sys.executable, "-s", "-S", "-P", str(SERVER), str(theirs.fileno()), tier]
            self.process = subprocess.Popen(
                command,
                env=CLEAN,
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self.control = ours
        self.tier = tier
        self.layers: dict[str, Any] = {}

    async def ready(self) -> None:
        """Wait until it serves. Raises WorkerLost with the worker's reason."""
        self.layers = (await self._reply(START_S))["ready"]

    async def ask(self, kind: str, limits: Limits, descriptors: Sequence[int]) -> judge.Ended:
        """Run one program. Raises WorkerLost."""
        request = json.dumps({"kind": kind, "limits": asdict(limits)}).encode()
        try:
            socket.send_fds(self.control, [request], descriptors)
        except OSError as error:
            raise WorkerLost(f"cannot reach a worker: {error}") from error
        return judge.Ended(**await self._reply(limits.wall_s + GRACE_S))

    async def _reply(self, patience: float) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(patience):
                data = await loop.sock_recv(self.control, 1 << 16)
        except TimeoutError as error:
            raise WorkerHung("a worker hung") from error
        except OSError as error:
            raise WorkerLost(f"a worker was lost: {error}") from error
        reply = json.loads(data) if data else {"broken": "a worker died"}
        if "broken" in reply:
            raise WorkerLost(reply["broken"])
        return reply

    def stop(self) -> None:
        """End it and what it runs. In its own pid namespace the kernel ends the programs with it; elsewhere
        it is given a moment to end them itself, which it does when its socket closes."""
        self.control.close()
        if self.tier != "namespaces":
            descriptor = os.pidfd_open(self.process.pid) if self.process.poll() is None else None
            if descriptor is not None:
                select.select([descriptor], [], [], 1.0)
                os.close(descriptor)
        self.process.kill()
        self.process.wait()
        for left in Path("/tmp").glob(f"sandbox-{self.process.pid}-*"):  # of a server killed from outside
            with contextlib.suppress(OSError):
                remove_tree(str(left))


class LocalSandbox:
    """Runs jobs on `workers` fork servers; safe to use from several event loops and threads.

    Raises RuntimeError at the first run where neither namespaces nor a separate uid can be had, unless
    `unconfined` accepts programs that run with the caller's own rights. `tier` forces one kind of
    confinement.
    """

    def __init__(
        self,
        workers: int = 2,
        limits: Limits | None = None,
        *,
        tier: str | None = None,
        unconfined: bool = False,
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        self.workers = workers
        self.limits = limits or Limits()
        self.tiers = (tier,) if tier else (*TIERS, "plain") if unconfined else TIERS
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle: deque[Worker] = deque()
        self._all: set[Worker] = set()
        self._places = self.workers
        self._closed = False

    async def run(self, jobs: Sequence[Job], progress: Callable[[int], None] | None = None) -> list[Outcome]:
        """Outcomes in the order of `jobs`. See `Sandbox`."""
        if self._closed:
            raise RuntimeError("the sandbox is closed")
        if self._pid != os.getpid():
            self._reset()  # in a forked copy of the caller: its workers are not ours
        outcomes: list[Outcome | None] = [None] * len(jobs)
        waiting = iter(range(len(jobs)))
        done = 0

        async def lane() -> None:
            nonlocal done
            for place in waiting:
                outcomes[place] = await self._run_one(jobs[place])
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
        self._closed = True
        if self._pid == os.getpid():
            for worker in list(self._all):
                worker.stop()
        self._all.clear()
        self._idle.clear()

    async def layers(self) -> dict[str, Any]:
        """Which walls hold here, by name. Raises RuntimeError as `run` does."""
        worker = await self._take()
        self._give(worker)
        return worker.layers

    # --- workers --------------------------------------------------------------------------------------------

    async def _take(self) -> Worker:
        """An idle worker, or a new one while fewer than `workers` exist, or the next that becomes idle."""
        while True:
            with self._lock:
                if self._idle:
                    return self._idle.pop()
                free = self._places > 0
                self._places -= free
            if free:
                try:
                    return await self._start()
                except BaseException:
                    with self._lock:
                        self._places += 1
                    raise
            await asyncio.sleep(0.002)

    async def _start(self) -> Worker:
        reasons = []
        for tier in self.tiers:
            worker = Worker(tier)
            try:
                await worker.ready()
            except WorkerLost as error:
                worker.stop()
                reasons.append(f"{tier}: {error}")
                continue
            except BaseException:
                worker.stop()
                raise
            if tier == "plain":
                log.warning("programs run UNCONFINED, with this process's rights (%s)", "; ".join(reasons))
            self.tiers = (tier,)
            self._all.add(worker)
            return worker
        raise RuntimeError("cannot confine programs on this machine: " + "; ".join(reasons))

    def _give(self, worker: Worker) -> None:
        self._idle.append(worker)

    def _lose(self, worker: Worker) -> None:
        worker.stop()
        with self._lock:
            self._all.discard(worker)
            self._places += 1

    # --- one job --------------------------------------------------------------------------------------------

    async def _run_one(self, job: Job) -> Outcome:
        """A worker that is lost costs a second try; one that hangs twice is the program's doing."""
        trouble = WorkerLost("")
        for _ in range(2):
            worker = await self._take()
            try:
                outcome = await self._run_on(worker, job)
            except judge.BadJob as error:
                self._give(worker)
                return judge.not_graded(job, str(error))
            except WorkerLost as error:
                self._lose(worker)
                trouble = error
                log.warning("sandbox worker lost on job %s: %s", job.id, error)
                continue
            except BaseException:
                self._lose(worker)
                raise
            self._give(worker)
            return outcome
        if isinstance(trouble, WorkerHung):
            return judge.outcome(job, "killed", [False] * job.total, 0.0, "hung beyond the wall-clock limit, twice")
        return judge.not_graded(job, str(trouble))

    async def _run_on(self, worker: Worker, job: Job) -> Outcome:
        limits = job.limits or self.limits
        if job.kind == "function":
            with Memory(judge.function_payload(job)) as payload, Memory() as results:
                ended = await worker.ask("function", limits, [payload.fd, results.fd])
                return judge.judge_function(job, limits, ended, results.read(limits))
        if job.kind == "check":
            text, nonce = judge.check_payload(job)
            with Memory(judge.candidate_payload(job)) as payload, Memory(text) as check, Memory() as verdict:
                ended = await worker.ask("check", limits, [payload.fd, check.fd, verdict.fd])
                return judge.judge_check(job, ended, verdict.read(limits), nonce)
        judge.check_stdio(job)
        runs: list[tuple[judge.Ended, bytes, bytes]] = []
        for case in job.cases:
            assert isinstance(case, StdioCase)  # check_stdio saw to it
            runs.append(await self._run_stdio(worker, job, case, limits))
            if runs[-1][0].stopped_by:
                break  # a program that hangs once would hang on every input
        return judge.judge_stdio(job, limits, runs)

    async def _run_stdio(
        self, worker: Worker, job: Job, case: StdioCase, limits: Limits
    ) -> tuple[judge.Ended, bytes, bytes]:
        text = case.stdin.encode("utf-8", "surrogatepass")
        with (
            Memory(judge.stdio_payload(job)) as payload,
            Memory() as note,
            Memory(text) as stdin,
            Memory() as stdout,
        ):
            ended = await worker.ask("stdio", limits, [payload.fd, note.fd, stdin.fd, stdout.fd])
            return ended, stdout.read(limits), note.read(limits)


class Memory:
    """An anonymous file that is passed to a worker: no pipe can fill, no name can be guessed."""

    def __init__(self, data: bytes = b"") -> None:
        self.fd = os.memfd_create("sandbox", os.MFD_CLOEXEC)
        if data:
            os.truncate(self.fd, len(data))
            os.pwrite(self.fd, data, 0)

    def read(self, limits: Limits) -> bytes:
        """What was written, and at most one byte more than the output limit."""
        return os.pread(self.fd, (limits.output_kib << 10) + 1, 0)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)
