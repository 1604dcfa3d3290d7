"""Measures deleted files that programs still hold: they take space on the disk, but are in no folder."""

import contextlib
import os

from kernel import LIBC

SHARE = 8
"""A file that is only mapped cannot be measured. Each counts as this part of the whole limit."""


def held(top: str, uid: int | None, limit: int) -> int:
    """Bytes of the deleted files below `top` that descendants of this process hold open or mapped.

    `uid` is the programs' user; None if it is the caller's. The kernel shows a process's files to its own user only.
    """
    blocks: dict[int, int] = {}
    mapped: set[int] = set()
    descendants = _descendants(os.getpid())
    if uid is not None:
        LIBC.setfsuid(uid)
    try:
        for pid in descendants:
            with contextlib.suppress(OSError):  # it has just ended, or it is a process of the server's own
                for task in os.listdir(f"/proc/{pid}/task"):
                    _add_open(f"/proc/{pid}/task/{task}/fd", top, blocks)
                mapped |= _mapped(pid, top)
    finally:
        if uid is not None:
            LIBC.setfsuid(os.geteuid())
    return 512 * sum(blocks.values()) + len(mapped - blocks.keys()) * (limit // SHARE)


def _descendants(pid: int) -> list[int]:
    below: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                for child in map(int, file.read().split()):
                    below += [child, *_descendants(child)]
    return below


def _add_open(folder: str, top: str, blocks: dict[int, int]) -> None:
    """Add the blocks by inode of the deleted files in a folder of descriptors. Raises OSError."""
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if os.readlink(f"{folder}/{name}").startswith(top):
                status = os.stat(f"{folder}/{name}")
                if not status.st_nlink:
                    blocks[status.st_ino] = status.st_blocks


def _mapped(pid: int, top: str) -> set[int]:
    """The inodes of mapped deleted files. Raises OSError."""
    inodes = set()
    with open(f"/proc/{pid}/maps", errors="replace") as file:
        for line in file:
            _, _, _, _, inode, *path = line.rstrip("\n").split(maxsplit=5)
            if path and path[0].startswith(top) and path[0].endswith(" (deleted)"):
                inodes.add(int(inode))
    return inodes
