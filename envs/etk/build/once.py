"""Results by key, computed once even if several callers ask for a key at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Once(Generic[K, V]):
    """Results by key. A caller who asks for a result that is being computed waits for it, on any event loop or thread.

    Args:
        max_results: number of results in memory; the oldest are removed first.
        lasting: whether a result stays in memory. One that does not is given to all who wait for it now, and computed
            again for the next who asks.
    """

    def __init__(self, max_results: int, lasting: Callable[[V], bool] = lambda _: True) -> None:
        self.max_results, self.lasting = max_results, lasting
        self._lock = threading.Lock()
        self._results: dict[K, V] = {}
        # futures of concurrent.futures: those of asyncio belong to one loop, and asyncio.run makes a new loop each time
        self._pending: dict[K, Future[dict[K, V] | None]] = {}

    async def get(self, keys: Iterable[K], work: Callable[[list[K]], Awaitable[dict[K, V]]]) -> dict[K, V]:
        """The results of `keys`; `work` computes those that are neither there nor being computed.

        A key that is missing from the result of `work` is missing for all waiting callers, and the next caller computes
        it again. An error of `work` is raised for all of them. If it is cancelled, one of them computes instead.
        """
        results: dict[K, V] = {}
        open_keys = list(dict.fromkeys(keys))
        while open_keys:
            future: Future[dict[K, V] | None] = Future()
            future.set_running_or_notify_cancel()  # so that no waiting caller can cancel it
            with self._lock:
                results |= {key: self._results[key] for key in open_keys if key in self._results}
                pending = {key: self._pending[key] for key in open_keys if key in self._pending and key not in results}
                own_keys = [key for key in open_keys if key not in results and key not in pending]
                self._pending |= dict.fromkeys(own_keys, future)
            if own_keys:
                results |= await self._compute(own_keys, future, work)
            open_keys = []
            for key, other_future in pending.items():
                computed = await asyncio.wrap_future(other_future)
                if computed is None:
                    open_keys.append(key)
                elif key in computed:
                    results[key] = computed[key]
        return results

    async def _compute(
        self, keys: list[K], future: Future[dict[K, V] | None], work: Callable[[list[K]], Awaitable[dict[K, V]]]
    ) -> dict[K, V]:
        """Call `work`, and give its result, or None if it was cancelled, to the waiting callers."""
        computed: dict[K, V] | None = None
        failure: Exception | None = None
        try:
            computed = await work(keys)
            return computed
        except Exception as error:
            failure = error
            raise
        finally:
            with self._lock:
                for key in keys:
                    del self._pending[key]
                self._results |= {key: value for key, value in (computed or {}).items() if self.lasting(value)}
                for key in list(self._results)[: max(0, len(self._results) - self.max_results)]:
                    del self._results[key]
            if failure is None:
                future.set_result(computed)
            else:
                future.set_exception(failure)
