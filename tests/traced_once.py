"""Each pass that a plan of memory traces is traced once by all processes that warm.py forks: tests start over a hundred
runs of the same few tiny models, and tracing took a third of each start. tests/recipes/test_plan_traces.py compares
traces with passes, without this."""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

from recipes.tools.memory import trace

FOLDER = tempfile.TemporaryDirectory(prefix="traced-")
"""Of the process that forks; it goes with that process."""


def trace_each_pass_once() -> None:
    """Let what a plan traces be read from a file that an earlier process has left."""
    plain = trace._trace

    def traced(*asked: Any) -> Any:
        file = Path(FOLDER.name) / hashlib.sha256(repr(asked).encode()).hexdigest()
        if file.exists():
            return pickle.loads(file.read_bytes())
        counted = plain(*asked)
        staged = file.with_name(f"{file.name}-{os.getpid()}")
        staged.write_bytes(pickle.dumps(counted))
        staged.rename(file)
        return counted

    trace._trace = traced
