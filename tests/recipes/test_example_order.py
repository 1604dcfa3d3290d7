"""In which order SFT and DPO train on their examples, also where a run is resumed within an epoch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import skip_first_batches
from accelerate.data_loader import prepare_data_loader
from datasets import Dataset
from torch.utils.data import DataLoader, Sampler
from transformers import TrainerState

from recipes.trainers.sft_dpo import SftTrainer

NUMBERS = list(range(24))


def loader(sampler: Sampler, processes: int) -> Any:
    """Batches of the first process, as transformers' Trainer has them made."""
    plain = DataLoader(NUMBERS, batch_size=2, sampler=sampler, collate_fn=list)
    how = {"put_on_device": False, "use_seedable_sampler": True}
    return prepare_data_loader(plain, num_processes=processes, process_index=0, **how)


def trainer_at(epoch: float, strategy: str) -> SftTrainer:
    """A trainer of 24 examples that has come to that part of its epochs."""
    trainer = SftTrainer.__new__(SftTrainer)
    trainer.args = SimpleNamespace(train_sampling_strategy=strategy, seed=3, data_seed=None)
    trainer.args.train_batch_size, trainer.args.gradient_accumulation_steps = 2, 1
    trainer.args.length_column_name = "length"
    trainer.train_dataset = Dataset.from_dict({"input_ids": [[0] * (1 + n % 5) for n in NUMBERS]})
    trainer.processing_class, trainer.state = None, TrainerState(epoch=epoch)
    return trainer


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("strategy", ["random", "group_by_length"])
def test_a_resumed_run_goes_on_in_the_order_of_its_epoch(strategy, processes):
    torch.manual_seed(3)
    trainer, orders = trainer_at(0.0, strategy), []
    whole = loader(trainer._get_train_sampler(), processes)
    for epoch in (0, 1):
        trainer.state.epoch = float(epoch)
        whole.set_epoch(epoch)
        orders.append(list(whole))
    torch.manual_seed(3)
    resumed = skip_first_batches(loader(trainer_at(1.2, strategy)._get_train_sampler(), processes), 2)
    resumed.set_epoch(1)
    assert list(resumed) == orders[1][2:] and orders[0] != orders[1]
