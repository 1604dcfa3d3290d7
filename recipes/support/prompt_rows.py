"""Which training problems come next: TRL's own order, drawn as many rows at a time as are needed."""

from __future__ import annotations

from collections.abc import Iterator

from datasets import Dataset
from trl.trainer.utils import RepeatSampler

from recipes.support.main import UserError


class PromptRows:
    """This process's rows of the batches that TRL's GRPOTrainer would draw, one after another, epoch after epoch.

    A row more or less at a time is what refilling takes: what one draw leaves, the next begins with, so that no
    process sees another's rows and nothing is exchanged to know them.

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

    def _endless(self) -> Iterator[int]:
        epochs = RepeatSampler(self._dataset, **self._arguments)
        while True:
            batch: list[int] = []
            for row in epochs:  # its generator goes on from epoch to epoch
                batch.append(row)
                if len(batch) == self._batch:
                    yield from batch[self._share]
                    batch = []
