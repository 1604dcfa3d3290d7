"""The driver that a Sandbox Fusion server runs for one request: candidates in processes of their own.

It is sent as source, a call of `main` behind it, with the sources of codec.py, program.py and checker.py packed into
its argument, and needs nothing else but Python 3.10 or later. Expected values are not in what it is sent; the test of a
`check` job comes by standard input and is read when the candidate has been forked already.

It prints `<nonce> ready`, then `<nonce> <length> <base 64> end` or, where that is long, puts it into a file named by
the nonce and prints `<nonce> 0 file end`: some versions of the server cut standard output at 200 kB.
"""

import base64
import contextlib
import fcntl
import json
import math
import os
import resource
import signal
import socket
import sys
import tempfile
import time
import types
import zlib

MOST_PRINTED = 128 << 10
MOST_PIECES = 4096
STACK = 64 << 20
SOURCES = ("codec", "program", "checker")
"""Modules beside this one that are sent with it; each imports only those before it."""


def pack(header: dict, pieces: "list[bytes]") -> str:
    """A dictionary and some bytes as ASCII text."""
    front = json.dumps({**header, "sizes": [len(piece) for piece in pieces]}).encode()
    return base64.b64encode(zlib.compress(b"\n".join([front, b"".join(pieces)]))).decode()


def unpack(text: str, most: int) -> "tuple[dict, list[bytes]]":
    """What `pack` was given. Raises ValueError for anything else, and beyond `most` bytes."""
    try:
        unzip = zlib.decompressobj()
        data = unzip.decompress(base64.b64decode(text, validate=True), most)
        if unzip.unconsumed_tail or not unzip.eof:
            raise ValueError("too long, or cut")
        front, rest = data.split(b"\n", 1)
        header = json.loads(front)
        sizes, pieces, start = header.pop("sizes"), [], 0
        if len(sizes) > MOST_PIECES:
            raise ValueError("too many pieces")
        for size in sizes:
            pieces.append(rest[start : start + size])
            start += size
    except (zlib.error, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"not a packed text: {error}") from error
    return header, pieces


def set_limits(limits: dict) -> None:
    """Of the process that calls; never above what the server itself has."""
    mib, cpu = 1 << 20, math.ceil(limits["cpu_s"])
    for kind, soft, hard in (
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_AS, limits["memory_mib"] * mib, limits["memory_mib"] * mib),
        (resource.RLIMIT_FSIZE, limits["file_mib"] * mib, limits["file_mib"] * mib),
        (resource.RLIMIT_NOFILE, limits["open_files"], limits["open_files"]),
        (resource.RLIMIT_STACK, STACK, resource.getrlimit(resource.RLIMIT_STACK)[1]),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        _, most = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            hard = most if hard == resource.RLIM_INFINITY else min(hard, most)
        resource.setrlimit(kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def dumpable(value: int) -> None:
    """Whether a process of the same user may look into this one."""
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(4, value, 0, 0, 0)


def file_of(data: bytes = b""):
    """A file without a name."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
    file.write(data)
    file.flush()
    file.seek(0)
    return file


def fork(body, limits: dict, wanted: "list[int]", payload: int, open_to_all: bool = True) -> int:
    """Start `body` in a process whose descriptors 0, 1, 2, ... are `wanted`, then `payload`."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        given = [fcntl.fcntl(number, fcntl.F_DUPFD, 64) for number in (*wanted, payload)]
        for place, number in enumerate(given):
            os.dup2(number, place)
        os.closerange(len(given), 1 << 16)
        program = sys.modules["program"]
        program.set_streams()
        tools = program.Tools(limits)
        for name in SOURCES:
            sys.modules.pop(name, None)
        if open_to_all:
            dumpable(1)
        set_limits(limits)
        body(len(wanted), limits, tools)
    finally:
        os._exit(70)


def waited(pid: int) -> float:
    """Seconds that a process's threads stood ready while no processor was free; 0 where it cannot be known."""
    total = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                total += int(file.read().split()[1])
    return total / 1e9


def watch(pid: int, limits: dict, also: "list[int]") -> dict:
    """Wait for a process, not longer than it may take; how it ended. Time waited for a processor does not count."""
    started, pause = time.monotonic(), 0.0005
    end: dict = {"end": "exit", "code": 0, "signal": "", "other_signal": "", "seconds": 0.0}
    while (status := status_of(pid)) is None:
        passed = time.monotonic() - started
        if passed >= limits["wall_s"]:
            waiting = 2 * max(map(waited, [pid, *also]))  # two that take turns wait about as long
            if passed >= min(limits["wall_s"] + (waiting if also else waiting / 2), limits["most_wall_s"]):
                end["end"] = "timeout"
                stop(pid)
                break
        time.sleep(pause)
        pause = min(pause * 1.5, 0.01)
    else:
        end["code"], end["signal"] = status
    end["seconds"] = time.monotonic() - started
    return end


def status_of(pid: int) -> "tuple[int, str] | None":
    """Exit status and name of the signal, once it has ended."""
    done, status = os.waitpid(pid, os.WNOHANG)
    if not done:
        return None
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code, ""
    try:
        return 0, signal.Signals(-code).name
    except ValueError:
        return 0, f"signal {-code}"


def stop(pid: int) -> None:
    """End a process and its group."""
    for end in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            end(pid, signal.SIGKILL)
    for _ in range(200):
        with contextlib.suppress(ChildProcessError):
            if status_of(pid) is None:
                time.sleep(0.005)
                continue
        return


def run_programs(header: dict, pieces: "list[bytes]", null: int) -> "tuple[list[dict], list[bytes]]":
    """A process for each standard input; after one that had to be stopped no other. Note, output, errors of each."""
    import program  # made by `main`

    payload, *inputs = file_of(pieces[0]), *pieces[1:]
    limits, most = header["limits"], (header["limits"]["output_kib"] << 10) + 1
    ends, outputs = [], []
    for data in inputs:
        given, note, out, err = file_of(data), file_of(), file_of(), file_of()
        errors = err.fileno() if header["kind"] == "program" else null
        wanted = [given.fileno(), out.fileno(), errors, note.fileno()]
        pid = fork(program.stdio_body, limits, wanted, payload.fileno())
        ends.append(watch(pid, limits, []))
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)  # what it left running
        outputs += [os.pread(file.fileno(), most, 0) for file in (note, out, err)]
        if ends[-1]["end"] != "exit" or ends[-1]["signal"]:
            break
    return ends, outputs


def run_function(header: dict, pieces: "list[bytes]", null: int) -> "tuple[list[dict], list[bytes]]":
    """One process for all cases; the records it wrote."""
    import program

    limits, results, payload = header["limits"], file_of(), file_of(pieces[0])
    wanted = [null, null, null, results.fileno()]
    end = watch(fork(program.function_body, limits, wanted, payload.fileno()), limits, [])
    return [end], [os.pread(results.fileno(), (limits["output_kib"] << 10) + 1, 0)]


def run_check(header: dict, pieces: "list[bytes]", null: int) -> "tuple[list[dict], list[bytes]]":
    """The candidate's process and the test's, over a socket; what the test's process wrote."""
    import checker
    import program

    limits, payload = header["limits"], file_of(pieces[0])
    dumpable(0)
    ours, theirs = socket.socketpair()
    quiet = [null, null, null]
    candidate = fork(program.candidate_body, limits, [*quiet, theirs.fileno()], payload.fileno())
    theirs.close()
    with open(header["stdin"], "rb") as file:
        secret = file_of(file.read())

    def body(payload: int, limits: dict, _) -> None:
        checker._check(payload, 3, limits)  # the verdict takes the test's place
        os._exit(0)

    pid = fork(body, limits, [*quiet, ours.fileno()], secret.fileno(), open_to_all=False)
    ours.close()
    end = watch(pid, limits, [candidate])
    for _ in range(10):  # one that has hung up needs a moment to become a corpse
        if status := status_of(candidate):
            end["other_signal"] = status[1]
            break
        time.sleep(0.005)
    else:
        stop(candidate)
    return [end], [os.pread(secret.fileno(), 1 << 20, 0)]


RUN = {"function": run_function, "check": run_check, "stdio": run_programs, "program": run_programs}


def say(stdout: int, text: str) -> None:
    data = text.encode()
    while data:
        data = data[os.write(stdout, data) :]


def main(packed: str) -> None:
    header, pieces = unpack(packed, 1 << 32)
    nonce, null = header["nonce"], os.open("/dev/null", os.O_RDWR)
    header["stdin"], stdout = (fcntl.fcntl(number, fcntl.F_DUPFD, 64) for number in (0, 1))
    for number in (0, 1):  # candidates hold neither
        os.dup2(null, number)
    say(stdout, f"{nonce} ready {sys.version.split()[0]}\n")
    for name, source in header["sources"].items():
        module = sys.modules[name] = types.ModuleType(name)
        exec(compile(source, name, "exec"), module.__dict__)
    ends, found = RUN[header["kind"]](header, pieces, null)
    text = pack({"ends": ends}, found)
    if len(text) > MOST_PRINTED:
        with open(nonce, "w") as file:
            file.write(text)
        say(stdout, f"{nonce} 0 file end\n")
    else:
        say(stdout, f"{nonce} {len(text)} {text} end\n")
