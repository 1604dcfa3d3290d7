"""A sandbox on a Sandbox Fusion server (github.com/bytedance/SandboxFusion), through its /run_code.

A job is one request, or a few: the source of a driver (worker/remote.py) and, on standard input, the candidate and its
inputs. The driver runs each program in a process of its own and prints its results. Expected values and comparisons
stay here, as with LocalSandbox, and the same code runs candidates, so verdicts agree.

Driver and candidates run as one user, so the driver separates what it can. No process may read the driver's memory. The
driver's source is deleted before the first candidate starts. What a candidate must not see (inputs of later runs, the
test of a `check` job, the nonce of the report) is still unread in the driver's standard input when that candidate is
forked. A candidate has neither of the driver's pipes. Candidates drop all privileges and are confined by Landlock, to a
folder of their own, and by LocalSandbox's seccomp filter: no processes, no sockets, no signals to other processes.

Limitations compared with LocalSandbox:
- Landlock and seccomp are active only if the server's kernel and container allow them and, for seccomp, if this machine
  has libseccomp and a processor of the server's kind. If one is missing, the driver continues without it. Without
  seccomp a program may open connections, start processes that outlive it, and end the driver (graded as a failure of
  the program). Without Landlock it has access to the server's files: it may read those of concurrent requests, and it
  may change Python's library and thereby every later driver; then no result can be trusted.
- If Landlock is missing and the server runs as an ordinary user, so that a candidate has no privileges to drop, a
  candidate may read the server's memory, which has the requests: nonces, and tests with their expected values.
- Candidates share the server's user, so there is no limit on their processes and threads together, nor on the files of
  a folder together. launch/sandbox_fusion.sh limits the whole server.
- The test of a `check` job contains its expected values and runs on the server, in a process of the same user.
- Time spent waiting for a processor is subtracted only if the server has /proc; otherwise wall time counts.
- A cancelled program continues on the server until its time is over.
- `command` jobs are not available; programs can import what the server's Python has.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import binascii
import contextlib
import json
import logging
import os
import random
import re
import secrets
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from envs.sandbox import seccomp, verdict
from envs.sandbox.protocol import Job, Limits, Outcome, StdioCase
from envs.sandbox.worker import remote

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)
Got = TypeVar("Got")
WORKER = Path(remote.__file__).parent
MAX_PAUSE_S = 30.0
MAX_CASES = 16
MAX_INPUT_BYTES = 4 << 20
"""Limits of one request with cases of a `stdio` job; a single input may be longer."""


class ServerError(RuntimeError):
    """The server or the connection failed, so nothing is known about the program."""


class FusionSandbox:
    """Runs jobs on the server at `url`; safe to use from several event loops and threads.

    Args:
        url: url of the server, "http://localhost:8080".
        concurrency: number of concurrent requests.
        limits: limits of jobs without limits of their own.
        tries: number of tries of a request before its job counts as not graded.
        backoff_s: pause before the second try in seconds; it doubles each time, up to half a minute, and is multiplied
            by a random factor of 0.5 to 1.5.
        patience_s: time that an answer may take in addition to the program's, for the server's own queue.

    One HTTP session makes the requests, on a thread of its own that starts with the first request and ends at `close`.
    """

    def __init__(
        self,
        url: str = "http://localhost:8080",
        concurrency: int = 32,
        limits: Limits | None = None,
        *,
        tries: int = 8,
        backoff_s: float = 0.5,
        patience_s: float = 60.0,
    ) -> None:
        if concurrency < 1 or tries < 1:
            raise ValueError(f"sandbox.concurrency={concurrency}, sandbox.tries={tries}: both must be at least 1")
        self.url = url.rstrip("/").removesuffix("/run_code")
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"sandbox.url={url}: must be http://HOST:PORT of a Sandbox Fusion server")
        self.concurrency, self.tries, self.limits = concurrency, tries, limits or Limits()
        self.backoff_s, self.patience_s = backoff_s, patience_s
        self._sources = {name: (WORKER / f"{name}.py").read_text(encoding="utf-8") for name in remote.SOURCES}
        self._driver = (WORKER / "remote.py").read_text(encoding="utf-8")
        self._seccomp = _filter()
        self._closed = False
        self._lock = threading.Lock()
        self._session_thread: _SessionThread | None = None

    async def run(self, jobs: Sequence[Job], progress: Callable[[int], None] | None = None) -> list[Outcome]:
        """Outcomes in the order of `jobs`. See `Sandbox`."""
        loop, done = asyncio.get_running_loop(), 0
        session = self._open_session()

        async def one(job: Job) -> Outcome:
            nonlocal done
            outcome = await self._run_one(session, job)
            done += 1
            if progress is not None:
                loop.call_soon_threadsafe(progress, done)
            return outcome

        async def everything() -> list[Outcome]:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(job)) for job in jobs]
            return [task.result() for task in tasks]

        try:
            return await session.call(everything())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def describe(self) -> str:
        """One line: where programs run. Raises RuntimeError if no server answers."""
        job = Job("describe", "program", "print('here')")
        session = self._open_session()
        try:
            quick = Limits(most_wall_s=10)
            version, _, _ = await session.call(
                self._ask(session, job, [verdict.stdio_payload(job), b""], quick, tries=2)
            )
        except ServerError as error:
            raise RuntimeError(
                f"no Sandbox Fusion server at {self.url} ({error}): start one with launch/sandbox_fusion.sh and set "
                "sandbox.url, or use sandbox=local"
            ) from None
        return f"sandbox: Sandbox Fusion at {self.url} (Python {version}, confined as far as that server is)"

    async def close(self) -> None:
        """Cancel all requests and close the connections."""
        self._closed = True
        with self._lock:
            session, self._session_thread = self._session_thread, None
        if session is not None and session.pid == os.getpid():
            await asyncio.to_thread(session.close)

    def _open_session(self) -> _SessionThread:
        if self._closed:
            raise RuntimeError("the sandbox is closed")
        with self._lock:
            # a forked caller must not use its parent's thread
            if self._session_thread is None or self._session_thread.pid != os.getpid():
                self._session_thread = _SessionThread(self.concurrency)
            return self._session_thread

    # --- one job --------------------------------------------------------------------------------------------

    async def _run_one(self, session: _SessionThread, job: Job) -> Outcome:
        limits = job.limits or self.limits
        try:
            if job.kind == "function":
                return await self._run_function(session, job, limits)
            if job.kind == "stdio":
                return await self._run_stdio(session, job, limits)
            if job.kind == "check":
                test, nonce = verdict.check_payload(job)
                _, [ended], [raw] = await self._ask(session, job, [verdict.candidate_payload(job), test], limits)
                return verdict.judge_check(job, ended, raw, nonce)
            if job.kind == "program":
                pieces = [verdict.stdio_payload(job), _bytes(job.stdin)]
                _, [ended], [note, out, err] = await self._ask(session, job, pieces, limits)
                return verdict.judge_program(job, limits, ended, note, out, err)
            return verdict.not_graded(job, f"sandbox=fusion runs no {job.kind} jobs: use sandbox=local")
        except verdict.BadJob as error:
            return verdict.not_graded(job, str(error))
        except ServerError as error:
            log.warning("job %s not graded: %s", job.id, error)
            return verdict.not_graded(job, str(error))

    async def _run_function(self, session: _SessionThread, job: Job, limits: Limits) -> Outcome:
        async def run(cases: Job) -> tuple[verdict.Ended, bytes]:
            _, [ended], [records] = await self._ask(session, job, [verdict.function_payload(cases)], limits)
            return ended, records

        return await verdict.run_function(job, limits, run)

    async def _run_stdio(self, session: _SessionThread, job: Job, limits: Limits) -> Outcome:
        verdict.check_stdio(job)
        payload = verdict.stdio_payload(job)
        cases = [case for case in job.cases if isinstance(case, StdioCase)]
        inputs = [_bytes(case.stdin) for case in cases]
        runs: list[verdict.Run] = []
        while len(runs) < len(inputs):
            batch = _first_batch(inputs[len(runs) :])
            _, ends, results = await self._ask(session, job, [payload, *batch], limits)
            ran = list(zip(ends, results[1::3], results[0::3], strict=True))
            which = cases[len(runs) : len(runs) + len(ran)]
            runs += ran
            size = sum(len(printed) for _, printed, _ in ran)
            last = [
                await verdict.judged(size, verdict.is_last, job, limits, *pair) for pair in zip(which, ran, strict=True)
            ]
            if any(last):
                break
        return await verdict.judged(sum(len(printed) for _, printed, _ in runs), verdict.judge_stdio, job, limits, runs)

    # --- one request ----------------------------------------------------------------------------------------

    async def _ask(
        self, session: _SessionThread, job: Job, pieces: list[bytes], limits: Limits, *, tries: int | None = None
    ) -> tuple[str, list[verdict.Ended], list[bytes]]:
        """The server's version of Python, how each process ended, and the processes' results.

        The driver reads each piece after the first only when it needs it. Raises ServerError after the last try.
        """
        runs = max(1, len(pieces) - 1)
        nonce = secrets.token_hex(16)
        header = {"kind": job.kind, "runs": runs, "limits": asdict(limits), "sources": self._sources}
        first = remote.pack({**header, "seccomp": self._seccomp}, pieces[:1])
        parts = [first, *(remote.pack({}, [piece]) for piece in pieces[1:]), nonce]
        seconds = runs * (limits.wall_s + 1) + limits.most_wall_s
        request = {
            "language": "python",
            "code": f"{self._driver}\n\nmain()\n",
            "stdin": "".join(f"{len(part)}\n{part}" for part in parts),
            "run_timeout": seconds,
            # no memory_limit_MB, which the server would also use as every thread's stack size; the driver limits memory
            "fetch_files": [nonce],
        }
        reason = ""
        for attempt in range(tries or self.tries):
            if attempt:
                pause = min(self.backoff_s * 2 ** (attempt - 1), MAX_PAUSE_S)
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            try:
                answer = await session.post(f"{self.url}/run_code", request, seconds + self.patience_s)
                return _read(answer, nonce, job, limits, runs)
            except ServerError as error:
                reason = str(error)
                log.info("job %s, try %d: %s", job.id, attempt + 1, reason)
        raise ServerError(reason)


def _filter() -> dict[str, str]:
    """The seccomp filter for candidates and its kind of processor; empty if it cannot be compiled here."""
    try:
        return {"machine": os.uname().machine, "bpf": seccomp.filters()["program"].hex()}
    except seccomp.Unavailable as error:
        log.warning("programs on the server run without a seccomp filter: %s", error)
        return {}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _first_batch(inputs: Sequence[bytes]) -> list[bytes]:
    """As many of the first inputs as fit into one request, at least one."""
    batch = [inputs[0]]
    for data in inputs[1:MAX_CASES]:
        if sum(map(len, batch)) + len(data) > MAX_INPUT_BYTES:
            break
        batch.append(data)
    return batch


def _read(answer: Any, nonce: str, job: Job, limits: Limits, runs: int) -> tuple[str, list[verdict.Ended], list[bytes]]:
    """The driver's report. Raises ServerError if the server, and not a program, is the reason that it is missing."""
    try:
        status, message, result = str(answer["status"]), str(answer.get("message") or ""), answer["run_result"]
        if status not in ("Success", "Failed") or result["status"] not in ("Finished", "TimeLimitExceeded"):
            raise ServerError(f"the server says {status}: {message[:200]}")
        stdout, code, files = str(result.get("stdout") or ""), result.get("return_code"), answer.get("files") or {}
        timed_out = result["status"] == "TimeLimitExceeded"
        seconds = float(result.get("execution_time") or 0.0)
        last_line = str(result.get("stderr") or "").strip().rpartition("\n")[2]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ServerError(f"an answer without {error}: not a Sandbox Fusion server?") from error
    ready = re.match(r"ready (\S+)\n", stdout)
    if not ready:
        raise ServerError(f"the driver did not start: {last_line[:200] or 'no output'}")
    if failure := re.search(rf"{nonce} trouble (.*)\n", stdout):
        raise ServerError(f"the driver could not do its work: {failure[1][:200]}")
    report = re.search(rf"{nonce} (\d+) (\S+) end\n", stdout)
    if not report:
        if not timed_out and code in (0, None, remote.INPUT_CUT):
            raise ServerError("the server lost the driver's input or its report")
        end = "timeout" if timed_out else "exit"  # the program ended the driver, or made it hang
        ended = verdict.Ended(end, 0 if timed_out else 1, "", "" if timed_out else "SIGKILL", seconds)
        return ready[1], [ended], [b""] * (3 if job.kind in ("stdio", "program") else 1)
    try:
        text = base64.b64decode(files[nonce]).decode("ascii") if report[2] == "file" else report[2]
        if report[1] != "0" and len(text) != int(report[1]):
            raise ValueError("cut")
        header, pieces = remote.unpack(text, (limits.output_kib << 10) * 3 * runs + (8 << 20))
        ends = [_ended(**end) for end in header["ends"]]
        if not 1 <= len(ends) <= runs or len(pieces) != len(ends) * (3 if job.kind in ("stdio", "program") else 1):
            raise ValueError("not the requested runs")
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError, binascii.Error) as error:
        raise ServerError(f"the driver's report is not readable: {error}") from error
    return ready[1], ends, pieces


def _ended(end: Any, code: Any, signal: Any, other_signal: Any, seconds: Any) -> verdict.Ended:
    return verdict.Ended(str(end), int(code), str(signal), str(other_signal), float(seconds))


class _SessionThread:
    """A thread with an event loop, and on it one HTTP session for all callers."""

    def __init__(self, concurrency: int) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sandbox-fusion", daemon=True)
        self._thread.start()
        self._session: aiohttp.ClientSession | None = None
        self._slots = asyncio.Semaphore(concurrency)
        self._concurrency = concurrency
        atexit.register(self.close)

    async def call(self, work: Coroutine[Any, Any, Got]) -> Got:
        """Run `work` on the thread's loop; cancelling the caller cancels it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def post(self, url: str, request: dict[str, Any], seconds: float) -> Any:
        """The JSON of the answer. Raises ServerError."""
        import aiohttp  # slow to import, and used only here

        async with self._slots:
            if self._session is None:
                connections = aiohttp.TCPConnector(limit=self._concurrency)
                self._session = aiohttp.ClientSession(connector=connections, trust_env=False)
            try:
                timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=10)
                async with self._session.post(url, json=request, timeout=timeout) as response:
                    if response.status != 200:
                        raise ServerError(f"HTTP status {response.status}")
                    return json.loads(await response.read())
            except TimeoutError as error:
                raise ServerError(f"no answer within {seconds:.0f} s") from error
            except (aiohttp.ClientError, OSError) as error:
                raise ServerError(f"{type(error).__name__}: {error}") from error
            except (ValueError, RecursionError) as error:
                raise ServerError(f"an answer that is not JSON: {error}") from error

    def close(self) -> None:
        """Cancel all requests, close the session and end the thread."""
        atexit.unregister(self.close)
        if self.pid != os.getpid() or not self._thread.is_alive():
            return

        async def finish() -> None:
            open_tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in open_tasks:
                task.cancel()
            await asyncio.gather(*open_tasks, return_exceptions=True)
            if self._session is not None:
                await self._session.close()

        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(finish(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
