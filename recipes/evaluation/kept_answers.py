"""The answers of an evaluation in a file while they are drawn: one that was stopped draws only what is missing."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from recipes.cli.console import log
from recipes.records.jsonl import Record, read_jsonl, write_jsonl
from recipes.sampling.generate import Decoding

FOLDER = ".answers"
"""Where a run directory has them until what they earned is recorded."""
LOOKED_AT = 64
"""Numbers of each matrix that tell one model from another."""


class KeptAnswers:
    """Batches of answers in the order in which they are drawn, a JSON line each.

    A line holds the token ids, the state of the generator after them, and a digest of what they were drawn from: the
    weights, the decoding, the seed and the prompts. From the first line on that has another digest, all are drawn anew.

    Args:
        file: None keeps nothing.
        policy, decoding, seed: what all batches are drawn with.
    """

    def __init__(self, file: Path | None, policy: Any, decoding: Decoding, seed: int):
        self._file = file
        self._taken: list[Record] | None = []
        """Lines that stay of the file, until a new one is added."""
        self.seconds = 0.0
        """Of drawing what was kept before."""
        if file is None:
            return
        self._with = digest(weights_digest(policy.named_parameters()), str(decoding), str(seed))
        earlier = read_jsonl(file) if file.exists() else []
        self._left = iter(earlier)
        if earlier:
            log.info("%s: some answers are stored; the rest is sampled now", file.parent.parent)

    def earlier(
        self, prompts: Sequence[Sequence[int]], samples: int, generator: torch.Generator
    ) -> list[list[int]] | None:
        """`samples` completions of each prompt where the next batch was kept, and its generator's state; else None."""
        if self._file is None:
            return None
        row = next(self._left, None)
        if row is None or row["digest"] != self._digest(prompts, samples, generator):
            self._left, self._began = iter(()), time.perf_counter()
            return None
        assert self._taken is not None  # all that stay come before the first that is added
        self._taken.append(row)
        self.seconds += row["seconds"]
        generator.set_state(torch.frombuffer(bytearray(base64.b64decode(row["generator"])), dtype=torch.uint8))
        return row["completions"]

    def keep(
        self, prompts: Sequence[Sequence[int]], samples: int, generator: torch.Generator, completions: list[list[int]]
    ) -> None:
        """Add a batch that `earlier` did not have and that was drawn since."""
        if self._file is None:
            return
        state = base64.b64encode(generator.get_state().numpy().tobytes()).decode()
        row = {
            "digest": self._digest(prompts, samples, generator),
            "generator": state,
            "seconds": time.perf_counter() - self._began,
            "completions": [list(map(int, ids)) for ids in completions],
        }
        if self._taken is not None:
            self._file.parent.mkdir(exist_ok=True)
            write_jsonl(self._file, self._taken)
            self._taken = None
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def _digest(self, prompts: Sequence[Sequence[int]], samples: int, generator: torch.Generator) -> str:
        asked = json.dumps([list(map(int, ids)) for ids in prompts])
        return digest(self._with, generator.device.type, str(samples), asked)


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@torch.no_grad()
def weights_digest(parameters: Iterable[tuple[str, torch.Tensor]]) -> str:
    """Differs between models of different names, shapes or dtypes of weights, and after any training."""
    said = hashlib.sha256()
    for name, weight in parameters:
        flat = weight.detach().flatten()
        some = flat[:: max(1, len(flat) // LOOKED_AT)].float().cpu()
        said.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode() + some.numpy().tobytes())
    return said.hexdigest()
