"""A rollout as padded rows, cut into micro-batches without the rows that teach nothing: those cost no pass at all."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather
from torch import nn
from trl import GRPOConfig
from trl.trainer.utils import pad

from recipes.sampling.group_batch import GroupRollout
from recipes.trainers.turns import written_columns

MEANS_OVER_ROWS = ("grpo", "dr_grpo", "luspo", "sapo")
"""Losses that are means over a micro-batch's rows: rows left out count as rows of zero loss, by their `share`."""

LARGEST_RATIO = 3.0
"""Of the policy to another sampler, with a negative advantage (TRL's `delta`), where PPO's clipping has no bound: Ye et
al. 2020, arXiv 1912.09729, "dual-clip"."""


def entropy_in_loss(args: GRPOConfig) -> bool:
    """Whether the loss has an entropy bonus, through which entropies need a gradient."""
    return bool(args.entropy_coef or args.use_adaptive_entropy)


def every_row_counts(args: GRPOConfig) -> bool:
    """Whether rows without an advantage have gradients too, or the loss depends on their tokens."""
    of_all_tokens = args.loss_type == "bnpo" or args.top_entropy_quantile < 1.0
    return bool(args.beta) or entropy_in_loss(args) or of_all_tokens


def loss_of_nothing(model: nn.Module, accelerator: Accelerator) -> torch.Tensor:
    """The loss of an empty micro-batch: 0, without a forward pass, and its backward pass touches no parameter.

    In fp16 it gives the smallest parameter a gradient of 0: the scaler refuses a step in which there is none.
    """
    nothing = torch.zeros((), device=accelerator.device, requires_grad=True)
    if accelerator.scaler is None:
        return nothing
    trained = (parameter for parameter in model.parameters() if parameter.requires_grad)
    return nothing + 0.0 * min(trained, key=torch.numel).sum()


def padded_rows(
    rollout: GroupRollout, pad_id: int, turns: int, mask_truncated: bool, device: torch.device
) -> dict[str, torch.Tensor]:
    """Prompts (B, P), padded at the left, completions (B, T), padded at the right, and their masks; all processes call
    it. turns: of an episode, at most. mask_truncated: whether answers cut off at the limit have no loss."""
    batch: dict[str, torch.Tensor] = {}
    completions = [list(completion.sampled_ids) for completion in rollout.completions]
    for name, side, rows in (("prompt", "left", rollout.prompt_ids), ("completion", "right", completions)):
        ids = [torch.tensor(row) for row in rows]
        padded = pad(ids, padding_value=pad_id, padding_side=side)
        mask = pad([torch.ones_like(row) for row in ids], padding_value=0, padding_side=side)
        batch |= {f"{name}_ids": padded.to(device), f"{name}_mask": mask.to(device)}
    if turns > 1:  # the environment's replies are read and have no loss
        written = written_columns(rollout.completions, batch["completion_ids"].shape[1]).to(device)
        batch["tool_mask"] = written.to(batch["completion_mask"].dtype)
    if mask_truncated:
        finished = torch.tensor([c.finished for c in rollout.completions], device=device)
        batch["completion_mask"] = batch["completion_mask"] * finished[:, None]
    trained = batch["completion_mask"] * batch.get("tool_mask", 1)
    batch["num_items_in_batch"] = gather(trained.sum()).sum()
    return batch


def micro_batches(
    batch: dict[str, Any], learns: torch.Tensor, size: int, count: int, window: int, least: int = 0
) -> list[dict[str, Any] | None]:
    """`count` micro-batches of at most `size` rows; all processes call it, and get as many that hold rows.

    Rows stay in the optimizer step that TRL's own cut would give them; None stands for a micro-batch left empty. Each
    has `share`: its rows as a share of `size`.

    batch: tensors of count x size rows. learns: (B,) booleans. window: micro-batches of one optimizer step. least: rows
    that each step has at the least, learning or not.
    """
    out: list[dict[str, Any] | None] = []
    for first in range(0, count * size, window * size):
        rows = first + learns[first : first + window * size].nonzero().squeeze(1)
        # as many rows on every process, since TRL's loss gathers metrics
        wanted = max(least, int(gather(torch.tensor([len(rows)], device=rows.device)).max()))
        filled = torch.cat([rows, rows.new_full((wanted - len(rows),), first)])
        empty = torch.arange(wanted, device=rows.device) >= len(rows)
        chunks = [
            _take(batch, chunk, mute) | {"share": len(chunk) / size}
            for chunk, mute in zip(filled.split(size), empty.split(size), strict=True)
            if len(chunk)
        ]
        out += [None] * (window - len(chunks))
        out += chunks
    return out


def _take(batch: dict[str, Any], rows: torch.Tensor, empty: torch.Tensor) -> dict[str, Any]:
    """Rows of a batch, the `empty` ones without their completion; columns that are padding alone are cut."""
    taken = {name: v[rows] if torch.is_tensor(v) and v.dim() else v for name, v in batch.items()}
    taken["completion_mask"] = taken["completion_mask"] * ~empty[:, None]
    longest = int(taken["completion_mask"].sum(1).max().clamp(min=1))
    width = batch["completion_ids"].shape[1]
    for name, value in taken.items():
        if torch.is_tensor(value) and value.shape[1:] == (width,) and not name.startswith("prompt"):
            taken[name] = value[:, :longest]
    return taken
