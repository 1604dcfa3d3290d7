"""Output files of a run: in a folder, or in memory as the sandbox returns them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class Outputs(Protocol):
    """The files of one run by relative path. No file outside the run can be read through them."""

    def read(self, name: str, start: int = 0, size: int = -1) -> bytes:
        """`size` bytes from `start` on, fewer at the end of the file; -1 reads all. Raises FileNotFoundError."""
        ...

    def size(self, name: str) -> int:
        """The length of a file in bytes. Raises FileNotFoundError."""
        ...


class Folder:
    """Outputs in a folder on disk."""

    def __init__(self, folder: Path) -> None:
        self.top = folder.resolve()

    def read(self, name: str, start: int = 0, size: int = -1) -> bytes:
        path = self._file(name)
        with open(path, "rb") as file:
            file.seek(start)
            # limited by the length of the file: a damaged header may ask for more than memory holds
            return file.read(min(size, path.stat().st_size) if size >= 0 else -1)

    def size(self, name: str) -> int:
        return self._file(name).stat().st_size

    def _file(self, name: str) -> Path:
        path = (self.top / name).resolve()
        if not path.is_relative_to(self.top) or not path.is_file():
            raise FileNotFoundError(name)
        return path


class InMemory:
    """Outputs by name, as in `Outcome.files`."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files

    def read(self, name: str, start: int = 0, size: int = -1) -> bytes:
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name][start : start + size if size >= 0 else None]

    def size(self, name: str) -> int:
        if name not in self.files:
            raise FileNotFoundError(name)
        return len(self.files[name])
