"""Walls around a program: namespaces with a small read-only file system, a uid of its own, limits, no
privileges."""

import contextlib
import ctypes
import errno
import math
import os
import resource
import signal
import stat
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_NS, NEW_UTS, NEW_IPC, NEW_USER, NEW_PID, NEW_NET = (
    0x20000,
    0x4000000,
    0x8000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
M_ARENA_MAX = -8
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(os.uname().machine)
STACK = 64 << 20
CAPS_HEADER, NO_CAPS = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
TMP = "/tmp"


def _call(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _bytes(path: str | None) -> bytes | None:
    return None if path is None else os.fsencode(path)


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    """mount(2). Raises OSError."""
    call = LIBC.mount(_bytes(source), _bytes(target), _bytes(kind), ctypes.c_ulong(flags), _bytes(data))
    _call(call, f"mount {target}")


def prctl(option: int, value: int) -> None:
    """prctl(2) with one argument. Raises OSError."""
    _call(LIBC.prctl(option, value, 0, 0, 0), f"prctl {option}")


def guard_server() -> None:
    """For the server itself: its memory unreadable to programs, orphans come back to it, few malloc
    arenas."""
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    LIBC.mallopt(M_ARENA_MAX, 2)


# --- namespaces ---------------------------------------------------------------------------------------------


def enter_namespaces() -> None:
    """Continue as process 1 of new namespaces with a file system of our own. Only that process returns.

    The one that stays outside waits for it and dies with it; each is killed with the other. Raises OSError.
    """
    user, group = os.getuid(), os.getgid()
    flags = NEW_NS | NEW_PID | NEW_NET | NEW_IPC | NEW_UTS | (NEW_USER if user else 0)
    _call(LIBC.unshare(flags), "unshare")
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    inner = os.fork()
    if inner:
        os.closerange(3, 1 << 16)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) & 0xFF)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _build_root()


def _build_root() -> None:
    """A root of nothing but the system's programs and libraries, this interpreter's library and a few
    devices."""
    mount(None, "/", flags=MS_REC | MS_PRIVATE)
    mount("tmpfs", TMP, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    os.makedirs(f"{TMP}/old")
    os.makedirs(f"{TMP}/new")
    _call(LIBC.syscall(SYS_PIVOT_ROOT, _bytes(TMP), _bytes(f"{TMP}/old")), "pivot_root")
    os.chdir("/")
    mount("tmpfs", "/new", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    library = os.path.dirname(os.__file__)
    for path in ("/bin", "/lib", "/lib64", "/usr", "/etc/ld.so.cache", library):
        if os.path.islink(f"/old{path}") and path.count("/") == 1:
            os.symlink(os.readlink(f"/old{path}"), f"/new{path}")
        elif os.path.exists(f"/old{path}") and (path == "/usr" or not path.startswith("/usr/")):
            _bind(path, MS_RDONLY | MS_NOSUID | MS_NODEV)
    for name in ("null", "zero", "full", "random", "urandom"):
        _bind(f"/dev/{name}", MS_NOSUID)
    os.symlink(TMP, "/new/dev/shm")
    for path in (TMP, "/proc"):
        os.makedirs(f"/new{path}", exist_ok=True)
    os.makedirs("/new/gone")
    _call(LIBC.syscall(SYS_PIVOT_ROOT, b"/new", b"/new/gone"), "pivot_root")
    os.chdir("/")
    _call(LIBC.umount2(b"/gone", MNT_DETACH), "umount")
    os.rmdir("/gone")
    mount(None, "/", flags=MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _bind(path: str, flags: int) -> None:
    source, target = os.path.realpath(f"/old{path}"), f"/new{path}"
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


# --- the place a program works in ---------------------------------------------------------------------------


class Workplace:
    """An empty directory for each program: a tmpfs in our own namespace, or a folder that is deleted
    afterwards."""

    def __init__(self, private: bool) -> None:
        self.private = private
        self.mounted = False
        self.path = ""

    def open(self, uid: int | None, size_mib: int) -> str:
        """Make the directory, owned by `uid` where given, and return its path."""
        if self.private:
            mount("tmpfs", TMP, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={size_mib}m,nr_inodes=4096")
            self.mounted = True
            self.path = f"{TMP}/work"
        else:
            self.path = f"{TMP}/sandbox-{os.getpid()}-{os.urandom(6).hex()}"
        os.mkdir(self.path, 0o700)
        if uid is not None:
            os.chown(self.path, uid, uid)
        return self.path

    def close(self) -> None:
        """Remove the directory and all that is in it."""
        if self.mounted:
            self.mounted = False
            _call(LIBC.umount2(_bytes(TMP), MNT_DETACH), "umount")
        elif self.path and not self.private:
            remove_tree(self.path)
        self.path = ""


def remove_tree(path: str) -> None:
    """Delete a directory of any depth and any modes: no recursion, no long paths, and no link is followed.

    Directories found on the way are moved up to the top under new names, so only two levels are ever open.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    top = os.open(path, flags)
    serial = 0
    try:
        waiting = ["."]
        while waiting:
            name = waiting.pop()
            with contextlib.suppress(OSError):
                os.chmod(name, 0o700, dir_fd=top)
            folder = os.open(name, flags, dir_fd=top)
            try:
                for entry in os.listdir(folder):
                    if name == "." and entry in waiting:
                        continue
                    if not stat.S_ISDIR(os.stat(entry, dir_fd=folder, follow_symlinks=False).st_mode):
                        os.unlink(entry, dir_fd=folder)
                        continue
                    serial += 1
                    moved = f"{serial:x}.{os.urandom(8).hex()}"
                    with contextlib.suppress(OSError):
                        os.chmod(entry, 0o700, dir_fd=folder)
                    os.rename(entry, moved, src_dir_fd=folder, dst_dir_fd=top)
                    waiting.append(moved)
            finally:
                os.close(folder)
            if name != ".":
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path)


# --- a program's own process --------------------------------------------------------------------------------


def confine(limits: dict, uid: int | None, folder: str) -> None:
    """Called in the new process before any untrusted code. Raises OSError if a wall cannot be raised."""
    os.chdir(folder)
    mib = 1 << 20
    cpu = math.ceil(limits["cpu_s"])
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    for what, soft, hard in (
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_AS, limits["memory_mib"] * mib, limits["memory_mib"] * mib),
        (resource.RLIMIT_FSIZE, limits["file_mib"] * mib, limits["file_mib"] * mib),
        (resource.RLIMIT_NOFILE, limits["open_files"], limits["open_files"]),
        (resource.RLIMIT_NPROC, limits["processes"], limits["processes"]),
        (resource.RLIMIT_STACK, STACK if most == -1 else min(STACK, most), most),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        resource.setrlimit(what, (soft, hard))
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _drop_capabilities()


def _drop_capabilities() -> None:
    _call(LIBC.capset(CAPS_HEADER, NO_CAPS), "capset")


def kill_all(private: bool, uids: list[int]) -> None:
    """End and reap every descendant of the server. Raises OSError if some survive."""
    for _ in range(1000):
        if _reap():
            return
        if private:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        elif uids:
            for uid in uids:
                _kill_as(uid)
        else:
            for pid in _children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    raise OSError(errno.EBUSY, "programs that cannot be ended")


def _reap() -> bool:
    """Take the dead; True when no descendant is left."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return False
        except ChildProcessError:
            return True


def _kill_as(uid: int) -> None:
    """SIGKILL to every process of `uid`, by a helper that may signal only those and that they may not
    signal."""
    pid = os.fork()
    if pid == 0:
        try:
            unused = uid ^ (1 << 28)
            os.setresuid(unused, uid, unused)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def describe(tier: str, uid: int | None) -> dict:
    """The layers that hold in this tier, by name."""
    private = tier == "namespaces"
    return {
        "tier": tier,
        "python": sys.version.split()[0],
        "uid_drop": uid is not None,
        "rlimits": True,
        "no_new_privs": True,
        "no_capabilities": True,
        "pid_namespace": private,
        "network_off": private,
        "private_files": private,
        "seccomp": False,
        "landlock": False,
    }
