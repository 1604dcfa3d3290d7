"""Confines a program's process with limits, a uid of its own, no privileges, Landlock and seccomp; and ends it."""

import contextlib
import errno
import os
import resource
import signal
import socket
import time
from collections.abc import Iterable

import kernel
import landlock
import program

STACK = 64 << 20
M_ARENA_MAX = -8
SYSTEM = ["/bin", "/lib", "/lib64", "/usr", "/etc/ld.so.cache", "/etc/alternatives"]
DEVICES = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"]


def guard_server(uid: int | None, private: bool) -> None:
    """Set up the server itself: programs cannot read its memory, orphans become its children, malloc has few arenas. It
    has no new privileges and no groups, which its programs inherit."""
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        if private:
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of the group resets it
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    kernel.LIBC.mallopt(M_ARENA_MAX, 2)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # needed to count the files in nested folders
        resource.setrlimit(resource.RLIMIT_NOFILE, (8192 if most == -1 else min(8192, most), most))


class Walls:
    """The layers of confinement of each program of one server.

    Args:
        tier: "full" (the server is in its own namespaces), "landlock", or "none": limits only.
        uid: the user as whom programs run; None if the server may not change it.
        filters: BPF code by name, "program" and "tools".
        library: folders of the standard library.
        packages: folders of additional libraries, even from below a folder that is hidden.
        hidden: folders that programs must not read although they lie below others.

    Raises:
        OSError: the kernel lacks a feature that the tier needs.
    """

    def __init__(
        self,
        tier: str,
        uid: int | None,
        filters: dict[str, bytes],
        library: list[str],
        packages: list[str],
        hidden: list[str],
    ) -> None:
        self.tier, self.uid = tier, uid
        self.checker_uid = None if uid is None else uid ^ (1 << 29)
        self.filters = {name: kernel.Filter(bpf) for name, bpf in filters.items()} if tier != "none" else {}
        version = landlock.version() if tier != "none" else 0
        # before version 3, a program without a uid of its own could truncate its user's files
        if tier == "landlock" and version < (3 if uid is None else 1):
            raise OSError(errno.ENOSYS, f"the kernel's Landlock is version {version}, too old or turned off")
        seen = [*SYSTEM, *library]
        if tier == "landlock":  # in a root of its own these folders are empty
            seen = [path for folder in seen for path in landlock.without(folder, hidden)]
        self.readable, self.landlock = [*seen, *packages], version
        self.rulesets: dict[bool, int] = {}  # without and with sockets
        self.listed = {os.path.dirname(folder) for folder in packages}  # the folders that `import` searches
        self.apart = tier == "landlock" and uid is None
        """Whether only these layers protect the files of the program's user, which include the server's folders."""
        self.grouped = False
        """Whether a build enters a control group; its descriptor is the last of the order's."""
        self.asking = "modes" in self.filters
        """Whether a build's changes of file modes are submitted to the server; see modes.py."""

    def allow(self, writable: str) -> None:
        """Deny programs all paths except `writable`, the files of the system and the packages, and a few devices."""
        if self.landlock:
            for sockets in (False, True):
                made = landlock.ruleset(self.landlock, self.readable, DEVICES, writable, self.listed, sockets)
                self.rulesets[sockets] = kernel.high(made)

    def processes(self, limits: dict) -> int:
        """Limit on the processes of the program's user, which may not be above the limit that it has already."""
        most = limits["processes"] + (_tasks() if self.apart else 0)
        allowed = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        return most if allowed == resource.RLIM_INFINITY else min(most, allowed)

    def close_files(self, limits: dict) -> None:
        """Apply the layers that a process may have before it forks others, which inherit them. Raises OSError."""
        if self.landlock:
            landlock.restrict(self.rulesets[limits["sockets"]])
        for what, (soft, hard) in shared_limits(limits):
            program.limit_to(what, soft, hard)

    def keep_to(self, folder: str) -> None:
        """Deny changes of files outside a program's own folder. Raises OSError."""
        if self.apart:
            landlock.keep_to(self.landlock, folder)

    def ask(self, line: int) -> None:
        """From now on submit this process's changes of file modes to the holder of the other end of `line`. Raises
        OSError."""
        listener = self.filters["modes"].listen()
        with socket.socket(fileno=line) as end:
            socket.send_fds(end, [b"modes"], [listener])
        os.close(listener)

    def close(self, uid: int | None, cpu: int, processes: int, filter_name: str, measured: bool = False) -> None:
        """Apply the remaining layers in the new process, before any untrusted code. Raises OSError if a layer fails.

        Args:
            uid: the user that the process becomes.
            cpu: limit of processor time in seconds; -1 for none.
            processes: limit on the processes of its user.
            filter_name: name of the filter that it gets.
            measured: whether the server may see the files that it holds, which take space on the host's disk.
        """
        program.limit_to(resource.RLIMIT_CPU, cpu, cpu + 1 if cpu > 0 else cpu)
        program.limit_to(resource.RLIMIT_NPROC, processes, processes)
        if uid is not None:
            os.setresuid(uid, uid, uid)  # this also drops all capabilities
        else:
            kernel.drop_capabilities()
        if self.tier != "full":
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
            kernel.prctl(kernel.PR_SET_DUMPABLE, int(measured))
        if self.filters:
            self.filters[filter_name].enter()
        else:
            os.setsid()

    def describe(self) -> dict:
        """The active layers by name."""
        private = self.tier == "full"
        return {
            "tier": self.tier,
            "namespaces": private,
            "own_uid": self.uid is not None,
            "read_only_root": private,
            "tmpfs": private,
            "no_network": self.tier != "none",
            "no_new_privs": True,
            "no_capabilities": True,
            "seccomp": bool(self.filters),
            "landlock": self.landlock,
            "rlimits": True,
            "build_memory": "control group" if self.grouped else "watched",
        }


def check_devices() -> None:
    """Open the devices as programs do. Raises OSError if the machine does not let them: right programs would fail."""
    for path in DEVICES:
        try:
            os.close(os.open(path, os.O_RDWR if path == "/dev/null" else os.O_RDONLY))
        except FileNotFoundError:
            if path == "/dev/null":
                raise
        except PermissionError as error:
            reason = f"programs may not use {path}, whose mode is {os.stat(path).st_mode & 0o777:o}"
            raise OSError(error.errno, f"{reason}: chmod 666 {path}") from None


def shared_limits(limits: dict) -> list[tuple[int, tuple[int, int]]]:
    """Arguments of setrlimit for one process, without processor time."""
    mib = 1 << 20
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    return [
        (resource.RLIMIT_AS, (limits["memory_mib"] * mib, limits["memory_mib"] * mib)),
        (resource.RLIMIT_FSIZE, (limits["file_mib"] * mib, limits["file_mib"] * mib)),
        (resource.RLIMIT_NOFILE, (limits["open_files"], limits["open_files"])),
        (resource.RLIMIT_STACK, (STACK if most == -1 else min(STACK, most), most)),
        (resource.RLIMIT_CORE, (0, 0)),
    ]


def _tasks() -> int:
    """Number of threads on this machine, an upper bound for those that a shared user already has."""
    with open("/proc/loadavg") as file:
        return int(file.read().split()[3].partition("/")[2])


def kill_all(private: bool, uid: int | None, keep: set[int]) -> None:
    """End and reap every descendant of the server. Processes of `keep` survive if programs have neither a namespace nor
    a uid of their own. Raises OSError if others survive too."""
    for _ in range(1000):
        if _reap(keep):
            return
        send(signal.SIGKILL, private, uid, [pid for pid in _children() if pid not in keep] if uid is None else [])
        time.sleep(0.001)
    raise OSError(errno.EBUSY, "programs that cannot be ended")


def send(number: int, private: bool, uid: int | None, pids: Iterable[int]) -> None:
    """Send a signal to all processes of programs: those of the server's namespace, else those of `uid`, else `pids`."""
    if private:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, number)
    elif uid is not None:
        _send_as(uid, number)
    else:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _reap(keep: set[int]) -> bool:
    """Reap ended processes; True if no other descendant is left."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return bool(keep) and keep.issuperset(_children())
        except ChildProcessError:
            return True


def _send_as(uid: int, number: int) -> None:
    """Send a signal to every process of `uid`, from a process that may signal only those and that they may not
    signal."""
    pid = os.fork()
    if pid == 0:
        try:
            unused = uid ^ (1 << 28)
            os.setresuid(unused, uid, unused)
            os.kill(-1, number)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]
