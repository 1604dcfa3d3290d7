"""Semaphores of `multiprocessing` for programs that may not create named ones in the host's /dev/shm.

`multiprocessing.pool.ThreadPool`, `Lock` and `Queue` need them. A program has one process, so those of `threading` do.
"""

import threading


class SemLock:
    """What `multiprocessing.synchronize` uses of `_multiprocessing.SemLock`."""

    SEM_VALUE_MAX = (1 << 31) - 1
    name = None

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> None:
        self.kind, self.maxvalue, self.handle = kind, maxvalue, id(self)
        self._value, self._owner, self._held = value, 0, 0
        self._changed = threading.Condition(threading.Lock())

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        mine = threading.get_ident()
        with self._changed:
            if self.kind == 0 and self._owner == mine and self._held:  # a recursive lock
                self._held += 1
                return True
            wait = 0 if not block else None if timeout is None else max(0.0, timeout)
            if not self._changed.wait_for(lambda: self._value > 0, wait):
                return False
            self._value, self._owner, self._held = self._value - 1, mine, self._held + 1
            return True

    def release(self) -> None:
        with self._changed:
            if self.kind == 0 and not self._is_mine():
                raise AssertionError("attempt to release recursive lock not owned by thread")
            if self.kind == 1 and self._value >= self.maxvalue:
                raise ValueError("semaphore or lock released too many times")
            self._held -= 1
            if self.kind == 1 or not self._held:
                self._value += 1
                self._changed.notify()

    def _count(self) -> int:
        return self._held

    def _is_mine(self) -> bool:
        return self._held > 0 and self._owner == threading.get_ident()

    def _get_value(self) -> int:
        return self._value

    def _is_zero(self) -> bool:
        return self._value == 0

    def _after_fork(self) -> None:
        self._held = 0

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def replace() -> None:
    """Let `multiprocessing` use them."""
    import _multiprocessing

    _multiprocessing.SemLock = SemLock
