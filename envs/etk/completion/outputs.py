"""What a run left behind: files in a folder, or in memory as a sandbox brings them back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class Outputs(Protocol):
    """Files of one run by relative path. Nothing outside the run can be reached through them."""

    def read(self, name: str, start: int = 0, size: int = -1) -> bytes:
        """`size` bytes from `start` on, fewer at the file's end, all of them for -1. Raises FileNotFoundError."""
        ...


class Folder:
    """Outputs on disk."""

    def __init__(self, folder: Path) -> None:
        self.top = folder.resolve()

    def read(self, name: str, start: int = 0, size: int = -1) -> bytes:
        path = (self.top / name).resolve()
        if not path.is_relative_to(self.top) or not path.is_file():
            raise FileNotFoundError(name)
        with open(path, "rb") as file:
            file.seek(start)
            # a file says how long it is; what a header asks for may be more than memory holds
            return file.read(min(size, path.stat().st_size) if size >= 0 else -1)


class InMemory:
    """Outputs by name, as `Outcome.files`."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files

    def read(self, name: str, start: int = 0, size: int = -1) -> bytes:
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name][start : start + size if size >= 0 else None]
