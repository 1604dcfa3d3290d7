"""How long a program has waited for a processor, computed from the kernel's counters of its threads."""

import time
from collections.abc import Callable

EACH_S = 0.1
"""Largest time between two looks, in seconds."""


class Waiting:
    """Time in which at least one of a program's threads was ready and had no processor.

    Threads that wait at the same time count once; otherwise a program could extend its time by waiting in many threads.
    For each interval between two looks, the longest wait of a thread of each process counts. The total never exceeds
    the elapsed time; in one interval it may, because the kernel counts a wait when it ends.

    Args:
        new: functions that return the nanoseconds that each thread of a process has waited, by the thread's number, for
            processes that have just begun.
        old: the same for processes that ran before. Their waits before the first look are unknown and do not count.
    """

    def __init__(
        self, new: list[Callable[[], dict[str, int]]], old: list[Callable[[], dict[str, int]]] | None = None
    ) -> None:
        self.seconds = 0.0
        self._started = self._looked = time.monotonic()
        self._threads = [*new, *(old or [])]
        self._before: list[dict[str, int] | None] = [*({} for _ in new), *(None for _ in old or [])]

    def look(self, after: float) -> float:
        """Seconds so far, as of now or of a look less than `after` seconds ago. It must be called at least every EACH_S
        while the program runs."""
        now = time.monotonic()
        if now - self._looked >= after:
            longest = sum(map(self._longest, range(len(self._threads)))) / 1e9
            self.seconds = min(self.seconds + longest, now - self._started)
            self._looked = now
        return self.seconds

    def _longest(self, place: int) -> int:
        """Nanoseconds since the last look of the thread of a process that waited longest."""
        threads, before = self._threads[place](), self._before[place]
        self._before[place] = threads
        if before is None:
            return 0
        return max((waited - before.get(name, 0) for name, waited in threads.items()), default=0)
