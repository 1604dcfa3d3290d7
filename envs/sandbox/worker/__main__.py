"""The fork server: takes one request at a time on a socket, forks a confined process for it, keeps the
deadline.

It is executed fresh with a clean environment and holds no payload: sources, inputs, outputs and tests travel
in memfds that only the forked process opens, so no program finds an earlier one's in the memory it was forked
with.

First packet: JSON {tier, filters: {name: BPF in hex}, packages: [folder], limits}; answered by {ready: layers}.
Request (one packet): JSON {kind, limits, preload: [module]} and descriptors, by kind
    function  payload, results
    stdio     payload, results (its note), stdin, stdout, stderr
    check     payload, checker's payload, checker's verdict
    command   payload, results, stdout, stderr
Reply: JSON {end: exit|timeout|stopped|files, code, signal, other_signal, seconds}, or {broken: text}; before it, for
each second beyond the wall limit that the program waited for a processor, {waiting: seconds}.
A packet or a hang-up while a program runs stops it.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time

import confine
import namespaces
import program
from clock import Clock
from workplace import Workplace

PRELOAD = """
abc argparse array ast asyncio base64 binascii bisect builtins calendar cmath cmd codecs collections.abc
concurrent.futures contextlib copy csv ctypes dataclasses datetime decimal difflib enum errno fnmatch
fractions functools gc getpass glob graphlib hashlib heapq hmac html inspect io itertools json keyword
linecache locale logging math multiprocessing numbers opcode operator os pathlib pickle platform pprint
queue random re reprlib sched secrets select shlex shutil signal socket statistics string stringprep struct
subprocess sys tempfile textwrap threading time timeit token tokenize traceback types typing unicodedata
unittest urllib.parse uuid warnings weakref zlib zoneinfo encodings.idna encodings.latin_1 encodings.ascii
encodings.utf_16 encodings.utf_32 encodings.cp437 encodings.punycode _strptime _bootlocale
concurrent.futures.thread concurrent.futures.process unittest.mock
"""
BODIES = {"function": program.function_body, "stdio": program.stdio_body, "command": program.command_body}
OWN = ("clock", "codec", "confine", "kernel", "landlock", "namespaces", "program", "tree", "workplace")


def load(name: str) -> None:
    """Import a module for all programs to come; what it cannot have, a program cannot either."""
    with contextlib.suppress(ImportError):
        importlib.import_module(name)


def preload(packages: list[str]) -> None:
    """Import what programs commonly import, and supply what `site` would have."""
    import _sitebuiltins
    import builtins

    for name in PRELOAD.split():
        load(name)
    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    sys.path += dict.fromkeys(os.path.dirname(folder) for folder in packages)
    for name in OWN:
        del sys.modules[name]
    gc.collect()
    gc.freeze()


class Server:
    """One worker: `serve` until the caller hangs up."""

    def __init__(self, control: socket.socket, walls: confine.Walls, clock: Clock) -> None:
        self.control, self.walls, self.clock = control, walls, clock
        self.workplace = Workplace(walls.tier == "full")
        self.null = os.open("/dev/null", os.O_RDWR)
        self.alarm, self.alarm_end = os.pipe2(os.O_NONBLOCK)

    def serve(self) -> None:
        while True:
            try:
                data, descriptors = self.receive()
            except OSError:
                return
            if not data:
                return
            try:
                request = json.loads(data)
                reply = self.run(request, descriptors)
            except Exception as error:
                reply = {"broken": f"{type(error).__name__}: {error}"}
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            try:
                self.control.send(json.dumps(reply).encode())
            except OSError:
                return
            if "broken" in reply:
                return

    def receive(self) -> tuple[bytes, list[int]]:
        data, descriptors, _, _ = socket.recv_fds(self.control, 1 << 16, 8)
        return data, descriptors

    def probe(self, limits: dict) -> None:
        """Put a process behind the walls. Raises RuntimeError with the reason where one of them does not hold."""
        folder = self.workplace.open(self.walls.uid, 1)
        try:
            self.fork(lambda *_: os._exit(0), limits, self.walls.uid, folder, self.null, (self.null,) * 4)
            os.wait()
            self.raise_alarm()
        finally:
            self.workplace.close()

    def raise_alarm(self) -> None:
        """Raise RuntimeError with what a process said that could not be confined, if one could not."""
        with contextlib.suppress(BlockingIOError):
            raise RuntimeError(os.read(self.alarm, 4096).decode())

    def run(self, request: dict, given: list[int]) -> dict:
        """Fork what the request asks for, wait for its end or its deadline, leave nothing behind."""
        limits, uid = request["limits"], self.walls.uid
        for name in request["preload"]:
            load(name)
        folder = self.workplace.open(uid, limits["file_mib"])
        try:
            if request["kind"] == "check":
                pids = self.fork_check(limits, folder, given)
            else:
                stdin, stdout, stderr = self.null, self.null, self.null
                if request["kind"] == "stdio":
                    stdin, stdout, *rest = given[2:]
                    stderr = rest[0] if rest else self.null
                elif request["kind"] == "command":
                    stdout, stderr = given[2:]
                wanted = (stdin, stdout, stderr, given[1])
                pids = [self.fork(BODIES[request["kind"]], limits, uid, folder, given[0], wanted)]
            reply = self.watch(pids, limits)
            self.raise_alarm()
            return reply
        finally:
            confine.kill_all(self.workplace.private, self.walls.uids)
            self.workplace.close()

    def fork_check(self, limits: dict, folder: str, given: list[int]) -> list[int]:
        """The check process, and the candidate that it calls over a socket."""
        ours, theirs = socket.socketpair()
        quiet = (self.null, self.null, self.null)
        with ours, theirs:
            candidate = self.fork(
                program.candidate_body, limits, self.walls.uid, folder, given[0], (*quiet, ours.fileno())
            )
            wanted = (*quiet, theirs.fileno(), given[2])
            checker = self.fork(program.check_body, limits, self.walls.checker_uid, None, given[1], wanted)
        return [checker, candidate]

    def fork(
        self, body, limits: dict, uid: int | None, folder: str | None, payload: int, wanted: tuple[int, ...]
    ) -> int:
        """Start `body` in a confined process whose descriptors 0, 1, 2, ... are `wanted`, then `payload`."""
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            high = [os.dup2(number, 200 + place) for place, number in enumerate((*wanted, payload, self.alarm_end))]
            for place, number in enumerate(high):
                os.dup2(number, place, inheritable=True)
            os.closerange(len(high), 1 << 20)
            try:
                os.chdir(folder or "/")
                writable = self.workplace.writable if folder else None
                self.walls.enter(limits, uid, writable, "tools" if body is program.command_body else "program")
            except Exception as error:
                os.write(len(high) - 1, f"{type(error).__name__}: {error}".encode())
                raise
            os.close(len(high) - 1)
            if not self.workplace.private and folder is not None:
                os.environ["TMPDIR"] = folder
            body(len(wanted), limits)
        finally:
            os._exit(70)

    def watch(self, pids: list[int], limits: dict) -> dict:
        """Wait for the first of `pids`; the second (a check's candidate) is only asked how it ended."""
        started = time.monotonic()
        descriptors = [os.pidfd_open(pid) for pid in pids]
        try:
            end = self.wait(descriptors, limits, started)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        reply = {"end": end, "code": 0, "signal": "", "other_signal": "", "seconds": time.monotonic() - started}
        if end == "exit":
            reply["code"], reply["signal"] = _ended(os.waitpid(pids[0], 0)[1])
            reply["other_signal"] = _ended_soon(pids[1]) if pids[1:] else ""
        return reply

    def wait(self, descriptors: list[int], limits: dict, started: float) -> str:
        """How it ended: by itself (exit), late, told to stop, or with too many files. Raises ConnectionResetError.

        Time in which the processes waited for a processor does not count, up to `most_wall_s`.
        """
        poll = select.poll()
        poll.register(descriptors[0], select.POLLIN)
        poll.register(self.control, select.POLLIN)
        deadline = started + limits["wall_s"]
        while True:
            left = max(deadline - time.monotonic(), 0)
            ready = [number for number, _ in poll.poll(min(left, self.workplace.look_every) * 1000)]
            if descriptors[0] in ready:
                return "exit"
            if ready:
                if not self.control.recv(1):
                    raise ConnectionResetError("the caller hung up")
                return "stopped"
            if self.workplace.overfull(limits["file_mib"]):
                return "files"
            if time.monotonic() < deadline:
                continue
            waited = sum(self.clock.waited(descriptor) for descriptor in descriptors)
            deadline = started + min(limits["wall_s"] + waited, limits["most_wall_s"])
            if (more := deadline - time.monotonic()) < 0.01:
                return "timeout"
            self.control.send(json.dumps({"waiting": more}).encode())


def _ended_soon(pid: int) -> str:
    """The signal that ended a candidate that has hung up; it needs a moment to become a corpse."""
    descriptor = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([descriptor], [], [], 0.05)
    finally:
        os.close(descriptor)
    return _ended(os.waitpid(pid, 0)[1])[1] if ready else ""


def _ended(status: int) -> tuple[int, str]:
    """Exit status and name of the signal that ended a process."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code, ""
    try:
        return 0, signal.Signals(-code).name
    except ValueError:
        return 0, f"signal {-code}"


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    hello = json.loads(control.recv(1 << 16))
    tier, packages = hello["tier"], hello["packages"]
    uid = 0x40000000 + os.getpid() if os.getuid() == 0 and tier != "none" else None
    filters = {name: bytes.fromhex(bpf) for name, bpf in hello["filters"].items()}
    try:
        clock = Clock()
        if tier == "full":
            namespaces.enter_namespaces(packages)
        confine.guard_server()
        walls = confine.Walls(tier, uid, filters, packages)
        preload(packages)
        server = Server(control, walls, clock)
        server.probe(hello["limits"])
        control.send(json.dumps({"ready": walls.describe()}).encode())
    except Exception as error:
        control.send(json.dumps({"broken": f"{type(error).__name__}: {error}"}).encode())
        return
    server.serve()


if __name__ == "__main__":
    main()
