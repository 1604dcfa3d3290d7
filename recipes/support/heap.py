"""What the C library does with memory that a CPU's passes have freed: keep it for the next one, or give it back.

Kept, an update need not fault its pages in again (20 s, against 24 where blocks from 4 MiB go back) and holds up to
twice what is alive in it. Given back, it holds what recipes/plan.py says (tests/bench/README.md, Memory). Settings are
mallopt(3)'s; other C libraries than glibc are left alone.
"""

from __future__ import annotations

import ctypes

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
_kept = True


def keep_freed_memory() -> None:
    """For whoever has room for twice what is alive."""
    _thresholds(1 << 30, (1 << 31) - 1)


def give_back_freed_memory() -> None:
    """All blocks but small ones at once, those when `trim` is called: where a run has just the memory it needs.

    The sizes are glibc's first ones; set, they stay, where glibc by itself raises them to 32 MiB and then holds half as
    much again as is alive.
    """
    global _kept
    _kept = False
    _thresholds(128 << 10, 256 << 10)


def trim() -> None:
    """What is free goes back to the system, unless it is kept."""
    libc = ctypes.CDLL(None)
    if not _kept and hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def _thresholds(mmap: int, top: int) -> None:
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(MMAP_THRESHOLD, mmap)
        libc.mallopt(TRIM_THRESHOLD, top)
