"""The driver that a Sandbox Fusion server runs for one request: it runs candidates in processes of their own.

It is sent as source, followed by a call of `main`, and is the same for every request; it needs only Python 3.10 or
later. The data of the request arrives on standard input in parts, each after a line with its length. The first part is
a header with the sources of SOURCES and the program's payload. Then follows data that only later processes may see,
which is read when they start: the input of each run, or the test of a `check` job after the candidate was forked. The
nonce comes last, when no candidate runs any more. Expected values are not sent, except those inside a test.

The driver prints `ready <version>`, then `<nonce> <length> <base 64> end`. A long result is written to a file named by
the nonce, and the driver prints `<nonce> 0 file end`, because some versions of the server cut standard output at 200
kB. If the driver failed, it prints `<nonce> trouble <reason>`.

A candidate is confined by `Walls`: the layers that a process without privileges can apply to itself, as far as the
server's kernel and container allow. `main` describes what else separates candidates from the driver.
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
"""Exit status of a driver that did not receive all of its input."""
NULL = -1
"""Stands for a process's own open file on /dev/null."""
SOURCES = (
    *("codec", "library_types", "program", "passed", "candidate", "effects", "objects", "connection", "checker"),
    *("waiting", "landlock"),
)
"""Modules of this folder that are sent too; each imports only earlier ones."""
READABLE = ("/bin", "/lib", "/lib64", "/usr", "/opt", "/etc/ld.so.cache", "/etc/alternatives")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def pack(header: dict, pieces: "list[bytes]") -> str:
    """A dictionary and pieces of bytes as ASCII text."""
    front = json.dumps({**header, "sizes": [len(piece) for piece in pieces]}).encode()
    return base64.b64encode(zlib.compress(b"\n".join([front, b"".join(pieces)]))).decode()


def unpack(text: str, most: int) -> "tuple[dict, list[bytes]]":
    """The arguments of `pack`. Raises ValueError for any other text, and beyond `most` bytes."""
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
    """Set the limits of the calling process, never above the server's own."""
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
    """Make this process's memory unreadable to processes of the same user, and delete its source file."""
    with contextlib.suppress(Exception):
        libc().prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    with contextlib.suppress(OSError):
        os.unlink(os.path.abspath(sys.argv[0]))


class Walls:
    """The confinement of one candidate; a layer that is not available here is left out.

    A new folder. No new privileges and no capabilities, so that it cannot read the driver's memory even if the server
    is root. Landlock: it can open Python's own files and its folder. seccomp: no processes, sockets and signals to
    other processes, by the filter of the request, if that is for this kind of processor.
    """

    def __init__(self, seccomp: dict) -> None:
        self.bpf = bytes.fromhex(seccomp["bpf"]) if seccomp.get("machine") == os.uname().machine else b""
        own = os.path.dirname(os.path.abspath(sys.argv[0]))
        paths = [sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), *sys.path]
        self.readable = [*READABLE, *(path for path in paths if path and os.path.realpath(path) != own)]
        self.folder = tempfile.mkdtemp(dir=os.getcwd())

    def close(self) -> None:
        """Apply the layers in the new process, before any untrusted code."""
        import ctypes

        import landlock  # created by `report`

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
    """An open file without a name; a process with access to `folder` may open it again."""
    try:
        number = os.memfd_create("file")
    except (AttributeError, OSError):  # a Python built for old systems
        with tempfile.TemporaryFile(dir=folder) as file:
            number = os.dup(file.fileno())
    while data:
        data = data[os.write(number, data) :]
    os.lseek(number, 0, os.SEEK_SET)
    return number


def fork(body, limits: dict, wanted: "list[int]", payload: int, walls: "Walls | None") -> int:
    """Start `body` in a process whose descriptors 0, 1, 2, ... are `wanted`, then `payload`; `walls` confine a
    candidate."""
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
    """Nanoseconds that each thread of a process was ready without a free processor; see clock.py."""
    waited = {}
    with contextlib.suppress(OSError, ValueError, IndexError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                waited[task] = int(file.read().split()[1])
    return waited


def watch(pids: "list[int]", limits: dict) -> dict:
    """Wait for the first of some new processes, up to its time limit, and return how it ended. Time spent waiting for a
    processor does not count."""
    import waiting  # created by `report`

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
    """Exit status and name of the signal that ended a process; None while it runs."""
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
    """End a process and its process group."""
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
    """The parts of the request on standard input; no byte is read too early."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def next(self) -> str:
        """The next part. Raises ValueError at the end."""
        size = b""
        while not size.endswith(b"\n"):
            size += self._read(1)
        return self._read(int(size)).decode("ascii")

    def piece(self) -> bytes:
        """The only piece of the next part."""
        return unpack(self.next(), 1 << 32)[1][0]

    def _read(self, size: int) -> bytes:
        pieces = []
        while size:
            data = os.read(self.descriptor, min(size, 1 << 20))
            if not data:
                raise ValueError("standard input ended early")
            pieces.append(data)
            size -= len(data)
        return b"".join(pieces)


def run_programs(header: dict, payload: int, parts: Parts) -> "tuple[list[dict], list[bytes]]":
    """One process for each standard input, until one has to be stopped. Returns note, output and errors of each."""
    import program  # created by `report`

    limits, most = header["limits"], (header["limits"]["output_kib"] << 10) + 1
    ends: list = []
    outputs: list = []
    for runs_left in reversed(range(header["runs"])):
        walls = Walls(header["seccomp"])
        given, note, out, err = (file_of(data, walls.folder) for data in (parts.piece(), b"", b"", b""))
        for number in (out, err):
            fcntl.fcntl(number, fcntl.F_SETFL, os.O_APPEND)
        errors = err if header["kind"] == "program" else NULL
        pid = fork(program.stdio_body, limits, [given, out, errors, note], payload, walls)
        ends.append(watch([pid], limits))
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)  # processes that it left running
        outputs += [os.pread(number, most, 0) for number in (note, out, err)]
        for number in (given, note, out, err):
            os.close(number)
        if ends[-1]["end"] != "exit" or ends[-1]["signal"]:
            for _ in range(runs_left):
                parts.next()
            break
    return ends, outputs


def run_function(header: dict, payload: int, parts: Parts) -> "tuple[list[dict], list[bytes]]":
    """One process for all cases. Returns its records."""
    import program

    limits, results = header["limits"], file_of()
    wanted, walls = [NULL, NULL, NULL, results], Walls(header["seccomp"])
    end = watch([fork(program.function_body, limits, wanted, payload, walls)], limits)
    return [end], [os.pread(results, (limits["output_kib"] << 10) + 1, 0)]


def run_check(header: dict, payload: int, parts: Parts) -> "tuple[list[dict], list[bytes]]":
    """The processes of candidate and test, connected by a socket. Returns the data that the test's process wrote."""
    import candidate as candidates
    import checker

    limits, walls, quiet = header["limits"], Walls(header["seccomp"]), [NULL, NULL, NULL]
    test_end, candidate_end = socket.socketpair()

    def body(payload: int, limits: dict, _) -> None:
        checker._seed()
        checker._check(payload, 3, limits)  # the verdict overwrites the test
        os._exit(0)

    candidate, status = fork(candidates.candidate_body, limits, [*quiet, candidate_end.fileno()], payload, walls), None
    try:
        candidate_end.close()
        secret = file_of(parts.piece())
        end = watch([fork(body, limits, [*quiet, test_end.fileno()], secret, None), candidate], limits)
        test_end.close()
        for _ in range(10):  # after closing its socket a process needs a moment to end
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
    """The packed results of the processes, or the reason for their absence."""
    try:
        for name, source in header["sources"].items():
            module = sys.modules[name] = types.ModuleType(name)
            exec(compile(source, name, "exec"), module.__dict__)
        ends, results = RUN[header["kind"]](header, file_of(payload), parts)
        return pack({"ends": ends}, results)
    except Exception as error:  # a failure of the machine, since no candidate's code runs in this process
        return f"trouble {type(error).__name__}: {error}".replace("\n", " ")


def main() -> None:
    """Run the driver.

    A candidate cannot speak for the driver: it has neither of the server's pipes, its confinement separates it from
    this process and its files, and the memory that it inherits from this process contains no nonce, no other input and
    no test.
    """
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
