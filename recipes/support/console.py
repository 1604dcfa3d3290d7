"""What a run says: to the terminal for a person, to run.log with the time; libraries' chatter to run.log only."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import warnings
from pathlib import Path

log = logging.getLogger("codegrain")


class UserError(Exception):
    """Something the user can mend; the message says what and how, in one line."""


def quiet_libraries() -> None:
    """Before the heavy imports: no progress bars for weights, no version warnings on the terminal."""
    logging.captureWarnings(True)
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    for name in ("bitsandbytes", "DeepSpeed", "py.warnings", "transformers", "trl"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger().addHandler(logging.NullHandler())
    log.setLevel(logging.INFO)
    if not log.handlers and os.environ.get("RANK", "0") == "0":
        terminal = logging.StreamHandler(sys.stdout)
        terminal.setFormatter(logging.Formatter("%(message)s"))
        log.addHandler(terminal)


def log_to(folder: Path) -> None:
    """Also append everything, with the time, to run.log in the run directory."""
    file = logging.FileHandler(folder / "run.log")
    file.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logging.getLogger().addHandler(file)


def keep_freed_memory(up_to: int = 1 << 30) -> None:
    """Have glibc keep freed blocks of up to `up_to` bytes for the next who asks, and hand larger ones back.

    The default spares a CPU update the faulting in of its pages, a fifth of its time, and holds up to twice what is
    alive in it; 4 MiB holds little more than that (tests/bench/README.md, Memory).
    """
    mmap_threshold, trim_threshold = -3, -1
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(mmap_threshold, up_to)
        libc.mallopt(trim_threshold, min(2 * up_to, (1 << 31) - 1))
