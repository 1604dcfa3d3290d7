"""The folders of libraries that programs may import, as copies if programs could not read the originals.

If the caller is root, programs run as users of their own. Such a user cannot reach an interpreter below a folder of
mode 700 or read files of mode 600, although the caller can. Therefore the files are linked or copied once for each
process of the caller to a folder that all users may read. It contains only libraries, and is deleted at exit.

Landlock allows a folder with all that lies below it, and a program that imports a package must list the folder around
it. So that it does not see what else is installed there (hidden.py), it gets a folder of symbolic links instead.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from envs.sandbox.hidden import hidden_folders
from envs.sandbox.users import first_uid
from envs.sandbox.worker.tree import remove_tree

NOT_COPIED = {"site-packages", "dist-packages", "test", "sitecustomize.py"}
"""Entries of the standard library's folder that programs do not import. Debian's last one is a link to /etc."""
SYSTEM = "/usr"
"""Programs of every tier may read it."""
PLACES = ("/var/cache", "/var/tmp", "/tmp", "/dev/shm")
"""Folders for copies; services that delete old files leave the first alone."""
PREFIX = "sandbox-python-"
YOUNG_S = 60.0
"""Age below which another process's copy is not examined, because it may not be locked yet."""


class Unreadable(RuntimeError):
    """Programs could not read the libraries, and no copy can be made; the message says why."""


@dataclass(frozen=True)
class Libraries:
    """What a worker lets its programs import.

    packages: folders of packages. originals: the same before any copying; what a package needs may lie beside it.
    home: the PYTHONHOME of a copied or linked standard library; None for the interpreter's own.
    hidden: folders that programs must not see although they lie below others that they may read. linked: the folder to
    which symbolic links of `home` lead.
    """

    packages: tuple[str, ...]
    originals: tuple[str, ...]
    home: str | None = None
    hidden: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()


def folders_of(package: str) -> list[str]:
    """The folder of a library, and that of its wheel's shared objects if there is one. Raises ValueError."""
    spec = importlib.util.find_spec(package.partition(".")[0])
    if spec is None:
        raise ValueError(f"sandbox.packages={package}: it is not installed; install it, or remove it from the setting")
    if not spec.submodule_search_locations:
        raise ValueError(f"sandbox.packages={package}: it is a module without a folder, which programs cannot be given")
    parent, name = os.path.split(spec.submodule_search_locations[0])
    real = os.path.realpath(f"{parent}/{name}")
    folder = real if os.path.basename(real) == name else f"{os.path.realpath(parent)}/{name}"
    return [path for path in (folder, f"{os.path.dirname(real)}/{name}.libs") if os.path.isdir(path)]


def readable(tier: str, packages: Sequence[str]) -> Libraries:
    """The libraries as programs of a tier can read them. Raises Unreadable."""
    if tier == "none":
        return Libraries(tuple(packages), tuple(packages))
    library = os.path.dirname(os.__file__)
    try:
        hidden = tuple(hidden_folders([library]))
        return _readable(tier == "landlock", tuple(packages), library, first_uid() is not None, os.getpid(), hidden)
    except OSError as error:
        raise Unreadable(f"the libraries in {library} or the packages cannot be examined: {error}") from error


@functools.lru_cache(maxsize=16)
def _readable(
    by_path: bool, packages: tuple[str, ...], library: str, others: bool, pid: int, hidden: tuple[str, ...]
) -> Libraries:
    """See `readable`. `pid` is part of the cache's key, because a forked process must not use its parent's copy."""
    closed = [folder for folder in packages if _closed(folder, by_path, others)]
    hides_library = _closed(library, by_path, others, NOT_COPIED)
    links_library = by_path and not hides_library and any(_inside(folder, library) for folder in hidden)
    if not closed and not hides_library and not by_path:
        return Libraries(packages, packages, hidden=hidden)
    top = _public_folder(library)
    try:
        parents = sorted({os.path.dirname(folder) for folder in packages})
        moved = []
        for folder in packages:  # a package and its shared objects must stay side by side
            parent, name = os.path.split(folder)
            apart = parent in {os.path.dirname(other) for other in closed}
            moved.append(f"{top}/packages/{parents.index(parent)}/{name}" if apart or by_path else folder)
            if apart:
                _copy(folder, moved[-1])
            elif by_path:
                _make_public(os.path.dirname(moved[-1]))
                os.symlink(folder, moved[-1])
        home = f"{top}/home" if hides_library or links_library else None
        if home:
            place = _copy if hides_library else _link
            place(library, f"{home}/{sys.platlibdir}/{os.path.basename(library)}", NOT_COPIED)
    except OSError as error:
        with contextlib.suppress(OSError):
            remove_tree(top)
        raise Unreadable(
            f"programs may not read {library if hides_library else packages[0]}, and it cannot be copied to {top}: "
            f"{error.strerror or error}; make it readable for all users, or free some space"
        ) from error
    return Libraries(tuple(moved), packages, home, hidden, (library,) if links_library else ())


def _link(source: str, target: str, left_out: Collection[str]) -> None:
    """A folder of symbolic links to the entries of another. Raises OSError."""
    _make_public(target)
    for name in os.listdir(source):
        if name not in left_out:
            os.symlink(f"{os.path.realpath(source)}/{name}", f"{target}/{name}")


def _closed(folder: str, by_path: bool, others: bool, left_out: Collection[str] = ()) -> bool:
    """Whether programs could not read all of a library.

    Args:
        folder: the library's folder; it may be a link.
        by_path: True if programs reach it through the host's folders.
        others: True if programs run as other users than the caller.
        left_out: entries of the folder that programs do not import.
    """
    real = os.path.realpath(folder)
    if others and by_path and not all(_searchable(str(path)) for path in (*Path(folder).parents, *Path(real).parents)):
        return True
    for path, entry in _entries(real, left_out):
        if entry.is_symlink():
            if os.path.isfile(path) and not _inside(path, real) and not _inside(path, SYSTEM):
                return True  # a link out of the folder; its target is out of reach
            continue
        mode = entry.stat(follow_symlinks=False).st_mode
        if others and (mode & 0o005 != 0o005 if entry.is_dir() else not mode & 0o004):
            return True
    return others and os.stat(real).st_mode & 0o005 != 0o005


def _entries(top: str, left_out: Collection[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything below a folder, with its path, without the entries `left_out` of the folder itself."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        with contextlib.suppress(PermissionError):  # programs of a caller that cannot read it either
            for entry in os.scandir(folder):
                if folder == top and entry.name in left_out:
                    continue
                yield entry.path, entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def _inside(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(folder + "/")


def _searchable(folder: str) -> bool:
    return bool(os.stat(folder).st_mode & 0o001)


def _public_folder(near: str) -> str:
    """A new folder of this process that all users may search; preferably on the file system of `near`, where files can
    be linked. Raises Unreadable."""
    device = os.stat(near).st_dev
    places: list[tuple[bool, int, str]] = []
    for place in dict.fromkeys(map(os.path.realpath, (*PLACES, tempfile.gettempdir()))):
        with contextlib.suppress(OSError):
            public = all(_searchable(str(path)) for path in (place, *Path(place).parents))
            if public and os.access(place, os.W_OK) and not os.statvfs(place).f_flag & os.ST_NOEXEC:
                places.append((os.stat(place).st_dev != device, len(places), place))
    for _, _, place in sorted(places):
        with contextlib.suppress(OSError):
            _sweep(place)
            top = tempfile.mkdtemp(prefix=PREFIX, dir=place)
            os.chmod(top, 0o711)
            # held until this process ends; it also keeps systemd-tmpfiles away
            fcntl.flock(os.open(top, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_SH)
            atexit.register(_remove, top, os.getpid())
            return top
    raise Unreadable(
        f"programs may not read all of {near} and of the packages, and there is no folder for a copy: none of "
        f"{', '.join(PLACES)} is writable, open to all users and allows execution; set TMPDIR to such a folder"
    )


def _remove(top: str, pid: int) -> None:
    if os.getpid() == pid:
        with contextlib.suppress(OSError):
            remove_tree(top)


def _sweep(place: str) -> None:
    """Delete the copies of processes that were killed. A living process holds a lock on its copy."""
    for path in Path(place).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            if path.is_symlink() or status.st_uid != os.geteuid() or time.time() - status.st_mtime < YOUNG_S:
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(str(path))
            finally:
                os.close(descriptor)


def _copy(source: str, target: str, left_out: Collection[str] = ()) -> None:
    """Link or copy a folder so that all users may read it. Links to files are replaced by the files; links to folders
    are kept only if they lead to a place inside. Raises OSError."""
    real = os.path.realpath(source)
    _make_public(target)
    for parent, folders, files in os.walk(real):
        if parent == real:
            folders[:] = [name for name in folders if name not in left_out]
        here = target + parent[len(real) :]
        for name in folders:
            if not os.path.islink(f"{parent}/{name}"):
                _make_public(f"{here}/{name}")
            elif _inside(f"{parent}/{name}", real):
                os.symlink(os.path.relpath(os.path.realpath(f"{parent}/{name}"), parent), f"{here}/{name}")
        for name in files if parent != real else [name for name in files if name not in left_out]:
            with contextlib.suppress(FileNotFoundError):  # a link that leads nowhere
                _copy_file(os.path.realpath(f"{parent}/{name}"), f"{here}/{name}")


def _make_public(folder: str) -> None:
    """Create a folder and its missing parents with mode 755, whatever the umask."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        os.mkdir(path)
        os.chmod(path, 0o755)


def _copy_file(source: str, target: str) -> None:
    mode = os.stat(source).st_mode
    if mode & 0o004:
        with contextlib.suppress(OSError):  # another file system, or one without links
            os.link(source, target)
            return
    shutil.copy2(source, target)  # with its times, which belong to the compiled modules
    os.chmod(target, 0o755 if mode & 0o100 else 0o644)
