"""TRL's SFT and DPO trainers with checkpoints that appear whole or not at all, as the online trainers have; SFT without
padding where the model's attention allows it."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel, PrinterCallback, Trainer
from trl import DPOTrainer, SFTTrainer

from recipes.records.checkpoints import AtomicCheckpoints
from recipes.records.log import RunLog
from recipes.trainers.log_probs import attend_by_segment, attends_by_segment, causal_lm, full_attention


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
    """Cross-entropy on the answers. The examples of a pass stand in one row without padding, and each attends to itself
    alone, where the model's attention can do that; the loss and its gradient are those of padded rows."""

    data_collator: Any

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if not (hasattr(self.data_collator, "padding_free") and full_attention(causal_lm(self.model).config)):
            return
        attend_by_segment(self.model)
        if attends_by_segment(self.model):
            self.data_collator = dataclasses.replace(self.data_collator, padding_free=True)
            causal_lm(self.model).base_model.register_forward_pre_hook(_lengths_for_mask, with_kwargs=True)


def _lengths_for_mask(decoder: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]] | None:
    """What the decoder is called with for a row of several examples: their lengths in place of a mask.

    An example begins where the positions, (1, T), are 0.
    """
    positions = kwargs.get("position_ids")
    if positions is None or kwargs.get("attention_mask") is not None or not decoder.training or len(positions) != 1:
        return None
    starts = [*(positions[0] == 0).nonzero().flatten().tolist(), positions.shape[1]]
    no_mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=positions.device)  # so that transformers makes none
    segments = (0, tuple(end - start for start, end in pairwise(starts)))
    return args, kwargs | {"segments": segments, "attention_mask": no_mask}


class DpoTrainer(Offline, DPOTrainer):
    """Direct preference optimisation; with adapters the reference is the policy as it was, without a second model."""
