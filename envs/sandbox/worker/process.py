"""A child of the server, identified by a descriptor, because a process number can be reused by another process."""

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
        """Exit status and name of the signal that ended it; None if it has not ended within `patience` seconds."""
        if patience is not None:
            poll = select.poll()
            poll.register(self.descriptor, select.POLLIN)
            if not poll.poll(patience * 1000):
                return None
        return self._reap()

    def kill(self) -> None:
        """End it, unless it has already ended and was reaped."""
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
    """The process from which programs' processes are forked.

    Args:
        process: the process, which has the other end of `control`.
        limits: the limits that all its programs share.
    """

    def __init__(self, process: Process, limits: tuple, control: socket.socket) -> None:
        self.pid, self.descriptor = process.pid, process.descriptor
        self.limits, self.control = limits, control

    def fork(self, order: str, descriptors: list[int]) -> Process:
        """Fork a child of the server from it. Raises OSError or ValueError if it has ended."""
        socket.send_fds(self.control, [order.encode()], descriptors)
        return Process(int(self.control.recv(16)))

    def kill(self) -> None:
        super().kill()
        self.control.close()


class CheckProcess(Process):
    """The process that runs trusted tests, one after another.

    Args:
        process: the process, which has the other end of `control`.
        limits: its limits; it only serves jobs with the same limits.
    """

    def __init__(self, process: Process, limits: dict, control: socket.socket) -> None:
        self.pid, self.descriptor = process.pid, process.descriptor
        self.limits, self.control = limits, control

    def start(self, payload: int, line: int) -> None:
        """Send it a job as two descriptors."""
        socket.send_fds(self.control, [b"job"], [payload, line])

    def answer(self) -> tuple[str, str]:
        """Read its answer: "done" or "last" (done, and the process will end) and the verdict's word; empty texts if the
        process has ended."""
        with contextlib.suppress(ConnectionError):
            status, _, word = self.control.recv(64).decode().partition(" ")
            return status, word
        return "", ""

    def kill(self) -> None:
        super().kill()
        self.control.close()
