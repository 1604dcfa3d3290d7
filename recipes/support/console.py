"""What a run says: to the terminal for a person, to run.log with the time; libraries' chatter to run.log only."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from pathlib import Path
from typing import TextIO

log = logging.getLogger("codegrain")


class UserError(Exception):
    """Something the user can mend; the message says what and how, in one line."""


class _Stdout(logging.StreamHandler):
    """Writes to what sys.stdout is at that moment, also where it has been redirected since."""

    @property
    def stream(self) -> TextIO:
        return sys.stdout

    @stream.setter
    def stream(self, _: TextIO) -> None: ...


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
        terminal = _Stdout()
        terminal.setFormatter(logging.Formatter("%(message)s"))
        log.addHandler(terminal)


def log_to(folder: Path) -> None:
    """Also append everything, with the time, to run.log in the run directory."""
    file = logging.FileHandler(folder / "run.log")
    file.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logging.getLogger().addHandler(file)
