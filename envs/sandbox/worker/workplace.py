"""The place a program works in: empty when it starts, gone when it has ended."""

import os

from kernel import MS_NODEV, MS_NOSUID, mount, unmount
from tree import contents, empty_tree, remove_tree

WRITABLE = "/writable"
"""Of the small root: /tmp is a link to its folder."""
INODES = 4096
"""Files and folders of one program on its tmpfs."""
ENTRIES = 1024
"""The same in a folder of the host's, which takes milliseconds for each to delete."""


class Workplace:
    """An empty directory for each program below `top`: on a tmpfs in our own namespace, or a folder that is deleted
    afterwards."""

    def __init__(self, private: bool) -> None:
        self.private = private
        self.mounted = False
        self.path = ""
        # Landlock looks through a mount at the folder above it: one rule for `top` serves every program's tmpfs
        self.top = WRITABLE if private else f"/tmp/sandbox-{os.getpid()}-{os.urandom(6).hex()}"
        if not private:
            os.mkdir(self.top, 0o711)
        self.look_every = float("inf") if private else 0.02
        """Seconds between looks at how much is in it, where the kernel does not keep count."""

    def open(self, uid: int | None, size_mib: int) -> str:
        """Make the directory, owned by `uid` where given, and return its path."""
        if self.private:
            options = f"mode=1777,size={size_mib}m,nr_inodes={INODES}"
            mount("tmpfs", f"{WRITABLE}/tmp", "tmpfs", MS_NOSUID | MS_NODEV, options)
            self.mounted = True
            self.path = "/tmp/work"
        else:
            self.path = f"{self.top}/{os.urandom(6).hex()}"
            self.free = os.statvfs(self.top)
        os.mkdir(self.path, 0o700)
        if uid is not None:
            os.chown(self.path, uid, uid)
        return self.path

    def overfull(self, size_mib: int) -> bool:
        """Whether more than `size_mib` MiB or ENTRIES files lie here; a tmpfs refuses them by itself."""
        if self.private:
            return False
        now = os.statvfs(self.top)
        fallen = (self.free.f_bfree - now.f_bfree) * now.f_frsize, self.free.f_ffree - now.f_ffree
        if fallen[0] <= size_mib << 19 and fallen[1] <= ENTRIES // 2:
            return False  # whoever wrote, it was too little
        blocks, files = contents(self.top, ENTRIES)
        return blocks * 512 > size_mib << 20 or files > ENTRIES

    def close(self) -> None:
        """Remove the directory and all that is in it."""
        if self.mounted:
            self.mounted = False
            unmount(f"{WRITABLE}/tmp")
        elif self.path and not self.private:
            empty_tree(self.top)  # by what is there, not by the name that it once had
        self.path = ""

    def remove(self) -> None:
        """At the server's end."""
        if not self.private:
            remove_tree(self.top)
