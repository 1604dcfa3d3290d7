"""The caller's side of a fork server: it starts the server, gives it one program at a time, and stops it.

The server is executed anew, never forked from the caller. Programs therefore see nothing of the caller's memory,
environment or descriptors, and a fork costs the same for a caller of any size.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from envs.sandbox import memory_group, seccomp, verdict
from envs.sandbox.libraries import Libraries
from envs.sandbox.protocol import Limits, Tree
from envs.sandbox.users import first_uid
from envs.sandbox.worker.tree import remove_tree

PROGRAM = Path(__file__).with_name("worker") / "__main__.py"
GRACE_S = 10.0
"""How long a worker may stay silent after its own deadline."""
START_S = 30.0
"""How long a worker may take to start."""
MOST_REQUEST = 60_000
"""Bytes of a request; the server reads one packet."""
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # sets have the same order in all runs; a candidate may know it
    "OPENBLAS_NUM_THREADS": "1",  # a server with threads cannot be forked
    "OMP_NUM_THREADS": "1",
    "LD_BIND_NOW": "1",  # otherwise each process resolves functions again at their first call
}


@functools.lru_cache(maxsize=64)
def _text(limits: Limits) -> str:
    return json.dumps(asdict(limits))


def variables_to_start(home: str | None = None) -> dict[str, str]:
    """The environment of a new interpreter. The server removes what only its own start needs, so that programs and
    other interpreters do not have it."""
    path = {"LD_LIBRARY_PATH": os.environ["LD_LIBRARY_PATH"]} if "LD_LIBRARY_PATH" in os.environ else {}
    return {**ENVIRONMENT, **path, **({"PYTHONHOME": home} if home else {})}


class WorkerLost(RuntimeError):
    """The worker died, hung or failed; its job may be given to another worker."""


class Hung(WorkerLost):
    """A worker has not answered in time."""


class Worker:
    """One fork server and the socket to it.

    Args:
        tier: one of TIERS.
        libraries: what programs may import beside the interpreter's own standard library.
        imports: modules that the server imports at once, because programs could not.
        processor: the only processor on which the server and its programs run; None: any.
        trees: real paths of the folders that its builds may have (Job.tree).
    """

    def __init__(
        self,
        tier: str,
        libraries: Libraries,
        imports: Sequence[str] = (),
        processor: int | None = None,
        trees: Sequence[str] = (),
    ) -> None:
        on_host = tier == "landlock"
        chosen = seccomp.filters(on_host and first_uid() is None, on_host) if tier != "none" else {}
        own_end, worker_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own_end.setblocking(False)
        self.group = memory_group.create() if tier != "none" else None
        given = [] if self.group is None else [self.group.parent]
        with worker_end, contextlib.ExitStack() as undone:
            undone.callback(own_end.close)
            if self.group is not None:
                undone.callback(self.group.remove)
            # -I would ignore PYTHONHASHSEED; with this environment -s -S isolate equally well
            command = [sys.executable, "-s", "-S", str(PROGRAM), str(worker_end.fileno())]
            self.process = subprocess.Popen(
                command,
                env=variables_to_start(libraries.home),
                cwd="/",
                pass_fds=[worker_end.fileno(), *given],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            undone.pop_all()
        self.control = own_end
        self.tier, self.libraries, self.processor, self.trees = tier, libraries, processor, tuple(trees)
        self.no_trees = ""
        """Why its builds cannot have `trees`."""
        bpf = {name: code.hex() for name, code in chosen.items()}
        hello: dict[str, Any] = {
            "tier": tier,
            "first_uid": first_uid(),
            "filters": bpf,
            "packages": list(libraries.packages),
            "imports": list(imports),
            "hidden": list(libraries.hidden),
            "linked": list(libraries.linked),
            "group": None if self.group is None else [self.group.parent, self.group.name, self.group.version],
            "trees": list(trees),
        }
        hello["beside"] = sorted({os.path.dirname(folder) for folder in libraries.originals})
        own_end.send(json.dumps({**hello, "limits": asdict(Limits()), "processor": processor}).encode())
        self.layers: dict[str, Any] = {}
        self.disk_full = False
        """Whether the host's disk was full while a program ran that stayed within its own limit; the caller resets
        it."""

    async def ready(self) -> None:
        """Wait until the server is ready. Raises WorkerLost with the server's reason."""
        reply = await self._reply(START_S)
        self.layers, self.no_trees = reply["ready"], reply["no_trees"]

    async def ask(
        self,
        kind: str,
        limits: Limits,
        descriptors: Sequence[int],
        preload: Sequence[str] = (),
        tree: Tree | None = None,
    ) -> verdict.Ended:
        """Run one program after importing `preload`. Raises WorkerLost, and BadJob if it cannot have `tree`."""
        more = ""
        if tree is not None:
            parts = {"tree": tree.path, "writable": list(tree.writable), "hidden": list(tree.hidden)}
            more = f', "tree": {json.dumps(parts)}'
        text = f'{{"kind": "{kind}", "limits": {_text(limits)}, "preload": {json.dumps(list(preload))}{more}}}'
        request = text.encode()
        if len(request) > MOST_REQUEST:
            raise verdict.BadJob("Job.tree names too many files")
        try:
            socket.send_fds(self.control, [request], descriptors)
        except OSError as error:
            raise WorkerLost(f"cannot reach a worker: {error}") from error
        reply = await self._reply(limits.wall_s + GRACE_S)
        while "waiting" in reply:
            reply = await self._reply(reply["waiting"] + GRACE_S)
        if "refused" in reply:
            raise verdict.BadJob(reply["refused"])
        ended = verdict.Ended(**reply)
        self.disk_full = self.disk_full or (ended.disk_full and ended.end != "files")
        return ended

    async def _reply(self, patience: float) -> dict[str, Any]:
        # a loop that was blocked until after the deadline finds both the answer and the timer: the answer counts
        answer = asyncio.ensure_future(asyncio.get_running_loop().sock_recv(self.control, 1 << 16))
        try:
            await asyncio.wait({answer}, timeout=patience)
            if not answer.done():
                raise Hung("a worker hung")
            data = answer.result()
        except OSError as error:
            raise WorkerLost(f"a worker was lost: {error}") from error
        finally:
            if not answer.done():
                answer.cancel()
                await asyncio.wait({answer})  # until the loop lets go of the descriptor, whose number may come again
        reply = json.loads(data) if data else {"broken": "a worker died"}
        if "broken" in reply:
            raise WorkerLost(reply["broken"])
        return reply

    def stop(self) -> None:
        """Stop the server and its programs.

        In a pid namespace of its own the kernel stops the programs with the server; otherwise the server has a moment
        to stop them itself, which it does when its socket closes.
        """
        with contextlib.suppress(OSError):  # the server has closed its end
            self.control.shutdown(socket.SHUT_RDWR)  # wakes a loop that waits for an answer
        self.control.close()
        if self.tier != "full":
            descriptor = os.pidfd_open(self.process.pid) if self.process.poll() is None else None
            if descriptor is not None:
                poll = select.poll()  # select takes no descriptor above 1,023
                poll.register(descriptor, select.POLLIN)
                poll.poll(1000)
                os.close(descriptor)
        self.process.kill()
        self.process.wait()
        if self.group is not None:
            self.group.remove()
        for folder in Path("/tmp").glob(f"sandbox-{self.process.pid}-*"):  # left by a server that was killed
            with contextlib.suppress(OSError):
                remove_tree(str(folder))


class Memory:
    """An anonymous file that is passed to a worker: unlike a pipe it cannot fill up, and it has no name to guess.

    Args:
        data: its content.
        appended: True appends everything that is written through this descriptor, even if a program has opened the file
            again as /dev/stdout.
    """

    def __init__(self, data: bytes = b"", appended: bool = False) -> None:
        self.fd = os.memfd_create("sandbox", os.MFD_CLOEXEC)
        try:
            written = 0
            while written < len(data):  # below a limit on this process's files a part is written, then comes OSError
                written += os.pwrite(self.fd, data[written:], written)
        except OSError:
            os.close(self.fd)
            raise
        if appended:
            fcntl.fcntl(self.fd, fcntl.F_SETFL, os.O_APPEND)

    def read(self, max_bytes: int, start: int = 0) -> bytes:
        size = os.fstat(self.fd).st_size - start  # more would be allocated, and given back
        return os.pread(self.fd, max(0, min(max_bytes, size)), start)

    def output(self, limits: Limits) -> bytes:
        """The content, cut after one byte more than the output limit."""
        return self.read((limits.output_kib << 10) + 1)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)
