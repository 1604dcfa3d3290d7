"""A stand-in for a Sandbox Fusion server: speaks /run_code on loopback and fails on demand.

What it is sent it runs in a LocalSandbox, never on the bare machine: as a `command`, since the driver forks.
"""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from aiohttp import web

from envs.sandbox import Job, Limits, LocalSandbox, Outcome

ROOM = {"cpu_s": 60.0, "memory_mib": 8192, "file_mib": 512, "processes": 128, "open_files": 512}
FAULTS = (
    "500",
    "503",
    "broken body",
    "malformed",
    "not an object",
    "SandboxError",
    "command error",
    "lost",
    "cut",
)


class FusionServer:
    """Runs on a thread of its own, from `with` or `start` to `stop`.

    Args:
        sandbox: where programs run.
        faults: what goes wrong, request by request; None where nothing does, and after the last.
    """

    def __init__(self, sandbox: LocalSandbox, faults: Iterable[str | None] = ()) -> None:
        self.sandbox, self.faults = sandbox, iter(faults)
        self.requests: list[dict[str, Any]] = []
        self.now, self.most, self.port = 0, 0, 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FusionServer:
        self._thread.start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start(self) -> None:
        """Listen, on the port of the last time if there was one."""
        self._do(self._start())

    def stop(self) -> None:
        """Drop all connections and listen no more."""
        self._do(self._stop())

    def plan(self, faults: Iterable[str | None]) -> None:
        self.faults: Iterator[str | None] = iter(faults)

    def _do(self, work) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _start(self) -> None:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/run_code", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await self._fail(request, body, next(self.faults, None))
        finally:
            self.now -= 1

    async def _fail(self, request: web.Request, body: dict[str, Any], fault: str | None) -> web.StreamResponse:
        if fault in ("500", "503"):
            return web.json_response({"detail": "no"}, status=int(fault))
        if fault == "slow":
            await asyncio.sleep(100)
        if fault == "malformed":
            return web.Response(text='{"status": "Success", "run_result": {"stat', content_type="application/json")
        if fault == "not an object":
            return web.json_response(["Success"])
        if fault == "SandboxError":
            return web.json_response({"status": "SandboxError", "message": "no room", "run_result": None, "files": {}})
        if fault == "short input":
            body["stdin"] = body["stdin"][:-8]
        answer = await self._run(body)
        if fault == "command error":
            answer |= {"status": "SandboxError", "run_result": {"status": "Error", "stderr": "exception"}}
        if fault == "lost":
            answer["run_result"]["stdout"] = ""
        if fault == "cut":
            answer["run_result"]["stdout"] = answer["run_result"]["stdout"][:-20]
        if fault == "broken body":
            response = web.StreamResponse(headers={"Content-Length": "100000"})
            await response.prepare(request)
            await response.write(b'{"status": "Success", "message"')
            assert request.transport is not None
            request.transport.close()
            return response
        return web.json_response(answer)

    async def _run(self, body: dict[str, Any]) -> dict[str, Any]:
        job = Job(
            id="request",
            kind="command",
            files={"main.py": body["code"].encode("ascii"), "stdin": (body.get("stdin") or "").encode()},
            commands=(("/bin/sh", "-c", "exec 3< stdin; rm stdin; cat <&3 | python3 -S main.py 3<&-"),),
            keep=tuple(body.get("fetch_files") or ()),
            limits=Limits(wall_s=body["run_timeout"], **ROOM),
        )
        [outcome] = await self.sandbox.run([job])
        return _answer_of(outcome)


def _answer_of(outcome: Outcome) -> dict[str, Any]:
    late = outcome.verdict == "timeout"
    code = 137 if outcome.verdict == "killed" else outcome.exit_status
    result = {
        "status": "TimeLimitExceeded" if late else "Finished",
        "execution_time": outcome.seconds,
        "return_code": None if late else code,
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
    }
    files = {name: base64.b64encode(data).decode() for name, data in outcome.files.items()}
    status = "Success" if outcome.verdict == "pass" else "Failed"
    return {"status": status, "message": "", "compile_result": None, "run_result": result, "files": files}
