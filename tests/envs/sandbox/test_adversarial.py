"""The adversarial corpus with its checks of the host, as tests/oracles/README.md defines them, in both tiers."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from envs.sandbox import LocalSandbox
from tests.oracles import rows

PROBES = [
    {
        "id": name,
        "kind": "function",
        "entry_point": "f",
        "code": f"def f(x): return x + {n}",
        "cases": [{"args": [1], "expected": 2}],
    }
    for name, n in (("right", 1), ("wrong", 2))
]
OUTPUT_LIMIT = 4 << 20
MEMORY_LIMIT = 1.3 * (1 << 30)
MARKED_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/", "/etc", "/usr/lib", "/home", str(Path.home()))


class Executor:
    """The stand-in trainer, started with a secret in its environment; watched while it grades."""

    def __init__(self, tier: str, secret: str) -> None:
        environment = {**os.environ, "SECRET_OF_THE_TRAINER": secret}
        script = Path(__file__).with_name("executor.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), tier],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        self.most_memory, self.most_processes = 0, 0
        self.grade(PROBES[0])
        self.idle = len(psutil.pids())

    def grade(self, row: dict) -> dict:
        """The answer to one row; raises AssertionError where the executor is lost."""
        self.most_memory = self.most_processes = 0
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(done,))
        watcher.start()
        try:
            self.process.stdin.write(json.dumps(row) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        finally:
            done.set()
            watcher.join()
        assert line, f"the executor was lost: {self.process.poll()} {self.process.stderr.read()[-2000:]}"
        return json.loads(line)

    def _watch(self, done: threading.Event) -> None:
        while not done.wait(0.05):
            own = psutil.Process(self.process.pid)
            total = 0
            for process in [own, *own.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.Error:
                    continue
            self.most_memory = max(self.most_memory, total)
            self.most_processes = max(self.most_processes, len(psutil.pids()))

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(20)


class Host:
    """What a program may try to reach: a folder with a secret, a port, a marked name."""

    def __init__(self, folder: Path) -> None:
        self.secret, self.mark = secrets.token_hex(16), "M" + secrets.token_hex(5)
        self.canary = folder / self.mark.lower()[1:]
        self.canary.mkdir()
        self.canary.chmod(0o777)
        (self.canary / "keep.txt").write_text("keep")
        (self.canary / "keep.txt").chmod(0o666)
        (self.canary / "secret.txt").write_text(self.secret)
        self.tcp = socket.create_server(("0.0.0.0", 0))
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("0.0.0.0", self.port))
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(f"\0{self.mark}")
        self.unix.listen()
        self.name = socket.gethostname()
        self.free = psutil.disk_usage("/tmp").free

    def fill(self, code: str) -> str:
        code = code.replace("{{CANARY_DIR}}", str(self.canary)).replace("{{MARK}}", self.mark)
        return code.replace("{{PORT}}", str(self.port))

    def contacted(self) -> bool:
        for listener in (self.tcp, self.udp, self.unix):
            listener.setblocking(False)
            try:
                listener.recvfrom(1) if listener is self.udp else listener.accept()
                return True
            except BlockingIOError:
                continue
        return False

    def marked_files(self) -> list[str]:
        return [f"{p}/{n}" for p in MARKED_PLACES if os.path.isdir(p) for n in os.listdir(p) if self.mark in n]

    def marked_processes(self) -> list[int]:
        results = []
        for process in psutil.process_iter(["name", "cmdline"]):
            if self.mark in " ".join([process.info["name"] or "", *(process.info["cmdline"] or [])]):
                results.append(process.pid)
        return results

    def close(self) -> None:
        for listener in (self.tcp, self.udp, self.unix):
            listener.close()


def violations(row: dict, executor: Executor, host: Host, trainer_secret: str) -> list[str]:
    """What the program did that its row does not allow."""
    answer = executor.grade({**row, "code": host.fill(row["code"])})
    memory, processes = executor.most_memory, executor.most_processes
    message = json.dumps(answer)
    wrong = [] if answer["verdict"] in row["expect"] else [f"verdict {answer['verdict']}: {answer['said']['note']}"]
    if row.get("followup"):
        after = executor.grade({**row, "code": host.fill(row["followup"]["code"])})
        message += json.dumps(after)
        wrong += [f"followup saw {text}" for text in row["followup"]["must_not_contain"] if text in json.dumps(after)]
    checks = set(row["checks"])
    if executor.grade(PROBES[0])["verdict"] != "pass" or executor.grade(PROBES[1])["verdict"] == "pass":
        wrong.append("probe_after")
    if "no_orphans" in checks:  # they have a second to go
        until = time.monotonic() + 1
        while host.marked_processes() and time.monotonic() < until:
            time.sleep(0.02)
    results = {
        "bounded_time": answer["wall"] > 20,
        "parent_alive": psutil.Process(executor.process.pid).status() == psutil.STATUS_STOPPED,
        "no_orphans": bool(host.marked_processes()),
        "host_processes": processes > executor.idle + 100,
        "bounded_memory": memory > MEMORY_LIMIT,
        "bounded_output": len(message) > OUTPUT_LIMIT,
        "bounded_disk": host.free - psutil.disk_usage("/tmp").free > 64 << 20,
        "no_marked_files": bool(host.marked_files()),
        "canary_intact": {p.name: p.read_text() for p in host.canary.iterdir()}
        != {"keep.txt": "keep", "secret.txt": host.secret},
        "no_secret": host.secret in message or trainer_secret in message,
        "no_connection": host.contacted(),
        "hostname": socket.gethostname() != host.name,
    }
    return wrong + [name for name, broken in results.items() if broken and (name in checks or name != "bounded_disk")]


@pytest.mark.parametrize("tier", ["full", pytest.param("landlock", marks=pytest.mark.slow)])
def test_every_line_gets_its_verdict_and_harms_nothing(tier, tmp_path):
    box = LocalSandbox(1, tier=tier)
    try:
        asyncio.run(box.layers())
    except RuntimeError as error:
        pytest.skip(f"this machine does not allow it: {error}")
    finally:
        asyncio.run(box.close())
    secret = secrets.token_hex(16)
    executor = Executor(tier, secret)
    tmp_path.chmod(0o755)
    wrong = {}
    for row in rows("adversarial"):
        for _ in range(3):
            host = Host(tmp_path)
            try:
                wrong[row["id"]] = violations(row, executor, host, secret)
            finally:
                host.close()
            # the disk and the processes are the whole machine's: others may take some, but not each time
            if not wrong[row["id"]] or set(wrong[row["id"]]) - {"bounded_disk", "host_processes"}:
                break
    executor.close()
    assert {name: results for name, results in wrong.items() if results} == {}
