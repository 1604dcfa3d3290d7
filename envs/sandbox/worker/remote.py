"""The driver that a Sandbox Fusion server runs for one request: candidates in processes of their own.

It is sent as source, a call of `main` behind it, the same for every request; it needs nothing else but Python 3.10 or
later. What the request is about comes by standard input, in parts, each after its length on a line: first a header with
the sources of SOURCES and the program's payload; then what only later processes may see, read when it is their turn:
the input of each run, or the test of a `check` job once the candidate has been forked; last, when no candidate is left,
the nonce. Expected values are not in what it is sent, but for those that a test holds.

It prints `ready <version>`, then `<nonce> <length> <base 64> end` or, where that is long, puts it into a file named by
the nonce and prints `<nonce> 0 file end`: some versions of the server cut standard output at 200 kB. Where it could not
do its work it prints `<nonce> trouble <why>`.

A candidate's walls (`Walls`) are those that a process without rights can raise around itself, as far as the server's
kernel and container allow; `main` says what else keeps candidates from the driver.
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
INPUT_CUT = 71
"""Exit status of a driver that was not sent all of its input."""
NULL = -1
"""Stands for an open file of a process's own on /dev/null."""
SOURCES = ("codec", "program", "checker", "waiting", "landlock")
"""Modules beside this one that are sent with it; each imports only those before it."""
READABLE = ("/bin", "/lib", "/lib64", "/usr", "/opt", "/etc/ld.so.cache", "/etc/alternatives")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


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


def libc():
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def hide() -> None:
    """Let no process of the same user look into this one, and leave no source of it behind."""
    with contextlib.suppress(Exception):
        libc().prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    with contextlib.suppress(OSError):
        os.unlink(os.path.abspath(sys.argv[0]))


class Walls:
    """Around one candidate, as far as they can be had here; what cannot leaves the others.

    A new folder. No new privileges and no capabilities: it may not look into the driver, even where the server is root.
    Landlock: it opens what Python is made of and its own folder. seccomp: no processes, sockets and signals to others,
    in the filter that the request brought, if it was made for this kind of processor.
    """

    def __init__(self, seccomp: dict) -> None:
        self.bpf = bytes.fromhex(seccomp["bpf"]) if seccomp.get("machine") == os.uname().machine else b""
        own = os.path.dirname(os.path.abspath(sys.argv[0]))
        found = [sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), *sys.path]
        self.readable = [*READABLE, *(path for path in found if path and os.path.realpath(path) != own)]
        self.folder = tempfile.mkdtemp(dir=os.getcwd())

    def close(self) -> None:
        """Called in the new process before any untrusted code."""
        import ctypes

        import landlock  # made by `main`

        call = libc()
        call.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
        with contextlib.suppress(OSError, ValueError):
            if version := landlock.version():
                landlock.restrict(landlock.ruleset(version, self.readable, DEVICES, self.folder))
        call.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
        if self.bpf:
            instructions = ctypes.create_string_buffer(self.bpf, len(self.bpf))
            program = (ctypes.c_uint64 * 2)(len(self.bpf) // 8, ctypes.addressof(instructions))
            call.prctl(22, 2, ctypes.byref(program), 0, 0)  # PR_SET_SECCOMP


def file_of(data: bytes = b"", folder: "str | None" = None) -> int:
    """An open file without a name, which one who may open what is in `folder` may open anew."""
    try:
        number = os.memfd_create("file")
    except (AttributeError, OSError):  # a Python that was built for old systems
        with tempfile.TemporaryFile(dir=folder) as file:
            number = os.dup(file.fileno())
    while data:
        data = data[os.write(number, data) :]
    os.lseek(number, 0, os.SEEK_SET)
    return number


def fork(body, limits: dict, wanted: "list[int]", payload: int, walls: "Walls | None") -> int:
    """Start `body` in a process whose descriptors 0, 1, 2, ... are `wanted`, then `payload`; a candidate's behind
    `walls`."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        os.chdir(walls.folder if walls else "/")
        given = [
            fcntl.fcntl(os.open("/dev/null", os.O_RDWR) if number == NULL else number, fcntl.F_DUPFD, 64)
            for number in (*wanted, payload)
        ]
        for place, number in enumerate(given):
            os.dup2(number, place)
        os.closerange(len(given), 1 << 16)
        program = sys.modules["program"]
        program.set_streams()
        tools = program.Tools(limits)
        if walls:
            os.environ["TMPDIR"] = tempfile.tempdir = walls.folder
            walls.close()
        for name in SOURCES:
            sys.modules.pop(name, None)
        set_limits(limits)
        body(len(wanted), limits, tools)
    finally:
        os._exit(70)


def threads(pid: int) -> "dict[str, int]":
    """Nanoseconds that each thread of a process stood ready while no processor was free; see clock.py."""
    found = {}
    with contextlib.suppress(OSError, ValueError, IndexError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                found[task] = int(file.read().split()[1])
    return found


def watch(pids: "list[int]", limits: dict) -> dict:
    """Wait for the first of some new processes, not longer than they may take; how it ended. Time waited for a
    processor does not count."""
    import waiting  # made by `main`

    started, pause, pid = time.monotonic(), 0.0005, pids[0]
    waited = waiting.Waiting([lambda pid=pid: threads(pid) for pid in pids])
    end: dict = {"end": "exit", "code": 0, "signal": "", "other_signal": "", "seconds": 0.0}
    while (status := status_of(pid)) is None:
        passed = time.monotonic() - started
        late = passed >= limits["wall_s"]
        if passed >= min(limits["wall_s"] + waited.look(0.0 if late else waiting.EACH_S), limits["most_wall_s"]):
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


class Parts:
    """What the request brings by standard input, one after another, and no byte too early."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def next(self) -> str:
        """Raises ValueError at the end."""
        size = b""
        while not size.endswith(b"\n"):
            size += self._read(1)
        return self._read(int(size)).decode("ascii")

    def piece(self) -> bytes:
        """A part with one piece of bytes."""
        return unpack(self.next(), 1 << 32)[1][0]

    def _read(self, size: int) -> bytes:
        found = []
        while size:
            data = os.read(self.descriptor, min(size, 1 << 20))
            if not data:
                raise ValueError("standard input ended early")
            found.append(data)
            size -= len(data)
        return b"".join(found)


def run_programs(header: dict, payload: int, parts: Parts) -> "tuple[list[dict], list[bytes]]":
    """A process for each standard input; after one that had to be stopped no other. Note, output, errors of each."""
    import program  # made by `main`

    limits, most = header["limits"], (header["limits"]["output_kib"] << 10) + 1
    ends: list = []
    outputs: list = []
    for left in reversed(range(header["runs"])):
        walls = Walls(header["seccomp"])
        given, note, out, err = (file_of(data, walls.folder) for data in (parts.piece(), b"", b"", b""))
        for number in (out, err):
            fcntl.fcntl(number, fcntl.F_SETFL, os.O_APPEND)
        errors = err if header["kind"] == "program" else NULL
        pid = fork(program.stdio_body, limits, [given, out, errors, note], payload, walls)
        ends.append(watch([pid], limits))
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)  # what it left running
        outputs += [os.pread(number, most, 0) for number in (note, out, err)]
        for number in (given, note, out, err):
            os.close(number)
        if ends[-1]["end"] != "exit" or ends[-1]["signal"]:
            for _ in range(left):
                parts.next()
            break
    return ends, outputs


def run_function(header: dict, payload: int, parts: Parts) -> "tuple[list[dict], list[bytes]]":
    """One process for all cases; the records it wrote."""
    import program

    limits, results = header["limits"], file_of()
    wanted, walls = [NULL, NULL, NULL, results], Walls(header["seccomp"])
    end = watch([fork(program.function_body, limits, wanted, payload, walls)], limits)
    return [end], [os.pread(results, (limits["output_kib"] << 10) + 1, 0)]


def run_check(header: dict, payload: int, parts: Parts) -> "tuple[list[dict], list[bytes]]":
    """The candidate's process and the test's, over a socket; what the test's process wrote."""
    import checker
    import program

    limits, walls, quiet = header["limits"], Walls(header["seccomp"]), [NULL, NULL, NULL]
    ours, theirs = socket.socketpair()

    def body(payload: int, limits: dict, _) -> None:
        checker._seed()
        checker._check(payload, 3, limits)  # the verdict takes the test's place
        os._exit(0)

    candidate, status = fork(program.candidate_body, limits, [*quiet, theirs.fileno()], payload, walls), None
    try:
        theirs.close()
        secret = file_of(parts.piece())
        end = watch([fork(body, limits, [*quiet, ours.fileno()], secret, None), candidate], limits)
        ours.close()
        for _ in range(10):  # one that has hung up needs a moment to become a corpse
            if status := status_of(candidate):
                end["other_signal"] = status[1]
                break
            time.sleep(0.005)
    finally:
        if status is None:
            stop(candidate)
    return [end], [os.pread(secret, 1 << 20, 0)]


RUN = {"function": run_function, "check": run_check, "stdio": run_programs, "program": run_programs}


def say(stdout: int, text: str) -> None:
    data = text.encode()
    while data:
        data = data[os.write(stdout, data) :]


def report(header: dict, payload: bytes, parts: Parts) -> str:
    """What the processes left behind, packed, or why there is nothing."""
    try:
        for name, source in header["sources"].items():
            module = sys.modules[name] = types.ModuleType(name)
            exec(compile(source, name, "exec"), module.__dict__)
        ends, found = RUN[header["kind"]](header, file_of(payload), parts)
        return pack({"ends": ends}, found)
    except Exception as error:  # the machine's fault: no candidate's code runs in this process
        return f"trouble {type(error).__name__}: {error}".replace("\n", " ")


def main() -> None:
    """What keeps a candidate from speaking for the driver: it holds neither of the server's pipes, its walls keep it
    from this process and its files, and what it has of this process's memory, having been forked from it, knows no
    nonce, no other input and no test."""
    hide()
    stdin, stdout = (fcntl.fcntl(number, fcntl.F_DUPFD, 64) for number in (0, 1))
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)
    parts = Parts(stdin)
    header, [payload] = unpack(parts.next(), 1 << 32)
    say(stdout, f"ready {sys.version.split()[0]}\n")
    text = report(header, payload, parts)
    try:
        nonce = parts.next()
    except ValueError:
        sys.exit(INPUT_CUT)
    if text.startswith("trouble "):
        say(stdout, f"{nonce} {text}\n")
    elif len(text) > MOST_PRINTED:
        with open(nonce, "w") as file:
            file.write(text)
        say(stdout, f"{nonce} 0 file end\n")
    else:
        say(stdout, f"{nonce} {len(text)} {text} end\n")
