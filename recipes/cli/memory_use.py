"""Memory of this process: its peak in each phase of a run, and what the C library does with memory that is freed.

The peak is laid beside the plan of recipes/plan.py. On a CPU it is resident memory, read from the high-water mark of
/proc/self/status, which Linux lets a process reset (proc(5), clear_refs); on other systems it is the mark of the whole
run so far. On a GPU it is what PyTorch has reserved, and what the driver and other users of that GPU take beside it.

Freed memory is kept for the next pass or returned to the system. Kept, an update does not have to fault its pages in
again (20 s, against 24 s where blocks from 4 MiB are returned), but it holds up to twice what is alive in it, and with
rows of many lengths ever more, until a limit is passed and all that is free goes back at once. Returned, it holds what
recipes/plan.py predicts (tests/bench/README.md, Memory). The settings are those of glibc's mallopt(3); other C
libraries are left alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import resource
import sys
from pathlib import Path

GIB = 1 << 30
STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_HIGH_WATER_MARK = "5"
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""Numbers of mallopt's parameters."""

_peaks: dict[str, float] = {}
_freed_is_kept = True
_most_kept: float | None = None
"""Bytes of resident memory above which `trim` returns what is free, also where freed memory is kept."""


def settle(phase: str) -> None:
    """Record the peak since the last call for `phase`, and start the next phase without what this one has freed."""
    _peaks[phase] = max(_peaks.get(phase, 0.0), _peak_bytes())
    trim()
    _reset_peak()


def take(*phases: str) -> dict[str, float]:
    """Peaks in GiB as `memory/<phase>`, of all phases where none is named. Each peak is returned once."""
    names = [name for name in phases or list(_peaks) if name in _peaks]
    return {f"memory/{name}": round(_peaks.pop(name) / GIB, 4) for name in names}


def keep_freed_memory() -> None:
    """Keep freed blocks for reuse: for a machine with room for twice what is alive."""
    _set_thresholds(1 << 30, (1 << 31) - 1)


def keep_at_most(most: float) -> None:
    """Keep freed blocks until this process has `most` bytes of resident memory: blocks of other sizes than the next
    pass asks for would add up."""
    global _most_kept
    _most_kept = most


def give_back_freed_memory() -> None:
    """Return freed blocks at once, and small ones when `trim` is called: for a run that has just the memory it needs.

    The sizes are glibc's initial ones. Once set, they stay; left alone, glibc raises them to 32 MiB and then holds half
    as much again as is alive.
    """
    global _freed_is_kept
    _freed_is_kept = False
    _set_thresholds(128 << 10, 256 << 10)


def trim() -> None:
    """Return free memory to the system; where freed memory is kept, only above the limit of `keep_at_most`."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "malloc_trim"):
        return
    if not _freed_is_kept or (_most_kept is not None and _status_bytes("VmRSS") > _most_kept):
        libc.malloc_trim(0)


def _peak_bytes() -> float:
    torch = sys.modules.get("torch")  # this module answers --help, which must not wait for torch
    if torch is not None and torch.cuda.is_initialized():
        free, total = torch.cuda.mem_get_info()
        others = total - free - torch.cuda.memory_reserved()
        return float(torch.cuda.max_memory_reserved() + others)
    if not STATUS.exists():
        unit = 1 if sys.platform == "darwin" else 1024
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
    return _status_bytes("VmHWM")


def _status_bytes(key: str) -> float:
    """A size in /proc/self/status; 0 on systems without it."""
    lines = STATUS.read_text(encoding="utf-8").splitlines() if STATUS.exists() else []
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith(key)), 0.0)


def _reset_peak() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
    with contextlib.suppress(OSError):
        CLEAR_REFS.write_text(RESET_HIGH_WATER_MARK)


def _set_thresholds(mmap: int, top: int) -> None:
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(MMAP_THRESHOLD, mmap)
        libc.mallopt(TRIM_THRESHOLD, top)
