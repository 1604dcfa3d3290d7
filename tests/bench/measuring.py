"""What a benchmark measures by: seconds and the peak of memory, on a CPU or a GPU, or the number of operators.

A GPU waits for the program that calls it wherever a call does little, as with a small model: there an update takes as
long as its operators are many, 35 microseconds each beside an H100 (tests/bench/results/gpu.md). They can be counted
without a GPU: `--device operators` does what a GPU would be given, on a CPU, and has counts in place of seconds.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

DEVICES = ("cpu", "cuda", "operators")


def clock(device: str) -> Callable[[], float]:
    """Seconds, on a GPU when all that it was given is done; for "operators", how many were called since."""
    if device == "operators":
        return _count_operators()
    return time.perf_counter if device == "cpu" else _synchronized


def peak_mib(device: str) -> float:
    """MiB: the process's resident memory at its peak; on a GPU what PyTorch has reserved there at its peak."""
    if device != "cuda":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    import torch

    return torch.cuda.max_memory_reserved() / 2**20


def _synchronized() -> float:
    import torch

    torch.cuda.synchronize()
    return time.perf_counter()


def _count_operators() -> Callable[[], float]:
    from torch.utils._python_dispatch import TorchDispatchMode

    from recipes.trainers import dense_grpo, dense_ppo, sft_dpo

    class Operators(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            returns = func._schema.returns
            self.count += not any(each.alias_info and not each.alias_info.is_write for each in returns)  # no views
            return func(*args, **(kwargs or {}))

    for module in (dense_grpo, dense_ppo, sft_dpo):
        module.attend_by_segment = lambda *models: None  # type: ignore[attr-defined]  # as on a GPU
    operators = Operators()
    operators.__enter__()
    return lambda: float(operators.count)
