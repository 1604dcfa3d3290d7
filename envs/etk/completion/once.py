"""Work that is done once for each key, also where several ask for it at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Once(Generic[K, V]):
    """Results by key; whoever asks for one that is being made waits for it, on whatever event loop or thread.

    Args:
        most: results kept; the oldest go first.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._known: dict[K, V] = {}
        # of concurrent.futures: asyncio's belong to one loop, and asyncio.run makes a new one each time
        self._pending: dict[K, Future[dict[K, V] | None]] = {}

    async def get(self, keys: Iterable[K], work: Callable[[list[K]], Awaitable[dict[K, V]]]) -> dict[K, V]:
        """The results for `keys`; `work` makes those that nobody has made or is making.

        A key that `work` leaves out is missing for all who wait and is not remembered, and what it raises is raised
        for all; where it is cancelled, one of those who wait does it instead.
        """
        found: dict[K, V] = {}
        left = list(dict.fromkeys(keys))
        while left:
            ours: Future[dict[K, V] | None] = Future()
            ours.set_running_or_notify_cancel()  # so that nobody who waits can cancel it
            with self._lock:
                found |= {key: self._known[key] for key in left if key in self._known}
                theirs = {key: self._pending[key] for key in left if key in self._pending and key not in found}
                mine = [key for key in left if key not in found and key not in theirs]
                self._pending |= dict.fromkeys(mine, ours)
            if mine:
                found |= await self._make(mine, ours, work)
            left = []
            for key, future in theirs.items():
                made = await asyncio.wrap_future(future)
                if made is None:
                    left.append(key)
                elif key in made:
                    found[key] = made[key]
        return found

    async def _make(
        self, keys: list[K], future: Future[dict[K, V] | None], work: Callable[[list[K]], Awaitable[dict[K, V]]]
    ) -> dict[K, V]:
        """Do the work, and hand what came of it to those who wait: None where it was cancelled."""
        made: dict[K, V] | None = None
        failure: Exception | None = None
        try:
            made = await work(keys)
            return made
        except Exception as error:
            failure = error
            raise
        finally:
            with self._lock:
                for key in keys:
                    del self._pending[key]
                self._known |= made or {}
                for key in list(self._known)[: max(0, len(self._known) - self.most)]:
                    del self._known[key]
            if failure is None:
                future.set_result(made)
            else:
                future.set_exception(failure)
