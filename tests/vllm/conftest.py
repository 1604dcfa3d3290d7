"""A vLLM server as launch/vllm_server.sh starts it, in the environment that `make test-vllm` makes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from tests.random_model import save_random_llama

ROOT = Path(__file__).parents[2]
START_S = 900.0


class Server:
    """A server on loopback that can be killed and started again at the same address."""

    def __init__(self, model: Path, log: Path):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.model, self.log = model, log
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        environment = {
            **os.environ,
            "PYTHON": os.environ["CODEGRAIN_VLLM_PYTHON"],
            "PORT": str(self.port),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_NO_USAGE_STATS": "1",
        }
        options = ["--dtype", "float32", "--max-model-len", "1024", "--max-num-batched-tokens", "1024"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [ROOT / "launch" / "vllm_server.sh", self.model, *options],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Raises AssertionError where it ends, or does not answer in time."""
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            assert self.process is not None and self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=10).close()
                return
            except OSError:
                time.sleep(1)
        raise AssertionError(self.log.read_text()[-3000:])

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture(scope="session")
def small_model(smollm2_tokenizer, tmp_path_factory) -> Path:
    """A random model whose heads are wide enough for vLLM, with SmolLM2's tokenizer."""
    return save_random_llama(tmp_path_factory.mktemp("small"), smollm2_tokenizer, 128, 128, heads=2, kv_heads=1)


@pytest.fixture(scope="module")
def vllm(small_model, tmp_path_factory):
    server = Server(small_model, tmp_path_factory.mktemp("vllm") / "server.log")
    server.start()
    try:
        server.wait()
        yield server
    finally:
        server.kill()
