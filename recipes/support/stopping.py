"""Stopping a run in good order: SIGTERM or Ctrl-C, a checkpoint, exit status 0, the command that goes on.

SIGTERM (a scheduler that takes its nodes back) and a second Ctrl-C stop at once: what is being sampled or graded is
thrown away and the step begins again when the run is resumed; an update or a checkpoint that has begun is finished. The
first Ctrl-C lets the step come to its end; an evaluation, which has minutes to go, it ends. A third is the usual
KeyboardInterrupt. With several processes a stop always waits for the end of the step, since all must leave together.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather
from transformers import TrainerCallback

from recipes.support import peak_memory
from recipes.support.launch import processes
from recipes.support.main import Stopped

_asked = 0
"""How urgently: 0 not at all, 1 at the end of the step, 2 at once, 3 whatever is lost."""
_phase = "load"
_interruptible = False


@contextmanager
def listening() -> Iterator[None]:
    """Take SIGTERM and SIGINT as requests to stop while the block runs."""
    global _asked
    _asked = 0
    before = {number: signal.signal(number, _hear) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _hear(number: int, frame: Any) -> None:
    global _asked
    _asked = max(_asked + 1, 2 if number == signal.SIGTERM else 1)
    if _asked > 2:
        raise KeyboardInterrupt
    if _interruptible and (_asked == 2 or _phase == "evaluation"):
        raise Stopped
    if _asked == 1 and os.environ.get("RANK", "0") == "0":
        print("stopping after this step; Ctrl-C again to stop now", file=sys.stderr, flush=True)


@contextmanager
def phase(name: str, interruptible: bool = False) -> Iterator[None]:
    """Names what the run is doing, for messages and its peak of memory. `interruptible`: a request to stop at once may
    end it in the middle.

    Raises Stopped where such a request has come already, or comes.
    """
    global _phase, _interruptible
    before = _phase, _interruptible
    peak_memory.settle(_phase)
    _phase, _interruptible = name, interruptible and processes() == 1
    try:
        if _asked >= 2 and _interruptible:
            raise Stopped
        yield
        peak_memory.settle(name)
        _phase = before[0]
    finally:
        _interruptible = before[1]


def current_phase() -> str:
    """What the run is doing, or was when an exception ended it."""
    return _phase


def asked() -> bool:
    """Whether any process was asked to stop; all processes call it together."""
    if processes() == 1:
        return _asked > 0
    mine = torch.tensor([_asked], device=PartialState().device)
    return bool(gather(mine).max() > 0)


def stop_if_asked() -> None:
    """Raises Stopped in all processes where one was asked to stop."""
    if asked():
        raise Stopped


class StopAtStepEnd(TrainerCallback):
    """Where a stop was asked for, the end of a step saves a checkpoint and ends the training."""

    def on_step_end(self, args, state, control, **kwargs):
        if asked():
            control.should_save = control.should_training_stop = True
