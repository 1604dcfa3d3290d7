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
import socket
import sys
import time
from collections.abc import Callable

import checker
import confine
import kernel
import namespaces
import program
from clock import Clock
from process import CheckProcess, Process
from workplace import Workplace

COMMON = """
abc bisect builtins collections.abc contextlib copy dataclasses datetime enum functools gc heapq inspect io itertools
json keyword linecache math numbers operator os random re reprlib string sys threading time traceback types typing
"""
"""In every program's process from the start. Each module makes each fork dearer."""
LIBRARY = """
argparse array ast asyncio base64 binascii calendar cmath cmd codecs concurrent.futures csv ctypes decimal difflib
errno fileinput fnmatch fractions getpass glob graphlib hashlib hmac html locale logging multiprocessing opcode
pathlib pickle platform pprint queue sched secrets select shlex shutil signal socket statistics stringprep struct
subprocess tempfile textwrap timeit token tokenize unicodedata unittest urllib.parse uuid warnings weakref zlib
zoneinfo encodings.idna encodings.latin_1 encodings.ascii encodings.utf_16 encodings.utf_32 encodings.cp437
encodings.punycode _strptime _bootlocale concurrent.futures.thread concurrent.futures.process unittest.mock
"""
"""What else programs import: loaded when one first names it; from the start where they may not read its files."""
BODIES = {"function": program.function_body, "stdio": program.stdio_body, "command": program.command_body}
OWN = """
checker clock codec confine kernel landlock namespaces process program tree workplace
"""
DEALT = 8
"""Descriptors 0 to 7 are a program's; between two programs they lead nowhere."""
MODULES = frozenset(LIBRARY.split())


def load(name: str) -> None:
    """Import a module for all programs to come; what it cannot have, a program cannot either."""
    with contextlib.suppress(ImportError):
        importlib.import_module(name)


def preload(packages: list[str], everything: bool) -> None:
    """Import what programs commonly import, and supply what `site` would have."""
    import _sitebuiltins
    import builtins

    for name in [*COMMON.split(), *(LIBRARY.split() if everything else [])]:
        load(name)
    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    sys.path += dict.fromkeys(os.path.dirname(folder) for folder in packages)
    for name in OWN.split():
        del sys.modules[name]
    program.warm()
    gc.collect()
    gc.freeze()


class Server:
    """One worker: `serve` until the caller hangs up."""

    def __init__(self, control: socket.socket, walls: confine.Walls, clock: Clock, packages: list[str]) -> None:
        self.control, self.walls, self.clock = control, walls, clock
        self.packages = [os.path.basename(folder) for folder in packages]
        self.workplace = Workplace(walls.tier == "full")
        walls.allow(self.workplace.top)
        self.null = kernel.high(os.open("/dev/null", os.O_RDWR))
        for place in range(DEALT):
            os.dup2(self.null, place, inheritable=False)
        self.alarm, self.alarm_end = map(kernel.high, os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC))
        self.checker: CheckProcess | None = None

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
            self.fork(lambda *_: os._exit(0), limits, self.walls.uid, folder, self.null, (self.null,) * 4).end()
            self.raise_alarm()
        finally:
            self.workplace.close()

    def raise_alarm(self) -> None:
        """Raise RuntimeError with what a process said that could not be confined, if one could not."""
        with contextlib.suppress(BlockingIOError):
            raise RuntimeError(os.read(self.alarm, 4096).decode())

    def run(self, request: dict, given: list[int]) -> dict:
        """Fork what the request asks for, wait for its end or its deadline, leave nothing behind."""
        kind, limits = request["kind"], request["limits"]
        for name in request["preload"]:
            if name in MODULES or any(name == package or name.startswith(package + ".") for package in self.packages):
                load(name)
        folder = self.workplace.open(self.walls.uid, limits["file_mib"])
        process = None
        try:
            if kind == "check":
                process, reply = self.run_check(limits, folder, given)
            else:
                stdin, stdout, stderr = self.null, self.null, self.null
                if kind == "stdio":
                    stdin, stdout, *rest = given[2:]
                    stderr = rest[0] if rest else self.null
                elif kind == "command":
                    stdout, stderr = given[2:]
                wanted = (stdin, stdout, stderr, given[1])
                process = self.fork(BODIES[kind], limits, self.walls.uid, folder, given[0], wanted)
                reply = self.watch(process, limits)
            self.raise_alarm()
            return reply
        finally:
            self.clear(process, alone=kind != "command" and bool(self.walls.filters))
            self.workplace.close()

    def clear(self, process: Process | None, alone: bool) -> None:
        """End what a request started: a process that could have no descendants, or all there are."""
        if process is not None:
            process.kill()
        if not alone:
            if self.walls.tier != "none":
                self.forget_checker()
            confine.kill_all(self.workplace.private, self.walls.uid, self.checker.pid if self.checker else 0)

    def run_check(self, limits: dict, folder: str, given: list[int]) -> tuple[Process, dict]:
        """The candidate's process, and how the job ended in the check process that calls it over a socket."""
        if self.checker is None or self.checker.limits != limits:
            self.forget_checker()
            self.checker = self.fork_checker(limits)
        tests = self.checker
        ours, theirs = socket.socketpair()
        with ours, theirs:
            quiet = (self.null, self.null, self.null)
            candidate = self.fork(
                program.candidate_body, limits, self.walls.uid, folder, given[0], (*quiet, ours.fileno())
            )
            with contextlib.suppress(OSError):  # a checker that has just ended is seen to below
                tests.start(given[1], theirs.fileno(), given[2])
        started = time.monotonic()
        # the two take turns, so each waits for a processor about as long
        try:
            end = self.wait(tests.control.fileno(), lambda: 2 * self.clock.waited(candidate.fileno()), limits)
        except BaseException:
            candidate.kill()
            raise
        reply = {"end": end, "code": 0, "signal": "", "other_signal": "", "seconds": time.monotonic() - started}
        said = tests.said() if end == "exit" else b""
        if end == "exit" and not said:
            reply["code"], reply["signal"] = tests.end() or (0, "")
        if said != b"done":
            self.forget_checker()
        if end == "exit":  # a candidate that has hung up needs a moment to become a corpse
            reply["other_signal"] = (candidate.end(0.05) or (0, ""))[1]
        return candidate, reply

    def fork_checker(self, limits: dict) -> CheckProcess:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            unmetered = {**limits, "cpu_s": None}  # it counts the processor time of each job itself
            forked = self.fork(
                lambda channel, _: checker.checker_body(channel, limits),
                unmetered,
                self.walls.checker_uid,
                None,
                theirs.fileno(),
                (self.null, self.null, self.null),
            )
        return CheckProcess(forked, limits, ours)

    def forget_checker(self) -> None:
        if self.checker is not None:
            self.checker.kill()
            self.checker = None

    def fork(
        self, body, limits: dict, uid: int | None, folder: str | None, payload: int, wanted: tuple[int, ...]
    ) -> Process:
        """Start `body` in a confined process whose descriptors 0, 1, 2, ... are `wanted`, then `payload`."""
        self.walls.ready(limits, uid)
        program.ready(limits)
        given = (*wanted, payload)
        for place, number in enumerate(given):
            os.dup2(number, place)
        pid = kernel.fork()
        if pid:
            for place in range(len(given)):
                os.dup2(self.null, place, inheritable=False)
            return Process(pid)
        try:
            try:
                self.walls.enter(uid, folder, "tools" if body is program.command_body else "program")
            except Exception as error:
                os.write(self.alarm_end, f"{type(error).__name__}: {error}".encode())
                raise
            os.closerange(len(given), 1 << 20)
            if not self.workplace.private and folder is not None:
                os.environ["TMPDIR"] = folder
            body(len(wanted), limits)
        finally:
            os._exit(70)

    def watch(self, process: Process, limits: dict) -> dict:
        """How a process of one program ended."""
        started = time.monotonic()
        end = self.wait(process.fileno(), lambda: self.clock.waited(process.fileno()), limits)
        reply = {"end": end, "code": 0, "signal": "", "other_signal": "", "seconds": time.monotonic() - started}
        if end == "exit":
            reply["code"], reply["signal"] = process.end() or (0, "")
        return reply

    def wait(self, descriptor: int, waited: Callable[[], float], limits: dict) -> str:
        """Until `descriptor` is readable: by itself (exit), late, told to stop, or with too many files.

        Time `waited` for a processor does not count, up to `most_wall_s`. Raises ConnectionResetError.
        """
        started = time.monotonic()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self.control, select.POLLIN)
        deadline = started + limits["wall_s"]
        while True:
            left = max(deadline - time.monotonic(), 0)
            ready = [number for number, _ in poll.poll(min(left, self.workplace.look_every) * 1000)]
            if descriptor in ready:
                return "exit"
            if ready:
                if not self.control.recv(1):
                    raise ConnectionResetError("the caller hung up")
                return "stopped"
            if self.workplace.overfull(limits["file_mib"]):
                return "files"
            if time.monotonic() < deadline:
                continue
            deadline = started + min(limits["wall_s"] + waited(), limits["most_wall_s"])
            if (more := deadline - time.monotonic()) < 0.01:
                return "timeout"
            self.control.send(json.dumps({"waiting": more}).encode())


def main() -> None:
    control = socket.socket(fileno=kernel.high(int(sys.argv[1])))
    hello = json.loads(control.recv(1 << 16))
    tier, packages = hello["tier"], hello["packages"]
    uid = 0x40000000 + os.getpid() if os.getuid() == 0 and tier != "none" else None
    filters = {name: bytes.fromhex(bpf) for name, bpf in hello["filters"].items()}
    try:
        clock = Clock()
        if tier == "full":
            namespaces.enter_namespaces(packages)
        confine.guard_server(uid, tier == "full")
        walls = confine.Walls(tier, uid, filters, packages)
        preload(packages, everything=tier == "landlock" and uid is not None)
        server = Server(control, walls, clock, packages)
        server.probe(hello["limits"])
        control.send(json.dumps({"ready": walls.describe()}).encode())
    except Exception as error:
        control.send(json.dumps({"broken": f"{type(error).__name__}: {error}"}).encode())
        return
    try:
        server.serve()
    finally:
        server.forget_checker()
        server.workplace.remove()


if __name__ == "__main__":
    main()
