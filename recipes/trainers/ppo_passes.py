"""PPO's passes through policy, reference and critic: log-probabilities, entropies and values of an Experience."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from recipes.models.critic import NoValue, ValueFunction
from recipes.trainers.experience import Experience
from recipes.trainers.log_probs import Entropy, completion_logps, hidden_states
from recipes.trainers.packing import Rows, backbone_of, causal_lm


class ForwardPasses:
    """For a trainer with the attributes below."""

    accelerator: Any
    args: Any
    policy: Any
    ref_model: Any
    value: ValueFunction | NoValue
    packing_max_tokens: int
    _reference: Callable | None

    def forward(self, e: Experience, with_policy: bool, with_critic: bool, with_entropy: bool = False):
        """Log-probabilities, entropies and values, (B, T) or None where not asked for or where there is no critic."""
        rows = self._rows(e)
        logps = entropy = values = None
        with_critic = with_critic and not isinstance(self.value, NoValue)
        with self.accelerator.autocast():
            if with_policy or (with_critic and self.value.shared):
                with nullcontext() if with_policy else torch.no_grad():  # the critic's warm-up leaves the policy alone
                    hidden = hidden_states(backbone_of(self.policy), rows)
            if with_policy:
                head = causal_lm(self.policy).get_output_embeddings()
                kind: Entropy = "metric" if with_entropy else None
                logps, entropy = completion_logps(head, hidden, rows, self.args.temperature + 1e-7, kind)
            if with_critic:
                if not self.value.shared:
                    hidden = hidden_states(self.value.backbone, rows)
                values = self.value(hidden)
        return logps, entropy, values

    def _logps(self, policy: nn.Module, e: Experience) -> torch.Tensor:
        rows = self._rows(e)
        with self.accelerator.autocast():
            hidden = hidden_states(backbone_of(policy), rows)
            head = causal_lm(policy).get_output_embeddings()
            return completion_logps(head, hidden, rows, self.args.temperature + 1e-7)[0]

    @contextmanager
    def _reference_policy(self) -> Iterator[nn.Module]:
        if self._reference is not None:
            with self._reference(self.policy):
                yield self.policy
        elif self.ref_model is None:
            with self.policy.disable_adapter():
                yield self.policy
        else:
            yield self.ref_model

    def _rows(self, e: Experience) -> Rows:
        written = ~e.reply if e.reply.any() else None
        width, device = e.mask.shape[1], self.accelerator.device
        return Rows(e.prompts, e.completions, width, device, self.packing_max_tokens, written)

    def total(self, x: torch.Tensor) -> torch.Tensor:
        """Sum over all processes."""
        return self.accelerator.reduce(x, "sum") if self.accelerator.num_processes > 1 else x
