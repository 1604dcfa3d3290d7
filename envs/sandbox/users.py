"""Which users programs run as."""

from __future__ import annotations

import os
from pathlib import Path

FIRST = 0x40000000
MOST_PROCESSES = 1 << 22
"""Of process numbers on Linux."""


def first_uid() -> int | None:
    """Root runs each program as a user of its own, this one plus the number of the process that serves it.

    None where programs run as the caller's user: it is not root, or root of a user namespace without these users, as in
    rootless containers.
    """
    if os.geteuid() != 0:
        return None
    for line in Path("/proc/self/uid_map").read_text(encoding="utf-8").splitlines():
        first, _, count = map(int, line.split())
        if first <= FIRST and first + count >= FIRST + MOST_PROCESSES:
            return FIRST
    return None
