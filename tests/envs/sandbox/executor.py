"""A stand-in for the trainer: a process that owns a sandbox and grades what it is sent, a JSON line each way.

python tests/envs/sandbox/executor.py full
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from envs.sandbox import Limits, LocalSandbox
from envs.sandbox.__main__ import job_of


async def main(tier: str) -> None:
    sandbox = LocalSandbox(1, Limits(wall_s=2.0, cpu_s=2.0), tier=tier)
    for line in sys.stdin:
        started = time.monotonic()
        [outcome] = await sandbox.run([job_of(json.loads(line))])
        message = {name: str(value) for name, value in dataclasses.asdict(outcome).items()}
        print(json.dumps({"verdict": outcome.verdict, "wall": time.monotonic() - started, "said": message}), flush=True)
    await sandbox.close()


asyncio.run(main(sys.argv[1]))
