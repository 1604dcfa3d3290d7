"""The most memory that this process has held in each phase of a run, to be laid beside the plan (recipes/plan.py).

On a CPU resident memory, by the high-water mark of /proc/self/status, which Linux lets a process lower again
(proc(5), clear_refs); elsewhere the mark of the whole run so far. On a GPU what PyTorch had reserved, and what the
device's driver (and whoever else is on that GPU) takes beside it.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path

import torch
from transformers import TrainerCallback

from recipes.support.heap import trim
from recipes.support.memory import GIB

STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
LOWER_THE_MARK = "5"
_peaks: dict[str, float] = {}


class TrimBetweenPasses(TrainerCallback):
    """Passes take blocks of other sizes than those before them, so that free ones would add up from pass to pass."""

    def on_substep_end(self, args, state, control, **kwargs):
        trim()


def settle(phase: str) -> None:
    """Count the most since the call before for `phase`; the next begins without what this one has freed."""
    _peaks[phase] = max(_peaks.get(phase, 0.0), _most())
    trim()
    _begin_anew()


def take(*phases: str) -> dict[str, float]:
    """GiB by `memory/<phase>`, of all phases where none is named; each is told once."""
    names = [name for name in phases or list(_peaks) if name in _peaks]
    return {f"memory/{name}": round(_peaks.pop(name) / GIB, 4) for name in names}


def _most() -> float:
    if torch.cuda.is_initialized():
        free, whole = torch.cuda.mem_get_info()
        beside = whole - free - torch.cuda.memory_reserved()
        return float(torch.cuda.max_memory_reserved() + beside)
    if not STATUS.exists():
        unit = 1 if sys.platform == "darwin" else 1024
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
    return _status("VmHWM")


def _begin_anew() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
    with contextlib.suppress(OSError):
        CLEAR_REFS.write_text(LOWER_THE_MARK)


def _status(name: str) -> float:
    """Bytes by a line of /proc/self/status; 0 where there is none."""
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0.0)
