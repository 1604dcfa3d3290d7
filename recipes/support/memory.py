"""What memory holds in each phase of a run, in bytes: arithmetic alone, from numbers of weights and traced peaks.

Phases: load, rollout, grading, log-probabilities (before the update, of policy and reference), update, evaluation. A
recipe has some of them. Parts are what lies in memory in a phase at its fullest moment; their sum is the phase's peak.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GIB = 1 << 30
PHASES = ("load", "rollout", "grading", "log-probabilities", "update", "evaluation")
PARTS = (
    "process",
    "weights",
    "adapters",
    "critic",
    "reference",
    "judge",
    "vLLM",
    "sampling copy",
    "optimizer",
    "gradients",
    "casts",
    "activations",
    "KV cache",
    "logits",
    "files",
    "slack",
)
"""process: interpreter and libraries, or the CUDA context. vLLM: what it reserves beside training. casts: weights in
the dtype of the products. files: pages of a checkpoint being read. slack: what the allocator holds and cannot use."""
Parts = Mapping[str, float]

NF4 = 0.5 + 4 / 64
"""Bytes a weight: four bits, and a float32 scale for each 64 (Dettmers et al. 2023, arXiv 2305.14314, not double)."""
STATES_8BIT = 2 * (1 + 4 / 256)
"""Bytes a weight of two states of eight bits, and a float32 scale for each 256 (Dettmers et al. 2021, 2110.02861)."""
BUCKET = 500_000_000
"""Numbers in the buffer in which DeepSpeed's stages 1 and 2 gather gradients (its default)."""
GATHERED = 1_000_000_000
"""Weights that stage 3 has whole on a device at once, at most (its default)."""


@dataclass(frozen=True)
class Architecture:
    """Numbers of weights of a model; `matrices`, `vectors` and `adapter` are those of one layer.

    layers: how many. matrices: what 4-bit loading packs and LoRA adapts. vectors: norms and biases. outside:
    embeddings, an output matrix of its own, the last norm. largest: of all matrices; matrix: the largest of a layer.
    adapter: of LoRA at rank 1. cache: numbers kept of one token while sampling. vocabulary, hidden: sizes.
    """

    layers: int
    matrices: int
    vectors: int
    outside: int
    largest: int
    matrix: int
    adapter: int
    cache: int
    vocabulary: int
    hidden: int

    @property
    def parameters(self) -> int:
        """All weights, without adapters."""
        return self.layers * (self.matrices + self.vectors) + self.outside

    def adapters(self, rank: int) -> int:
        """Weights of LoRA at `rank`."""
        return self.layers * self.adapter * rank

    def weight_bytes(self, element: int, four_bit: bool = False) -> float:
        """Bytes of the weights at `element` bytes each; in 4 bits the layers' matrices alone are packed."""
        packed = self.layers * self.matrices if four_bit else 0
        return packed * NF4 + (self.parameters - packed) * element

    def cache_bytes(self, tokens: int, element: int) -> int:
        """Bytes of the key-value cache of so many tokens, over all rows."""
        return self.cache * tokens * element


@dataclass(frozen=True)
class Trained:
    """What an optimizer moves.

    weights: how many. largest: in the largest tensor. element: bytes of a weight and of its gradient. optimizer: its
    name in transformers. fused_lists: it steps over all tensors at once (on a GPU), not one by one.
    """

    weights: int
    largest: int
    element: int
    optimizer: str
    fused_lists: bool

    @property
    def gradients(self) -> int:
        """Bytes of all gradients."""
        return self.weights * self.element

    @property
    def states(self) -> float:
        """Bytes that stay from step to step: two of each weight for the Adam family."""
        if "8bit" in self.optimizer:
            return self.weights * STATES_8BIT
        return 0.0 if self.optimizer == "sgd" else 2.0 * self.weights * self.element

    @property
    def passing(self) -> float:
        """Bytes that a step takes and gives back: the square roots of Adam's second moments."""
        if "adamw_torch" not in self.optimizer or "fused" in self.optimizer:
            return 0.0
        return self.element * (self.weights if self.fused_lists else 2 * self.largest)


@dataclass(frozen=True)
class Spread:
    """DeepSpeed's ZeRO over `processes` (Rajbhandari et al. 2020, arXiv 1910.02054): stage 1 spreads the optimizer's
    states and float32 masters, 2 the gradients too, 3 the weights too. Stage 0: every process has all."""

    stage: int
    processes: int

    def states(self, trained: Trained) -> float:
        """Bytes of states, and under ZeRO of the masters, on one process."""
        if not self.stage:
            return trained.states
        return (trained.states + 4 * trained.weights) / self.processes

    def gradients(self, trained: Trained, bucket: bool) -> float:
        """Bytes of gradients beside those that a pass makes; `bucket`: DeepSpeed's buffer is taken whole."""
        if self.stage in (1, 2):
            own = trained.gradients / (self.processes if self.stage == 2 else 1)
            return own + bucket * BUCKET * trained.element
        if self.stage == 3:
            return trained.gradients / self.processes
        return float(trained.gradients) if self.processes > 1 else 0.0  # data-parallel: what is being summed

    def weights(self, size: float, element: float) -> float:
        """Bytes of weights of `size` bytes in all, those gathered for the layers at work included."""
        if self.stage < 3:
            return size
        return size / self.processes + min(size, GATHERED * element)


@dataclass(frozen=True)
class Plan:
    """The parts of each phase in bytes, and the budget, None where nobody knows it."""

    phases: Mapping[str, Parts]
    budget: float | None
    notes: tuple[str, ...] = ()

    @property
    def fullest(self) -> str:
        """The phase that takes most."""
        return max(self.phases, key=lambda phase: sum(self.phases[phase].values()))

    @property
    def peak(self) -> float:
        """Bytes of the fullest phase."""
        return sum(self.phases[self.fullest].values())

    @property
    def over(self) -> float:
        """Bytes by which the budget is too small; 0 where all fits or no budget is known."""
        return max(0.0, self.peak - self.budget) if self.budget is not None else 0.0

    @property
    def roomy(self) -> bool:
        """Whether twice the peak is there, so that freed memory may be kept for reuse."""
        return self.budget is None or 2 * self.peak <= self.budget

    @property
    def largest_part(self) -> str:
        """Of the fullest phase."""
        parts = self.phases[self.fullest]
        return max(parts, key=parts.__getitem__)

    def as_dict(self) -> dict[str, Any]:
        """Phases, peak and budget in GiB."""
        phases = {
            phase: {part: round(size / GIB, 4) for part, size in parts.items()} for phase, parts in self.phases.items()
        }
        return {
            "peak_gib": round(self.peak / GIB, 4),
            "phase": self.fullest,
            "budget_gib": None if self.budget is None else round(self.budget / GIB, 4),
            "fits": not self.over,
            "phases": phases,
            "notes": list(self.notes),
        }


def added(*several: Parts) -> dict[str, float]:
    """Parts side by side in memory."""
    return {part: sum(s.get(part, 0.0) for s in several) for part in PARTS if any(part in s for s in several)}


def fuller(*several: Parts) -> Parts:
    """The one with the greater sum: moments of one phase, of which the fullest counts."""
    return max(several, key=lambda parts: sum(parts.values()))
