"""A sandbox on this machine: N fork servers, each confined, each running one program at a time."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from envs.sandbox import judge, seccomp
from envs.sandbox.fork_server import Memory, Worker, WorkerLost
from envs.sandbox.protocol import FunctionCase, Job, Limits, Outcome, StdioCase

log = logging.getLogger(__name__)
TIERS = ("full", "landlock", "none")
"""Kinds of confinement, best first."""
TRIES = 3
LOOK_AT = 1 << 16
"""Characters of a program that are looked through for imports."""
ODD = re.compile(r"(?:^|\.)(?:_|tests?\b|testing|conftest|f2py|distutils|setup\b|main\b)")
"""Modules that do more than define things when they are imported, or that are no program's business."""
IMPORT, NAME = re.compile(r"^.*\bimport\b.*$", re.MULTILINE), re.compile(r"[A-Za-z_][\w.]{1,40}")


class LocalSandbox:
    """Runs jobs on `workers` fork servers; safe to use from several event loops and threads.

    Args:
        workers: programs that run at once.
        limits: of jobs that bring none of their own.
        require: the least confinement that will do, of TIERS. "full": namespaces with a small read-only root, no
            network, a tmpfs, own uid (for root), seccomp, Landlock, resource limits. "landlock": the same without
            namespaces, for containers that refuse them. "none": accept programs that run with the caller's own rights.
        packages: libraries outside the standard one that programs may import.
        tier: exactly this kind of confinement.

    The best tier that holds is found at the first run, which raises RuntimeError where none does that is good enough.
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
            raise ValueError(f"workers must be at least 1, not {workers}")
        for name in (require, tier or "none"):
            if name not in TIERS:
                raise ValueError(f"sandbox.require={name}: one of {', '.join(TIERS)}")
        self.workers = workers
        self.limits = limits or Limits()
        self.tiers = (tier,) if tier else TIERS[: TIERS.index(require) + 1]
        self.packages = tuple(packages)
        self._folders = [folder for name in packages for folder in _folders_of(name)]
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle: deque[Worker] = deque()
        self._all: set[Worker] = set()
        # a job's processes take turns: on one processor they hand over without waking another. Jobs go to whichever
        # worker is free, so a processor that has other work to do is given fewer
        processors = sorted(os.sched_getaffinity(0))
        spread = self.workers >= len(processors)
        self._places = [processors[n % len(processors)] if spread else None for n in range(self.workers)]
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

    async def describe(self) -> str:
        """One line: the tier and its walls. Raises RuntimeError as `run` does."""
        layers = await self.layers()
        walls = ", ".join(name.replace("_", " ") for name, holds in layers.items() if holds and name != "tier")
        return f"sandbox: {layers['tier']} ({walls})"

    # --- workers --------------------------------------------------------------------------------------------

    async def _take(self) -> Worker:
        """An idle worker, or a new one while fewer than `workers` exist, or the next that becomes idle."""
        while True:
            with self._lock:
                if self._idle:
                    return self._idle.pop()
                free = bool(self._places)
                place = self._places.pop() if free else None
            if free:
                try:
                    return await self._start(place)
                except BaseException:
                    with self._lock:
                        self._places.append(place)
                    raise
            await asyncio.sleep(0.002)

    async def _start(self, processor: int | None) -> Worker:
        reasons = []
        for tier in self.tiers:
            try:
                worker = Worker(tier, self._folders, processor)
            except seccomp.Unavailable as error:
                reasons.append(f"{tier}: {error}")
                continue
            try:
                await worker.ready()
            except WorkerLost as error:
                worker.stop()
                reasons.append(f"{tier}: {error}")
                continue
            except BaseException:
                worker.stop()
                raise
            if tier == "none" and not self._all:
                log.warning("programs run UNCONFINED, with this process's rights (%s)", "; ".join(reasons))
            self.tiers = (tier,)
            self._all.add(worker)
            return worker
        raise RuntimeError(
            f"cannot confine programs well enough on this machine ({'; '.join(reasons)}). Namespaces need root or "
            "unprivileged user namespaces (sysctl user.max_user_namespaces), Landlock a kernel of 5.13 or later, "
            "seccomp libseccomp2; sandbox.require=none runs programs with your own rights"
        )

    def _give(self, worker: Worker) -> None:
        self._idle.append(worker)

    def _lose(self, worker: Worker) -> None:
        worker.stop()
        with self._lock:
            self._all.discard(worker)
            self._places.append(worker.processor)

    # --- one job --------------------------------------------------------------------------------------------

    async def _run_one(self, job: Job) -> Outcome:
        """A worker that is lost costs another try. A program that outlives TRIES workers while a harmless one does not
        lose its own is to blame, else the machine is."""
        trouble, started = "", 0.0
        for _ in range(TRIES):
            worker = await self._take()
            started = time.monotonic()
            try:
                outcome = await self._run_on(worker, job)
            except judge.BadJob as error:
                self._give(worker)
                return judge.not_graded(job, str(error))
            except (WorkerLost, OSError) as error:  # OSError: this machine has no more memory or descriptors
                self._lose(worker)
                trouble = str(error)
                log.warning("sandbox worker lost on job %s: %s", job.id, error)
                continue
            except BaseException:
                self._lose(worker)
                raise
            self._give(worker)
            return outcome
        harmless = _harmless(job.kind, max(time.monotonic() - started, 1.0))
        if job.id != harmless.id and (await self._run_one(harmless)).verdict == "pass":
            note = f"lost its worker {TRIES} times ({trouble}), which a harmless program does not"
            return judge.outcome(job, "killed", [False] * job.total, 0.0, note)
        return judge.not_graded(job, trouble)

    async def _run_on(self, worker: Worker, job: Job) -> Outcome:
        limits = job.limits or self.limits
        preload = self._named_in(job.code)
        if job.kind == "check" and worker.tier == "landlock":  # where a test may not be able to import for itself
            preload = sorted({*preload, *self._named_in(f"{job.setup or ''}\n{job.check_src}")})[:64]
        if job.kind == "function":
            return await self._run_function(worker, job, limits, preload)
        if job.kind == "check":
            text, nonce = judge.check_payload(job)
            with Memory(judge.candidate_payload(job)) as payload, Memory(text) as check:
                ended = await worker.ask("check", limits, [payload.fd, check.fd], preload)
                return judge.judge_check(job, ended, check.output(limits), nonce)
        if job.kind == "command":
            text = judge.command_payload(job)
            with Memory(text) as payload, Memory() as record, Memory(b"", True) as stdout, Memory(b"", True) as stderr:
                ended = await worker.ask("command", limits, [payload.fd, record.fd, stdout.fd, stderr.fd])
                raw = record.read((limits.file_mib << 20) * 2)
                return judge.judge_command(job, limits, ended, raw, stdout.output(limits), stderr.output(limits))
        if job.kind == "program":
            run = await self._run_program(worker, job, job.stdin, limits, preload)
            return judge.judge_program(job, limits, *run)
        judge.check_stdio(job)
        runs: list[tuple[judge.Ended, bytes, bytes]] = []
        for case in job.cases:
            assert isinstance(case, StdioCase)  # check_stdio saw to it
            ended, said, printed, _ = await self._run_program(worker, job, case.stdin, limits, preload)
            runs.append((ended, printed, said))
            if ended.stopped_by:
                break  # a program that hangs once would hang on every input
        return judge.judge_stdio(job, limits, runs)

    async def _run_function(self, worker: Worker, job: Job, limits: Limits, preload: Sequence[str]) -> Outcome:
        """One process, or several where the times are those of one case."""
        raw, seconds, left = b"", 0.0, job
        while True:
            with Memory(judge.function_payload(left)) as payload, Memory() as results:
                ended = await worker.ask("function", limits, [payload.fd, results.fd], preload)
                found = results.output(limits)
            seconds += ended.seconds
            count = judge.answered(left, limits, ended, found)
            if not count:
                return judge.judge_function(job, limits, replace(ended, seconds=seconds), raw + found)
            raw += found[: found.rindex(b"\n") + 1]
            left = replace(left, cases=left.cases[count:])

    def _named_in(self, code: str) -> list[str]:
        """Modules that the lines with an import in them name, for the worker to choose from."""
        words: set[str] = set()
        for line in IMPORT.findall(code[:LOOK_AT]):
            words.update(name for name in NAME.findall(line) if not ODD.search(name))
        known = {"numpy.random", "numpy.linalg"} if "numpy" in words and "numpy" in self.packages else set()
        return sorted(words | known)[:64]

    async def _run_program(
        self, worker: Worker, job: Job, stdin: str, limits: Limits, preload: Sequence[str]
    ) -> tuple[judge.Ended, bytes, bytes, bytes]:
        """How it ended, its note, standard output and standard error."""
        with (
            Memory(judge.stdio_payload(job)) as payload,
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


def _folders_of(package: str) -> list[str]:
    """Where a library lies, with the folder of shared objects that its wheel brought. Raises ValueError."""
    found = importlib.util.find_spec(package.partition(".")[0])
    if found is None or not found.submodule_search_locations:
        raise ValueError(f"sandbox.packages names {package}, which is not installed")
    parent, name = os.path.split(found.submodule_search_locations[0])
    folder = f"{os.path.realpath(parent)}/{name}"  # a link to an environment leads nowhere in a new root
    return [path for path in (folder, f"{folder}.libs") if Path(path).is_dir()]


def _harmless(kind: str, seconds: float) -> Job:
    """A job of that kind, but for its inputs, that does nothing for that long."""
    limits = Limits(wall_s=seconds + 5)
    code = "import time\ndef f(seconds): return time.sleep(seconds)"
    if kind == "check":
        return Job("harmless", "check", code, "f", check_src=f"assert f({seconds}) is None", limits=limits)
    if kind == "command":
        return Job("harmless", "command", commands=(("/bin/sh", "-c", f"sleep {seconds}"),), limits=limits)
    return Job("harmless", "function", code, "f", (FunctionCase((seconds,), None),), limits=limits)
