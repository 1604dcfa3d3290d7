"""The critic: a head on the policy's own backbone, a second model, or none."""

from __future__ import annotations

import torch
from torch import nn


class ValueFunction(nn.Module):
    """V(s) for the state before each completion token.

    Args:
        backbone: a model of its own, or None to read the policy's hidden states.
        hidden_size: d, the width of the hidden states.
        score: d to 1, float32; None makes a linear one that starts at zero.

    `shared` is True where it reads the policy's hidden states.
    """

    def __init__(self, hidden_size: int, backbone: nn.Module | None = None, score: nn.Module | None = None):
        super().__init__()
        self.shared = backbone is None
        self.backbone = backbone if backbone is not None else nn.Identity()
        if score is None:
            score = nn.Linear(hidden_size, 1, bias=False)
            nn.init.zeros_(score.weight)
        self.score = score

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states (B, T, d) to values (B, T), float32 under autocast too."""
        with torch.autocast(hidden.device.type, enabled=False):
            return self.score(hidden.float()).squeeze(-1)


def mlp_score(hidden_size: int, width: int = 256) -> nn.Sequential:
    """An MLP from hidden states (..., hidden_size) to values (..., 1), which are 0 at first."""
    last = nn.Linear(width, 1)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(hidden_size, width), nn.Tanh(), last)


class NoValue(nn.Module):
    """Stands where there is no critic: REINFORCE, and PPO on whole sequences."""

    shared = True

    def __init__(self):
        super().__init__()
        self.backbone = nn.Identity()
