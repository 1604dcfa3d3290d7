"""A generation batch cut into micro-batches, without the rows that teach nothing: those cost no pass at all."""

from __future__ import annotations

from typing import Any

import torch
from accelerate.utils import gather
from trl import GRPOConfig

MEANS_OVER_ROWS = ("grpo", "dr_grpo", "luspo", "sapo")
"""Losses that are means over a micro-batch's rows: rows left out count as rows of zero loss, by their `share`."""


def entropy_in_loss(args: GRPOConfig) -> bool:
    """Whether the loss has an entropy bonus, through which entropies need a gradient."""
    return bool(args.entropy_coef or args.use_adaptive_entropy)


def every_row_counts(args: GRPOConfig) -> bool:
    """Whether rows without an advantage have gradients too, or the loss depends on their tokens."""
    of_all_tokens = args.loss_type == "bnpo" or args.top_entropy_quantile < 1.0
    return bool(args.beta) or entropy_in_loss(args) or of_all_tokens


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
