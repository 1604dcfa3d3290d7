"""Control groups that limit the memory of all processes of a build together, where this user may create some.

Version 1 needs the right to create a folder in the caller's own group of the memory controller, which root has outside
of most containers. In version 2 a group with processes cannot have limited groups below it, so the folder is created
beside the caller's own group (https://docs.kernel.org/admin-guide/cgroup-v2.html, "No Internal Process Constraint").
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

REMOVED_S = 1.0
"""How long the removal of a group waits for its last processes, which have been killed."""


class MemoryGroup:
    """An empty control group of the caller's; `remove` must be called.

    Args:
        parent: the folder in which it is created. Raises OSError.
        version: of the kernel's control groups, 1 or 2.
    """

    def __init__(self, parent: Path, version: int) -> None:
        self.version = version
        self.name = f"sandbox-{os.getpid()}-{os.urandom(6).hex()}"
        self.folder = parent / self.name
        self.folder.mkdir(mode=0o700)
        self.parent = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
        """Descriptor of the parent, from which a server in another mount namespace reaches the group."""

    def is_complete(self) -> bool:
        """Whether the kernel lets this user limit memory in it."""
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        return os.access(self.folder / name, os.W_OK) and os.access(self.folder / "cgroup.procs", os.W_OK)

    def remove(self) -> None:
        """Delete it, if the server has not done so already."""
        if self.parent < 0:
            return
        os.close(self.parent)
        self.parent = -1
        until = time.monotonic() + REMOVED_S
        while self.folder.exists() and time.monotonic() < until:
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.005)


def create() -> MemoryGroup | None:
    """A new group; None if this user may not create one here."""
    with contextlib.suppress(OSError, ValueError):
        for parent, version in _parents():
            with contextlib.suppress(OSError):
                group = MemoryGroup(parent, version)
                if group.is_complete():
                    return group
                group.remove()
    return None


def _parents() -> list[tuple[Path, int]]:
    """The folders in which a group may be created, and their versions. Raises OSError or ValueError."""
    own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines())
    found: list[tuple[Path, int]] = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, place = before.split(" ")[3:5]
        names = [name for name in own if "memory" in name.split(",")]
        if kind == "cgroup" and "memory" in options.split(",") and names:
            found.append((_below(place, root, own[names[0]]), 1))
        if kind == "cgroup2" and "" in own:
            found += [(folder, 2) for folder in _beside(Path(place), _below(place, root, own[""]))]
    return found


def _below(place: str, root: str, path: str) -> Path:
    """Where a mount at `place`, of the groups below `root`, has the group `path`. Raises ValueError."""
    inside = os.path.relpath(path, root)
    if inside.startswith(".."):
        raise ValueError(f"the group {path} is not mounted")
    return Path(os.path.normpath(f"{place}/{inside}"))


def _beside(top: Path, own: Path) -> list[Path]:
    """The nearest group above `own` whose groups may have limits, unless a limit of the caller's own would be left.
    Raises OSError."""
    folder = own
    while "memory" not in (folder / "cgroup.subtree_control").read_text(encoding="utf-8").split():
        if folder == top or (folder / "memory.max").read_text(encoding="utf-8").strip() != "max":
            return []
        folder = folder.parent
    return [folder]
