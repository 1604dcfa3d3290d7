"""The base of DensePPOTrainer: the arguments of TRL's last PPO, that of 1.12, and what a training needs before its
first step."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from datasets import Dataset
from peft import PeftModel
from torch import nn
from torch.utils.data import DataLoader
from transformers import PreTrainedModel, PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from recipes.models.critic import NoValue, ValueFunction
from recipes.records.checkpoints import random_states, set_random_states

SEEDS_APART = 100_003
"""Between the random states of two processes, as in TRL's PPO."""


@dataclass
class PPOConfig(TrainingArguments):
    """The fields of TRL 1.12's PPOConfig that have an effect, with its defaults; recipe.trl sets them."""

    learning_rate: float = 3e-6
    logging_steps: float = 10
    gradient_checkpointing: bool = True
    bf16: bool | None = None
    """None: wherever fp16 is off."""
    total_episodes: int | None = None
    """Prompts of the whole training; None: num_train_epochs of them all."""
    num_total_batches: int = 0
    """Updates; the trainer sets it."""
    num_mini_batches: int = 1
    num_ppo_epochs: int = 4
    response_length: int = 53
    temperature: float = 0.7
    missing_eos_penalty: float | None = None
    whiten_rewards: bool = False
    kl_coef: float = 0.05
    kl_estimator: Literal["k1", "k3"] = "k1"
    cliprange: float = 0.2
    cliprange_value: float = 0.2
    vf_coef: float = 0.1
    gamma: float = 1.0
    lam: float = 0.95

    def __post_init__(self) -> None:
        if self.bf16 is None:
            self.bf16 = not self.fp16
        super().__post_init__()


class PolicyAndValue(nn.Module):
    """The policy and its critic as one module, for one optimizer and one preparation by Accelerate."""

    def __init__(self, policy: nn.Module, value: nn.Module):
        super().__init__()
        self.policy, self.value = policy, value


class PPOTrainer(Trainer):
    """
    Args:
        args, processing_class, train_dataset, callbacks: as of transformers' Trainer.
        model: the policy.
        value: the critic.
        copy_reference: keep a frozen copy of the policy as `ref_model`, the reference policy; a policy with adapters
            needs none.
    """

    model: Any
    optimizer: Any
    policy: Any
    value: ValueFunction | NoValue

    def __init__(
        self,
        args: PPOConfig,
        processing_class: Any,
        model: PreTrainedModel | PeftModel,
        value: ValueFunction | NoValue,
        copy_reference: bool,
        train_dataset: Dataset,
        callbacks: list[TrainerCallback],
    ):
        self.policy, self.value = model, value
        copied = copy_reference and not isinstance(model, PeftModel)
        self.ref_model = copy.deepcopy(model).eval().requires_grad_(False) if copied else None
        for module in (model, value, self.ref_model):
            if module is not None:
                _without_dropout(module)
        args.accelerator_config.use_seedable_sampler = False  # prompts come in the order of TRL's PPO
        before = random_states()
        super().__init__(
            model=PolicyAndValue(model, value),
            args=args,
            data_collator=_as_lists,
            train_dataset=train_dataset,
            processing_class=processing_class,
            callbacks=callbacks,
        )
        set_random_states(before)  # transformers seeds them anew
        self.model.config = model.config  # wandb and TensorBoard show it; set earlier, transformers would change it
        self.remove_callback(PrinterCallback)  # the run log prints a line a step
        self._count_updates(len(train_dataset))
        self.create_optimizer_and_scheduler(num_training_steps=args.num_total_batches)
        self._prepare_for_processes()

    def _count_updates(self, problems: int) -> None:
        args = self.args
        self.train_dataset_len = problems
        if args.total_episodes is None:
            args.total_episodes = int(args.num_train_epochs * problems)
        args.local_batch_size = args.per_device_train_batch_size * args.gradient_accumulation_steps
        args.batch_size = args.local_batch_size * args.world_size
        args.num_total_batches = math.ceil(args.total_episodes / args.batch_size)

    def _prepare_for_processes(self) -> None:
        """Models, optimizer and prompts as each process takes them; the same prompts' order in all."""
        loader = DataLoader(
            self.train_dataset,
            batch_size=self.args.local_batch_size,
            shuffle=True,
            collate_fn=self.data_collator,
            drop_last=True,
        )
        torch.manual_seed(self.args.seed)
        prepared = self.accelerator.prepare(self.model, self.optimizer, loader)
        model, self.optimizer, self.dataloader = prepared
        self.model = self.accelerator.unwrap_model(model)  # gradients are summed by hand: no second set of them
        torch.manual_seed(self.args.seed + self.accelerator.process_index * SEEDS_APART)
        self.callback_handler.optimizer, self.callback_handler.lr_scheduler = self.optimizer, self.lr_scheduler
        if self.ref_model is not None:
            self.ref_model = self.ref_model.to(self.accelerator.device)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the policy alone; the critic is part of a checkpoint's extra state."""
        both, self.model = self.model, self.model.policy
        try:
            super().save_model(output_dir, _internal_call)
        finally:
            self.model = both


def _without_dropout(module: nn.Module) -> None:
    """Log-probabilities before and in an update would differ by chance. Some architectures have dropout as modules,
    some as rates that their functions read."""
    for part in module.modules():
        if isinstance(part, nn.modules.dropout._DropoutNd):
            part.p = 0.0
        for name, value in vars(part).items():
            if isinstance(value, float) and name.endswith(("dropout", "dropout_prob", "pdrop")):
                setattr(part, name, 0.0)


def _as_lists(rows: list[dict[str, Any]]) -> dict[str, list]:
    """A batch without padding: prompts are laid out where they are used, so a tokenizer's padding side is nothing."""
    return {"input_ids": [row["input_ids"] for row in rows], "problem_id": [row["problem_id"] for row in rows]}
