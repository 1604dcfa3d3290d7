"""One optimizer step over several passes and processes, for trainers that make their own updates: plain, or under ZeRO.

Both sum gradients over passes and processes, so that a loss is one pass's share of a mean, and give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn

Loss = Callable[..., tuple[torch.Tensor, Any]]


class PlainStep:
    """Data-parallel: every process has all gradients and all of the optimizer's states.

    Args:
        optimizer: parameters without a gradient are left alone.
        max_grad_norm: over all that have one; 0 does not clip.
    """

    def __init__(self, accelerator: Accelerator, optimizer: Any, max_grad_norm: float):
        self._accelerator, self._optimizer, self._clip = accelerator, optimizer, max_grad_norm

    def compute(self, loss: Loss, *args: Any) -> tuple[torch.Tensor, Any]:
        """Returns `loss(*args)`: (loss, statistics)."""
        return loss(*args)

    def backward(self, loss: torch.Tensor, last: bool) -> None:
        """Gradients of one pass; `last` says that `step` comes next."""
        self._accelerator.backward(loss)

    def step(self) -> torch.Tensor | None:
        """The norm of the gradients before clipping, None where nothing is clipped."""
        moved = [p for group in self._optimizer.param_groups for p in group["params"] if p.grad is not None]
        if self._accelerator.num_processes > 1:
            for parameter in moved:
                torch.distributed.all_reduce(parameter.grad)
        norm = self._accelerator.clip_grad_norm_(moved, self._clip) if self._clip else None
        self._optimizer.step()
        self._optimizer.zero_grad()
        return norm

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs beside the optimizer's own states."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""


class ShardedStep:
    """DeepSpeed's ZeRO 1 or 2 (Rajbhandari et al. 2020, arXiv 1910.02054): states, and gradients, over the processes.

    Weights stay whole on each, in float32 where they are trained; products are autocast as without DeepSpeed.

    Args:
        model: holds every parameter of `optimizer`.
        optimizer: torch's. DeepSpeed puts its share of flattened masters into the groups.
        scheduled, which: its learning rates follow those of that optimizer's groups, one for one.
        stage: 1 or 2.
        max_grad_norm: over all groups; 0 does not clip.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        scheduled: torch.optim.Optimizer,
        which: slice,
        stage: int,
        max_grad_norm: float,
    ):
        import deepspeed

        self._scheduled, self._which = scheduled, which
        self._processes = torch.distributed.get_world_size()
        self._engine, self._zero, _, _ = deepspeed.initialize(
            model=_Watched(model),
            optimizer=optimizer,
            config={
                "train_micro_batch_size_per_gpu": 1,  # counts nothing: a loss is its share of a mean already
                "gradient_accumulation_steps": 1,
                "gradient_clipping": max_grad_norm,
                "zero_optimization": {"stage": stage},
                "zero_allow_untested_optimizer": True,
            },
        )

    def compute(self, loss: Loss, *args: Any) -> tuple[torch.Tensor, Any]:
        """As PlainStep.compute, but called through DeepSpeed's engine."""
        return self._engine(loss, *args)

    def backward(self, loss: torch.Tensor, last: bool) -> None:
        self._engine.set_gradient_accumulation_boundary(last)
        self._engine.backward(loss * self._processes)  # it averages

    def step(self) -> torch.Tensor:
        followed = self._scheduled.param_groups[self._which]
        for own, group in zip(self._zero.optimizer.param_groups, followed, strict=True):
            own["lr"] = group["lr"]
        self._engine.step()
        # a plain float where a gradient is not finite and DeepSpeed leaves the step out
        return torch.as_tensor(self._engine.get_global_grad_norm(), device=self._engine.device)

    def state(self) -> dict[str, Any]:
        """This process's share of the optimizer's states. The masters are the weights themselves."""
        return self._zero.optimizer.state_dict()["state"]

    def load_state(self, state: dict[str, Any]) -> None:
        """After the weights have been loaded."""
        self._zero.refresh_fp32_params()
        groups = self._zero.optimizer.state_dict()["param_groups"]
        self._zero.optimizer.load_state_dict({"state": state, "param_groups": groups})


@dataclass(frozen=True)
class Training:
    """What `step` trains: the policy, the critic or both."""

    step: PlainStep | ShardedStep
    policy: bool
    critic: bool


def steps_of(trainer: Any, zero: int) -> list[PlainStep | ShardedStep]:
    """The steps of DensePPOTrainer: one for all, or under ZeRO stage `zero` one each for a policy and a critic that
    share no weight."""
    clip, optimizer = trainer.args.max_grad_norm, trainer.optimizer
    if not zero or trainer.accelerator.num_processes == 1:
        return [PlainStep(trainer.accelerator, optimizer, clip)]
    if trainer.value.shared:
        return [ShardedStep(trainer.model, optimizer.optimizer, optimizer, slice(None), zero, clip)]
    return [
        ShardedStep(model, trainer.optimizer_of([{**group}]), optimizer, slice(i, i + 1), zero, clip)
        for i, (model, group) in enumerate(zip((trainer.policy, trainer.value), optimizer.param_groups, strict=True))
    ]


class _Watched(nn.Module):
    """Runs what it is given: DeepSpeed watches a module's forward, and a trainer's loss is no module's."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, loss: Loss, *args: Any) -> tuple[torch.Tensor, Any]:
        return loss(*args)
