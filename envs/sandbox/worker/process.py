"""A child of the server, by a descriptor that no other process can take over as it can a number."""

import contextlib
import os
import select
import signal
import socket


class Process:
    """One forked process; `kill` (or `end`) must be called."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.descriptor = os.pidfd_open(pid)

    def fileno(self) -> int:
        return self.descriptor

    def end(self, patience: float | None = None) -> tuple[int, str] | None:
        """Exit status and name of the signal that ended it, once it has ended; None if it has not within
        `patience` seconds."""
        if patience is not None and not select.select([self.descriptor], [], [], patience)[0]:
            return None
        return self._reap()

    def kill(self) -> None:
        """End it, unless it has ended and been reaped."""
        if self.descriptor >= 0:
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)
            self._reap()

    def _reap(self) -> tuple[int, str]:
        _, status = os.waitpid(self.pid, 0)
        os.close(self.descriptor)
        self.descriptor = -1
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            return code, ""
        try:
            return 0, signal.Signals(-code).name
        except ValueError:
            return 0, f"signal {-code}"


class Template(Process):
    """The process that programs' processes are forked from.

    Args:
        process: forked with the other end of `control`.
        limits: its programs have these in common.
    """

    def __init__(self, process: Process, limits: tuple, control: socket.socket) -> None:
        self.pid, self.descriptor = process.pid, process.descriptor
        self.limits, self.control = limits, control

    def fork(self, order: str, descriptors: list[int]) -> Process:
        """A child of ours from it. Raises OSError or ValueError where it has ended."""
        socket.send_fds(self.control, [order.encode()], descriptors)
        return Process(int(self.control.recv(16)))

    def kill(self) -> None:
        super().kill()
        self.control.close()


class CheckProcess(Process):
    """The process that runs trusted tests, one after another.

    Args:
        process: forked with the other end of `control`.
        limits: it was forked with these, and serves jobs of no others.
    """

    def __init__(self, process: Process, limits: dict, control: socket.socket) -> None:
        self.pid, self.descriptor = process.pid, process.descriptor
        self.limits, self.control = limits, control

    def start(self, payload: int, line: int) -> None:
        """Give it a job, by descriptors."""
        socket.send_fds(self.control, [b"job"], [payload, line])

    def said(self) -> tuple[str, str]:
        """What made its socket readable: "done" or "last" (done, and it will end) and the verdict's word, or nothing:
        it has ended."""
        with contextlib.suppress(ConnectionError):
            said, _, word = self.control.recv(64).decode().partition(" ")
            return said, word
        return "", ""

    def kill(self) -> None:
        super().kill()
        self.control.close()
