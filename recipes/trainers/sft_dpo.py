"""TRL's SFT and DPO trainers with checkpoints that appear whole or not at all, as the online trainers have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import PreTrainedModel, PrinterCallback, Trainer
from trl import DPOTrainer, SFTTrainer

from recipes.records.checkpoints import AtomicCheckpoints
from recipes.records.log import RunLog


class Offline(AtomicCheckpoints, Trainer if TYPE_CHECKING else object):  # type: ignore[misc]
    """Mix in before one of TRL's offline trainers. `run_log` is told the metrics, and prints a line a step."""

    def __init__(self, *args: Any, run_log: RunLog, **kwargs: Any):
        super().__init__(*args, callbacks=[run_log], **kwargs)
        self.remove_callback(PrinterCallback)

    @property
    def policy(self) -> PreTrainedModel:
        """The model that is trained, out of what training wraps it in."""
        return self.accelerator.unwrap_model(self.model)


class SftTrainer(Offline, SFTTrainer):
    """Cross-entropy on the answers."""


class DpoTrainer(Offline, DPOTrainer):
    """Direct preference optimisation; with adapters the reference is the policy as it was, without a second model."""
