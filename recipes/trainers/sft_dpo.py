"""TRL's SFT and DPO trainers with checkpoints that appear whole or not at all, as the online trainers have; SFT without
padding, and without reading what all examples begin with more than once, where the model's attention allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from datasets import Dataset
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel, PrinterCallback, Trainer
from transformers.trainer_pt_utils import LengthGroupedSampler
from trl import DPOConfig, DPOTrainer, SFTTrainer

from recipes.cli.console import log
from recipes.data.example_order import SimilarLengths
from recipes.data.training_data import of_turns
from recipes.models.load import train_in_float32
from recipes.records.checkpoints import AtomicCheckpoints
from recipes.records.log import RunLog
from recipes.trainers.log_probs import CHUNK, has_plain_head, states_at
from recipes.trainers.packing import attend_by_segment, attends_by_segment, causal_lm, full_attention, pack

WORTH_SHARING = 16
"""Tokens of a common beginning from which on reading it once saves more than the attention to it costs."""


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

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        sampler = super()._get_train_sampler(train_dataset)
        if not isinstance(sampler, LengthGroupedSampler):
            return sampler
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        # the state of a resumed run is loaded before the first batch is drawn
        return SimilarLengths(sampler, seed, lambda: int(self.state.epoch))


class SftTrainer(Offline, SFTTrainer):
    """Cross-entropy on the answers. The examples of a pass stand in one row without padding, behind what all of them
    begin with, and each attends to that and to itself; on a GPU, a row each where they begin with nothing in common.
    The loss, its gradient and the metrics are those of TRL's padded rows. Those are trained on under ZeRO-3, for
    another loss, with NEFTune, and where a layer does not attend to all that came before."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        given = self.args
        self.packs = (
            given.loss_type in ("nll", "chunked_nll")
            and not (given.packing or given.padding_free or given.use_liger_kernel or given.label_smoothing_factor)
            and not given.neftune_noise_alpha  # its noise depends on the length of a row
            and not (self.aux_loss_enabled or self.is_fsdp_enabled or _spreads_weights(self.accelerator))
            and full_attention(causal_lm(self.model).config)
            and type(causal_lm(self.model).get_output_embeddings()) is nn.Linear  # not of quantized weights
            and has_plain_head(self.model)
        )
        if self.packs:
            attend_by_segment(self.accelerator.device, self.model)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        if not self.packs or return_outputs or not model.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        mask, metrics = inputs["attention_mask"], self._metrics["train"]
        with self.accelerator.autocast():
            loss, entropy, first = _loss_of_answers(model, inputs["input_ids"], mask, inputs["labels"])
        trained = (inputs["labels"][:, 1:] != -100).sum()
        sums = self.accelerator.gather(torch.stack([entropy, first, trained, mask.sum()]).reshape(1, -1)).sum(0)
        metrics["entropy"].append((sums[0] / sums[2]).item())
        metrics["mean_token_accuracy"].append((sums[1] / sums[2]).item())
        self._total_train_tokens += int(sums[3].item())
        metrics["num_tokens"] = [self._total_train_tokens]
        if num_items_in_batch is None:
            return loss / trained
        # it counts the tokens of all processes, over which the gradient is a mean
        several = self.accelerator.num_processes if self.args.average_tokens_across_devices else 1
        return loss * several / num_items_in_batch


def _spreads_weights(accelerator: Any) -> bool:
    plugin = accelerator.state.deepspeed_plugin
    return plugin is not None and plugin.zero_stage == 3


def _loss_of_answers(
    model: nn.Module, ids: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sums over the trained tokens: cross-entropy, in nats and with a gradient; entropy; how many of them the model
    would choose first.

    ids, mask, labels: (B, T), padded at the right; labels are -100 where nothing is trained.
    """
    labels, lengths = labels.clone(), mask.sum(1)
    labels[:, 0] = -100  # nothing predicts a first token
    same = ((ids == ids[0]) & (labels == -100)).all(0)[: int(lengths.min()) - 1]
    shared = int(same.int().cumprod(0).sum()) if len(ids) > 1 else 0
    shared = shared if shared >= WORTH_SHARING else 0
    behind = mask.bool().clone()
    behind[:, :shared] = False  # it stands at the beginning of the row, once
    rows = [row[shared:length].tolist() for row, length in zip(ids, lengths.tolist(), strict=True)]
    if shared or attends_by_segment(model):
        inputs, predicts = pack([ids[0, :shared].tolist()], [rows], ids.device, attends_by_segment(model))
    else:  # a row each, which needs no mask
        inputs, predicts = pack([[]] * len(rows), [[row] for row in rows], ids.device)
    targets = labels[behind]
    trained = targets != -100
    hidden, head = states_at(model, predicts[trained], inputs)
    return _loss_of_tokens(head, hidden, targets[trained])


def _loss_of_tokens(
    head: nn.Linear, hidden: torch.Tensor, ids: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The three sums of `_loss_of_answers` from hidden states (N, d) and the ids (N,) that follow them. CHUNK of them
    meet the output matrix at once, and the backward pass makes their logits again.
    """
    weight, device = head.weight, hidden.device.type
    if torch.is_autocast_enabled(device):  # once, not for each chunk and each time
        weight = weight.to(torch.get_autocast_dtype(device))
    measured: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def chunk(start: int, h: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        logits = nn.functional.linear(h.to(weight.dtype), weight, head.bias).float()
        normaliser = logits.logsumexp(-1)
        chosen = logits.gather(-1, i[:, None]).squeeze(-1)
        if start not in measured:  # the backward pass needs the loss alone
            with torch.no_grad():
                entropy = normaliser - (torch.exp(logits - normaliser[:, None]) * logits).sum(-1)
                measured[start] = entropy.sum(), (logits.argmax(-1) == i).sum()
        return (normaliser - chosen).sum()

    parts = zip(range(0, max(len(ids), 1), CHUNK), hidden.split(CHUNK), ids.split(CHUNK), strict=True)
    losses = [checkpoint(chunk, *part, use_reentrant=False, preserve_rng_state=False) for part in parts]
    entropy, first = (torch.stack(each).sum() for each in zip(*measured.values(), strict=True))
    return torch.stack(losses).sum(), entropy, first


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
