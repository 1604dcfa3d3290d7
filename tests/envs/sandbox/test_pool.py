"""The sandbox as a pool: order, cancelling, lost workers, several callers."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from envs.sandbox import FunctionCase, Job, Limits, LocalSandbox, fork_server, import_probe, run_sync
from envs.sandbox.fork_server import Hung, Worker, WorkerLost

ROOT = Path(__file__).parents[3]


def echo(number: int, code: str = "def f(x): return x", **fields) -> Job:
    return Job(
        id=str(number),
        kind="function",
        code=code,
        entry_point="f",
        cases=(FunctionCase((number,), number),),
        **fields,
    )


def test_outcomes_keep_the_order_of_a_batch(sandbox):
    slow = "import time\ndef f(x):\n    time.sleep(x % 7 / 100)\n    return x"
    jobs = [echo(n, slow) if n % 5 else echo(n, "def f(x): return -1 - x") for n in range(50)]
    seen = []
    outcomes = asyncio.run(sandbox.run(jobs, seen.append))
    assert [outcome.id for outcome in outcomes] == [str(n) for n in range(50)]
    assert [outcome.verdict for outcome in outcomes] == ["pass" if n % 5 else "fail" for n in range(50)]
    assert seen == list(range(1, 51))


def test_nothing_to_do(sandbox):
    assert run_sync(sandbox, []) == []
    [outcome] = run_sync(sandbox, [Job(id="a", kind="function", code="def f(): pass", entry_point="f")])
    assert outcome.verdict == "error" and "needs FunctionCase cases" in outcome.note
    assert run_sync(sandbox, [Job("b", "stdio", "print(1)")])[0].verdict == "error"


def test_an_answer_counts_that_a_blocked_loop_finds_after_the_deadline(sandbox, monkeypatch, caplog):
    """Both the answer and the timer are due when the loop goes on, as behind a long step of training."""
    monkeypatch.setattr(fork_server, "GRACE_S", 0.0)

    async def scenario():
        slow = "import time\ndef f(x):\n    time.sleep(0.4)\n    return x"
        task = asyncio.create_task(sandbox.run([echo(1, slow, limits=Limits(wall_s=1.0))]))
        await asyncio.sleep(0.2)
        time.sleep(1.5)
        return await task

    [outcome] = asyncio.run(scenario())
    assert outcome.verdict == "pass" and "lost" not in caplog.text


def test_a_worker_that_does_not_start_leaves_nothing(sandbox, monkeypatch):
    [outcome] = run_sync(sandbox, [echo(1)])
    before = len(os.listdir("/proc/self/fd"))

    def fails(*args, **kwargs):
        raise BlockingIOError("no process")

    monkeypatch.setattr(fork_server.subprocess, "Popen", fails)
    worker = next(iter(sandbox._all))
    for _ in range(3):
        with pytest.raises(BlockingIOError):
            Worker(worker.tier, worker.libraries)
    assert len(os.listdir("/proc/self/fd")) == before and outcome.verdict == "pass"


def test_one_slow_start_does_not_lower_the_tier(monkeypatch):
    real, tried = import_probe.start, []

    async def slow_at_first(tier, *args):
        tried.append(tier)
        if len(tried) == 1:
            raise Hung("a worker hung")
        return await real(tier, *args)

    monkeypatch.setattr(import_probe, "start", slow_at_first)
    box = LocalSandbox(1)
    assert [outcome.verdict for outcome in run_sync(box, [echo(1)])] == ["pass"]
    asyncio.run(box.close())
    assert tried[1] == tried[0]


def test_a_wait_that_ended_leaves_the_descriptor_alone():
    """Its number may come again at once, for the next worker's socket."""
    silent = object.__new__(Worker)
    silent.control, other = socket.socketpair()
    silent.control.setblocking(False)

    async def scenario() -> bytes:
        with pytest.raises(Hung):
            await silent._reply(0.01)
        number = silent.control.fileno()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with other, ours, theirs:
            os.dup2(ours.fileno(), number)
            asyncio.get_running_loop().call_later(0.05, theirs.send, b"answer")
            async with asyncio.timeout(5):
                return await asyncio.get_running_loop().sock_recv(silent.control, 10)

    with silent.control:
        assert asyncio.run(scenario()) == b"answer"


def test_cancelling_stops_the_programs(sandbox, processes_of):
    assert [o.verdict for o in run_sync(sandbox, [echo(1), echo(2)])] == ["pass"] * 2  # both workers are there
    before = processes_of(sandbox)

    async def scenario() -> None:
        forever = "import time\ndef f(x): time.sleep(1000)"
        task = asyncio.create_task(sandbox.run([echo(n, forever, limits=Limits(wall_s=500)) for n in range(4)]))
        while processes_of(sandbox) < before + 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert processes_of(sandbox) == 0
    assert run_sync(sandbox, [echo(1)])[0].verdict == "pass"


def test_a_killed_worker_costs_a_restart_and_no_answer(sandbox):
    async def scenario():
        task = asyncio.create_task(
            sandbox.run([echo(n, "import time\ndef f(x):\n    time.sleep(.3)\n    return x") for n in range(6)])
        )
        await asyncio.sleep(0.5)
        for worker in list(sandbox._all):
            os.kill(worker.process.pid, signal.SIGKILL)
        return await task

    assert [outcome.verdict for outcome in asyncio.run(scenario())] == ["pass"] * 6


def test_a_worker_that_always_dies_is_an_error(sandbox):
    async def scenario():
        async def reaper():
            while True:
                for worker in list(sandbox._all):
                    os.kill(worker.process.pid, signal.SIGKILL)
                await asyncio.sleep(0.01)

        killing = asyncio.create_task(reaper())
        [outcome] = await sandbox.run([echo(1, "import time\ndef f(x): time.sleep(1000)", limits=Limits(wall_s=100))])
        killing.cancel()
        return outcome

    outcome = asyncio.run(scenario())
    assert (outcome.verdict, outcome.graded) == ("error", False)
    assert run_sync(sandbox, [echo(1)])[0].verdict == "pass"


def test_an_import_may_take_longer_than_a_program(tmp_path, monkeypatch):
    (tmp_path / "slowly").mkdir()
    (tmp_path / "slowly" / "__init__.py").touch()
    (tmp_path / "slowly" / "part.py").write_text("import time\ntime.sleep(4)\nvalue = 1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(fork_server, "GRACE_S", 1.5)
    code = "import slowly.part\ndef f(x): return x * slowly.part.value"
    box = LocalSandbox(1, Limits(wall_s=1.0), packages=["slowly"])
    try:
        assert [outcome.verdict for outcome in run_sync(box, [echo(1, code), echo(2, code)])] == ["pass"] * 2
    finally:
        asyncio.run(box.close())


def test_a_program_that_alone_loses_its_workers_is_to_blame(sandbox, monkeypatch):
    run_on = sandbox._run_on

    async def lose(worker, job):
        if job.id == "culprit":
            raise WorkerLost("a worker died")
        return await run_on(worker, job)

    monkeypatch.setattr(sandbox, "_run_on", lose)
    outcome = run_sync(sandbox, [Job("culprit", "program", "print(1)")])[0]
    assert (outcome.verdict, outcome.graded) == ("killed", True)
    assert "lost its worker 3 times" in outcome.note


@pytest.mark.parametrize("kind", ["check", "command", "function"])
def test_a_machine_that_runs_no_jobs_of_a_kind_is_to_blame_for_each(sandbox, monkeypatch, kind):
    run_on = sandbox._run_on

    async def lose(worker, job):
        if job.kind == kind:
            raise WorkerLost("a worker died")
        return await run_on(worker, job)

    monkeypatch.setattr(sandbox, "_run_on", lose)
    code = "def f(x): return x"
    jobs = [
        echo(1),
        Job("check", "check", code, "f", check_src="assert f(1) == 1"),
        Job("command", "command", commands=(("/bin/true",),)),
    ]
    verdicts = {job.kind: outcome.verdict for job, outcome in zip(jobs, run_sync(sandbox, jobs), strict=True)}
    assert verdicts.pop(kind) == "error" and set(verdicts.values()) == {"pass"}


def test_callers_with_and_without_a_loop_and_in_threads(sandbox):
    async def inside() -> str:
        return run_sync(sandbox, [echo(1)])[0].verdict

    assert asyncio.run(inside()) == "pass"
    results = []
    threads = [
        threading.Thread(target=lambda: results.extend(run_sync(sandbox, [echo(n) for n in range(8)])))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcome.verdict for outcome in results] == ["pass"] * 32


def test_a_forked_copy_of_the_caller_starts_its_own_workers(sandbox):
    assert run_sync(sandbox, [echo(1)])[0].verdict == "pass"
    mine = {worker.process.pid for worker in sandbox._all}
    pid = os.fork()
    if pid == 0:
        verdict, own = "", set()
        try:
            verdict = run_sync(sandbox, [echo(2)])[0].verdict
            own = {worker.process.pid for worker in sandbox._all}
            asyncio.run(sandbox.close())
        finally:
            os._exit(0 if verdict == "pass" and not own & mine else 1)
    if not select.select([os.pidfd_open(pid)], [], [], 60)[0]:
        os.kill(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert run_sync(sandbox, [echo(1)])[0].verdict == "pass"


def test_workers_end_with_a_caller_that_is_killed(tmp_path):
    code = (
        "import asyncio, os, sys\nfrom envs.sandbox import LocalSandbox\ns = LocalSandbox(1)\n"
        "asyncio.run(s.layers())\nprint(next(iter(s._all)).process.pid, flush=True)\nos.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    if not done.stdout:
        pytest.skip("this machine does not allow it: " + done.stderr[-200:])
    worker = int(done.stdout)
    for _ in range(500):
        try:
            with open(f"/proc/{worker}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except OSError:
            return
        threading.Event().wait(0.02)
    pytest.fail("the worker outlived its caller")


def test_closing(sandbox):
    box = LocalSandbox(1, tier=sandbox.tiers[0])
    assert run_sync(box, [echo(1)])[0].verdict == "pass"
    [worker] = box._all
    asyncio.run(box.close())
    assert worker.process.returncode is not None
    with pytest.raises(RuntimeError, match="closed"):
        run_sync(box, [echo(1)])
    with pytest.raises(ValueError):
        LocalSandbox(0)


def test_a_sandbox_that_is_closed_during_a_run_stops_at_once(monkeypatch):
    stopped: list[Worker] = []
    stop = Worker.stop
    monkeypatch.setattr(Worker, "stop", lambda worker: (stopped.append(worker), stop(worker)))
    box = LocalSandbox(2)
    asyncio.run(box.layers())
    raised: list[BaseException] = []

    def work() -> None:
        try:
            run_sync(box, [echo(n, "import time\ndef f(x):\n    time.sleep(1)\n    return x") for n in range(9)])
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.5)
    workers = list(box._all)
    asyncio.run(box.close())
    thread.join(60)
    assert not thread.is_alive() and [str(error) for error in raised] == ["the sandbox is closed"]
    assert not box._all and all(worker.process.poll() is not None for worker in workers)
    assert len(stopped) == len(set(stopped)) and set(workers) <= set(stopped)  # each by one thread, once
