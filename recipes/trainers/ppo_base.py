"""The base of DensePPOTrainer: TRL's PPOTrainer where TRL has one (up to 1.12), else ours with the same arguments."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

TRL_HAS_PPO = find_spec("trl.experimental.ppo") is not None

if TYPE_CHECKING or not TRL_HAS_PPO:
    from recipes.trainers.own_ppo import PPOConfig, PPOTrainer
else:
    from trl.experimental.ppo import PPOConfig, PPOTrainer

__all__ = ["TRL_HAS_PPO", "PPOConfig", "PPOTrainer"]
