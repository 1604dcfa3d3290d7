"""Stop a run at a signal: SIGTERM or Ctrl-C leads to a checkpoint, exit status 0 and the command that resumes the run.

- SIGTERM (a scheduler takes its nodes back), however often it comes, and a second Ctrl-C stop at once. Completions that
  are being sampled or graded are dropped, and the step starts anew when the run is resumed; an update or a checkpoint
  is finished first.
- The first Ctrl-C stops at the end of the step. An evaluation, which can take minutes, it stops at once.
- A third Ctrl-C, or one after SIGTERM, is the usual KeyboardInterrupt.

With several processes a stop waits for the end of the step, since all processes must leave together.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather
from transformers import TrainerCallback

from recipes.cli import memory_use
from recipes.cli.console import tell
from recipes.cli.errors import Stopped
from recipes.cli.processes import processes

_urgency = 0
"""Of the request to stop: 0 none, 1 at the end of the step, 2 at once, 3 by KeyboardInterrupt."""
_phase = "load"
_interruptible = False


@contextmanager
def listening() -> Iterator[None]:
    """Treat SIGTERM and SIGINT as requests to stop while the block runs."""
    global _urgency
    _urgency = 0
    handlers = {number: signal.signal(number, _request_stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _request_stop(number: int, frame: Any) -> None:
    global _urgency
    if number == signal.SIGTERM and _urgency >= 2:
        return  # again, as where a launcher sends on what its group had too: the stop is under way
    _urgency = 2 if number == signal.SIGTERM else _urgency + 1
    if _urgency > 2:
        raise KeyboardInterrupt
    if _interruptible and (_urgency == 2 or _phase == "evaluation"):
        raise Stopped
    if _urgency == 1 and os.environ.get("RANK", "0") == "0":
        tell("stopping after this step; Ctrl-C again to stop now")


@contextmanager
def phase(name: str, interruptible: bool = False) -> Iterator[None]:
    """Name what the run is doing, for messages and for its peak of memory.

    interruptible: whether a request to stop at once may end the block in the middle; the block then raises Stopped,
    also for an earlier request.
    """
    global _phase, _interruptible
    before = _phase, _interruptible
    memory_use.settle(_phase)
    _phase, _interruptible = name, interruptible and processes() == 1
    try:
        if _urgency >= 2 and _interruptible:
            raise Stopped
        yield
        memory_use.settle(name)
        _phase = before[0]
    finally:
        _interruptible = before[1]


def current_phase() -> str:
    """What the run is doing, or was doing when an exception ended it."""
    return _phase


def stop_requested() -> bool:
    """Whether any process has a request to stop; all processes call it together."""
    if processes() == 1:
        return _urgency > 0
    own = torch.tensor([_urgency], device=PartialState().device)
    return bool(gather(own).max() > 0)


def stop_if_asked() -> None:
    """Raises Stopped in all processes where one has a request to stop."""
    if stop_requested():
        raise Stopped


class StopAtStepEnd(TrainerCallback):
    """Saves a checkpoint and ends the training at the end of a step, where there is a request to stop."""

    def on_step_end(self, args, state, control, **kwargs):
        if stop_requested():
            control.should_save = control.should_training_stop = True
