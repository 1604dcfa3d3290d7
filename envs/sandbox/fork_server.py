"""The caller's end of a fork server: start it, give it one program at a time, stop it.

It is executed fresh, never forked from the caller, so programs see nothing of the caller's memory, environment or
descriptors, and a fork costs the same however large the caller is.
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

from envs.sandbox import judge, seccomp
from envs.sandbox.protocol import Limits
from envs.sandbox.worker.tree import remove_tree

PROGRAM = Path(__file__).with_name("worker") / "__main__.py"
GRACE_S = 10.0
"""How long after its own deadline a worker may stay silent."""
START_S = 30.0
CLEAN = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # sets have one order in all runs; a candidate may know it, as it may know the test
    "OPENBLAS_NUM_THREADS": "1",  # a server that has threads cannot be forked
    "OMP_NUM_THREADS": "1",
    "LD_BIND_NOW": "1",  # or each program's process would look up for itself the functions that it is the first to call
}


@functools.lru_cache(maxsize=64)
def _text(limits: Limits) -> str:
    return json.dumps(asdict(limits))


class WorkerLost(RuntimeError):
    """The worker died, hung or broke; the job it had may be given to another."""


class Worker:
    """One fork server and the socket to it.

    Args:
        tier: of TIERS.
        packages: folders of libraries that programs may import.
        processor: the only one that it and its programs run on; None: any.
    """

    def __init__(self, tier: str, packages: Sequence[str] = (), processor: int | None = None) -> None:
        chosen = seccomp.filters(tier == "landlock" and os.geteuid() != 0) if tier != "none" else {}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            # -I would ignore PYTHONHASHSEED; the environment is ours, so -s -S isolate as well.
            command = [sys.executable, "-s", "-S", str(PROGRAM), str(theirs.fileno())]
            self.process = subprocess.Popen(
                command,
                env=CLEAN,
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self.control = ours
        self.tier, self.processor = tier, processor
        bpf = {name: code.hex() for name, code in chosen.items()}
        hello = {"tier": tier, "filters": bpf, "packages": list(packages), "limits": asdict(Limits())}
        ours.send(json.dumps({**hello, "processor": processor}).encode())
        self.layers: dict[str, Any] = {}

    async def ready(self) -> None:
        """Wait until it serves. Raises WorkerLost with the worker's reason."""
        self.layers = (await self._reply(START_S))["ready"]

    async def ask(
        self, kind: str, limits: Limits, descriptors: Sequence[int], preload: Sequence[str] = ()
    ) -> judge.Ended:
        """Run one program, with `preload` imported before. Raises WorkerLost."""
        request = f'{{"kind": "{kind}", "limits": {_text(limits)}, "preload": {json.dumps(list(preload))}}}'.encode()
        try:
            socket.send_fds(self.control, [request], descriptors)
        except OSError as error:
            raise WorkerLost(f"cannot reach a worker: {error}") from error
        reply = await self._reply(limits.wall_s + GRACE_S)
        while "waiting" in reply:
            reply = await self._reply(reply["waiting"] + GRACE_S)
        return judge.Ended(**reply)

    async def _reply(self, patience: float) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(patience):
                data = await loop.sock_recv(self.control, 1 << 16)
        except TimeoutError as error:
            raise WorkerLost("a worker hung") from error
        except OSError as error:
            raise WorkerLost(f"a worker was lost: {error}") from error
        reply = json.loads(data) if data else {"broken": "a worker died"}
        if "broken" in reply:
            raise WorkerLost(reply["broken"])
        return reply

    def stop(self) -> None:
        """End it and what it runs. In its own pid namespace the kernel ends the programs with it; elsewhere
        it is given a moment to end them itself, which it does when its socket closes."""
        self.control.close()
        if self.tier != "full":
            descriptor = os.pidfd_open(self.process.pid) if self.process.poll() is None else None
            if descriptor is not None:
                select.select([descriptor], [], [], 1.0)
                os.close(descriptor)
        self.process.kill()
        self.process.wait()
        for left in Path("/tmp").glob(f"sandbox-{self.process.pid}-*"):  # of a server killed from outside
            with contextlib.suppress(OSError):
                remove_tree(str(left))


class Memory:
    """An anonymous file that is passed to a worker: no pipe can fill, no name can be guessed.

    Args:
        data: what is in it.
        appended: whatever is written through this descriptor goes to the end, also where a program has opened the file
            anew by /dev/stdout.
    """

    def __init__(self, data: bytes = b"", appended: bool = False) -> None:
        self.fd = os.memfd_create("sandbox", os.MFD_CLOEXEC)
        if data:
            os.pwrite(self.fd, data, 0)
        if appended:
            fcntl.fcntl(self.fd, fcntl.F_SETFL, os.O_APPEND)

    def read(self, most: int) -> bytes:
        return os.pread(self.fd, most, 0)

    def output(self, limits: Limits) -> bytes:
        """What was written, and at most one byte more than the output limit."""
        return self.read((limits.output_kib << 10) + 1)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)
