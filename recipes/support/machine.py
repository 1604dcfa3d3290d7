"""What this machine has: memory that a run may take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from recipes.support.memory import GIB

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def memory_budget(hardware: Any) -> float | None:
    """Bytes for each process: the profile's `memory_gib`, else of a CPU what is available now. None: nobody knows."""
    if hardware.memory_gib is not None:
        return hardware.memory_gib * GIB
    available = available_memory() if hardware.device == "cpu" else None
    return None if available is None else available / hardware.num_processes


def available_memory(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> float | None:
    """Bytes that new work can have without swapping, in a container no more than its limit leaves."""
    found: list[float] = []
    if meminfo.exists():
        rows = (line.split(":") for line in meminfo.read_text().splitlines())
        found += [float(value.split()[0]) * 1024 for name, value in rows if name == "MemAvailable"]
    elif "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    limit, used = cgroup / "memory.max", cgroup / "memory.current"
    if limit.exists() and used.exists() and (most := limit.read_text().strip()).isdigit():
        found.append(float(most) - float(used.read_text()))
    return min(found, default=None)
