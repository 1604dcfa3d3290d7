"""Landlock: restricts a process to given paths. It needs Linux 5.13 or later; see landlock(7)."""

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterable

LIBC = ctypes.CDLL(None, use_errno=True)
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
PATH_BENEATH, ASK_VERSION = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEV = 1, 2, 4, 8, 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
REFER = 1 << 13
LAYOUT = 0x1FF << 4
"""Rights to create, remove and rename entries of folders."""
RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""All rights over files, by the version that introduced new ones."""
BIND_AND_CONNECT_TCP, ABSTRACT_SOCKETS_AND_SIGNALS = 3, 3


def _syscall(*arguments) -> int:
    result = LIBC.syscall(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"landlock: {os.strerror(number)}")
    return result


def version() -> int:
    """The kernel's version of Landlock; 0 if it has none or it is turned off."""
    try:
        return _syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ASK_VERSION)
    except OSError:
        return 0


def ruleset(
    kernels: int,
    readable: Iterable[str],
    devices: Iterable[str],
    writable: str,
    listed: Iterable[str] = (),
    sockets: bool = False,
) -> int:
    """A descriptor of the paths that processes may access; it is created once, and each process enters it.

    Args:
        kernels: the kernel's version, from `version()`.
        readable: paths below which files may be read and executed.
        devices: files that may be read and written.
        writable: the folder below which everything is allowed.
        listed: folders below which names may be listed.
        sockets: True allows TCP.
    """
    rights = RIGHTS[max(v for v in RIGHTS if v <= kernels)]
    attributes = struct.pack("QQQ", rights, 0 if sockets else BIND_AND_CONNECT_TCP, ABSTRACT_SOCKETS_AND_SIGNALS)
    size = 24 if kernels >= 6 else 16 if kernels >= 4 else 8
    made = _syscall(CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    for path in readable:
        _allow(made, path, READ)
    for path in listed:
        _allow(made, path, READ_DIR)
    for path in devices:
        _allow(made, path, READ_FILE | WRITE_FILE)
    _allow(made, writable, rights & ~IOCTL_DEV)
    return made


def without(folder: str, hidden: list[str]) -> list[str]:
    """The paths that together allow a folder except what lies below the real paths `hidden`, because Landlock cannot
    exclude. Folders on the way to a hidden one cannot be listed."""
    real = os.path.realpath(folder)
    if any(real == path or real.startswith(f"{path}/") for path in hidden):
        return []
    if not any(path.startswith(f"{real}/") for path in hidden):
        return [folder]
    with contextlib.suppress(OSError), os.scandir(real) as entries:
        # a link's target has a rule of its own, or is not allowed
        return [path for entry in entries if not entry.is_symlink() for path in without(entry.path, hidden)]
    return []


def keep_to(kernels: int, folder: str) -> None:
    """Allow this process to create, remove and rename files only below `folder`, in addition to the layers that it
    already has. Raises OSError."""
    rights = LAYOUT | (REFER if kernels >= 2 else 0)
    made = _syscall(CREATE_RULESET, struct.pack("Q", rights), ctypes.c_size_t(8), 0)
    _allow(made, folder, rights)
    restrict(made)
    os.close(made)


def restrict(made: int) -> None:
    """Restrict this process to the ruleset. Raises OSError."""
    _syscall(RESTRICT_SELF, made, 0)


def _allow(made: int, path: str, rights: int) -> None:
    with contextlib.suppress(FileNotFoundError, PermissionError):  # a path that cannot be opened stays denied
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not os.path.isdir(path):
            rights &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
        try:
            _syscall(ADD_RULE, made, PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
        finally:
            os.close(descriptor)
