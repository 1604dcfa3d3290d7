"""TRL's SFT and DPO trainers with checkpoints that appear whole or not at all, as the online trainers have; SFT without
padding where the model's attention allows it."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from datasets import Dataset
from transformers import PreTrainedModel, PrinterCallback, Trainer
from trl import DPOConfig, DPOTrainer, SFTTrainer

from recipes.cli.console import log
from recipes.data.training_data import of_turns
from recipes.models.load import train_in_float32
from recipes.records.checkpoints import AtomicCheckpoints
from recipes.records.log import RunLog
from recipes.trainers.log_probs import attend_by_segment, attends_by_segment, causal_lm, full_attention


class Offline(AtomicCheckpoints, Trainer if TYPE_CHECKING else object):  # type: ignore[misc]
    """Mix in before one of TRL's offline trainers. `run_log` is told the metrics, and prints a line a step."""

    def __init__(self, *args: Any, run_log: RunLog, **kwargs: Any):
        super().__init__(*args, callbacks=[run_log], **kwargs)
        self.remove_callback(PrinterCallback)
        train_in_float32(self.model)

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

    def _prepare_dataset(self, dataset: Dataset, processing_class: Any, args: DPOConfig, *names: Any) -> Dataset:
        """Pairs with `prompt_ids`, `chosen_ids` and `rejected_ids`, tokenized as the policy is asked and samples; TRL
        tokenizes prompt and answer together. Pairs whose prompt alone fills `max_length` are left out, as there."""

        def row(pair: dict[str, Any]) -> dict[str, list[int]]:
            prompt, chosen = of_turns(pair["prompt"], pair["chosen"], processing_class)
            return {
                "prompt_ids": prompt,
                "chosen_ids": chosen,
                "rejected_ids": of_turns(pair["prompt"], pair["rejected"], processing_class)[1],
            }

        pairs, longest = dataset.map(row), args.max_length
        answers = [len(p["prompt_ids"]) + max(len(p["chosen_ids"]), len(p["rejected_ids"])) for p in pairs]
        if longest is not None and (cut := sum(length > longest for length in answers)):
            log.warning(
                "%d of %d pairs are longer than recipe.trl.max_length=%d tokens and lose the end of an answer; "
                "recipe.trl.max_length=%d keeps all of them",
                *(cut, len(answers), longest, max(answers)),
            )
        if longest is not None and args.truncation_mode == "keep_start":
            pairs = pairs.filter(lambda pair: len(pair["prompt_ids"]) < longest)
        return pairs
