"""In which order examples are trained on: that of the seed and the epoch alone, so that a resumed run goes on in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import LengthGroupedSampler


class SimilarLengths(Sampler[int]):
    """The order that `sampler` draws in an epoch, in each process the same.

    By itself it draws with torch's global generator, whose state at the beginning of an epoch no checkpoint has, and
    which dropout moves differently in each process.

    Args:
        seed: of the orders. epoch: tells the present epoch, from 0 on.
    """

    def __init__(self, sampler: LengthGroupedSampler, seed: int, epoch: Callable[[], int]):
        self._sampler, self._seed, self._epoch = sampler, seed, epoch

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[int]:
        self._sampler.generator = torch.Generator().manual_seed(self._seed + self._epoch())
        return iter(self._sampler)
