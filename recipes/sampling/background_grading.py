"""Answers graded in the background, by chunks, while others are still being sampled."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from envs.task import Problem
from rewards.channel import Completion
from rewards.compose import Grade, Reward

T = TypeVar("T")


class Grader:
    """An event loop of its own in which the channels work; made at first use, closed with `close`.

    Args:
        reward: the channels.
        chunk: answers that go to the channels together; 0: all of a batch, once it is complete.
    """

    def __init__(self, reward: Reward, chunk: int):
        self.reward, self.chunk = reward, chunk
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def batch(self) -> Batch:
        """A new batch of answers to be graded."""
        return Batch(self)

    def start(self, work: Coroutine[Any, Any, list[T]]) -> Future[list[T]]:
        """Begin other work of the same kind beside the grading."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="grader", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Give up what is being graded and end the thread."""
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(_give_up(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None


class Batch:
    """Answers of one batch, by their place in it; one thread adds and collects."""

    def __init__(self, grader: Grader):
        self._grader = grader
        self._waiting: list[tuple[int, Problem, Completion]] = []
        self._started: list[tuple[list[int], Future[list[Grade | None]]]] = []
        self._busy = Busy()

    def add(self, place: int, problem: Problem, completion: Completion) -> None:
        """Take an answer; a full chunk goes to the channels at once."""
        self._waiting.append((place, problem, completion))
        if self._grader.chunk and len(self._waiting) >= self._grader.chunk:
            self._send()

    def collect(self) -> list[Grade | None]:
        """The grades of all that was added, by place, when the last is there."""
        if self._waiting:
            self._send()
        grades: dict[int, Grade | None] = {}
        for places, chunk in self._started:
            grades.update(zip(places, chunk.result(), strict=True))
        return [grades[place] for place in range(len(grades))]

    @property
    def seconds(self) -> float:
        """Wall time during which anything of this batch was being graded."""
        return self._busy.seconds

    def _send(self) -> None:
        places, problems, completions = zip(*self._waiting, strict=True)
        self._waiting = []
        self._started.append((list(places), self._grader.start(self._grade(problems, completions))))

    async def _grade(self, problems, completions) -> list[Grade | None]:
        with self._busy:
            return await self._grader.reward.grade(problems, completions)


class Busy:
    """Adds up the wall time during which at least one `with` block is open; for one thread."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._open = 0
        self._since = 0.0

    def __enter__(self) -> None:
        if not self._open:
            self._since = time.perf_counter()
        self._open += 1

    def __exit__(self, *error: object) -> None:
        self._open -= 1
        if not self._open:
            self.seconds += time.perf_counter() - self._since


async def _give_up() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
