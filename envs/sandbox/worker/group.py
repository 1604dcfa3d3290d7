"""A control group that limits the memory of a build's processes; envs/sandbox/memory_group.py creates it."""

import contextlib
import os

import kernel

KERNEL_MIB = 64
"""What the kernel itself may need for a build: tables of pages, files that are mapped."""
EACH_KIB = 512
"""The same for each process."""
LOOK_S = 0.02
"""Seconds between two looks."""


def join(hello: list | None) -> "Group | None":
    """The group that the caller has made for this server; None if there is none."""
    with contextlib.suppress(OSError):
        return Group(*hello) if hello else None
    return None


class Group:
    """The group of one server.

    The kernel also counts the files in memory (a tmpfs, captured output), so its limit is larger than `memory_mib`,
    and the memory of the processes themselves is compared with `memory_mib` at each look.

    Args:
        parent: descriptor of the folder that has the group.
        name: its name there.
        version: of the kernel's control groups, 1 or 2.

    Raises OSError if it is not there. Whether processes can enter it is known after `settled`.
    """

    look_every = LOOK_S

    def __init__(self, parent: int, name: str, version: int) -> None:
        self.parent, self.name, self.version = kernel.high(parent), name, version
        self.members = kernel.high(os.open(f"{name}/cgroup.procs", os.O_WRONLY, dir_fd=self.parent))
        """The descriptor through which a process enters the group."""
        self.most, self.killed = 0, 0
        self.prober = os.getpid()
        self.entered, self.entering = self._probe()

    def _probe(self) -> tuple[int, int]:
        """Let a process enter, which takes the kernel some 20 ms: a pipe that says when it has, and the process.

        Version 2 may refuse it, if this user has not been given the groups above too.
        """
        entered, said = os.pipe()
        pid = kernel.fork()
        if not pid:
            try:
                os.write(self.members, b"0")
                os.write(said, b"1")
            finally:
                os._exit(0)
        os.close(said)
        return kernel.high(entered), pid

    def settled(self) -> bool:
        """Whether a process has entered; waits until that is known."""
        try:
            return bool(os.read(self.entered, 1))
        finally:
            os.close(self.entered)
            if os.getpid() == self.prober:  # else it is the child of the process that this one was forked from
                os.waitpid(self.entering, 0)

    def start(self, limits: dict) -> None:
        """Set the limits of a build. Raises OSError."""
        self.most = limits["memory_mib"] << 20
        # its files, and their copies to return
        kept = 2 * (limits["file_mib"] << 20) + 2 * (limits["output_kib"] << 10)
        whole = self.most + kept + (KERNEL_MIB << 20) + limits["processes"] * (EACH_KIB << 10)
        if self.version == 2:
            self._write("memory.max", whole)
            with contextlib.suppress(OSError):  # a kernel without swap
                self._write("memory.swap.max", 0)
            self._write("memory.oom.group", 1)
        else:
            with contextlib.suppress(OSError):  # likewise; never below the other limit
                self._write("memory.memsw.limit_in_bytes", -1)
            self._write("memory.limit_in_bytes", whole)
            with contextlib.suppress(OSError):
                self._write("memory.memsw.limit_in_bytes", whole)
        self.killed = self._kills()

    def too_large(self) -> bool:
        """Whether the kernel has ended a process at the limit, or the processes hold more than `memory_mib`."""
        own = "anon" if self.version == 2 else "rss"
        return self.was_ended() or self._number("memory.stat", own) > self.most

    def was_ended(self) -> bool:
        """Whether the kernel has ended a process at the limit."""
        return self._kills() > self.killed

    def _kills(self) -> int:
        return self._number("memory.events" if self.version == 2 else "memory.oom_control", "oom_kill")

    def remove(self) -> None:
        """Delete it when the server ends; the caller does it if processes are left."""
        with contextlib.suppress(OSError):
            os.rmdir(self.name, dir_fd=self.parent)

    def _number(self, file: str, key: str) -> int:
        """A line's number; 0 if it is missing."""
        with contextlib.suppress(OSError):
            for line in self._read(file).splitlines():
                name, _, number = line.partition(" ")
                if name == key:
                    return int(number)
        return 0

    def _read(self, file: str) -> str:
        descriptor = os.open(f"{self.name}/{file}", os.O_RDONLY, dir_fd=self.parent)
        try:
            return os.read(descriptor, 1 << 14).decode()
        finally:
            os.close(descriptor)

    def _write(self, file: str, value: int) -> None:
        descriptor = os.open(f"{self.name}/{file}", os.O_WRONLY, dir_fd=self.parent)
        try:
            os.write(descriptor, b"%d" % value)
        finally:
            os.close(descriptor)
