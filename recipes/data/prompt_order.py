"""Which training problems come next: TRL's own order, drawn as many rows at a time as are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from datasets import Dataset
from trl.trainer.utils import RepeatSampler

from recipes.cli.errors import UserError


class PromptRows:
    """This process's rows of the batches that TRL's GRPOTrainer would draw, one after another, epoch after epoch.

    Refilling may draw any number of rows; each draw continues where the last one ended. A process draws only from its
    own share, so processes exchange nothing.

    Args:
        dataset: one row a problem.
        prompts, repeats: problems a batch; rows of each problem in it, side by side.
        seed, shuffle: of the order, as in GRPOConfig.
        rank, world: which of how many processes this is; `prompts * repeats` rows are shared out evenly.

    Raises:
        UserError: the dataset has fewer rows than a batch has problems.
    """

    def __init__(
        self,
        dataset: Dataset,
        prompts: int,
        repeats: int,
        seed: int,
        shuffle: bool = True,
        rank: int = 0,
        world: int = 1,
    ):
        if len(dataset) < prompts:
            raise UserError(f"{len(dataset)} training problems do not make a step of recipe.prompts_per_step={prompts}")
        self._batch = prompts * repeats
        self._share = slice(rank * self._batch // world, (rank + 1) * self._batch // world)
        self._arguments = {"batch_size": prompts, "mini_repeat_count": repeats, "shuffle": shuffle, "seed": seed}
        self._dataset = dataset
        self.seek(0)

    def seek(self, position: int) -> None:
        """Go to where `position` rows have been drawn."""
        self.position = 0
        self._rows = self._endless()
        self.draw(position)

    def draw(self, rows: int) -> list[int]:
        """The next rows of the dataset, by number."""
        self.position += rows
        return [next(self._rows) for _ in range(rows)]

    def observe(self, rows: Sequence[int], grades: Sequence[Any]) -> None:
        """What the answers to rows earned, which does not change the order."""

    def metrics(self) -> dict[str, float]:
        return {}

    def state(self) -> int:
        return self.position

    def load_state(self, state: Any) -> None:
        self.seek(state)

    def _endless(self) -> Iterator[int]:
        epochs = RepeatSampler(self._dataset, **self._arguments)
        while True:
            batch: list[int] = []
            for row in epochs:  # its generator goes on from epoch to epoch
                batch.append(row)
                if len(batch) == self._batch:
                    yield from batch[self._share]
                    batch = []


class PromptStream:
    """A data loader's batches for ever, and the place reached, so that a resumed run goes on with the next one.

    The loader shuffles with torch's global generator (or its own, under several processes) when an epoch starts: that
    state and the number of batches taken since say where we are.
    """

    def __init__(self, loader: Any):
        self._loader = loader
        self._batches: Any = None
        self._epoch_start: dict[str, torch.Tensor] = {}
        self._taken = 0

    def __next__(self) -> Any:
        if self._batches is None:
            self._epoch_start = self._random_state()
            self._batches, self._taken = iter(self._loader), 0
        for batch in self._batches:
            self._taken += 1
            return batch
        if not self._taken:
            raise ValueError("fewer prompts than a step takes")
        self._batches = None
        return next(self)

    def state(self) -> dict[str, Any]:
        return {"epoch_start": self._epoch_start, "taken": self._taken}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go to a place that `state` named; torch's global random state is that of the epoch's start afterwards."""
        self._batches = None
        if not state["taken"]:
            return
        torch.set_rng_state(state["epoch_start"]["torch"].cpu())
        if (generator := self._generator()) is not None:
            generator.set_state(state["epoch_start"]["loader"].cpu())
        for _ in range(state["taken"]):
            next(self)

    def _random_state(self) -> dict[str, torch.Tensor]:
        state = {"torch": torch.get_rng_state()}
        if (generator := self._generator()) is not None:
            state["loader"] = generator.get_state()
        return state

    def _generator(self) -> torch.Generator | None:
        return getattr(self._loader, "synchronized_generator", None)
