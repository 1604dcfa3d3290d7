"""Checkpoints that are complete or absent, and hold all that an exact resumption needs."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate.utils import broadcast
from torch.optim.lr_scheduler import LambdaLR
from transformers import Trainer, TrainerState

from recipes.cli.console import log
from recipes.cli.errors import UserError
from recipes.records.checkpoint_folders import PREFIX, checkpoints, remove_whole, step_of
from recipes.records.directory import write_text

EXTRA = "extra_{rank}.pt"
CARD = "README.md"
REFERENCE = "reference"
"""Key of the reference policy's weights beside `extra_state`."""


def random_states() -> dict[str, Any]:
    """The states of all random number generators of this process."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state(), "cuda": cuda}


def set_random_states(states: dict[str, Any]) -> None:
    """Set the generators to the states that `random_states` returned."""
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])


class AtomicCheckpoints(Trainer if TYPE_CHECKING else object):  # type: ignore[misc]
    """Mixin before a Trainer: saves into a staging folder, then renames it; keeps the last `save_total_limit`."""

    keep_every = 0
    """Checkpoints of steps that are a multiple of this stay as well; 0: none does."""
    keep_step: int | None = None
    """The checkpoint of this step stays as well."""
    card: Callable[[int], str] | None = None
    """The model card of the weights after a step; it goes beside them as README.md."""
    _staging: str | None = None

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: TRL's draft knows neither base model nor data. `card` writes ours."""

    def write_card(self, folder: Path) -> None:
        """Put the card of the present step into a folder of weights, in place of the draft that PEFT leaves there. A
        card that cannot be written costs no checkpoint."""
        if not self.accelerator.is_main_process:
            return
        (folder / CARD).unlink(missing_ok=True)
        if self.card:
            try:
                write_text(folder / CARD, self.card(self.state.global_step))
            except (UserError, ValueError, LookupError, TypeError, OSError) as error:
                log.warning("%s could not be written: %s", folder / CARD, error)

    def _get_output_dir(self, trial) -> str:
        return self._staging or super()._get_output_dir(trial)

    def _save_checkpoint(self, model, trial) -> None:
        final = Path(super()._get_output_dir(trial))
        staging = final / ".saving"
        if self.accelerator.is_main_process:
            shutil.rmtree(staging, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        self._staging = str(staging)
        try:
            super()._save_checkpoint(model, trial)
            file, saved = (
                EXTRA.format(rank=self.accelerator.process_index),
                staging / f"{PREFIX}{self.state.global_step}",
            )
            torch.save(self.extra_state() | self._moved_reference(), saved / file)
            self.write_card(saved)
        finally:
            self._staging = None
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            self._publish(staging, final)
        self.accelerator.wait_for_everyone()

    def _publish(self, staging: Path, final: Path) -> None:
        name = f"{PREFIX}{self.state.global_step}"
        remove_whole(final / name)
        os.replace(staging / name, final / name)
        shutil.rmtree(staging)
        limit = self.args.save_total_limit
        old_ones = checkpoints(final.parent)[:-limit] if limit else []
        for old in old_ones:
            if (self.keep_every and step_of(old) % self.keep_every == 0) or step_of(old) == self.keep_step:
                continue
            remove_whole(old)

    def _moved_reference(self) -> dict[str, Any]:
        """The weights of a reference policy that follows the trained one (TRL's `sync_ref_model`), from the first
        process: a resumed run loads the reference that training began with."""
        if not getattr(self.args, "sync_ref_model", False) or not self.accelerator.is_main_process:
            return {}
        return {REFERENCE: self.accelerator.unwrap_model(self.ref_model).state_dict()}

    def _load_reference(self, weights: dict[str, torch.Tensor] | None) -> None:
        """Take up what `_moved_reference` gave; all processes call it. A checkpoint of before has none."""
        if not getattr(self.args, "sync_ref_model", False):
            return
        reference = self.accelerator.unwrap_model(self.ref_model)
        if weights is not None:
            reference.load_state_dict(weights)
        for parameter in reference.parameters():
            parameter.data.copy_(broadcast(parameter.data))

    def extra_state(self) -> dict[str, Any]:
        """What this process needs to resume exactly, beside what transformers saves: tensors and plain data."""
        return {}

    def load_extra_state(self, state: dict[str, Any]) -> None:
        """Restore what `extra_state` returned."""

    def save_final(self, folder: Path) -> None:
        """Save the trained weights in `folder`, completely or not at all."""
        staging = folder.with_name(".final")
        if not self._without_engine:
            self.save_model(str(staging))
        elif self.args.should_save:
            self._save(str(staging))
        self.write_card(staging)
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            self.state.save_to_json(str(staging / "trainer_state.json"))  # which step these are the weights of
            remove_whole(folder)
            os.replace(staging, folder)
        self.accelerator.wait_for_everyone()

    def restore(self, checkpoint: Path) -> None:
        """Load a checkpoint's weights and step, without training further."""
        with self._whole_parameters():
            self._load_from_checkpoint(str(checkpoint))
        self.state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))

    @property
    def _without_engine(self) -> bool:
        """Whether DeepSpeed has not taken the model yet, since nothing was trained; each process has whole weights, and
        transformers' `save_model` would ask the engine for them."""
        return self.is_deepspeed_enabled and self.model_wrapped is self.model

    def _whole_parameters(self) -> AbstractContextManager[Any]:
        """In it trained parameters are whole; at its end the first process's values are spread again under ZeRO-3."""
        if not self.is_deepspeed_enabled or self._without_engine or self.args.deepspeed_plugin.zero_stage < 3:
            return nullcontext()
        from deepspeed.zero import GatheredParameters

        return GatheredParameters([p for p in self.model.parameters() if p.requires_grad], modifier_rank=0)

    def _load_optimizer_and_scheduler(self, checkpoint) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        schedule = self.lr_scheduler  # where max_steps was raised, the stored rates are those of the old schedule
        if isinstance(schedule, LambdaLR):
            parts = zip(self.optimizer.param_groups, schedule.base_lrs, schedule.lr_lambdas, strict=True)
            for group, base, rate in parts:
                group["lr"] = base * rate(schedule.last_epoch)
        file = Path(checkpoint) / EXTRA.format(rank=self.accelerator.process_index)
        device = self.accelerator.device
        target = "cpu" if device.type == "cpu" else device  # torch.load does not accept cpu:0
        state = torch.load(file, map_location=target, weights_only=True)
        self._load_reference(state.pop(REFERENCE, None))
        self.load_extra_state(state)
