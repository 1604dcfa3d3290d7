"""The folder in which a program works: empty when it starts, deleted when it has ended."""

import os

from held import held
from kernel import MS_NODEV, MS_NOSUID, mount, unmount
from tree import contents, empty_tree, remove_tree

WRITABLE = "/writable"
"""A folder of the small root; /tmp is a link into it."""
INODES = 4096
"""Number of files and folders of a program on its tmpfs, if its limits have none."""
ENTRIES = 1024
"""The same in a folder of the host, where deleting each takes milliseconds."""


class Workplace:
    """An empty directory for each program below `top`: on a tmpfs in a namespace of its own, or a folder that is
    deleted afterwards."""

    def __init__(self, private: bool) -> None:
        self.private = private
        self.mounted = False
        self.path = ""
        self.uid: int | None = None
        self.entries = ENTRIES
        self.short = False
        """Whether the host's disk has had less room than the limit since `open`."""
        # Landlock applies the rule of a folder to mounts below it, so one rule for `top` covers every program's tmpfs
        self.top = WRITABLE if private else f"/tmp/sandbox-{os.getpid()}-{os.urandom(6).hex()}"
        if not private:
            try:
                os.mkdir(self.top, 0o711)
            except OSError as error:
                reason = f"programs have their folders in /tmp, where none can be made ({error.strerror})"
                raise OSError(error.errno, f"{reason}: make /tmp writable") from None
        self.look_every = float("inf") if private else 0.02
        """Seconds between checks of its size, if the kernel does not limit it."""

    def open(self, uid: int | None, size_mib: int, files: int | None = None) -> str:
        """Create the directory, owned by `uid` if given, and return its path. Raises OSError."""
        self.uid, self.short = uid, False
        self.entries = files or (INODES if self.private else ENTRIES)
        if self.private:
            options = f"mode=1777,size={size_mib}m,nr_inodes={self.entries}"
            mount("tmpfs", f"{WRITABLE}/tmp", "tmpfs", MS_NOSUID | MS_NODEV, options)
            self.mounted = True
            self.path = "/tmp/work"
        else:
            self.path = f"{self.top}/{os.urandom(6).hex()}"
            self.free = self.look(size_mib)
        os.mkdir(self.path, 0o700)
        if uid is not None:
            os.chown(self.path, uid, uid)
        return self.path

    def look(self, size_mib: int) -> os.statvfs_result:
        """The state of the disk; also notes whether it is too full for the files that a program may write."""
        now = os.statvfs(self.top)
        if not self.private and now.f_bavail * now.f_frsize < size_mib << 20:
            self.short = True
        if not self.private and now.f_files and now.f_favail < self.entries:
            self.short = True
        return now

    def overfull(self, size_mib: int) -> bool:
        """Whether the program holds more than `size_mib` MiB or `entries` files; a tmpfs enforces its own limits."""
        if self.private:
            return False
        now, most = self.look(size_mib), size_mib << 20
        fallen = (self.free.f_bfree - now.f_bfree) * now.f_frsize, self.free.f_ffree - now.f_ffree
        if fallen[0] <= most // 2 and fallen[1] <= self.entries // 2:
            return False  # too little was written, by any process
        blocks, files = contents(self.top, self.entries)
        return files > self.entries or blocks * 512 + held(self.top, self.uid, most) > most

    def close(self) -> None:
        """Remove the directory and its content."""
        if self.mounted:
            self.mounted = False
            unmount(f"{WRITABLE}/tmp")
        elif self.path and not self.private:
            empty_tree(self.top)  # the real content of `top`; the program may have renamed its folder
        self.path = ""

    def remove(self) -> None:
        """Delete `top` when the server ends."""
        if not self.private:
            remove_tree(self.top)
