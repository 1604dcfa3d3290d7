"""Gives a build a whole folder of the host: the folder itself is read-only, changes go to a layer of the build's own
(overlayfs), which is deleted with it. Only servers with namespaces of their own can."""

import contextlib
import os
import stat

from kernel import MS_NODEV, MS_NOSUID, MS_RDONLY, mount, unmount
from workplace import WRITABLE

LOWER = "/trees"
"""Where the small root has the folders. An empty folder covers it, except while a layer is prepared."""
LAYER = "/layer"
"""Where a layer is prepared; programs never see it."""
PLACE = f"{WRITABLE}/tree"
"""Where programs have the folder; at its path on the host is a link, because builds note absolute paths."""
NAME = "tree"
"""The link in a build's own folder."""
INODES = 1 << 18
RESERVED = ("/bin", "/dev", "/gone", "/lib", "/lib64", "/proc", "/python", "/usr", LOWER, LAYER, WRITABLE)
FLAGS = MS_NOSUID | MS_NODEV


class Layers:
    """
    Args:
        trees: real paths of the host's folders, in the order of their places below LOWER.
        uid: the user as whom programs run; None if it is the caller, in a user namespace.
    """

    def __init__(self, trees: list[str], uid: int | None) -> None:
        self.trees, self.uid = trees, uid
        self.mounted = False
        # copying only a file's owner needs an attribute that user namespaces do not have
        self.options = ["userxattr", ""] if uid is None else ["metacopy=on", ""]
        if trees:
            self._cover()

    def refusal(self) -> str:
        """Why folders cannot be given to builds; empty if they can."""
        for tree in self.trees:
            if any(f"{tree}/".startswith(f"{place}/") for place in RESERVED):
                return f"{tree} lies in a folder of the system; move it, for example to your home folder"
            try:
                self._mount(tree, [], [], 1)
            except OSError as error:
                return f"this kernel does not give {tree} a layer of its own ({error.strerror or error})"
            finally:
                self.close()
        return ""

    def open(self, tree: str, writable: list[str], hidden: list[str], size_mib: int, folder: str) -> None:
        """Mount the folder, without `hidden` and with what lies below `writable` owned by the program's user, and put
        links to it where the program looks for it. Raises OSError."""
        self._mount(tree, writable, hidden, size_mib)
        os.symlink(PLACE, f"{folder}/{NAME}")
        if tree.startswith("/tmp/"):
            os.makedirs(os.path.dirname(tree), 0o755, exist_ok=True)
            os.symlink(PLACE, tree)

    def close(self) -> None:
        if self.mounted:
            self.mounted = False
            unmount(PLACE)

    def _cover(self) -> None:
        mount("tmpfs", LOWER, "tmpfs", FLAGS | MS_RDONLY, "mode=700,size=4k")

    def _mount(self, tree: str, writable: list[str], hidden: list[str], size_mib: int) -> None:
        lower, upper = f"{LOWER}/{self.trees.index(tree)}", f"{LAYER}/upper"
        unmount(LOWER)
        try:
            mount("tmpfs", LAYER, "tmpfs", FLAGS, f"mode=700,size={size_mib}m,nr_inodes={INODES}")
            try:
                os.mkdir(f"{LAYER}/work")
                os.mkdir(upper)
                os.chmod(upper, stat.S_IMODE(os.stat(lower).st_mode))
                for name in hidden:
                    self._hide(lower, upper, name)
                for name in writable:
                    self._own_folders(lower, upper, name)
                self._overlay(lower, upper)
                for name in writable:
                    self._own_files(f"{PLACE}/{name}")
            finally:
                unmount(LAYER)  # the mounted folder keeps it
        finally:
            self._cover()

    def _overlay(self, lower: str, upper: str) -> None:
        for number, option in enumerate(self.options):
            places = f"lowerdir={lower},upperdir={upper},workdir={LAYER}/work"
            try:
                mount("overlay", PLACE, "overlay", FLAGS, f"{places},{option}".rstrip(","))
            except OSError:
                if number + 1 == len(self.options):
                    raise
                continue
            self.mounted = True
            self.options = self.options[number:]
            return

    def _own_folders(self, lower: str, upper: str, name: str) -> None:
        """Make `name` and all folders below it in the layer; they have the lower folder's content and the program's
        user as their owner."""
        self._parents(lower, upper, name)
        for folder, inner, _ in os.walk(f"{lower}/{name}"):
            copy = upper + folder[len(lower) :]
            self._make(folder, copy, self.uid)
            inner[:] = [each for each in inner if not _deleted(f"{copy}/{each}")]
        self._make(f"{lower}/{name}", f"{upper}/{name}", self.uid)

    def _parents(self, lower: str, upper: str, name: str) -> None:
        parts = name.split("/")[:-1]
        for count in range(1, len(parts) + 1):
            place = "/".join(parts[:count])
            if os.path.islink(f"{lower}/{place}") or ".." in parts:
                raise OSError(f"{place} is no folder of the tree")
            self._make(f"{lower}/{place}", f"{upper}/{place}", None)

    @staticmethod
    def _make(lower: str, upper: str, uid: int | None) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(upper)
            os.chmod(upper, stat.S_IMODE(os.stat(lower).st_mode) if os.path.isdir(lower) else 0o755)
        if uid is not None:
            os.chown(upper, uid, uid)

    def _hide(self, lower: str, upper: str, name: str) -> None:
        if os.path.lexists(f"{lower}/{name}"):
            self._parents(lower, upper, name)
            os.mknod(f"{upper}/{name}", stat.S_IFCHR, os.makedev(0, 0))  # overlayfs's mark of a deleted entry

    def _own_files(self, folder: str) -> None:
        if self.uid is None:
            return
        for place, _, names in os.walk(folder):
            for name in names:
                os.chown(f"{place}/{name}", self.uid, self.uid, follow_symlinks=False)


def _deleted(path: str) -> bool:
    """Whether a layer has a mark of a deleted entry."""
    return os.path.lexists(path) and not os.path.isdir(path)
