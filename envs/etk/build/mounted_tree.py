"""A source tree that is too large to travel with every job: the sandbox gives jobs the user's folder itself, with a
layer of their own (sandbox.Tree). What the user built there is what a job begins with."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from envs.sandbox import Tree

VERSION_CONTROL = (".git", ".hg", ".svn")


class MountedTree:
    """
    Args:
        folder: the source tree.
        writable: folders in which a job may change files, besides that of the file that it replaces.
        left_out: whether a job that replaces a file (None: none) does not see a path, relative to the folder.
        whole: the same for a folder with all that is in it.
    """

    def __init__(
        self,
        folder: Path,
        writable: Sequence[str],
        left_out: Callable[[str | None, PurePosixPath], bool],
        whole: Callable[[str | None, PurePosixPath], bool],
    ):
        self.folder, self.writable = os.path.realpath(folder), writable
        self.left_out, self.whole = left_out, whole
        self.tree = functools.lru_cache(256)(self._tree)

    def _tree(self, file: str | None) -> Tree:
        """The tree of a job that replaces `file`. Links to folders are not followed, so nothing is hidden twice."""
        hidden, writable = [], [os.path.normpath(name) for name in self.writable]
        for place, folders, names in os.walk(self.folder):
            folders.sort()
            inside = os.path.relpath(place, self.folder)
            below = {name: os.path.normpath(os.path.join(inside, name)) for name in folders}
            gone = [n for n, path in below.items() if n in VERSION_CONTROL or self.whole(file, PurePosixPath(path))]
            hidden += [below[name] for name in gone]
            folders[:] = [name for name in folders if name not in gone]
            paths = [os.path.normpath(os.path.join(inside, name)) for name in sorted(names)]
            hidden += [path for path in paths if self.left_out(file, PurePosixPath(path)) or _copied(file, path)]
        if file is not None:
            real = os.path.relpath(os.path.realpath(f"{self.folder}/{file}"), self.folder)
            hidden += [real] if real not in hidden and not real.startswith("../") else []
            writable += [os.path.dirname(real) or "."] if "." not in writable else []
        return Tree(self.folder, tuple(writable), tuple(hidden))

    def files(self) -> dict[str, Path]:
        """Regular files by path, without those of version control."""
        found = {}
        for place, folders, names in os.walk(self.folder):
            folders[:] = sorted(name for name in folders if name not in VERSION_CONTROL)
            for name in sorted(names):
                path = Path(place, name)
                if path.is_file():
                    found[os.path.relpath(path, self.folder)] = path
        return found


def _copied(file: str | None, path: str) -> bool:
    """Whether a build made a copy of the file, as Cactus does before it compiles it."""
    parts = PurePosixPath(path).parts
    return file is not None and parts[-1] == PurePosixPath(file).name and "build" in parts[:-1]
