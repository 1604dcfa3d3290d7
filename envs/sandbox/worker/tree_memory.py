"""Measures the resident memory of all processes of a build together; the kernel's own limits are for one process."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterable

from clock import Clock
from kernel import LIBC

LOOK_S = 0.02
"""Time between two looks in seconds. In it, a processor can fill some 40 MiB."""

LOOKS = 3
"""Readings of the exact shares that must all be above the limit."""


class TreeMemory:
    """The memory of the server's descendants, without processes that are not the build's.

    Pages that several processes share count in each of them at first. Only if the sum is above the limit are the exact
    shares read, which takes longer and needs the rights of the program's user.

    Args:
        clock: the outer /proc.
        others: descriptors of processes that are not the build's.
        uid: the programs' user; None if it is the caller's.
        limits: with `memory_mib`.
        send: sends a signal to all processes of the build, or to those of the given numbers.
    """

    look_every = LOOK_S

    def __init__(
        self,
        clock: Clock,
        others: list[int],
        uid: int | None,
        limits: dict,
        send: Callable[[int, Iterable[str]], None],
    ) -> None:
        self.clock, self.uid, self.send, self.most = clock, uid, send, limits["memory_mib"] << 10
        self.others = {clock.pid(descriptor) for descriptor in others}

    def too_large(self) -> bool:
        """Whether the processes hold more than the limit. If they may, they are stopped until that is known, and if
        they do, they stay stopped."""
        if sum(self._sizes().values()) <= self.most:
            return False
        large = False
        try:
            # twice, because the first signal misses processes that have just been started
            for _ in range(2):
                self.send(signal.SIGSTOP, self._processes())
            sizes = self._sizes()
            # shares move from process to process while they are read one after another
            large = all(self._shares(sizes) > self.most for _ in range(LOOKS))
        finally:
            if not large:
                self.send(signal.SIGCONT, self._processes())
        return large

    def was_ended(self) -> bool:
        """Whether something else has ended a process because of its memory: never."""
        return False

    def _sizes(self) -> dict[str, int]:
        """KiB of each process, with all pages that it shares."""
        return {pid: self._kib(f"{pid}/status", ("RssAnon:", "RssShmem:")) for pid in self._processes()}

    def _shares(self, sizes: dict[str, int]) -> int:
        """KiB of all processes, with shared pages counted once; a size where the shares cannot be read."""
        if self.uid is not None:
            LIBC.setfsuid(self.uid)
        try:
            shares = {pid: self._kib(f"{pid}/smaps_rollup", ("Pss_Anon:", "Pss_Shmem:")) for pid in sizes}
        finally:
            if self.uid is not None:
                LIBC.setfsuid(os.geteuid())
        return sum(shares[pid] or size for pid, size in sizes.items())

    def _processes(self) -> set[str]:
        results: set[str] = set()
        waiting = self._children("self") - self.others
        while waiting:
            pid = waiting.pop()
            results.add(pid)
            waiting |= self._children(pid) - results
        return results

    def _children(self, pid: str) -> set[str]:
        children: set[str] = set()
        with contextlib.suppress(OSError):  # it has just ended
            for task in self.clock.list(f"{pid}/task"):
                with contextlib.suppress(OSError):
                    children.update(self.clock.read(f"{pid}/task/{task}/children").split())
        return children

    def _kib(self, path: str, names: tuple[str, ...]) -> int:
        """Sum of the named lines of a file; 0 if it cannot be read."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            return sum(int(line.split()[1]) for line in self.clock.read(path).splitlines() if line.startswith(names))
        return 0
