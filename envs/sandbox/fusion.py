"""A sandbox on a Sandbox Fusion server (github.com/bytedance/SandboxFusion), by its /run_code.

A job is one request, or a few: the source of a driver (worker/remote.py) with, on standard input, the candidate and its
inputs. The driver runs each program in a process of its own and prints what it left behind; expected values and
comparison stay here, as with LocalSandbox, and the same code runs candidates, so verdicts agree.

Driver and candidates run as one user, so the driver keeps apart what it can: no process may look into it, its source is
deleted before the first candidate starts, what a candidate may not see is still unread in its standard input when that
candidate is forked (inputs of later runs, the test of a `check` job, the nonce that its report must carry), and a
candidate holds neither of its pipes. Candidates drop all privileges and stand behind Landlock, in a folder of their
own, and behind LocalSandbox's seccomp filter: no processes, sockets, or signals to others.

What cannot be had there, and LocalSandbox has:
- Landlock and seccomp hold where the server's kernel and container allow them and, for seccomp, where this machine has
  libseccomp and a processor of the server's kind. Where one is missing the driver goes on without it, unasked. Without
  seccomp a program may open connections, start processes that outlive it, and end the driver (graded as its own fault).
  Without Landlock it has the server's files: it may read those of requests that run beside it, and change Python's
  own library, and with it every later driver: then nothing that comes back can be trusted.
- Where Landlock is missing and the server has no privileges that a candidate could drop (it runs as an ordinary user),
  a candidate may look into the server, which has the requests: nonces, and tests with their expected values.
- Candidates share one user, the server's: none of the limits is of a user, so there is none on processes and threads
  together, and none on the files of a folder together. launch/sandbox_fusion.sh puts limits around the whole server.
- The test of a `check` job holds its expected values, and runs on the server, in a process of the same user.
- Waiting for a processor is allowed for where the server shows its /proc, else the clock decides.
- A program that is cancelled runs on at the server until its time is over.
- `command` jobs are not to be had; programs import what the server's Python has.
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
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from envs.sandbox import judge, seccomp
from envs.sandbox.protocol import Job, Limits, Outcome, StdioCase
from envs.sandbox.worker import remote

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)
Got = TypeVar("Got")
WORKER = Path(remote.__file__).parent
LONGEST_PAUSE_S = 30.0
CASES = 16
"""Most cases of a `stdio` job in one request, and as many bytes of input as BYTES, but for a single longer one."""
BYTES = 4 << 20


class Trouble(RuntimeError):
    """The server, or the way to it, failed: nothing is known of the program."""


class FusionSandbox:
    """Runs jobs on the server at `url`; safe to use from several event loops and threads.

    Args:
        url: of the server, "http://localhost:8080".
        concurrency: requests that are under way at once.
        limits: of jobs that bring none of their own.
        tries: how often a request is made before its job is given up as not graded.
        backoff_s: pause before the second try; it doubles, up to half a minute, times 0.5 to 1.5 by chance.
        patience_s: how much longer than the program may run an answer may take: the server's own queue.

    Requests are made by one HTTP session on a thread of its own, which starts with the first and ends at `close`.
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
            raise ValueError(f"concurrency and tries must be at least 1, not {concurrency} and {tries}")
        self.url = url.rstrip("/").removesuffix("/run_code")
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"sandbox.url={url}: http://HOST:PORT of a Sandbox Fusion server")
        self.concurrency, self.tries, self.limits = concurrency, tries, limits or Limits()
        self.backoff_s, self.patience_s = backoff_s, patience_s
        self._sources = {name: (WORKER / f"{name}.py").read_text() for name in remote.SOURCES}
        self._driver = (WORKER / "remote.py").read_text()
        self._seccomp = _filter()
        self._closed = False
        self._lock = threading.Lock()
        self._line: _Line | None = None

    async def run(self, jobs: Sequence[Job], progress: Callable[[int], None] | None = None) -> list[Outcome]:
        """Outcomes in the order of `jobs`. See `Sandbox`."""
        loop, done = asyncio.get_running_loop(), 0
        line = self._open_line()

        async def one(job: Job) -> Outcome:
            nonlocal done
            outcome = await self._run_one(line, job)
            done += 1
            if progress is not None:
                loop.call_soon_threadsafe(progress, done)
            return outcome

        async def everything() -> list[Outcome]:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(job)) for job in jobs]
            return [task.result() for task in tasks]

        try:
            return await line.call(everything())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def describe(self) -> str:
        """One line: where programs run. Raises RuntimeError where no server answers there."""
        job = Job("describe", "program", "print('here')")
        line = self._open_line()
        try:
            quick = Limits(most_wall_s=10)
            version, _, _ = await line.call(self._ask(line, job, [judge.stdio_payload(job), b""], quick, tries=2))
        except Trouble as error:
            raise RuntimeError(
                f"no Sandbox Fusion server at {self.url} ({error}): start one with launch/sandbox_fusion.sh and set "
                "sandbox.url, or use sandbox=local"
            ) from None
        return f"sandbox: Sandbox Fusion at {self.url} (Python {version}, confined as far as that server is)"

    async def close(self) -> None:
        """Drop what is under way and the connections."""
        self._closed = True
        with self._lock:
            line, self._line = self._line, None
        if line is not None and line.pid == os.getpid():
            await asyncio.to_thread(line.close)

    def _open_line(self) -> _Line:
        if self._closed:
            raise RuntimeError("the sandbox is closed")
        with self._lock:
            if self._line is None or self._line.pid != os.getpid():  # none, or that of a forked caller's parent
                self._line = _Line(self.concurrency)
            return self._line

    # --- one job --------------------------------------------------------------------------------------------

    async def _run_one(self, line: _Line, job: Job) -> Outcome:
        limits = job.limits or self.limits
        try:
            if job.kind == "function":
                return await self._run_function(line, job, limits)
            if job.kind == "stdio":
                return await self._run_stdio(line, job, limits)
            if job.kind == "check":
                test, nonce = judge.check_payload(job)
                _, [ended], [raw] = await self._ask(line, job, [judge.candidate_payload(job), test], limits)
                return judge.judge_check(job, ended, raw, nonce)
            if job.kind == "program":
                pieces = [judge.stdio_payload(job), _bytes(job.stdin)]
                _, [ended], [note, out, err] = await self._ask(line, job, pieces, limits)
                return judge.judge_program(job, limits, ended, note, out, err)
            return judge.not_graded(job, f"sandbox=fusion runs no {job.kind} jobs: use sandbox=local")
        except judge.BadJob as error:
            return judge.not_graded(job, str(error))
        except Trouble as error:
            log.warning("job %s not graded: %s", job.id, error)
            return judge.not_graded(job, str(error))

    async def _run_function(self, line: _Line, job: Job, limits: Limits) -> Outcome:
        """One process, or several where the times are those of one case."""
        raw, seconds, left = b"", 0.0, job
        while True:
            _, [ended], [found] = await self._ask(line, job, [judge.function_payload(left)], limits)
            seconds += ended.seconds
            count = judge.answered(left, limits, ended, found)
            if not count:
                return judge.judge_function(job, limits, replace(ended, seconds=seconds), raw + found)
            raw += found[: found.rindex(b"\n") + 1]
            left = replace(left, cases=left.cases[count:])

    async def _run_stdio(self, line: _Line, job: Job, limits: Limits) -> Outcome:
        judge.check_stdio(job)
        payload = judge.stdio_payload(job)
        inputs = [_bytes(case.stdin) for case in job.cases if isinstance(case, StdioCase)]
        runs: list[tuple[judge.Ended, bytes, bytes]] = []
        while len(runs) < len(inputs):
            some = _some(inputs[len(runs) :])
            _, ends, found = await self._ask(line, job, [payload, *some], limits)
            runs += zip(ends, found[1::3], found[0::3], strict=True)
            if ends[-1].stopped_by:
                break  # a program that hangs once would hang on every input
        return judge.judge_stdio(job, limits, runs)

    # --- one request ----------------------------------------------------------------------------------------

    async def _ask(
        self, line: _Line, job: Job, pieces: list[bytes], limits: Limits, *, tries: int | None = None
    ) -> tuple[str, list[judge.Ended], list[bytes]]:
        """The server's version of Python, how each process ended, and what they wrote; of the pieces each but the first
        is read by the driver when it is needed. Raises Trouble after the last try."""
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
            # no memory_limit_MB: the server would make it the size of every thread's stack too; the driver sees to it
            "fetch_files": [nonce],
        }
        trouble = ""
        for attempt in range(tries or self.tries):
            if attempt:
                pause = min(self.backoff_s * 2 ** (attempt - 1), LONGEST_PAUSE_S)
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            try:
                answer = await line.post(f"{self.url}/run_code", request, seconds + self.patience_s)
                return _read(answer, nonce, job, limits, runs)
            except Trouble as error:
                trouble = str(error)
                log.info("job %s, try %d: %s", job.id, attempt + 1, trouble)
        raise Trouble(trouble)


def _filter() -> dict[str, str]:
    """The seccomp filter for candidates, and the kind of processor that it is for; nothing where it cannot be made
    here."""
    try:
        return {"machine": os.uname().machine, "bpf": seccomp.filters()["program"].hex()}
    except seccomp.Unavailable as error:
        log.warning("programs on the server run without a seccomp filter: %s", error)
        return {}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _some(inputs: Sequence[bytes]) -> list[bytes]:
    """As many of the first inputs as go into one request, at least one."""
    chosen = [inputs[0]]
    for data in inputs[1:CASES]:
        if sum(map(len, chosen)) + len(data) > BYTES:
            break
        chosen.append(data)
    return chosen


def _read(answer: Any, nonce: str, job: Job, limits: Limits, runs: int) -> tuple[str, list[judge.Ended], list[bytes]]:
    """What the driver said. Raises Trouble where the server, and not a program, kept it from saying so."""
    try:
        status, message, result = str(answer["status"]), str(answer.get("message") or ""), answer["run_result"]
        if status not in ("Success", "Failed") or result["status"] not in ("Finished", "TimeLimitExceeded"):
            raise Trouble(f"the server says {status}: {message[:200]}")
        stdout, code, files = str(result.get("stdout") or ""), result.get("return_code"), answer.get("files") or {}
        late = result["status"] == "TimeLimitExceeded"
        seconds = float(result.get("execution_time") or 0.0)
        said = str(result.get("stderr") or "").strip().rpartition("\n")[2]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Trouble(f"an answer without {error}: not a Sandbox Fusion server?") from error
    ready = re.match(r"ready (\S+)\n", stdout)
    if not ready:
        raise Trouble(f"the driver did not start: {said[:200] or 'no output'}")
    if trouble := re.search(rf"{nonce} trouble (.*)\n", stdout):
        raise Trouble(f"the driver could not do its work: {trouble[1][:200]}")
    report = re.search(rf"{nonce} (\d+) (\S+) end\n", stdout)
    if not report:
        if not late and code in (0, None, remote.INPUT_CUT):
            raise Trouble("the server lost the driver's input or its report")
        end = "timeout" if late else "exit"  # the program ended, or hung, the driver with itself
        ended = judge.Ended(end, 0 if late else 1, "", "" if late else "SIGKILL", seconds)
        return ready[1], [ended], [b""] * (3 if job.kind in ("stdio", "program") else 1)
    try:
        text = base64.b64decode(files[nonce]).decode("ascii") if report[2] == "file" else report[2]
        if report[1] != "0" and len(text) != int(report[1]):
            raise ValueError("cut")
        header, pieces = remote.unpack(text, (limits.output_kib << 10) * 3 * runs + (8 << 20))
        ends = [_ended(**end) for end in header["ends"]]
        if not 1 <= len(ends) <= runs or len(pieces) != len(ends) * (3 if job.kind in ("stdio", "program") else 1):
            raise ValueError("not what was asked")
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError, binascii.Error) as error:
        raise Trouble(f"the driver's report is not readable: {error}") from error
    return ready[1], ends, pieces


def _ended(end: Any, code: Any, signal: Any, other_signal: Any, seconds: Any) -> judge.Ended:
    return judge.Ended(str(end), int(code), str(signal), str(other_signal), float(seconds))


class _Line:
    """One thread with an event loop, and on it one HTTP session for all callers."""

    def __init__(self, concurrency: int) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sandbox-fusion", daemon=True)
        self._thread.start()
        self._session: aiohttp.ClientSession | None = None
        self._places = asyncio.Semaphore(concurrency)
        self._concurrency = concurrency
        atexit.register(self.close)

    async def call(self, work: Coroutine[Any, Any, Got]) -> Got:
        """Run it on the line's loop; cancelling the caller cancels it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def post(self, url: str, request: dict[str, Any], seconds: float) -> Any:
        """The answer's JSON. Raises Trouble."""
        import aiohttp  # slow to import, and needed here alone

        async with self._places:
            if self._session is None:
                connections = aiohttp.TCPConnector(limit=self._concurrency)
                self._session = aiohttp.ClientSession(connector=connections, trust_env=False)
            try:
                timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=10)
                async with self._session.post(url, json=request, timeout=timeout) as response:
                    if response.status != 200:
                        raise Trouble(f"HTTP status {response.status}")
                    return json.loads(await response.read())
            except TimeoutError as error:
                raise Trouble(f"no answer within {seconds:.0f} s") from error
            except (aiohttp.ClientError, OSError) as error:
                raise Trouble(f"{type(error).__name__}: {error}") from error
            except (ValueError, RecursionError) as error:
                raise Trouble(f"an answer that is no JSON: {error}") from error

    def close(self) -> None:
        """Cancel what is under way, close the session, end the thread."""
        atexit.unregister(self.close)
        if self.pid != os.getpid() or not self._thread.is_alive():
            return

        async def finish() -> None:
            rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
            if self._session is not None:
                await self._session.close()

        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(finish(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
