"""Messages of a run: to the terminal, and with the time to run.log; those of libraries to run.log only."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import sys
import warnings
from pathlib import Path
from typing import Any, TextIO

log = logging.getLogger("codegrain")
MINUS_SIGN = "\N{MINUS SIGN}"
CONTROL_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {127: 0x2421}
"""Control characters would steer a terminal, and HTML drops them: their pictures are shown instead."""


class _Stdout(logging.StreamHandler):
    """Writes to the present sys.stdout, which may have been redirected since the handler was made."""

    @property
    def stream(self) -> TextIO:
        return sys.stdout

    @stream.setter
    def stream(self, _: TextIO) -> None: ...


def quiet_libraries() -> None:
    """Called before the heavy imports: no progress bars for weights, no libraries' warnings on the terminal."""
    logging.captureWarnings(True)
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    if not sys.stderr.isatty():  # datasets would write each state of its bars into a log file
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
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


def started_as(recipe: str) -> str:
    """What a user types to start a recipe here: its script in the repository, the command of an installed wheel."""
    in_repository = (Path(__file__).parents[2] / "pyproject.toml").exists()
    return f"python recipes/{recipe}.py" if in_repository else f"codegrain {recipe}"


def tell(message: str) -> None:
    """Print a line to the standard error, or nothing where its reader has gone: Ctrl-C ends `tee` too."""
    with contextlib.suppress(OSError):
        print(message, file=sys.stderr, flush=True)


def log_to(folder: Path) -> None:
    """Append all messages, with the time, to run.log in the run directory as well."""
    file = logging.FileHandler(folder / "run.log", encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logging.getLogger().addHandler(file)


def print_table(drawn: Any) -> None:
    """Print a rich table. Where no terminal is, as in a file, it is as wide as it needs to be: in 80 columns the names
    of runs would have no room."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, Console(width=10_000).measure(drawn).maximum))
    console.print(drawn)


def number(value: float) -> str:
    """Text of a number at four significant digits: 0.3127, 3,840, 1.5e-6, nan."""
    if not math.isfinite(value):
        return str(value)
    if 1000 <= abs(value) < 1e7:
        text = f"{value:,.0f}"
    else:
        text = f"{value + 0.0:.4g}"  # + 0.0 turns minus zero into zero
        if "e" in text:
            mantissa, exponent = text.split("e")
            text = f"{mantissa}e{int(exponent)}"
    return text.replace("-", MINUS_SIGN)


def as_text(value: Any) -> str:
    """A value of completions.jsonl as text to show, control characters as their pictures."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("\r\n", "\n").translate(CONTROL_PICTURES)


def for_terminal(value: Any) -> str:
    """As as_text, with a question mark for what UTF-8 cannot say."""
    return as_text(value).encode("utf-8", "replace").decode()
