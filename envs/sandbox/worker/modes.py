"""Changes of file modes and times that a build requests: the server makes them in its place, only in the build's
folder.

If programs run as the caller, the caller's files are around them, and Landlock does not cover calls that change a file
by name. However, a linker must make its output executable. Therefore such calls stop in the kernel and are submitted to
the server, which opens the file and applies them to the open file. See seccomp_unotify(2).
"""

import contextlib
import errno
import fcntl
import os
import stat
import struct

from kernel import LIBC, checked

CALLS = {
    "x86_64": {90: "chmod", 91: "fchmod", 268: "fchmodat", 452: "fchmodat2", 280: "utimensat"},
    "aarch64": {53: "fchmodat", 52: "fchmod", 452: "fchmodat2", 88: "utimensat"},
}.get(os.uname().machine, {})
"""Calls by number; seccomp.py has the filter."""
RECEIVE, SEND, STILL_THERE = 0xC0502100, 0xC0182101, 0x40082102
NOTICE, ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
HERE, NOT_FOLLOWED, MAY_BE_EMPTY = -100, 0x100, 0x1000
"""AT_FDCWD, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH."""
LONGEST, TIMES = 4096, 32
"""Largest length of a path, and length of two times, in bytes."""


class Modes:
    """Answers the calls of one job.

    Args:
        listener: descriptor of the filter of the job's processes; `close` closes it.
        folder: the job's folder.
    """

    def __init__(self, listener: int, folder: str) -> None:
        self.listener, self.folder = listener, os.fsencode(folder)

    def fileno(self) -> int:
        return self.listener

    def close(self) -> None:
        os.close(self.listener)

    def answer(self) -> None:
        """Receive one call, execute it and send its result; does nothing if the calling process has ended."""
        notice = bytearray(NOTICE.size)
        try:
            fcntl.ioctl(self.listener, RECEIVE, notice)
        except OSError:
            return
        serial, asking, _, number, _, _, *arguments = NOTICE.unpack(notice)
        code = 0
        try:
            self._do(CALLS[number], arguments, f"/proc/{asking}", serial)
        except OSError as error:
            code = -(error.errno or errno.EPERM)
        except (KeyError, OverflowError, ValueError):  # an unknown call, or an invalid address or name
            code = -errno.EFAULT
        with contextlib.suppress(OSError):
            fcntl.ioctl(self.listener, SEND, ANSWER.pack(serial, 0, code, 0))

    def _do(self, call: str, arguments: list[int], who: str, serial: int) -> None:
        """Raises OSError."""
        if call == "chmod":
            arguments.insert(0, HERE)
        elif call == "fchmod":
            arguments.insert(1, 0)
        place, path, value, flags = arguments[:4]
        if call in ("chmod", "fchmod", "fchmodat"):
            flags = 0  # these calls have no flags
        times = self._read(who, value, TIMES) if call == "utimensat" and value else None
        if times is not None and len(times) < TIMES:
            raise OSError(errno.EFAULT, "no times")
        unnamed = not path and call in ("fchmod", "utimensat")
        file = self._open(who, place, None if unnamed else self._read(who, path, LONGEST).partition(b"\0")[0], flags)
        try:
            fcntl.ioctl(self.listener, STILL_THERE, struct.pack("=Q", serial))  # its process number has not been reused
            name = b"/proc/self/fd/%d" % file
            where = os.readlink(name)
            if where != self.folder and not where.startswith(self.folder + b"/"):
                raise OSError(errno.EPERM, "not the job's own")
            if call == "utimensat":
                checked(LIBC.utimensat(HERE, name, times, 0), call)
            else:
                mode = value & 0o777
                os.chmod(name, mode | 0o700 if stat.S_ISDIR(os.fstat(file).st_mode) else mode)
        finally:
            os.close(file)

    def _open(self, who: str, place: int, path: bytes | None, flags: int) -> int:
        """A descriptor of the file that a process names, so that the name cannot be switched to another file."""
        place = (place & 0xFFFFFFFF) - (1 << 32) if place & 1 << 31 else place & 0xFFFFFFFF
        if place == HERE and path is None:
            raise OSError(errno.EFAULT, "no name")
        start = os.open(f"{who}/cwd" if place == HERE else f"{who}/fd/{place}", os.O_PATH | os.O_CLOEXEC)
        if path is None or (not path and flags & MAY_BE_EMPTY):
            return start
        try:
            followed = os.O_NOFOLLOW if flags & NOT_FOLLOWED else 0
            return os.open(path, os.O_PATH | os.O_CLOEXEC | followed, dir_fd=start)
        finally:
            os.close(start)

    def _read(self, who: str, address: int, most: int) -> bytes:
        memory = os.open(f"{who}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(memory, most, address)
        finally:
            os.close(memory)
