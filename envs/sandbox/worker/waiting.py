"""How long a program has waited for a processor, from what the kernel says of its threads."""

import time
from collections.abc import Callable

EACH_S = 0.1
"""Between two looks."""


class Waiting:
    """Time in which one or another of a program's threads stood ready and had no processor.

    Threads that wait side by side count once, or a program could stretch its time by waiting in many: of each span
    between two looks, what the thread of each process waited that waited longest. In all never more than the time
    passed; of one span it may be more, since the kernel counts a wait when it is over.

    Args:
        new: nanoseconds that each thread of a process has waited, by its number; of processes that have just begun.
        old: of processes that had lives before. What they waited until the first look is not known.
    """

    def __init__(
        self, new: list[Callable[[], dict[str, int]]], old: list[Callable[[], dict[str, int]]] | None = None
    ) -> None:
        self.seconds = 0.0
        self._started = self._looked = time.monotonic()
        self._threads = [*new, *(old or [])]
        self._before: list[dict[str, int] | None] = [*({} for _ in new), *(None for _ in old or [])]

    def look(self, after: float) -> float:
        """Seconds so far, as of now or of a look less than `after` seconds ago. To be called while the program runs, at
        least each EACH_S."""
        now = time.monotonic()
        if now - self._looked >= after:
            longest = sum(map(self._longest, range(len(self._threads)))) / 1e9
            self.seconds = min(self.seconds + longest, now - self._started)
            self._looked = now
        return self.seconds

    def _longest(self, place: int) -> int:
        """Nanoseconds since the last look that the thread of a process waited that waited longest."""
        threads, before = self._threads[place](), self._before[place]
        self._before[place] = threads
        if before is None:
            return 0
        return max((waited - before.get(name, 0) for name, waited in threads.items()), default=0)
