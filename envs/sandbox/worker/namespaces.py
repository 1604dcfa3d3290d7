"""Namespaces with a small read-only file system, without network, other processes or other users' files."""

import contextlib
import fcntl
import os
import signal
import socket
import struct

from kernel import (
    LIBC,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    NEW_IPC,
    NEW_NET,
    NEW_NS,
    NEW_PID,
    NEW_USER,
    NEW_UTS,
    PR_SET_PDEATHSIG,
    checked,
    mount,
    pivot_root,
    prctl,
    unmount,
)
from layer import LAYER, LOWER, PLACE, RESERVED
from workplace import WRITABLE

SET_FLAGS, UP_AND_RUNNING = 0x8914, 0x41
"""SIOCSIFFLAGS with IFF_UP and IFF_RUNNING."""
TMP = "/tmp"
SYSTEM = "/usr"
LIBRARIES = "/python"
"""Where the small root has the libraries. At their own paths they could be in the way of another folder, of /tmp for
example, and would tell programs about the host."""


def enter_namespaces(folders: list[str], hidden: list[str], trees: list[str]) -> dict[str, str]:
    """Continue as process 1 of new namespaces with their own file system. Only that process returns.

    `folders` are libraries to include besides those of the system, even from below the folders `hidden`, which are
    empty. `trees` are folders for layer.py. Returns the new path of each library that has one; folders of one parent
    stay side by side. The outer process waits for the inner one and ends with it; if either is killed, so is the other.
    Raises OSError.
    """
    real = {folder: os.path.realpath(folder) for folder in folders}
    parents = list(dict.fromkeys(map(os.path.dirname, folders)))
    moved = {
        folder: f"{LIBRARIES}/{parents.index(os.path.dirname(folder))}/{os.path.basename(folder)}"
        for folder in folders
        if not real[folder].startswith(f"{SYSTEM}/") or any(real[folder].startswith(f"{top}/") for top in hidden)
    }
    user, group = os.getuid(), os.getgid()
    flags = NEW_NS | NEW_PID | NEW_NET | NEW_IPC | NEW_UTS | (NEW_USER if user else 0)
    checked(LIBC.unshare(flags), "unshare")
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    inner = os.fork()
    if inner:
        os.closerange(3, 1 << 16)
        pid, status = os.wait()
        while pid != inner:  # a process that entered the build group; see group.py
            pid, status = os.wait()
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _start_network()
    _build_root({real[folder]: target for folder, target in moved.items()}, hidden, trees)
    return moved


def _start_network() -> None:
    """Switch on the network's only device, which leads back to it; see Limits.sockets."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        fcntl.ioctl(end, SET_FLAGS, struct.pack("16sH14x", b"lo", UP_AND_RUNNING))


def _build_root(libraries: dict[str, str], hidden: list[str], trees: list[str]) -> None:
    """Create a root with only the system's programs and libraries, a few devices, and folders of `libraries` at their
    new paths. Folders `hidden` are empty."""
    mount(None, "/", flags=MS_REC | MS_PRIVATE)
    mount("tmpfs", TMP, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    os.makedirs(f"{TMP}/old")
    os.makedirs(f"{TMP}/new")
    pivot_root(TMP, f"{TMP}/old")
    os.chdir("/")
    mount("tmpfs", "/new", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    for path in ("/bin", "/lib", "/lib64", SYSTEM, "/etc/ld.so.cache", "/etc/alternatives"):
        if os.path.islink(f"/old{path}") and path.count("/") == 1:
            os.symlink(os.readlink(f"/old{path}"), f"/new{path}")
        elif os.path.exists(f"/old{path}"):
            _bind(path, path, MS_RDONLY | MS_NOSUID | MS_NODEV)
    for path, target in libraries.items():
        _bind(path, target, MS_RDONLY | MS_NOSUID | MS_NODEV)
    for folder in hidden:
        for seen in (folder, *_moved(folder, libraries)):
            if os.path.isdir(f"/new{seen}"):
                mount("tmpfs", f"/new{seen}", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV, "mode=755,size=4k")
    for name in ("null", "zero", "full", "random", "urandom"):
        _bind(f"/dev/{name}", f"/dev/{name}", MS_NOSUID)
    os.symlink(TMP, "/new/dev/shm")
    os.makedirs(f"/new{WRITABLE}/tmp")
    os.symlink(f"{WRITABLE}/tmp", "/new/tmp")
    _bind_trees(trees)
    os.makedirs("/new/proc")
    with contextlib.suppress(OSError):  # refused if a container hides parts of its /proc; then there is no /dev/stdin
        mount("proc", "/new/proc", "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "subset=pid,hidepid=invisible")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"/new/dev/{name}")
    os.makedirs("/new/gone")
    pivot_root("/new", "/new/gone")
    os.chdir("/")
    unmount("/gone")
    os.rmdir("/gone")
    mount(None, "/", flags=MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _bind_trees(trees: list[str]) -> None:
    """Bind the folders of layer.py, make its places, and put links at the folders' own paths, which builds note."""
    for place in (LOWER, LAYER, PLACE):
        os.makedirs(f"/new{place}")
    for number, tree in enumerate(trees):
        try:
            _bind(tree, f"{LOWER}/{number}", MS_RDONLY | MS_NOSUID | MS_NODEV)
        except OSError:  # the layer is refused for this folder alone, since its place is missing
            os.rmdir(f"/new{LOWER}/{number}")
        if not any(f"{tree}/".startswith(f"{place}/") for place in (*RESERVED, TMP)):
            with contextlib.suppress(OSError):  # its path leads through another tree, or is part of the small root
                os.makedirs(os.path.dirname(f"/new{tree}"), exist_ok=True)
                os.symlink(PLACE, f"/new{tree}")


def _moved(folder: str, libraries: dict[str, str]) -> list[str]:
    """The paths that a folder has below the new paths of libraries."""
    return [target + folder[len(path) :] for path, target in libraries.items() if folder.startswith(f"{path}/")]


def _bind(path: str, place: str, flags: int) -> None:
    source, target = os.path.realpath(f"/old{path}"), f"/new{place}"
    if not source.startswith("/old/"):
        source = f"/old{source}"
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w"):
            pass
    mount(source, target, flags=MS_BIND | MS_REC)
    with contextlib.suppress(OSError):  # flags locked by an outer user namespace cannot be changed
        mount(None, target, flags=MS_REMOUNT | MS_BIND | flags)
