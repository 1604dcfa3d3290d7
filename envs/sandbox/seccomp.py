"""The system calls that are denied to programs, as filters for the kernel, compiled once by libseccomp.

Denied are new processes, signals to other processes, sockets, other processes' memory, mounts, and kernel facilities
with a history of vulnerabilities. All other calls are bounded by the other layers of confinement. The filter `program`
denies new processes altogether, so that one signal ends everything; `tools` allows a build to run its compiler.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from typing import Any

NEW_PROCESS = "fork vfork execve execveat"
SAME_USER = "setresuid setresgid"
"""GNU make calls them with its own ids before each command; without capabilities other ids are impossible."""
SOCKETS = "socket connect bind listen accept accept4 sendmmsg recvmmsg"
FAMILIES = (1, 2, 10)
"""AF_UNIX, AF_INET and AF_INET6: the sockets of jobs that may have some."""
DENIED = """
kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_getfd pidfd_send_signal
ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp
mount umount umount2 pivot_root chroot unshare setns move_mount mount_setattr
open_tree open_tree_attr fsopen fsconfig fsmount fspick
bpf io_uring_setup io_uring_enter io_uring_register userfaultfd perf_event_open fanotify_init
memfd_create memfd_secret shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl semget semop semctl semtimedop
mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr keyctl add_key request_key
init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl quotactl_fd
settimeofday clock_settime clock_settime64 adjtimex clock_adjtime clock_adjtime64 stime sethostname setdomainname
iopl ioperm modify_ldt personality syslog vhangup name_to_handle_at open_by_handle_at lookup_dcookie nfsservctl
vmsplice migrate_pages move_pages mbind set_mempolicy sched_setscheduler sched_setparam sched_setattr
sched_setaffinity setpriority ioprio_set setuid setgid setreuid setregid setgroups setfsuid setfsgid
capset seccomp _sysctl uselib ustat
"""
MODES = "chmod fchmod fchmodat fchmodat2 utimensat"
"""Calls that change a file's mode and times, by name or through a descriptor for reading; Landlock does not cover them.
A build needs them, so each call is submitted to the server (worker/modes.py)."""
METADATA = """
chown fchown lchown fchownat setxattr fsetxattr lsetxattr setxattrat removexattr fremovexattr lremovexattr removexattrat
utime utimes futimesat file_setattr
"""
"""Similar calls that a build does not need."""
ATTRIBUTES = (0x40086602, 0x401C5820)
"""The similar requests of ioctl, FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR."""
NEWER = {"fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "open_tree_attr": 467, "file_setattr": 469}
"""Calls whose names libseccomp may not know, with their numbers, which are equal on all processors."""
CLONE_THREAD = 0x10000
SET_DEATH_SIGNAL, SET_DUMPABLE = 1, 4
"""PR_SET_PDEATHSIG, with which a program could outlive its server, and PR_SET_DUMPABLE of prctl."""
NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
"""Flags of clone for new namespaces: mounts, control groups, host name, IPC, users, processes, network."""
OWNERS_AND_SIGNALS = (8, 10, 15)
"""F_SETOWN, F_SETSIG and F_SETOWN_EX of fcntl: with a pipe they send any signal to any process of the same user."""
OWNERS_BY_IOCTL = (0x8901, 0x8902)
"""FIOSETOWN and SIOCSPGRP: the same through ioctl."""


class Unavailable(RuntimeError):
    """Filters cannot be compiled on this machine; the message says what to install."""


@functools.cache
def filters(callers_uid: bool = False, hosts_disk: bool = False) -> dict[str, bytes]:
    """BPF code of the filters `program`, `tools`, and `sockets` for builds with Limits.sockets. Raises Unavailable.

    With `callers_uid`, programs run as the user who owns the files around them, and the filters also deny changes of
    these files' modes, owners and times. A third filter, `modes`, which is used together with `tools`, submits such
    calls of a build to the server. With `hosts_disk`, programs write to the host's disk, and the server must be able to
    measure in time what they hold: space is only taken by writing, and no process may hide its files.
    """
    try:
        import pyseccomp
    except (ImportError, RuntimeError, OSError) as error:
        raise Unavailable(f"no libseccomp ({error}): install libseccomp2 (Debian, Ubuntu) or libseccomp") from error

    Arg = pyseccomp.Arg

    def confined(names: str, threads_only: bool, sockets: bool = False) -> bytes:
        denied = pyseccomp.ERRNO(errno.EPERM)
        rules = _rules(pyseccomp, names if sockets else f"{names} {SOCKETS}", denied)
        for command in OWNERS_AND_SIGNALS:
            rules.add_rule(denied, "fcntl", Arg(1, pyseccomp.EQ, command))
        for request in (*OWNERS_BY_IOCTL, *(ATTRIBUTES if callers_uid else ())):
            rules.add_rule(denied, "ioctl", Arg(1, pyseccomp.EQ, request))
        if hosts_disk:
            rules.add_rule(pyseccomp.ERRNO(errno.EOPNOTSUPP), "fallocate")  # the C library writes instead
            for option in (SET_DEATH_SIGNAL, SET_DUMPABLE):
                rules.add_rule(denied, "prctl", Arg(0, pyseccomp.EQ, option))
        rules.add_rule(denied, "prlimit64", Arg(0, pyseccomp.NE, 0))  # limits of other processes
        if sockets:
            for family in set(range(64)) - set(FAMILIES):
                rules.add_rule(denied, "socket", Arg(0, pyseccomp.EQ, family))
        else:
            rules.add_rule(denied, "sendto", Arg(4, pyseccomp.NE, 0))  # to a named socket; send() has no name
            rules.add_rule(denied, "sendmsg")
        if threads_only:
            rules.add_rule(denied, "clone", Arg(0, pyseccomp.MASKED_EQ, CLONE_THREAD, 0))
        else:
            for flag in NAMESPACES:
                rules.add_rule(denied, "clone", Arg(0, pyseccomp.MASKED_EQ, flag, flag))
        # Its flags lie in memory, which a filter cannot read; after ENOSYS the C library calls clone instead.
        rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
        return _compiled(rules)

    program, tools = f"{NEW_PROCESS} {SAME_USER} {DENIED}", DENIED
    if not callers_uid:
        made = {"program": confined(program, True), "tools": confined(tools, False)}
        return made if hosts_disk else made | {"sockets": confined(tools, False, True)}
    compiled_filters = {"program": confined(f"{program} {METADATA} {MODES}", True)}
    try:
        compiled_filters["modes"] = _compiled(_rules(pyseccomp, MODES, pyseccomp.NOTIFY))
    except (OSError, ValueError, RuntimeError):  # libseccomp before 2.5 cannot notify the server
        tools += MODES
    return {**compiled_filters, "tools": confined(f"{tools} {METADATA}", False)}


def _rules(pyseccomp: Any, names: str, action: int) -> Any:
    """A filter that answers the system calls of `names` by `action` and allows the others."""
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # libseccomp before 2.5 has only lists
        # A tree: the kernel evaluates the filter for every possible call when a process enters it.
        rules.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, 2)
    for name in names.split():
        try:
            rules.add_rule(action, name)
        except (OSError, ValueError, RuntimeError):  # this processor or this libseccomp does not have the call
            if name in NEWER:
                rules.add_rule(action, NEWER[name])
    return rules


def _compiled(rules: Any) -> bytes:
    """The BPF code of a filter."""
    with open(os.memfd_create("filter"), "wb+") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
