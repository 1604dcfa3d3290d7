"""The few system calls that Python's library lacks, as functions that raise OSError."""

import ctypes
import fcntl
import os

LIBC = ctypes.CDLL(None, use_errno=True)
_KEEPING_LOCK = ctypes.PyDLL(None)
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 36, 38
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(os.uname().machine)
NEW_NS, NEW_UTS, NEW_IPC, NEW_USER = 0x20000, 0x4000000, 0x8000000, 0x10000000
NEW_PID, NEW_NET = 0x20000000, 0x40000000
CAPS_HEADER, NO_CAPS = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()

SYS_CLONE = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)
CLONE_PARENT, SIGCHLD = 0x8000, 17

FIRST_OWN = 100
"""The server's own descriptors begin here; the lowest it deals to programs."""


def checked(result: int, what: str) -> int:
    """`result`, or the OSError of the call that gave it."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def high(number: int) -> int:
    """The same file under a number from FIRST_OWN on; the old number is closed."""
    try:
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, FIRST_OWN)
    finally:
        os.close(number)


def fork() -> int:
    """fork(2) of a process with one thread, without Python's care for locks and random seeds that others might hold:
    a third of the time, since a child pays for each page that it touches."""
    return checked(_KEEPING_LOCK.fork(), "fork")


def fork_sibling() -> int:
    """The same, but the new process is a child of this one's parent, which waits for it."""
    return checked(_KEEPING_LOCK.syscall(SYS_CLONE, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0), "clone")


def _bytes(path: str | None) -> bytes | None:
    return None if path is None else os.fsencode(path)


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    """mount(2)."""
    call = LIBC.mount(_bytes(source), _bytes(target), _bytes(kind), ctypes.c_ulong(flags), _bytes(data))
    checked(call, f"mount {target}")


def unmount(target: str) -> None:
    """umount2(2), whatever is still open there."""
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
    """A seccomp filter, laid out for the kernel once so that a program's process only has to enter it."""

    def __init__(self, bpf: bytes) -> None:
        class Program(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]

        self.program = Program(len(bpf) // 8, bpf)

    def enter(self) -> None:
        prctl(PR_SET_SECCOMP, 2, ctypes.byref(self.program))
