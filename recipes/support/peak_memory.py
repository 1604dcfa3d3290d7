"""The most memory that this process has held in each phase of a run, to be laid beside the plan (recipes/plan.py).

On a CPU resident memory, by the high-water mark of /proc/self/status, which Linux lets a process lower again
(proc(5), clear_refs); elsewhere the mark of the whole run so far. On a GPU what PyTorch had reserved, and what the
device's driver (and whoever else is on that GPU) takes beside it. `GiveBack` keeps a CPU's from growing.
"""

from __future__ import annotations

import contextlib
import ctypes
import resource
import sys
from pathlib import Path

from transformers import TrainerCallback

from recipes.support.memory import GIB

STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
LOWER_THE_MARK = "5"
GROWTH = 1.1
WORTH_IT = 1.0 * GIB
"""Resident memory below which phases keep what they have freed: small models take many short steps."""
_peaks: dict[str, float] = {}


class GiveBack(TrainerCallback):
    """Keeps the memory of an update on a CPU from growing pass by pass.

    Freed blocks are kept for the next pass (recipes/support/console.py), whose own have other sizes, so the heap comes
    to hold several passes' worth. After a pass that ends with a tenth more than one pass by itself has taken so far,
    what is free goes back to the system; the next pass faults its pages in anew.
    """

    def __init__(self) -> None:
        self._alone, self._fresh = 0.0, True

    def on_substep_end(self, args, state, control, **kwargs):
        held = _status("VmRSS")
        if self._fresh:
            self._alone, self._fresh = max(self._alone, held), False
        elif held > GROWTH * self._alone:
            give_back()
            self._fresh = True


def give_back() -> None:
    """What the C library keeps of freed memory goes back to the system."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def settle(phase: str) -> None:
    """Count the most since the call before for `phase`, and begin anew, with nothing held that only it needed."""
    _peaks[phase] = max(_peaks.get(phase, 0.0), _most_since_last())


def take(*phases: str) -> dict[str, float]:
    """GiB by `memory/<phase>`, of all phases where none is named; each is told once."""
    names = [name for name in phases or list(_peaks) if name in _peaks]
    return {f"memory/{name}": round(_peaks.pop(name) / GIB, 4) for name in names}


def _most_since_last() -> float:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        free, whole = torch.cuda.mem_get_info()
        beside = whole - free - torch.cuda.memory_reserved()
        most = torch.cuda.max_memory_reserved()
        torch.cuda.reset_peak_memory_stats()
        return float(most + beside)
    most = _high_water_mark()
    if _status("VmRSS") > WORTH_IT:
        give_back()  # before the mark is set anew
    with contextlib.suppress(OSError):
        CLEAR_REFS.write_text(LOWER_THE_MARK)
    return most


def _high_water_mark() -> float:
    if not STATUS.exists():
        unit = 1 if sys.platform == "darwin" else 1024
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
    return _status("VmHWM")


def _status(name: str) -> float:
    """Bytes by a line of /proc/self/status; 0 where there is none."""
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0.0)
