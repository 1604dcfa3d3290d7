"""One process at a time writes to a run directory or to a sweep's folder; a second one is told which has it."""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import IO

from recipes.cli.errors import UserError

LOCK = ".lock"
"""The file in a folder that its process holds locked. It stays; only a living process's lock counts."""
_held: dict[Path, IO[str]] = {}
"""Open as long as this process lives: the system gives the lock back when it ends, however it ends."""


def hold(folder: Path, settings: str = "run.name or run.dir") -> None:
    """Hold the existing `folder` for this process, until it ends or `release` is called.

    Raises UserError where another process holds it; `settings` name the folder. (fcntl's own kind of lock is not
    inherited by the processes that the sandbox forks, as that of flock is.)
    """
    path = (folder / LOCK).resolve()
    if path in _held and _is_at(path, _held[path]):
        return
    release(folder)
    while True:
        file = path.open("a+")
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            file.seek(0)
            holder = file.read().strip()
            file.close()
            raise UserError(_taken(folder, holder, settings)) from error
        except OSError:  # a file system without locks
            file.close()
            return
        if _is_at(path, file):
            break
        file.close()  # its last holder removed it after it was opened here
    file.seek(0)
    file.truncate()
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()
    _held[path] = file


def release(folder: Path) -> None:
    """Give back what `hold` took, if it did."""
    if file := _held.pop((folder / LOCK).resolve(), None):
        file.close()


def _is_at(path: Path, file: IO[str]) -> bool:
    """Whether the open file is the one that has that path now."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return False


def _taken(folder: Path, holder: str, settings: str) -> str:
    by = holder or "another process"
    message = f"{folder} is in use by {by}: wait until that has ended, or set another {settings}"
    if holder.endswith(f" on {socket.gethostname()}"):
        return message
    return f"{message}; if that machine is gone, remove {folder / LOCK}"
