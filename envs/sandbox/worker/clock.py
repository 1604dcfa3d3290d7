"""Measures how long a program waited for a processor, so that this time can be subtracted on a busy machine."""

import contextlib
import os

from kernel import high


class Clock:
    """Reads from the kernel how long processes have waited in the queue for a processor.

    It is created before the server enters its namespaces, because it keeps the outer /proc open, which programs never
    see.
    """

    def __init__(self) -> None:
        self.proc = -1
        with contextlib.suppress(OSError):
            self.proc = high(os.open("/proc", os.O_RDONLY | os.O_DIRECTORY))

    def threads(self, pidfd: int) -> dict[str, int]:
        """Nanoseconds that each thread of a process was ready without a free processor; threads for which this is
        unknown are missing."""
        with contextlib.suppress(OSError, IndexError):
            return self._waits(self.pid(pidfd))
        return {}

    def tree(self, pidfd: int) -> dict[str, int]:
        """The same of the threads of a process and of its descendants, by the numbers of process and thread."""
        waited: dict[str, int] = {}
        with contextlib.suppress(OSError, IndexError):
            waiting = [self.pid(pidfd)]
            while waiting:
                pid = waiting.pop()
                for task, time in self._waits(pid).items():
                    waited[f"{pid}/{task}"] = time
                    with contextlib.suppress(OSError):  # it has ended in the meantime
                        waiting += self.read(f"{pid}/task/{task}/children").split()
        return waited

    def _waits(self, pid: str) -> dict[str, int]:
        waited: dict[str, int] = {}
        with contextlib.suppress(OSError, ValueError, IndexError):
            for task in self.list(f"{pid}/task"):
                with contextlib.suppress(OSError):  # it has ended in the meantime
                    waited[task] = int(self.read(f"{pid}/task/{task}/schedstat").split()[1])
        return waited

    def pid(self, pidfd: int) -> str:
        """The number of a process in the outer /proc. Raises OSError or IndexError."""
        lines = self.read(f"self/fdinfo/{pidfd}").splitlines()
        return next((line for line in lines if line.startswith("Pid:")), "").split()[1]

    def list(self, path: str) -> list[str]:
        """The names in a folder of the outer /proc. Raises OSError."""
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.proc)
        try:
            return os.listdir(folder)
        finally:
            os.close(folder)

    def read(self, path: str) -> str:
        """The first 4,096 bytes of a file of the outer /proc. Raises OSError."""
        file = os.open(path, os.O_RDONLY, dir_fd=self.proc)
        try:
            return os.read(file, 4096).decode()
        finally:
            os.close(file)
