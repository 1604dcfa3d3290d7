"""The fork server: it takes one request at a time on a socket, forks a confined process for it, and enforces the
deadline.

It is executed with a clean environment and never holds a payload: sources, inputs, outputs and tests are in memfds that
only the forked process opens. So no program can read those of an earlier one in the memory that it inherits.

First packet: JSON {tier, filters: {name: BPF in hex}, packages: [folder], hidden: [folder], linked: [folder], imports:
[module], beside: [folder], trees: [folder], limits, processor: number or null, group: [descriptor, name, version] or
null}; answered by {ready: layers, no_trees: text}. `hidden` are folders that programs must not see, `linked` is where
symbolic links of the standard library lead. `imports` are modules that programs could not import themselves; what they
need may lie in the folders `beside`. `trees` are folders for layer.py, and `no_trees` says why builds cannot have them
(empty: they can). `group` is a control group for builds (group.py).
Request (one packet): JSON {kind, limits, preload: [module], tree: {tree, writable, hidden}} (the last for a build that
has one) and descriptors, by kind
    function  payload, results
    stdio     payload, results (its note), stdin, stdout, stderr
    check     payload, checker's payload and verdict
    command   payload, results, stdout, stderr
Reply: JSON {end: exit|timeout|stopped|files|memory, code, signal, other_signal, seconds, disk_full}, or {broken: text},
or {refused: text} if the tree cannot be given. It follows {waiting: seconds} whenever the deadline is extended by the
time that the program waited for a processor, and before and after modules are imported for it.
A packet, or closing the socket, stops a running program.
"""

import contextlib
import errno
import json
import math
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Iterable

import candidate
import checker
import confine
import kernel
import preloading
import program
from clock import Clock
from group import Group
from layer import Layers
from modes import Modes
from process import CheckProcess, Process, Template
from template import shared, template_body
from tree_memory import TreeMemory
from waiting import EACH_S, Waiting
from workplace import Workplace

IMPORT_S = 120.0
"""Time, in seconds, that the imports which a program names may take together."""
DEALT = 8
"""Descriptors 0 to 7 belong to programs; in the server they are /dev/null."""


class Server:
    """One worker: `serve` runs until the caller closes the socket."""

    def __init__(
        self,
        control: socket.socket,
        walls: confine.Walls,
        clock: Clock,
        packages: list[str],
        trees: list[str],
        group: Group | None,
    ) -> None:
        self.control, self.walls, self.clock, self.group = control, walls, clock, group
        self.layers = Layers(trees, walls.uid)
        walls.grouped = group is not None
        self.packages = [os.path.basename(folder) for folder in packages]
        self.workplace = Workplace(walls.tier == "full")
        walls.allow(self.workplace.top)
        self.null = kernel.high(os.open("/dev/null", os.O_RDWR))
        for place in range(DEALT):
            os.dup2(self.null, place, inheritable=False)
        self.alarm, self.alarm_end = map(kernel.high, os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC))
        self.checker: CheckProcess | None = None
        self.template: Template | None = None

    def serve(self) -> None:
        while True:
            try:
                data, descriptors = self.receive()
            except OSError:
                return
            if not data:
                return
            try:
                self.run(json.loads(data), descriptors)
            except Exception as error:
                with contextlib.suppress(OSError):
                    self.say({"broken": f"{type(error).__name__}: {error}"})
                return
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

    def say(self, reply: dict) -> None:
        self.control.send(json.dumps(reply).encode())

    def receive(self) -> tuple[bytes, list[int]]:
        data, descriptors, _, _ = socket.recv_fds(self.control, 1 << 16, 8)
        return data, descriptors

    def probe(self, limits: dict) -> None:
        """Confine a process as a test. Raises RuntimeError with the reason if a layer fails."""
        folder = self.workplace.open(self.walls.uid, 1)
        try:
            self.program("nothing", limits, folder, [self.null, self.null]).end()
            self.raise_alarm()
        finally:
            self.workplace.close()

    def raise_alarm(self) -> None:
        """Raise RuntimeError with the message of a process that could not be confined, if there is one."""
        with contextlib.suppress(BlockingIOError):
            raise RuntimeError(os.read(self.alarm, 4096).decode())

    def run(self, request: dict, given: list[int]) -> None:
        """Fork the requested process, wait for its end or its deadline, report how it ended, and clean up."""
        kind, limits = request["kind"], request["limits"]
        self.preload(request["preload"], limits["wall_s"])
        try:
            folder = self.workplace.open(self.walls.uid, limits["file_mib"], limits["files"])
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            full = {"end": "stopped", "code": 0, "signal": "", "other_signal": "", "seconds": 0.0, "disk_full": True}
            return self.say(full)
        alone = kind != "command" and bool(self.walls.filters)
        process, modes, reply = None, None, {"end": ""}
        try:
            if "tree" in request:
                try:
                    self.layers.open(**request["tree"], size_mib=limits["file_mib"], folder=folder)
                except (OSError, ValueError) as error:
                    early = True
                    return self.say({"refused": f"the layer of {request['tree']['tree']}: {error}"})
            if kind == "check":
                process, reply = self.run_check(limits, folder, given)
            else:
                payload, channel, *streams = given
                if kind == "command":
                    process, modes = self.build(limits, folder, [channel, payload, *streams])
                else:
                    process = self.program(kind, limits, folder, [channel, payload, *streams])
                reply = self.watch(process, limits, modes, kind == "command")
            self.raise_alarm()
            self.workplace.look(limits["file_mib"])
            reply["disk_full"] = self.workplace.short
            # if no process is left that could change the results, the caller may continue during the clean-up
            early = alone and reply["end"] == "exit"
            if early:
                self.say(reply)
        finally:
            self.clear(process, alone)
            if modes is not None:
                modes.close()
            self.layers.close()
            self.workplace.close()
        if not early:
            self.say(reply)

    def preload(self, names: list[str], wall_s: float) -> None:
        """Import what a program names, for it and for those after it. The caller's patience does not pay for this: a
        first import from a slow disk may take longer than the program has."""
        missing = [name for name in names if name not in sys.modules and self.has(name)]
        if not missing:
            return
        self.say({"waiting": IMPORT_S})
        for name in missing:
            preloading.load(name)
        self.forget_template()
        self.forget_checker()  # a checker that may not read the library has only the server's modules
        self.say({"waiting": wall_s})

    def build(self, limits: dict, folder: str, descriptors: list[int]) -> tuple[Process, Modes | None]:
        """A build's process, in its control group; with `Walls.asking` its changes of file modes are submitted to the
        server."""
        members = []
        if self.group is not None:
            self.group.start(limits)
            members = [self.group.members]
        if not self.walls.asking:
            return self.program("command", limits, folder, [*descriptors, *members]), None
        server_end, build_end = socket.socketpair()
        with server_end:
            with build_end:
                process = self.program("command", limits, folder, [*descriptors, build_end.fileno(), *members])
            _, listeners, _, _ = socket.recv_fds(server_end, 16, 1)  # none if it could not be confined
        return process, Modes(listeners[0], folder) if listeners else None

    def has(self, name: str) -> bool:
        """Whether programs may import the module."""
        return name in preloading.MODULES or any(
            name == package or name.startswith(package + ".") for package in self.packages
        )

    def clear(self, process: Process | None, alone: bool) -> None:
        """End the processes of a request: one that cannot have descendants, or all descendants."""
        if process is not None:
            process.kill()
        if not alone:
            if self.walls.tier != "none":
                self.forget_checker()
                self.forget_template()
            keep = {process.pid for process in (self.checker, self.template) if process is not None}
            confine.kill_all(self.workplace.private, self.walls.uid, keep)

    def run_check(self, limits: dict, folder: str, given: list[int]) -> tuple[Process, dict]:
        """The candidate's process, and how the job ended in the check process, which calls the candidate over a
        socket."""
        if self.checker is None or self.checker.limits != limits:
            self.forget_checker()
            self.checker = self.fork_checker(limits)
        tests = self.checker
        candidate_end, test_end = socket.socketpair()
        with candidate_end, test_end:
            candidate = self.program("candidate", limits, folder, [candidate_end.fileno(), given[0]])
            with contextlib.suppress(OSError):  # a checker that has just ended is handled below
                tests.start(given[1], test_end.fileno())
        started, threads = time.monotonic(), self.clock.threads
        waiting = Waiting([lambda: threads(candidate.fileno())], [lambda: threads(tests.fileno())])
        try:
            end = self.wait(tests.control.fileno(), waiting, limits)
        except BaseException:
            candidate.kill()
            raise
        reply = {"end": end, "code": 0, "signal": "", "other_signal": "", "seconds": time.monotonic() - started}
        status, word = tests.answer() if end == "exit" else ("", "")
        if end == "exit" and not status:
            reply["code"], reply["signal"] = tests.end() or (0, "")
        if status != "done":
            self.forget_checker()
        if end == "exit" and word != "pass":
            # after closing its socket a candidate needs a moment to end
            reply["other_signal"] = (candidate.end(0.5) or (0, ""))[1]
        return candidate, reply

    def program(self, kind: str, limits: dict, folder: str, descriptors: list[int]) -> Process:
        """A program's process, forked from the template for its limits."""
        if self.template is None or self.template.limits != shared(limits):
            self.forget_template()
            self.template = self.fork_template(limits)
        cpu = math.ceil(limits["cpu_s"])
        try:
            return self.template.fork(f"{kind} {cpu} {self.walls.processes(limits)} {folder}", descriptors)
        except (OSError, ValueError):
            self.raise_alarm()
            raise

    def fork_template(self, limits: dict) -> Template:
        tools = program.Tools(limits)
        tools.kept = candidate.Kept(tools.most)

        def body(channel: int) -> None:
            template_body(channel, limits, self.walls, self.alarm_end, tools)

        forked, control = self.fork(body, limits)
        return Template(forked, shared(limits), control)

    def forget_template(self) -> None:
        if self.template is not None:
            self.template.kill()
            self.template = None

    def fork_checker(self, limits: dict) -> CheckProcess:
        most = self.walls.processes(limits)  # which the process could not read itself

        def body(channel: int) -> None:
            # no limit of processor time here: the checker limits each job itself
            self.walls.close(self.walls.checker_uid, -1, most, "program")
            os.close(self.alarm_end)
            checker.checker_body(channel, limits)

        forked, control = self.fork(body, limits)
        return CheckProcess(forked, limits, control)

    def forget_checker(self) -> None:
        if self.checker is not None:
            self.checker.kill()
            self.checker = None

    def fork(self, body: Callable[[int], None], limits: dict) -> tuple[Process, socket.socket]:
        """Start `body` with the first layers of confinement; returns its process and the other end of its socket."""
        own_end, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other_end:
            pid = kernel.fork()
            if pid:
                return Process(pid), own_end
            try:  # descriptors below DEALT are in use until here, so that they are free in a template
                program.set_streams()
                self.walls.close_files(limits)
                kept = other_end.fileno(), self.alarm_end
                for above, below in zip((2, *kept), (*kept, 1 << 20), strict=True):
                    os.closerange(above + 1, below)
                body(other_end.fileno())
            except Exception as error:
                os.write(self.alarm_end, f"{type(error).__name__}: {error}".encode())
            finally:
                os._exit(70)

    def watch(self, process: Process, limits: dict, modes: Modes | None, build: bool) -> dict:
        """Wait for a program's process and return how it ended. The memory of all processes of a build is watched."""
        threads = self.clock.tree if build else self.clock.threads  # a build waits where one of its compilers does
        started, waiting = time.monotonic(), Waiting([lambda: threads(process.fileno())])
        tree = (self.group or self.watched_tree(limits)) if build else None
        end = self.wait(process.fileno(), waiting, limits, modes, tree)
        if tree is not None and end == "exit" and tree.was_ended():
            end = "memory"
        reply = {"end": end, "code": 0, "signal": "", "other_signal": "", "seconds": time.monotonic() - started}
        if end == "exit":
            reply["code"], reply["signal"] = process.end() or (0, "")
        return reply

    def watched_tree(self, limits: dict) -> TreeMemory:
        """The memory of a build's processes where there is no control group."""
        others = [kept.fileno() for kept in (self.checker, self.template) if kept is not None]

        def send(number: int, pids: Iterable[str]) -> None:
            confine.send(number, self.workplace.private, self.walls.uid, map(int, pids))

        return TreeMemory(self.clock, others, self.walls.uid, limits, send)

    def wait(
        self,
        descriptor: int,
        waiting: Waiting,
        limits: dict,
        modes: Modes | None = None,
        tree: TreeMemory | Group | None = None,
    ) -> str:
        """Wait until `descriptor` is readable (exit), the deadline (timeout), a request to stop (stopped), too many
        files (files), or too much memory of a tree of processes (memory). Meanwhile `modes` answers calls.

        Time spent `waiting` for a processor does not count, up to `most_wall_s`. Raises ConnectionResetError.
        """
        started = time.monotonic()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self.control, select.POLLIN)
        if modes is not None:
            poll.register(modes, select.POLLIN)
        deadline = started + min(limits["wall_s"], limits["most_wall_s"])
        while True:
            left = max(deadline - time.monotonic(), 0)
            pause = min(left, self.workplace.look_every, EACH_S if tree is None else tree.look_every)
            ready = [number for number, _ in poll.poll(pause * 1000)]
            if descriptor in ready:
                return "exit"
            if self.control.fileno() in ready:
                if not self.control.recv(1):
                    raise ConnectionResetError("the caller hung up")
                return "stopped"
            if ready and modes is not None:
                modes.answer()
            if self.workplace.overfull(limits["file_mib"]):
                return "files"
            if tree is not None and tree.too_large():
                return "memory"
            if time.monotonic() < deadline:
                waiting.look(EACH_S)
                continue
            deadline = started + min(limits["wall_s"] + waiting.look(0.0), limits["most_wall_s"])
            if (more := deadline - time.monotonic()) < 0.01:
                return "timeout"
            self.say({"waiting": more})
