"""System calls that Python's library lacks, as functions that raise OSError."""

import ctypes
import fcntl
import os

LIBC = ctypes.CDLL(None, use_errno=True)
_KEEPING_LOCK = ctypes.PyDLL(None)
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 36, 38
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(os.uname().machine)
NEW_NS, NEW_UTS, NEW_IPC, NEW_USER = 0x20000, 0x4000000, 0x8000000, 0x10000000
NEW_PID, NEW_NET = 0x20000000, 0x40000000
PROT_READ, PROT_WRITE, PROT_EXEC = 1, 2, 4
LARGE = 128 << 10
CAPS_HEADER, NO_CAPS = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()

SYS_CLONE = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)
CLONE_PARENT, SIGCHLD = 0x8000, 17
SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}.get(os.uname().machine)

PROCESSORS = os.sched_getaffinity(0)
"""The processors that the caller may use, read before the server restricts itself to one."""
FIRST_OWN = 100
"""The server's own descriptors have numbers from here on; lower ones are for programs."""


def checked(result: int, what: str) -> int:
    """`result`; raises the OSError of a failed call."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def high(number: int) -> int:
    """Move a descriptor to a number from FIRST_OWN on; the old number is closed."""
    try:
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, FIRST_OWN)
    finally:
        os.close(number)


def fork() -> int:
    """fork(2) of a process with one thread, without Python's handling of locks and random seeds of other threads.

    It takes a third of the time, because a child pays for each page that it touches.
    """
    return checked(_KEEPING_LOCK.fork(), "fork")


def fork_sibling() -> int:
    """Like `fork`, but the new process is a child of this process's parent, which waits for it."""
    return checked(_KEEPING_LOCK.syscall(SYS_CLONE, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0), "clone")


def share_code() -> None:
    """Make forked processes inherit the page tables of the interpreter's code.

    Otherwise each would cause 50 page faults: fork copies the table of a file mapping only if one of its pages was
    written.
    """
    with open("/proc/self/maps") as file:
        mappings = [line.split() for line in file]
    for where, rights, _, _, _, *path in mappings:
        first, last = (int(end, 16) for end in where.split("-"))
        if path and path[0][0] == "/" and rights in ("r--p", "r-xp") and last - first >= LARGE:
            readable = PROT_READ | (PROT_EXEC if "x" in rights else 0)
            size, byte = ctypes.c_size_t(last - first), ctypes.c_ubyte.from_address(first)
            checked(LIBC.mprotect(ctypes.c_void_p(first), size, readable | PROT_WRITE), "mprotect")
            byte.value = byte.value
            checked(LIBC.mprotect(ctypes.c_void_p(first), size, readable), "mprotect")


def _bytes(path: str | None) -> bytes | None:
    return None if path is None else os.fsencode(path)


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    """mount(2)."""
    call = LIBC.mount(_bytes(source), _bytes(target), _bytes(kind), ctypes.c_ulong(flags), _bytes(data))
    checked(call, f"mount {target}")


def unmount(target: str) -> None:
    """umount2(2), even if files there are still open."""
    checked(LIBC.umount2(_bytes(target), MNT_DETACH), f"umount {target}")


def pivot_root(root: str, old: str) -> None:
    """pivot_root(2)."""
    checked(LIBC.syscall(SYS_PIVOT_ROOT, _bytes(root), _bytes(old)), "pivot_root")


def prctl(option: int, value: int, pointer: object = 0) -> None:
    """prctl(2)."""
    checked(LIBC.prctl(option, value, pointer, 0, 0), f"prctl {option}")


def drop_capabilities() -> None:
    checked(LIBC.capset(CAPS_HEADER, NO_CAPS), "capset")


class Filter:
    """A seccomp filter in the kernel's layout, prepared once, so that a program's process only has to enter it."""

    def __init__(self, bpf: bytes) -> None:
        class Program(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]

        self.program = Program(len(bpf) // 8, bpf)

    def enter(self) -> None:
        prctl(PR_SET_SECCOMP, 2, ctypes.byref(self.program))

    def listen(self) -> int:
        """Enter the filter, and return the descriptor through which another process answers the submitted calls."""
        return checked(LIBC.syscall(SYS_SECCOMP, 1, ctypes.c_ulong(8), ctypes.byref(self.program)), "seccomp")
