"""The fork server: takes one request at a time on a socket, forks a confined process for it, keeps the
deadline.

It is executed fresh with a clean environment and holds no payload: sources, inputs, outputs and tests travel
in memfds that only the forked process opens, so no program finds an earlier one's in the memory it was forked
with.

Request (one packet): JSON {kind, limits} and descriptors, by kind
    function  payload, results            stdio  payload, results (its note), stdin, stdout
    check     payload, checker's payload, checker's verdict
Reply: JSON {end: exit|timeout|stopped, code, signal, other_signal, seconds}, or {broken: text}.
A packet or a hang-up while a program runs stops it.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time

import confine
import program

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
BODIES = {"function": program.function_body, "stdio": program.stdio_body}


def preload() -> None:
    """Import what programs commonly import, and supply what `site` would have."""
    import _sitebuiltins
    import builtins
    import importlib

    for name in PRELOAD.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    for name in ("codec", "confine", "program"):
        del sys.modules[name]
    gc.collect()
    gc.freeze()


class Server:
    """One worker: `serve` until the caller hangs up."""

    def __init__(self, control: socket.socket, private: bool, uid: int | None) -> None:
        self.control = control
        self.private = private
        self.uid = uid
        self.checker_uid = None if uid is None else uid ^ (1 << 29)
        self.workplace = confine.Workplace(private)
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

    def run(self, request: dict, given: list[int]) -> dict:
        """Fork what the request asks for, wait for its end or its deadline, leave nothing behind."""
        limits = request["limits"]
        folder = self.workplace.open(self.uid, limits["file_mib"])
        started = time.monotonic()
        try:
            other = None
            if request["kind"] == "check":
                ours, theirs = socket.socketpair()
                with ours, theirs:
                    other = self.fork(
                        program.candidate_body,
                        limits,
                        self.uid,
                        folder,
                        given[0],
                        (self.null, self.null, self.null, ours.fileno()),
                    )
                    main = self.fork(
                        program.check_body,
                        limits,
                        self.checker_uid,
                        "/",
                        given[1],
                        (self.null, self.null, self.null, theirs.fileno(), given[2]),
                    )
            else:
                stdio = tuple(given[2:4]) if request["kind"] == "stdio" else (self.null, self.null)
                main = self.fork(
                    BODIES[request["kind"]], limits, self.uid, folder, given[0], (*stdio, self.null, given[1])
                )
            reply = self.watch(main, other, started + limits["wall_s"], started)
            with contextlib.suppress(BlockingIOError):
                raise RuntimeError(os.read(self.alarm, 4096).decode())
            return reply
        finally:
            confine.kill_all(self.private, [uid for uid in (self.uid, self.checker_uid) if uid is not None])
            self.workplace.close()

    def fork(self, body, limits: dict, uid: int | None, folder: str, payload: int, wanted: tuple[int, ...]) -> int:
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
                confine.confine(limits, uid, folder)
            except Exception as error:
                os.write(len(high) - 1, f"{type(error).__name__}: {error}".encode())
                raise
            os.close(len(high) - 1)
            if not self.private:
                os.environ["TMPDIR"] = folder
            body(len(wanted), limits)
        finally:
            os._exit(70)

    def watch(self, main: int, other: int | None, deadline: float, started: float) -> dict:
        """Wait for `main`; `other` (a check's candidate) is only asked how it ended."""
        descriptor = os.pidfd_open(main)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self.control, select.POLLIN)
        try:
            left = max(deadline - time.monotonic(), 0)
            ready = [number for number, _ in poll.poll(left * 1000)]
        finally:
            os.close(descriptor)
        seconds = time.monotonic() - started
        if descriptor not in ready:
            if self.control.fileno() in ready and not self.control.recv(1):
                raise ConnectionResetError("the caller hung up")
            return {
                "end": "stopped" if ready else "timeout",
                "code": 0,
                "signal": "",
                "other_signal": "",
                "seconds": seconds,
            }
        code, ended_by = _ended(os.waitpid(main, 0)[1])
        other_ended_by = _ended_soon(other) if other is not None else ""
        return {
            "end": "exit",
            "code": code,
            "signal": ended_by,
            "other_signal": other_ended_by,
            "seconds": seconds,
        }


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
    tier = sys.argv[2]
    uid = 0x40000000 + os.getpid() if os.getuid() == 0 and tier != "plain" else None
    try:
        if tier not in ("namespaces", "uid", "plain"):
            raise ValueError(f"no such confinement: {tier}")
        if tier == "uid" and uid is None:
            raise PermissionError("only root can give programs a uid of their own")
        if tier == "namespaces":
            confine.enter_namespaces()
        confine.guard_server()
        preload()
        server = Server(control, tier == "namespaces", uid)
        control.send(json.dumps({"ready": confine.describe(tier, uid)}).encode())
    except Exception as error:
        control.send(json.dumps({"broken": f"{type(error).__name__}: {error}"}).encode())
        return
    server.serve()


if __name__ == "__main__":
    main()
