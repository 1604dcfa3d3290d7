"""PPO's optimizers, and its exact resume."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, set_peft_model_state_dict
from peft.utils import load_peft_weights
from safetensors.torch import load_file
from transformers import TrainerState

from recipes.cli.errors import Stopped
from recipes.data.prompt_order import PromptStream
from recipes.records.checkpoints import EXTRA, AtomicCheckpoints, random_states, set_random_states
from recipes.sampling.prefix import ReferencePrefixes
from recipes.trainers.advantages import KLCoefficient
from recipes.trainers.optimizer_steps import PlainStep, ShardedStep
from recipes.trainers.own_ppo import PPOTrainer


def state_of(file: Path) -> TrainerState:
    """The trainer's state in a checkpoint, without the field that TRL's PPOTrainer, the base until now, added to it."""
    known = {field.name for field in dataclasses.fields(TrainerState)}
    return TrainerState(**{key: value for key, value in json.loads(file.read_bytes()).items() if key in known})


class ResumablePPOTrainer(AtomicCheckpoints, PPOTrainer):
    """A subclass sets `value_learning_rate` before this class's constructor, and `prompts`, `kl_coefficient`, `steps`
    and `prefixes` after it."""

    control: Any
    value_learning_rate: float | None
    prompts: PromptStream
    kl_coefficient: KLCoefficient
    steps: list[PlainStep | ShardedStep]
    prefixes: ReferencePrefixes | None

    def create_optimizer(self, model=None):
        """One optimizer, with a learning rate of its own for the critic where one is set."""
        critic = [p for p in self.value.parameters() if p.requires_grad]
        groups: list[dict[str, Any]] = [{"params": [p for p in self.policy.parameters() if p.requires_grad]}]
        if critic:
            rate = self.value_learning_rate
            groups.append({"params": critic, "lr": self.args.learning_rate if rate is None else rate})
        self.optimizer = self.optimizer_of(groups)
        return self.optimizer

    def optimizer_of(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """A new optimizer of the kind that is configured."""
        kind, settings = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        return kind(groups, **{"weight_decay": self.args.weight_decay, **settings})

    # steps and checkpoints ----------------------------------------------------------------------------------------

    def begin(self, checkpoint: str | None) -> None:
        """Bring models, state and callbacks to where the first step, or the one after `checkpoint`, begins."""
        args = self.args
        if args.gradient_checkpointing:
            for model in (self.policy, *([] if self.value.shared else [self.value.backbone])):
                model.gradient_checkpointing_enable({"use_reentrant": False})
        self.model.train()
        if checkpoint:
            self.resume(checkpoint)
        self.state.max_steps = args.num_total_batches
        self.state.save_steps, self.state.logging_steps = args.save_steps, args.logging_steps
        self.control = self.callback_handler.on_train_begin(args, self.state, self.control)

    def save_if_due(self) -> None:
        """A checkpoint where one is due."""
        self.control = self.callback_handler.on_step_end(self.args, self.state, self.control)
        if self.control.should_save:
            self._save_checkpoint(self.model, trial=None)
            self.control = self.callback_handler.on_save(self.args, self.state, self.control)

    @contextmanager
    def undone_if_stopped(self) -> Iterator[None]:
        """The part of a step that changes no weight: stopped in it, the run is saved as it was before."""
        before, place = random_states(), self.prompts.state()
        shown = self.prefixes.state() if self.prefixes else None
        try:
            yield
        except Stopped:
            self.prompts.load_state(place)
            if self.prefixes and shown:
                self.prefixes.load_state(shown)
            set_random_states(before)
            if self.state.global_step:
                self._save_checkpoint(self.model, trial=None)
            raise

    def extra_state(self) -> dict[str, Any]:
        """The critic's trained weights, the place in the data, the KL coefficient, this process's share of states."""
        trained = {name for name, p in self.value.named_parameters() if p.requires_grad}
        critic = {name: t for name, t in self.value.state_dict().items() if name in trained}
        return {
            "value": critic if self.accelerator.is_main_process else {},
            "prompts": self.prompts.state(),
            "kl_coef": self.kl_coefficient.value,
            "prefixes": self.prefixes.state() if self.prefixes else None,
            "steps": [step.state() for step in self.steps],
        }

    def load_extra_state(self, state: dict[str, Any]) -> None:
        self.prompts.load_state(state["prompts"])
        self.kl_coefficient.value = state["kl_coef"]
        if self.prefixes and state["prefixes"]:
            self.prefixes.load_state(state["prefixes"])
        for step, own in zip(self.steps, state["steps"], strict=True):
            step.load_state(own)

    def resume(self, checkpoint: str) -> None:
        """Everything as it was when the checkpoint was made, random states last."""
        self.restore(Path(checkpoint))
        self._load_optimizer_and_scheduler(checkpoint)  # and extra_state
        self._load_scaler(checkpoint)
        self._load_rng_state(checkpoint)

    def restore(self, checkpoint: Path) -> None:
        """Weights of policy and critic, and the step reached, without training on."""
        if isinstance(self.policy, PeftModel):
            set_peft_model_state_dict(self.policy, load_peft_weights(str(checkpoint), device="cpu"))
        else:
            _load_whole(self.policy, checkpoint / "model.safetensors")
        extra = torch.load(checkpoint / EXTRA.format(rank=0), map_location="cpu", weights_only=True)
        self.value.load_state_dict(extra["value"], strict=False)
        self.state = state_of(checkpoint / "trainer_state.json")
        self.state.is_world_process_zero = self.is_world_process_zero()
        self.state.is_local_process_zero = self.is_local_process_zero()


def _load_whole(model: torch.nn.Module, file: Path) -> None:
    """Load every weight in place; safetensors' load_model refuses those that share a storage, as under ZeRO."""
    weights = load_file(file)
    names = model.load_state_dict(weights, strict=False)
    own = model.state_dict()
    tied = {own[name].data_ptr() for name in weights if name in own}
    missing = [name for name in names.missing_keys if own[name].data_ptr() not in tied]
    if missing or names.unexpected_keys:
        raise ValueError(f"{file} is of another model: {', '.join([*missing, *names.unexpected_keys][:3])}")
