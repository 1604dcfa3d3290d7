"""Work that several ask for at the same time is done once, whatever becomes of those who ask."""

from __future__ import annotations

import asyncio
import threading

import pytest

from envs.etk.build.once import Once


class Doubling:
    """Doubles numbers once it is let go; `asked` has the keys of each call."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.go = asyncio.Event()

    async def __call__(self, keys: list[int]) -> dict[int, int]:
        self.asked.append(keys)
        await self.go.wait()
        if 13 in keys:
            raise ValueError("13")
        return {key: 2 * key for key in keys if key}


async def started(*asked) -> list[asyncio.Task]:
    """Tasks that have come as far as they can."""
    tasks = [asyncio.create_task(one) for one in asked]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


def test_who_comes_second_waits_for_the_first():
    async def ask() -> None:
        once, work = Once[int, int](10), Doubling()
        tasks = await started(once.get([1, 2, 1], work), once.get([2, 3], work), once.get([1, 3, 2], work))
        assert work.asked == [[1, 2], [3]]
        work.go.set()
        assert await asyncio.gather(*tasks) == [{1: 2, 2: 4}, {2: 4, 3: 6}, {1: 2, 2: 4, 3: 6}]
        assert await once.get([3, 1], work) == {1: 2, 3: 6} and len(work.asked) == 2

    asyncio.run(asyncio.wait_for(ask(), 20))


def test_what_fails_fails_for_all_who_wait_and_is_tried_again():
    async def ask() -> None:
        once, work = Once[int, int](10), Doubling()
        tasks = await started(*(once.get(keys, work) for keys in ([0, 1], [0, 2], [13, 3], [3])))
        work.go.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert results[:2] == [{1: 2}, {2: 4}] and all(isinstance(error, ValueError) for error in results[2:])
        assert await once.get([0, 1, 3], work) == {1: 2, 3: 6} and work.asked[3:] == [[0, 3]]

    asyncio.run(asyncio.wait_for(ask(), 20))


def test_who_gives_up_takes_nobody_along():
    async def ask() -> None:
        once, work = Once[int, int](10), Doubling()
        first, *others = await started(*(once.get([1], work) for _ in range(4)))
        others.pop().cancel()
        first.cancel()
        work.go.set()
        assert await asyncio.gather(*others) == [{1: 2}, {1: 2}] and work.asked == [[1], [1]]

    asyncio.run(asyncio.wait_for(ask(), 20))


def test_loops_and_threads_do_not_matter():
    once, begun, go = Once[int, int](10), threading.Event(), threading.Event()
    asked = []

    async def work(keys: list[int]) -> dict[int, int]:
        asked.append(keys)
        begun.set()
        await asyncio.to_thread(go.wait, 20)
        return {key: 2 * key for key in keys}

    async def second() -> dict[int, int]:
        [task] = await started(once.get([1, 2], work))
        go.set()
        return await task

    results: list[dict[int, int]] = []
    thread = threading.Thread(target=lambda: results.append(asyncio.run(once.get([1], work))))
    thread.start()
    assert begun.wait(20) and asyncio.run(second()) == {1: 2, 2: 4}
    thread.join(20)
    assert results == [{1: 2}] and asked == [[1], [2]]
    assert asyncio.run(once.get([1, 2], work)) == {1: 2, 2: 4} and len(asked) == 2


def test_the_oldest_are_forgotten():
    async def work(keys: list[int]) -> dict[int, int]:
        asked.append(keys)
        return {key: key for key in keys}

    once, asked = Once[int, int](2), []
    with pytest.raises(TypeError):
        asyncio.run(once.get([[]], work))  # type: ignore[list-item]
    for keys in ([1, 2, 3], [2, 3], [1]):
        assert asyncio.run(once.get(keys, work)) == {key: key for key in keys}
    assert asked == [[1, 2, 3], [1]]


def test_what_may_differ_the_next_time_is_computed_again():
    once, work = Once[int, int](10, lambda result: result != 4), Doubling()
    work.go.set()

    async def ask() -> None:
        assert await once.get([1, 2], work) == {1: 2, 2: 4}
        assert await once.get([1, 2], work) == {1: 2, 2: 4}

    asyncio.run(ask())
    assert work.asked == [[1, 2], [2]]
