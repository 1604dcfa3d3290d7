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
        waited: dict[str, int] = {}
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = self._field(f"self/fdinfo/{pidfd}", "Pid:")
            for task in self._list(f"{pid}/task"):
                with contextlib.suppress(OSError):  # it has ended in the meantime
                    waited[task] = int(self._read(f"{pid}/task/{task}/schedstat").split()[1])
        return waited

    def _field(self, path: str, name: str) -> str:
        return next((line for line in self._read(path).splitlines() if line.startswith(name)), "").split()[1]

    def _list(self, path: str) -> list[str]:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.proc)
        try:
            return os.listdir(folder)
        finally:
            os.close(folder)

    def _read(self, path: str) -> str:
        file = os.open(path, os.O_RDONLY, dir_fd=self.proc)
        try:
            return os.read(file, 4096).decode()
        finally:
            os.close(file)
