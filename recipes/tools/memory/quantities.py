"""The arithmetic of a plan: its phases and parts, the optimizer, ZeRO, the budget. Loads no torch.

Phases: load, rollout, grading, log-probabilities (before the update, of policy and reference), update, evaluation. A
recipe has some of them. Parts are what lies in memory in a phase at its fullest moment, in bytes; their sum is the
phase's peak.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from recipes.cli.memory_use import GIB

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
    "gathered weights",
    "optimizer",
    "gradients",
    "casts",
    "activations",
    "KV cache",
    "logits",
    "files",
    "slack",
)
"""process: interpreter and libraries, or the CUDA context. vLLM: what it reserves beside training. gathered weights:
all of them, which ZeRO-3 brings together to sample. casts: weights in the dtype of the products. files: pages of a
checkpoint being read. slack: what the allocator holds and cannot use."""
Parts = Mapping[str, float]

FLOAT32 = 4
"""Bytes of a weight that is trained, and of its gradient."""
STATES_8BIT = 2 * (1 + 4 / 256)
"""Bytes a weight of two states of eight bits, and a float32 scale for each 256 (Dettmers et al. 2021, 2110.02861)."""
BUCKET = 500_000_000
"""Numbers in the buffer in which DeepSpeed's stages 1 and 2 gather gradients (its default)."""
GATHERED = 1_000_000_000
"""Weights that stage 3 has whole on a device at once, at most (its default)."""
CGROUP = Path("/sys/fs/cgroup")


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
    sums = {part: sum(parts.get(part, 0.0) for parts in several) for part in PARTS}
    return {part: size for part, size in sums.items() if size}


def fuller(*several: Parts) -> Parts:
    """The one with the greater sum: moments of one phase, of which the fullest counts."""
    return max(several, key=lambda parts: sum(parts.values()))


# the optimizer, and ZeRO ------------------------------------------------------------------------------------------


def optimizer_states(weights: int, optimizer: str) -> float:
    """Bytes that an optimizer keeps for so many float32 weights: two states each, for sgd none.

    optimizer: its name in transformers.
    """
    if "8bit" in optimizer:
        return weights * STATES_8BIT
    return 0.0 if optimizer == "sgd" else 2.0 * FLOAT32 * weights


def optimizer_step(weights: int, optimizer: str, device: str) -> float:
    """Bytes that a step takes and gives back: on a GPU the square roots of all of Adam's second moments. On a CPU they
    are taken for one matrix after the other, which is less than what a pass takes."""
    at_once = device == "cuda" and "adamw_torch" in optimizer and "fused" not in optimizer
    return float(FLOAT32 * weights) if at_once else 0.0


@dataclass(frozen=True)
class Zero:
    """DeepSpeed's ZeRO over `processes` (Rajbhandari et al. 2020, arXiv 1910.02054): stage 1 spreads the optimizer's
    states and float32 masters, 2 the gradients too, 3 the weights too. Stage 0: every process has all."""

    stage: int
    processes: int

    def weights(self, size: float, element: int) -> float:
        """Bytes of weights of `size` bytes in all, those gathered for the layers at work included."""
        if self.stage < 3:
            return size
        return size / self.processes + min(size, GATHERED * element)

    def states(self, states: float, weights: int) -> float:
        """Bytes of an optimizer's `states`, and of the masters of so many weights, on one process."""
        return (states + FLOAT32 * weights) / self.processes if self.stage else states

    def gradient_sums(self, weights: int, device: str) -> float:
        """Bytes beside the gradients of so many weights: where those of all processes are summed."""
        size = float(FLOAT32 * weights)
        if not self.stage:
            return size if self.processes > 1 else 0.0
        bucket = FLOAT32 * BUCKET if device == "cuda" and self.stage < 3 else 0
        return bucket + (size if self.stage == 1 else size / self.processes)


# the machine ------------------------------------------------------------------------------------------------------


def memory_budget(memory_gib: float | None, device: str, processes: int) -> float | None:
    """Bytes for each process: `memory_gib` where it is set, else of a CPU what is available. None: nobody knows."""
    if memory_gib is not None:
        return memory_gib * GIB
    return available_memory() / processes if device == "cpu" else None


def available_memory(mounted: Path = CGROUP, groups: Path = Path("/proc/self/cgroup")) -> float:
    """Bytes that new work can have without swapping: no more than the limits of this process's control groups leave,
    such as a container's or a scheduler's. Files that the kernel only keeps in memory until something needs it do not
    count as used.

    Args:
        mounted: where the control groups are.
        groups: this process's own; see cgroups(7).
    """
    available = float(psutil.virtual_memory().available)
    for folder, (limit, used, cached) in _memory_groups(mounted, groups):
        try:
            most, taken = (
                (folder / limit).read_text().strip(),
                float((folder / used).read_text()),
            )
            held = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):
            continue
        if most.isdigit():
            available = min(available, float(most) - taken + float(held.get(cached, 0)))
    return max(0.0, available)


def _memory_groups(mounted: Path, groups: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Folders of this process's control groups and of those around them, with the names of the limit, the usage and
    the cached files there; in a container the outermost may be all that can be seen."""
    lines = groups.read_text().splitlines() if groups.exists() else []
    for line in ["0::/", *lines]:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top, names = mounted, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top, names = mounted / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        own = top / path.strip("/")
        for folder in (own, *own.parents):
            yield folder, names
            if folder == top:
                break
