"""The trusted side of a `check` job: a process of its own, confined like the program that it tests."""

import builtins
import contextlib
import functools
import json
import math
import os
import resource
import socket
import sys
import types

import codec
import program

JOBS = 1000
"""Number of jobs that one process serves."""
MOST_KIB = 256 << 10
"""Resident memory in KiB above which the process is replaced."""
NOTE = 1000
"""Characters of the note on a failure."""
AWKWARD = (
    *(AssertionError, StopIteration, StopAsyncIteration),
    *(UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError, ExceptionGroup),
)
"""Exceptions that are not raised again under their own name: the first would be reported as a failed line of the test,
the next two would end a `map` or `all` of the test early, and the others need more arguments."""


class CandidateGone(BaseException):
    """The candidate's process ended or sent invalid data. It is not an Exception, so that few tests can catch it; those
    that do are not passed."""


class CandidateRaised(Exception):
    """The candidate raised something that is not a built-in exception."""


def checker_body(channel: int, limits: dict) -> None:
    """Serve `check` jobs until the server closes the socket or a new process is due.

    A job is one packet with two descriptors: its payload, which the verdict overwrites, and the socket to the
    candidate. The answer is one packet, `done` or `last` and the verdict's word; the text of a test must not stay in
    the server's memory. One process can serve many jobs, because tests are trusted and receive plain data. Each job has
    its own names, limits and processor time.
    """
    server = socket.socket(fileno=channel)
    for jobs_left in reversed(range(JOBS)):
        data, descriptors, _, _ = socket.recv_fds(server, 64, 2)
        if not data:
            break
        used = resource.getrusage(resource.RUSAGE_SELF)
        soft = math.ceil(used.ru_utime + used.ru_stime + limits["cpu_s"])
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
        _seed()
        word = _check(descriptors[0], descriptors[1], limits).encode()
        for descriptor in descriptors:
            os.close(descriptor)
        if not jobs_left or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > MOST_KIB:
            server.send(b"last " + word)
            break
        server.send(b"done " + word)
    os._exit(0)


def _seed() -> None:
    """Seed the random generators anew. The candidate knows the state of the process from which this one was forked, and
    may guess a seed that an earlier job's test has set."""
    for name in ("random", "numpy.random"):
        if (module := sys.modules.get(name)) is not None:
            module.seed()


def _check(payload: int, line: int, limits: dict) -> str:
    """The trusted side of one job: run the test with a proxy for the candidate, and overwrite the payload with the
    verdict: the nonce, a word, which is returned, and a note."""
    job = json.loads(program.read_all(payload))
    verdict = ["error", "no verdict"]
    try:
        candidate = Candidate(line, limits["output_kib"] << 10)
        verdict = _run_check(job, candidate)
        if verdict[0] == "pass" and candidate.gone:
            verdict = ["fail", candidate.gone]
        elif verdict[0] == "pass" and not candidate.calls:
            verdict = ["error", "the test never called the entry point"]
    except CandidateGone as error:
        verdict = ["fail", str(error)]
    except codec.Unsupported as error:
        verdict = ["error", f"the test passes a value that cannot be sent: {error}"]
    except BaseException as error:
        verdict = ["fail", program.describe(error)]
    os.ftruncate(payload, 0)
    os.pwrite(payload, json.dumps([job["nonce"], verdict[0], verdict[1][:NOTE]]).encode(), 0)
    return verdict[0]


@functools.lru_cache(maxsize=1024)
def _compiled(source: str, name: str) -> types.CodeType:
    """Compile, with a cache across jobs: all completions of a problem have the same test."""
    return compile(source, name, "exec", dont_inherit=True)


def _run_check(job: dict, candidate: "Candidate") -> list[str]:
    program.restore_streams()
    module = sys.modules["check"] = program.new_module("check")
    space, name = module.__dict__, job["entry"]
    try:
        if job["setup"]:
            exec(_compiled(job["setup"], "<setup>"), space)
        test = _compiled(job["check"], "<check>")
    except Exception as error:
        return ["error", f"the test itself is broken: {program.describe(error)}"]
    for defined in candidate.classes:
        if defined in test.co_names and defined not in space and not hasattr(builtins, defined):
            space[defined] = functools.partial(candidate.make, defined)
    space[name] = space["candidate"] = candidate
    try:
        exec(test, space)
        if name != "check" and callable(space.get("check")):
            space["check"](candidate)
    except AssertionError as error:
        return ["fail", _assertion(error, job["check"])]
    return ["pass", ""]


def _assertion(error: AssertionError, source: str) -> str:
    """The failed line of the test, which is more informative than the exception."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<check>":
            line = trace.tb_lineno
        trace = trace.tb_next
    lines = source.split("\n")
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return f"test line {line}: {text}" if text else program.describe(error)


class Opaque:
    """A result that is not plain data: only its truth value is known, and it equals only itself."""

    def __init__(self, truth: bool, what: str) -> None:
        self._truth, self._what = truth, what

    def __bool__(self) -> bool:
        return self._truth

    def __repr__(self) -> str:
        return f"<{self._what}>"


class Candidate:
    """A proxy for the entry point that forwards calls by value; it waits first until the program is ready.

    Raises CandidateGone.
    """

    def __init__(self, channel: int, most: int) -> None:
        self._send, self._line = program.writer(channel), program.reader(channel, most * 2)
        self._encode, self.calls, self._kept = codec.make_encoder(most), 0, 0
        self.gone = ""
        """Why it no longer answers; empty while it does."""
        self._answers, self._opaque = 0, False
        ready = self._receive()
        if ready[0] != "ready" or len(ready) != 2:
            raise CandidateGone(str(ready[-1]))
        names = codec.decode(ready[1])
        self.classes = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self._ask('["t",', args, kwargs)

    def make(self, name: str, *args, **kwargs) -> codec.Handle:
        """Create an object of a class that the program defines, for a test that passes it to the entry point."""
        self._ask(f'["t",{json.dumps(name)},', args, kwargs)
        self._kept += 1
        return codec.Handle(self._kept - 1, self._set)

    def _set(self, handle: codec.Handle, name: str, value: object) -> None:
        """Set an attribute of such an object."""
        self._ask('["t","",', (handle, name, value), {})

    def _ask(self, opening: str, args: tuple, kwargs: dict):
        try:
            request = opening + self._encode(list(args)) + "," + self._encode(kwargs) + "]\n"
        except codec.Unsupported as error:
            if self._opaque or (self._answers and isinstance(error, codec.Excess)):  # otherwise the test is the cause
                raise CandidateRaised(f"the test passes its result on, which cannot be sent: {error}") from error
            raise
        try:
            self._send(request)
        except OSError as error:
            raise self._lost("the program ended early") from error
        record = self._receive()
        self._answers += 1
        with contextlib.suppress(ValueError):
            if record[0] == "v" and len(record) == 2:
                return codec.decode(record[1])
            if record[0] == "o" and len(record) == 3:
                self._opaque = True
                return Opaque(record[2] is True, str(record[1]))
        if record[0] == "e" and len(record) == 3:
            for kind, name in program.BUILT_IN.items():
                if name == record[2] and issubclass(kind, Exception) and kind not in AWKWARD:
                    raise kind(str(record[1]))
            raise CandidateRaised(str(record[1]))
        raise self._lost("unreadable answer")

    def _receive(self) -> list:
        try:
            text = self._line()
            record = codec.parse(text) if text is not None else None
        except (OSError, ValueError) as error:
            raise self._lost("unreadable answer") from error
        if type(record) is not list or not record:
            raise self._lost("the program ended early" if record is None else "unreadable answer")
        return record

    def _lost(self, why: str) -> CandidateGone:
        self.gone = why
        return CandidateGone(why)
