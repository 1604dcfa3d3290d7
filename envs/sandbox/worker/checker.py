"""The trusted side of a `check` job: its own process, confined like the program that it tests."""

import contextlib
import functools
import json
import math
import os
import resource
import socket
import types

import codec
import program

JOBS = 1000
"""Jobs that one process serves."""
MOST_KIB = 256 << 10
"""Resident memory after which it is replaced."""
AWKWARD = (AssertionError, UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError, ExceptionGroup)
"""Not raised again under their own name: the first would blame the test's line, the others want more
arguments."""


class CandidateGone(BaseException):
    """The candidate's process ended or stopped making sense; not an Exception, so that no test can swallow
    it."""


class CandidateRaised(Exception):
    """The candidate raised something that is not a built-in exception."""


def checker_body(channel: int, limits: dict) -> None:
    """Serve `check` jobs until the server hangs up or it is time for a fresh process.

    A job is one packet of three descriptors: its payload, the line to the candidate, the file for the verdict. One
    process serves many jobs because tests are trusted and what they meet is plain data; each has its own names, limits
    and processor time.
    """
    server = socket.socket(fileno=channel)
    for left in reversed(range(JOBS)):
        data, descriptors, _, _ = socket.recv_fds(server, 64, 3)
        if not data:
            break
        used = resource.getrusage(resource.RUSAGE_SELF)
        soft = math.ceil(used.ru_utime + used.ru_stime + limits["cpu_s"])
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
        payload, line, verdict = descriptors
        _check(payload, line, verdict, limits)
        for descriptor in descriptors:
            os.close(descriptor)
        if not left or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > MOST_KIB:
            server.send(b"last")
            break
        server.send(b"done")
    os._exit(0)


def _check(payload: int, line: int, result: int, limits: dict) -> None:
    """The trusted side of one job: run the test against a stand-in and write the verdict to `result`."""
    job = json.loads(program.read_all(payload))
    calls = 0
    verdict = ["error", "no verdict"]
    try:
        stub, count = _stub(line, limits["output_kib"] << 10)
        verdict = _run_check(job, stub)
        calls = count()
    except CandidateGone as error:
        verdict = ["fail", str(error)]
    except codec.Unsupported as error:
        verdict = ["error", f"the test passes a value that cannot be sent: {error}"]
    except BaseException as error:
        verdict = ["fail", program.describe(error)]
    if verdict[0] == "pass" and not calls:
        verdict = ["error", "the test never called the entry point"]
    os.write(result, json.dumps([job["nonce"], *verdict]).encode())


@functools.lru_cache(maxsize=1024)
def _compiled(source: str, name: str) -> types.CodeType:
    """Kept between jobs: the completions of one problem come with the same test."""
    return compile(source, name, "exec", dont_inherit=True)


def _run_check(job: dict, stub) -> list[str]:
    module = program.streams("check")
    space, name = module.__dict__, job["entry"]
    try:
        if job["setup"]:
            exec(_compiled(job["setup"], "<setup>"), space)
        test = _compiled(job["check"], "<check>")
    except Exception as error:
        return ["error", f"the test itself is broken: {program.describe(error)}"]
    space[name] = space["candidate"] = stub
    try:
        exec(test, space)
        if callable(space.get("check")):
            space["check"](stub)
    except AssertionError as error:
        return ["fail", _assertion(error, job["check"])]
    return ["pass", ""]


def _assertion(error: AssertionError, source: str) -> str:
    """The failed line of the test, which says more than the exception does."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<check>":
            line = trace.tb_lineno
        trace = trace.tb_next
    lines = source.split("\n")
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return f"test line {line}: {text}" if text else program.describe(error)


def _stub(channel: int, most: int):
    """A stand-in that forwards calls by value, once the candidate has said that it is ready."""
    send, line = program.writer(channel), program.reader(channel, most * 2)
    encode, calls = codec.make_encoder(most), 0

    def receive() -> list:
        try:
            text = line()
            record = codec.parse(text) if text is not None else None
        except (OSError, ValueError) as error:
            raise CandidateGone("unreadable answer") from error
        if type(record) is not list or not record:
            raise CandidateGone("the program ended early" if record is None else "unreadable answer")
        return record

    ready = receive()
    if ready[0] != "ready":
        raise CandidateGone(str(ready[-1]))

    def candidate(*args, **kwargs):
        nonlocal calls
        calls += 1
        request = '["t",' + encode(list(args)) + "," + encode(kwargs) + "]\n"
        try:
            send(request)
        except OSError as error:
            raise CandidateGone("the program ended early") from error
        record = receive()
        if record[0] == "v" and len(record) == 2:
            with contextlib.suppress(ValueError):
                return codec.decode(record[1])
        if record[0] == "e" and len(record) == 3:
            for kind, name in program.BUILT_IN.items():
                if name == record[2] and issubclass(kind, Exception) and kind not in AWKWARD:
                    raise kind(str(record[1]))
            raise CandidateRaised(str(record[1]))
        raise CandidateGone("unreadable answer")

    return candidate, lambda: calls
